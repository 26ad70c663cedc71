"""What a program settles by iterating, and changing from one way of reading to another."""

import pytest
from blocking_brokers import peer
from embedded import embedded_broker

from zaichik import DeletionsMissed, Message
from zaichik.client import blocking
from zaichik.client.errors import TakenOver
from zaichik_protocol import (
    Batch,
    EndCode,
    Messages,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    encode,
)
from zaichik_protocol import DeletionsMissed as WireDeletionsMissed


@pytest.fixture
def client():
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        client.create_topic("t", retention_ttl="forever")
        client.publish_batch("t", [(None, b"%d" % number) for number in range(10)])
        yield client


def test_the_message_in_hand_is_not_settled_and_all_before_it_are(client):
    """CMT-3: though all ten have crossed at once."""
    with client.subscribe("t", name="n") as subscription:
        for message in subscription:
            if message.offset == 6:
                break
        assert (subscription.name, subscription.resumed) == ("n", False)
    with client.subscribe("t", name="n") as subscription:
        message = next(iter(subscription))
        assert (message.offset, subscription.resumed, subscription.redelivered) == (6, True, True)


def test_all_is_settled_when_the_loop_has_ended(client):
    with client.subscribe("t", name="n", until=10) as subscription:
        assert len([*subscription]) == 10
        assert subscription.next == 10
    with client.subscribe("t", name="n") as subscription:
        assert subscription.start == 10


def test_a_commit_settles_a_message_and_all_before_it(client):
    with client.subscribe("t", name="n") as subscription:
        (piece,) = [next(subscription.pieces())]
        subscription.commit(piece[3])
        (state,) = client.subscriptions("t")
        assert state["committed"] == 4


def test_a_program_that_does_not_iterate_is_told_where_it_stands_and_that_it_has_ended(client):
    with client.subscribe("t", name="n") as first:
        assert (first.committed, first.failure) == (0, None)
        first.commit(next(iter(first)))
        assert (first.committed, first.failure) == (1, None)
        with client.subscribe("t", name="n") as second:
            while first.failure is None:
                client.ping()
            assert type(first.failure) is TakenOver
            assert (second.committed, second.failure) == (1, None)
    with client.subscribe("t", until=10) as whole:
        assert len([*whole]) == 10
        assert whole.failure is None


def test_a_second_loop_goes_on_where_the_first_was_left(client):
    with client.subscribe("t", until=10) as subscription:
        assert next(iter(subscription)).offset == 0
        assert next(iter(subscription)).offset == 1
        assert [message.offset for piece in subscription.pieces() for message in piece] == [
            *range(2, 10)
        ]


def test_fetching_returns_the_rest_of_a_batch_whose_messages_were_begun(client):
    with client.subscribe("t", until=10) as subscription:
        messages = iter(subscription)
        assert next(messages).offset == 0
        (frame,) = subscription.fetch()
        assert (frame.base, [*frame.batch.each_payload()]) == (
            1,
            [b"%d" % number for number in range(1, 10)],
        )
        assert subscription.next == 10
        assert [*messages] == []


def test_a_name_that_is_forgotten_ends_the_loop(client):
    with client.subscribe("t", name="n") as subscription:
        messages = iter(subscription)
        next(messages)
        subscription.forget()
        assert [*messages] == []
    with client.subscribe("t", name="n") as subscription:
        assert not subscription.resumed


def test_what_an_interrupted_fetch_has_brought_is_not_waited_for(client):
    """The call was interrupted just before it would have got the result, and the next one looked
    for it too early.
    """
    with client.subscribe("t") as subscription:
        for _ in range(2):
            subscription._thread.call(subscription._fetch)
        assert len(next(subscription.pieces())) == 10


# -- tables --------------------------------------------------------------------------------------


def test_a_reader_that_has_missed_deletions_starts_over_in_its_loop():
    """TAB-5."""
    held = {}
    has_missed = False
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        client.create_topic("t", table=True, tombstones=60)
        client.publish_batch("t", [(str(number), b"x") for number in range(10)])
        with client.subscribe("t", credit=2, events=True) as subscription:
            for event in subscription:
                match event:
                    case DeletionsMissed():
                        has_missed = True
                        assert b"0" in held
                        held.clear()
                        subscription.start_over()
                    case message:
                        held[message.key] = message.payload
                if has_missed and subscription.next == subscription.live:
                    break
                if not has_missed and len(held) == 1:
                    client.publish("t", None, key="0")
                    client.publish("t", b"x", key="last")
                    broker.clock.advance(60)
                    broker.sweep()
    assert sorted(held) == [*(b"%d" % number for number in range(1, 10)), b"last"]


def test_one_that_starts_over_drops_what_has_crossed(client):
    with client.subscribe("t", start=4, until=10) as subscription:
        assert subscription.fetch()[0].base == 4
        subscription.start_over()
        assert (subscription.next, subscription.ended) == (0, False)
        messages = iter(subscription)
        assert [next(messages).offset for _ in range(3)] == [0, 1, 2]
        subscription.start_over()
        assert [message.offset for message in messages] == [*range(10)]
        subscription.start_over()
        assert [message.offset for piece in subscription.pieces() for message in piece] == [
            *range(10)
        ]
        assert subscription.ended


def test_a_table_is_known_as_one(client):
    """TAB-3."""
    client.create_topic("table", table=True)
    with client.subscribe("table") as table, client.subscribe("t") as plain:
        assert (table.table, plain.table) == (True, False)


def test_pieces_and_fetches_have_missed_deletions():
    """TAB-5."""

    def read(request):
        frames = (
            Subscribed(request.id, 1, 0, 2, 0, table=True),
            Messages(request.id, 0, 0, Batch.of([(b"k", b"x")])),
            WireDeletionsMissed(request.id, 7),
            SubscriptionEnded(request.id, EndCode.UNTIL, 2, "it has ended"),
        )
        return b"".join(map(encode, frames))

    with peer({Subscribe: read}) as server, blocking.connect(port=server.port) as client:
        with client.subscribe("t", until=2, events=True) as subscription:
            (messages,), missed = subscription.pieces()
            assert (messages.offset, missed) == (0, DeletionsMissed("t", 7))
        with client.subscribe("t", until=2, events=True) as subscription:
            assert [type(event) for event in subscription] == [Message, DeletionsMissed]
        with client.subscribe("t", until=2) as subscription:
            assert [type(event) for event in subscription] == [Message]
        with client.subscribe("t", until=2) as subscription:
            assert subscription.fetch()[1:] == [DeletionsMissed("t", 7)]
            assert subscription.next == 1
