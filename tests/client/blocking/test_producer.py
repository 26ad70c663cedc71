"""The producer of a program without an event loop."""

import pytest
from embedded import embedded_broker

import zaichik
from zaichik.client import blocking

PATIENCE = 10  # seconds after which nothing more comes


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        broker.create("t")
        yield broker


def payloads(client):
    with client.subscribe("t", until=client.topic("t")["next_offset"]) as subscription:
        return [message.payload for message in subscription]


def arriving(subscription, count):
    """Key and payload of the next messages; fewer if no more come."""
    found = []
    while len(found) < count and (frames := subscription.fetch(PATIENCE)):
        found += [
            pair
            for frame in frames
            for pair in zip(frame.batch.keys(), frame.batch.payloads(), strict=True)
        ]
    return found


def test_a_stream_arrives_complete_and_in_order(client):
    sent = [b"%d" % number for number in range(10_000)]
    with client.producer("t") as producer:
        for payload in sent:
            producer.send(payload)
    assert payloads(client) == sent
    assert (producer.topic, producer.stored, producer.compacted) == ("t", 10_000, 0)


def test_a_message_leaves_without_waiting_for_others(client):
    """It is read before anything else is sent, flushed or closed; so is the next one: the thread
    wakes again.
    """
    with client.subscribe("t", start="latest") as subscription, client.producer("t") as producer:
        producer.send(b"alone", key="k")
        assert arriving(subscription, 1) == [(b"k", b"alone")]
        producer.send(b"alone again")
        assert arriving(subscription, 1) == [(b"", b"alone again")]


def test_a_message_that_comes_when_the_thread_has_just_found_none_is_sent_as_well(
    client, monkeypatch
):
    """Nobody is woken for it: the thread has not gone to sleep yet, and looks once more before it
    does.
    """
    with client.subscribe("t", start="latest") as subscription, client.producer("t") as producer:
        drain, late = producer.drain, iter([b"late"])

        async def drain_and_be_late():
            await drain()
            for payload in late:
                producer.send(payload)  # as the program's thread may just then

        monkeypatch.setattr(producer, "drain", drain_and_be_late)
        producer.send(b"first")
        assert arriving(subscription, 2) == [(b"", b"first"), (b"", b"late")]


def test_in_the_midst_of_another_call_a_message_is_queued_and_sent(client):
    """As by a handler of the log, which the client calls in its own thread."""
    with client.producer("t") as producer:
        client._thread.loop.call_soon_threadsafe(producer.send, b"logged")
        with client.subscribe("t", start=0) as subscription:
            assert arriving(subscription, 1) == [(b"", b"logged")]
            producer.send(b"next")
            assert arriving(subscription, 1) == [(b"", b"next")]


def test_a_message_that_cannot_be_passed_on_is_refused_and_the_next_one_is_not(client, monkeypatch):
    def refused(_function):
        raise RuntimeError("no new thread")

    with client.producer("t") as producer:
        monkeypatch.setattr(client._thread, "start_soon", refused)
        with pytest.raises(RuntimeError, match="no new thread"):
            producer.send(b"refused")
        monkeypatch.undo()
        producer.send(b"sent")
        producer.flush()
    assert payloads(client) == [b"sent"]


def test_flushing_waits_until_all_is_stored(client):
    with client.producer("t") as producer:
        for number in range(50):
            producer.send(b"%d" % number)
        producer.flush()
        assert producer.stored == client.topic("t")["next_offset"] == 50


def test_a_message_that_is_too_large_is_refused_at_once_and_others_may_follow(client):
    with client.producer("t") as producer:
        with pytest.raises(zaichik.MessageTooLarge):
            producer.send(bytes(client.welcome.max_message + 1))
        producer.send(b"a")
    assert payloads(client) == [b"a"]


def send_until_it_fails(producer):
    for _ in range(10**6):
        producer.send(b"a")


def test_a_refusal_is_raised_by_a_later_send_and_by_flush(client):
    with pytest.raises(zaichik.InvalidField), client.producer("$own") as producer:  # noqa: PT012
        with pytest.raises(zaichik.InvalidField):
            send_until_it_fails(producer)
        producer.flush()


def test_what_was_queued_is_sent_when_the_block_fails(client):
    with pytest.raises(ZeroDivisionError), client.producer("t") as producer:  # noqa: PT012
        producer.send(b"a")
        raise ZeroDivisionError
    assert payloads(client) == [b"a"]


def test_nothing_can_be_sent_after_the_block(client):
    with client.producer("t") as producer:
        pass
    with pytest.raises(RuntimeError, match="the producer has ended"):
        send_until_it_fails(producer)


def test_a_full_lossless_topic_makes_the_program_wait(broker, client):
    """RET-9."""
    client.create_topic("lossless", overflow="reject", capacity=100, retention_ttl="forever")
    with (
        blocking.connect(port=broker.port) as other,
        other.subscribe("lossless", until=2000) as subscription,
    ):
        with client.producer("lossless", max_batch=10) as producer:
            for number in range(50):
                producer.send(b"%d" % number)
            messages = iter(subscription)
            for number in range(50, 2000):
                producer.send(b"%d" % number)
                next(messages)
        rest = [*messages]
    assert len(rest) == 50
    assert rest[-1].payload == b"1999"


def test_a_payload_of_none_deletes_its_key(client):
    """TAB-5."""
    client.create_topic("table", table=True)
    with client.producer("table") as producer:
        producer.send(b"1", key="a")
        producer.send(b"2", key="b")
        producer.send(None, key="a")
        with pytest.raises(ValueError, match="name the key"):
            producer.send(None)
    state = client.topic("table")
    assert (state["keys"], state["tombstones"]) == (1, 1)
    with pytest.raises(zaichik.InvalidField), client.producer("table") as producer:
        producer.send(b"", key="b")
    assert client.topic("table")["keys"] == 1
