"""Explicit commits from threads: what was given out counts, not what has crossed."""

from queue import SimpleQueue
from threading import Thread

import pytest
from embedded import embedded_broker

import zaichik
from zaichik.client import blocking


@pytest.fixture
def client():
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        client.create_topic("t", retention_ttl="forever")
        client.publish_batch("t", [(None, b"%d" % number) for number in range(10)])
        yield client


def position(client):
    (state,) = client.subscriptions("t")
    return state["committed"]


def by_message(subscription):
    return [message.offset for message in subscription]


def by_piece(subscription):
    return [message.offset for piece in subscription.pieces() for message in piece]


def by_batch(subscription):
    return [
        offset
        for frame in subscription.batches()
        for offset in range(frame.base, frame.base + frame.batch.count)
    ]


@pytest.mark.parametrize("read", [by_message, by_piece, by_batch])
def test_reading_and_leaving_commit_nothing(client, read):
    """CMT-3."""
    with client.subscribe("t", name="n", until=10, commit="explicit") as subscription:
        assert read(subscription) == [*range(10)]
        assert position(client) == 0
        subscription.commit(6)
        subscription.commit(3)
        assert (position(client), subscription.committed) == (7, 7)
    with client.subscribe("t", name="n") as subscription:
        assert (subscription.start, next(iter(subscription)).offset) == (7, 7)
        assert subscription.redelivered


def test_what_has_crossed_and_was_not_given_out_cannot_be_committed(client):
    """The last one as little as others: the end has crossed with it."""
    with client.subscribe("t", name="n", until=10, commit="explicit") as subscription:
        messages = iter(subscription)
        for offset in range(10):
            with pytest.raises(zaichik.NotInFlight, match=f"the next one is {offset};"):
                subscription.commit(offset)
            subscription.commit(next(messages).offset)
            assert position(client) == offset + 1
        assert [*messages] == []
        with pytest.raises(zaichik.NotInFlight):
            subscription.commit(10)


def test_lag_can_be_committed_as_soon_as_it_is_reported():
    """LAG-1."""
    with embedded_broker() as broker, blocking.connect(port=broker.port) as client:
        client.create_topic("t", capacity=3)
        for _ in range(2):
            client.publish_batch("t", [(None, b"x")] * 3)
        with client.subscribe("t", start=0, events=True, commit="explicit") as subscription:
            lagged = next(iter(subscription))
            with pytest.raises(zaichik.NotInFlight):
                subscription.commit(lagged.end)
            subscription.commit(lagged.end - 1)
            assert position(client) == 3


@pytest.mark.parametrize("credit", [1, 2])
def test_threads_commit_while_another_one_reads(client, credit):
    """CMT-1: a commit of another thread brings the message that the loop waits for."""
    jobs = SimpleQueue()

    def work(subscription):
        while (offset := jobs.get()) is not None:
            subscription.commit(offset)

    with client.subscribe(
        "t", name="n", until=10, credit=credit, commit="explicit"
    ) as subscription:
        worker = Thread(target=work, args=(subscription,), daemon=True)
        worker.start()
        for message in subscription:
            jobs.put(message.offset)
        jobs.put(None)
        worker.join()
        assert position(client) == 10


def test_another_mode_and_shared_names_are_refused(client):
    with pytest.raises(ValueError, match="must be 'automatic' or 'explicit'"):
        client.subscribe("t", commit="manual")
    with pytest.raises(ValueError, match="commit='explicit' is not for it"):
        client.subscribe("t", name="n", shared=True, commit="explicit")
