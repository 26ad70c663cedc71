"""What may be asked about the dead, by whom, and how much at once (SHR-11)."""

from sharing_clients import Sharing, offsets, user_who, work

from zaichik.core.rights import BROKER
from zaichik.core.shared_names.dead_requests import MOST_AT_ONCE, MOST_LISTED
from zaichik_protocol import DeadAction, ErrorCode, Outcome, Unsubscribe


def all_dead(client, count, **how):
    subscription, _ = client.share(credit=count, **how)
    client.settle(subscription, Outcome.REJECT, *range(count), reason="no\n")
    return subscription


def test_a_page_has_what_is_told_of_each():
    broker, client = work(2)
    all_dead(client, 2)
    now_us = broker.clock.now_us()
    assert client.dead() == [
        {
            "offset": offset,
            "deliveries": 1,
            "died_us": now_us,
            "reason": "no\n",
            "is_readable": True,
        }
        for offset in (0, 1)
    ]


def test_no_page_is_too_long():
    count = MOST_AT_ONCE + 10
    _, client = work(count)
    all_dead(client, count)
    assert len(client.dead(count=65_535)) == MOST_LISTED
    done = client.dead(action=DeadAction.FORGET, count=65_535)
    assert (done.done, done.more, done.next) == (MOST_AT_ONCE, 1, MOST_AT_ONCE)
    done = client.dead(action=DeadAction.FORGET, count=65_535, from_offset=done.next)
    assert (done.done, done.more) == (10, 0)


def test_no_more_are_revived_than_may_be_open():
    """SHR-5: the answer says where to go on."""
    _, client = work(5, max_open=2)
    subscription, _ = client.share(credit=2)
    for first in (0, 2):
        client.settle(subscription, Outcome.REJECT, first, first + 1)
    client.settle(subscription, Outcome.REJECT, 4)
    client.ask(Unsubscribe(client.next_id(), subscription))
    done = client.dead(action=DeadAction.REVIVE)
    assert (done.done, done.more, done.next) == (2, 1, 2)
    done = client.dead(action=DeadAction.REVIVE, from_offset=2)
    assert (done.done, done.more, done.next) == (0, 1, 2)


def test_those_that_are_named_are_taken_once_and_in_order():
    _, client = work(4)
    all_dead(client, 4)
    how = {"selected": True, "offsets": (3, 1, 1, 2**64 - 1, 0)}
    done = client.dead(action=DeadAction.FORGET, count=2, **how)
    assert (done.done, done.more, done.next) == (2, 1, 3)
    assert [row["offset"] for row in client.dead()] == [2, 3]


def test_none_selected_is_none():
    _, client = work(2)
    all_dead(client, 2)
    assert client.dead(action=DeadAction.FORGET, selected=True).done == 0


def test_the_revived_are_handed_out():
    _, client = work(2)
    subscription = all_dead(client, 2)
    client.dead(action=DeadAction.REVIVE)
    assert sorted(client.tickets) == [0, 1]
    assert client.done(subscription, 0, 1)[0].late == ()


def test_a_user_asks_about_their_own_names():
    """Whoever may not subscribe any more may not ask either."""
    broker, _ = work(1)
    ana = user_who("ana", ("subscribe", "t"))
    client = Sharing(broker, ana)
    all_dead(client, 1)
    assert len(client.dead()) == 1
    assert len(client.dead(user="ana")) == 1
    boris = Sharing(broker, user_who("boris", ("subscribe", "t")))
    assert boris.dead().code == ErrorCode.NO_SUCH_NAME
    assert boris.dead(user="ana").code == ErrorCode.FORBIDDEN
    clara = Sharing(broker, user_who("clara"))
    assert clara.dead().code == ErrorCode.FORBIDDEN
    assert clara.dead("elsewhere").code == ErrorCode.FORBIDDEN


def test_an_operator_asks_about_any_name():
    """At night, naming the user (SHR-10)."""
    broker, _ = work(1)
    client = Sharing(broker, user_who("ana", ("subscribe", "t")))
    subscription = all_dead(client, 1)
    operator = Sharing(broker, user_who("op", ("describe", BROKER)))
    assert len(operator.dead(user="ana")) == 1
    assert operator.dead(user="ana", action=DeadAction.REVIVE).done == 1
    assert offsets(client.heard()) == [0]
    assert operator.dead(user="boris").code == ErrorCode.NO_SUCH_NAME
    client.ask(Unsubscribe(client.next_id(), subscription))
    assert operator.dead(user="ana", action=DeadAction.FORGET_NAME).done == 1
    assert operator.dead(user="ana").code == ErrorCode.NO_SUCH_NAME


def test_without_users_the_user_is_not_looked_at():
    _, client = work(1)
    all_dead(client, 1)
    assert len(client.dead(user="whoever")) == 1
