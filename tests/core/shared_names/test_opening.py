"""Where the kind of a subscription is decided (SHR-1)."""

from sharing_clients import Sharing, work

from zaichik_protocol import Error, ErrorCode, Subscribe, Subscribed, Unsubscribe


def ask(client, **how):
    (reply, *_) = client.ask(Subscribe(client.next_id(), "t", "n", **how))
    return reply


def test_a_name_is_shared_from_its_first_subscription_on():
    broker, client = work()
    subscription, _ = client.share()
    client.ask(Unsubscribe(client.next_id(), subscription))
    refused = ask(Sharing(broker))
    assert (refused.code, refused.field) == (ErrorCode.INVALID_FIELD, "name")
    assert "is shared" in refused.message


def test_a_name_is_exclusive_from_its_first_subscription_on():
    broker, client = work()
    assert isinstance(ask(client), Subscribed)
    refused = ask(Sharing(broker), shared=True)
    assert (refused.code, refused.field) == (ErrorCode.INVALID_FIELD, "name")
    assert "is exclusive" in refused.message


def test_what_is_refused_leaves_no_worker():
    """It is nowhere: not at the name, its topic or its connection."""
    broker, client = work()
    client.share(owner=7, attempt=5)
    other = Sharing(broker)
    refused = ask(other, shared=True, owned=True, owner=7, attempt=5, max_deliveries=5)
    assert (type(refused), refused.code) == (Error, ErrorCode.TAKEN_OVER)
    (position,) = broker.shared_names.positions
    assert len(position.readers) == len(broker.registry.find("t").readers) == 1
    assert not other.manager.readers
    assert len(broker.readers) == 1


def test_what_is_refused_leaves_the_name_as_it_was():
    """SHR-1: nobody reads, so the next worker decides; but this one is none."""
    broker, client = work(1)
    client.share(owner=7, attempt=5, max_deliveries=5)
    broker.disconnect(client.manager, "GONE")
    refused = ask(
        Sharing(broker), shared=True, owned=True, owner=7, attempt=5, max_deliveries=1, credit=1
    )
    assert refused.code == ErrorCode.TAKEN_OVER
    (position,) = broker.shared_names.positions
    assert position.queue.settings.max_deliveries == 5


def test_names_have_one_limit_whatever_their_kind():
    broker, client = work(max_sessions=2)
    client.share(name="a")
    client.ask(Subscribe(client.next_id(), "t", "b"))
    (refused,) = client.ask(Subscribe(client.next_id(), "t", "c", shared=True))
    assert (refused.code, refused.field) == (ErrorCode.TOO_MANY_SUBSCRIPTIONS, "name")
    assert len(broker.shared_names.positions) == 1


def test_a_shared_name_says_where_it_stands():
    _, client = work(3)
    subscription, _ = client.share(credit=2)
    client.done(subscription, 1)
    other = Sharing(client.broker)
    (reply, *_) = other.ask(Subscribe(9, "t", "n", max_deliveries=5, shared=True))
    # 0 is open, and 1 done; 2 went to the one that has settled 1.
    assert (reply.start, reply.live, reply.committed) == (3, 3, 0)
    assert reply.named
    assert reply.resumed
