"""Which shared name a refusal suggests to forget, when the broker has as many as it may (SHR-9)."""

from sharing_clients import Sharing, seconds, user_who, work

from zaichik_protocol import ErrorCode, Subscribe, Unsubscribe

REFUSED = "Reuse a name, or unsubscribe with FORGET."


def refusal(client, name="one more"):
    (refused, *_) = client.ask(Subscribe(client.next_id(), "t", name))
    assert (refused.code, refused.field) == (ErrorCode.TOO_MANY_SUBSCRIPTIONS, "name")
    return refused.message


def leave(client, subscription):
    client.ask(Unsubscribe(client.next_id(), subscription))


def test_the_name_without_workers_for_longest_is_named_with_its_topic():
    broker, client = work(max_sessions=3)
    for name in ("a", "b", "c"):
        subscription, _ = client.share(name=name)
        if name != "a":
            leave(client, subscription)
            seconds(broker, 61)
    assert refusal(client).endswith(
        f"{REFUSED} Shared names stay until they are forgotten; 'b' of topic 't' has been without "
        "workers for longest, 2.0 minutes."
    )


def test_a_worker_that_comes_back_and_leaves_begins_the_time_anew():
    broker, client = work(max_sessions=2)
    for name in ("a", "b"):
        subscription, _ = client.share(name=name)
        leave(client, subscription)
        seconds(broker, 5)
    subscription, _ = client.share(name="a")
    seconds(broker)
    leave(client, subscription)
    seconds(broker)
    assert "'b' of topic 't'" in refusal(client)


def test_no_name_is_suggested_while_all_have_workers():
    broker, client = work(max_sessions=1)
    client.share(name="a")
    seconds(broker, 5)
    assert refusal(client).endswith(REFUSED)


def test_a_name_that_is_not_shared_goes_by_time_and_is_not_suggested():
    broker, client = work(max_sessions=1)
    client.ask(Subscribe(client.next_id(), "t", "own"))
    leave(client, 2)
    seconds(broker, 5)
    assert refusal(client).endswith(REFUSED)


def test_the_names_of_other_users_are_not_told():
    """ACC-3."""
    broker, client = work(max_sessions=1)
    leave(client, client.share(name="a")[0])
    seconds(broker, 5)
    ana = user_who("ana", ("subscribe", "t"))
    assert refusal(Sharing(broker, ana)).endswith(REFUSED)
