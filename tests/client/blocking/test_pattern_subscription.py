"""Reading a pattern without an event loop: what a program settles, and how it ends."""

import pytest
from embedded import embedded_broker

from zaichik import Message, TopicGone
from zaichik.client import blocking
from zaichik.client.errors import TakenOver


@pytest.fixture
def client():
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        for topic in ("t.1", "t.2"):
            client.create_topic(topic, retention_ttl="forever")
            client.publish_batch(topic, [(None, b"%d" % number) for number in range(5)])
        yield client


def taken(messages, count):
    """The topic and the offset of so many messages."""
    loop = iter(messages)
    return [(message.topic, message.offset) for message in (next(loop) for _ in range(count))]


def each(topic, *offsets):
    return [(topic, offset) for offset in offsets]


def test_it_reads_what_is_there_and_what_comes(client):
    with client.subscribe_pattern("t.*") as messages:
        assert (messages.pattern, messages.name) == ("t.*", "")
        assert sorted(messages.topics) == ["t.1", "t.2"]
        assert len(taken(messages, 10)) == 10
        client.publish("t.3", b"first")
        assert taken(messages, 1) == [("t.3", 0)]
        assert messages.lagged == 0


def test_the_message_in_hand_is_not_settled_and_all_before_it_are(client):
    """CMT-3: though all ten have crossed at once."""
    with client.subscribe_pattern("t.*", name="n") as messages:
        assert taken(messages, 7) == [*each("t.1", 0, 1, 2, 3, 4), *each("t.2", 0, 1)]
    with client.subscribe_pattern("t.*", name="n") as messages:
        assert taken(messages, 4) == each("t.2", 1, 2, 3, 4)
        assert messages.redelivered


def test_a_commit_settles_a_message_and_all_before_it_in_its_topic(client):
    with client.subscribe_pattern("t.*", name="n") as messages:
        taken(messages, 10)
        messages.commit(Message("t.2", 3, 0.0, None, b""))
        (state,) = client.subscriptions("t.2")
        assert state["committed"] == 4


def test_a_second_loop_goes_on_where_the_first_was_left(client):
    with client.subscribe_pattern("t.1") as messages:
        assert taken(messages, 2) == each("t.1", 0, 1)
        assert taken(messages, 3) == each("t.1", 2, 3, 4)


@pytest.mark.parametrize("events", [False, True])
def test_what_has_gone_is_told_to_those_who_ask(client, events):
    with client.subscribe_pattern("t.1", events=events) as messages:
        loop = iter(messages)
        assert [next(loop).offset for _ in range(5)] == [0, 1, 2, 3, 4]
        client.delete_topic("t.1")
        made = client.create_topic("t.1", retention_ttl="forever")
        client.publish("t.1", b"new")
        following = next(loop)
        if events:
            assert (type(following), following.topic, following.next) == (TopicGone, "t.1", 5)
            assert following.epoch < made.epoch
            following = next(loop)
        assert following.payload == b"new"


def test_a_topic_can_be_read_again(client):
    with client.subscribe_pattern("t.*") as messages:
        assert taken(messages, 2) == each("t.1", 0, 1)
        messages.start_over("t.1")
        assert sorted(taken(messages, 10)) == each("t.1", *range(5)) + each("t.2", *range(5))


def test_a_topic_can_be_read_again_in_the_middle_of_a_loop(client):
    with client.subscribe_pattern("t.1") as messages:
        loop = iter(messages)
        assert [next(loop).offset for _ in range(2)] == [0, 1]
        messages.start_over("t.1")
        assert [next(loop).offset for _ in range(5)] == [0, 1, 2, 3, 4]


def test_what_was_fetched_of_a_topic_is_not_given_out_when_it_is_read_again(client):
    """All ten have crossed at once, and the frame of the other topic is in hand."""
    with client.subscribe_pattern("t.*") as messages:
        loop = iter(messages)
        (first,) = {next(loop).topic for _ in range(2)}
        (other,) = {"t.1", "t.2"} - {first}
        client.publish_batch(other, [(None, b"later")])
        messages.start_over(other)
        rest = [next(loop) for _ in range(9)]
        assert [message.offset for message in rest if message.topic == first] == [2, 3, 4]
        assert [message.offset for message in rest if message.topic == other] == [*range(6)]


def test_after_the_block_it_has_ended(client):
    with client.subscribe_pattern("t.*") as messages:
        (last,) = [next(iter(messages))]
    assert messages.topics == ()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="has ended"):
            taken(messages, 11)
    for call in (lambda: messages.commit(last), lambda: messages.start_over("t.1")):
        with pytest.raises(RuntimeError, match="has ended"):
            call()


def test_another_reader_of_its_name_ends_it(client):
    with (
        client.subscribe_pattern("t.1", name="n") as first,
        client.subscribe_pattern("t.1", name="n"),
    ):
        with pytest.raises(TakenOver):
            taken(first, 6)
        with pytest.raises(TakenOver):
            taken(first, 1)


def test_leaving_the_block_leaves_all_topics(client):
    with client.subscribe_pattern("t.*") as messages:
        taken(messages, 1)
    assert client.subscriptions() == []


def test_an_exception_of_the_block_is_raised_as_it_is(client):
    with pytest.raises(KeyError), client.subscribe_pattern("t.*"):
        raise KeyError


def test_a_pattern_that_means_nothing_is_refused(client):
    with pytest.raises(ValueError, match="can match nothing"):
        client.subscribe_pattern("$journal/*").__enter__()
