"""What a program settles by iterating, and changing from one way of reading to another."""

import pytest
from embedded import embedded_broker

from zaichik import blocking
from zaichik.client.errors import TakenOver


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
        assert [message.offset for piece in subscription.pieces() for message in piece] == [*range(2, 10)]


def test_fetching_returns_the_rest_of_a_batch_whose_messages_were_begun(client):
    with client.subscribe("t", until=10) as subscription:
        messages = iter(subscription)
        assert next(messages).offset == 0
        (frame,) = subscription.fetch()
        assert (frame.base, [*frame.batch.each_payload()]) == (1, [b"%d" % number for number in range(1, 10)])
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
