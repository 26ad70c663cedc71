"""Rights in the core: every request is asked about, and what is no longer allowed ends (ACC-2 to
ACC-5).
"""

import json
from itertools import permutations
from typing import get_args

import pytest
from conversation import Conversation, batch, broker_with
from fake_log import FakeLogs, durable_broker

from zaichik.core.rights import ANYBODY, BROKER, NEEDS, Action
from zaichik.core.settings import TopicSettings
from zaichik.core.sharing.scheduler import Turns
from zaichik_protocol import (
    Commit,
    CreateTopic,
    Delete,
    Deleted,
    Describe,
    Disconnect,
    EndCode,
    Error,
    ErrorCode,
    Frame,
    GoAway,
    GoAwayCode,
    Kind,
    Lagged,
    Messages,
    Overflow,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    TopicCreated,
    Unsubscribe,
    frames,
)

ACTIONS = get_args(Action)
NAMES = [
    "orders",
    "orders/",
    "*",
    "#",
    "%u",
    "é",
    "e\u0301",
    "a b",
    "$",
    "$x",
    "$broker",
    "$journal/orders",
    "x" * 200,
]


class Somebody:
    """A user with the rights in a set, which tests change."""

    def __init__(self, name="ana", *rights):
        self.name, self.how, self.publishable = name, "token:1", ()
        self.rights, self.asked, self.refused, self.has_left = set(rights), [], [], False

    def may(self, action, topic):
        self.asked.append((action, topic))
        return (action, topic) in self.rights or (action, "*") in self.rights

    def denied(self, action, topic):
        self.refused.append((action, topic))

    def is_ended(self, now_us):
        return self.has_left


class Talk(Conversation):
    """A conversation of a user."""

    def __init__(self, broker, user=ANYBODY):
        super().__init__(broker, greeted=False)
        self.user = user
        self.turns = broker.log_in(self.manager, user, broker.scheduler.join("", lambda: False))
        self.ask(frames.Hello(1, client="somebody"))


def everything(name="root"):
    return Somebody(name, *((action, "*") for action in ACTIONS))


def recheck(broker, *, rights):
    """What a server does once a second."""
    for manager in list(broker.managers.values()):
        manager.recheck(broker.clock.now_us(), rights=rights)


def code(reply):
    return reply.code if isinstance(reply, Error) else None


REQUESTS = {
    "publish": lambda name: Publish(7, name, batch(b"x")),
    "subscribe": lambda name: Subscribe(7, name),
    "create": lambda name: CreateTopic(7, name),
    "delete": lambda name: Delete(7, name),
}


def test_every_request_is_in_the_table():
    """A frame that a later version adds is denied until the table of rights has it."""
    # A class that its decorator has replaced is there until the garbage collector comes by.
    frames = [cls for cls in Frame.__subclasses__() if hasattr(cls, "TYPE")]
    requests = {cls for cls in frames if cls.TYPE < 0x40}
    assert set(NEEDS) == requests


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_needs_its_own_right_and_no_other(kind, name):
    """Every request, every right, and names that a pattern, a shell or a file might take for
    something else.
    """
    topic = name.removeprefix("$journal/")
    for held in ACTIONS:
        broker = broker_with()
        user = Somebody("ana", (held, topic), ("create", topic))
        (reply, *_) = Talk(broker, user).ask(REQUESTS[kind](name))
        is_allowed = held == kind or kind == "create"
        assert (code(reply) == ErrorCode.FORBIDDEN) is not is_allowed, (held, reply)
        assert ("$journal" not in name) or all(asked[1] != name for asked in user.asked)


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_refusal_does_not_tell_whether_the_topic_exists(kind):
    broker = broker_with()
    Talk(broker).ask(CreateTopic(2, "there", ((Setting.CAPACITY, 7),)))
    stranger = Talk(broker, Somebody("eve"))
    told = [stranger.ask(REQUESTS[kind](name))[0] for name in ("there", "gone!")]
    assert [reply.message.replace("there", "gone!") for reply in told] == [told[1].message] * 2
    assert [code(reply) for reply in told] == [ErrorCode.FORBIDDEN] * 2
    assert stranger.user.refused == [(kind, "there"), (kind, "gone!")]
    assert len(broker.registry) == 1


@pytest.mark.parametrize("name", ["x" * 65_535, "\0" * 65_535, "$" + "\0" * 65_534])
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_name_that_fits_no_error_is_refused_all_the_same(kind, name):
    """An Error has room for 64 KiB, and what is escaped is longer than it was."""
    for user, refusal in (
        (Somebody("eve"), ErrorCode.FORBIDDEN),
        (ANYBODY, ErrorCode.INVALID_FIELD),
    ):
        assert code(Talk(broker_with(), user).ask(REQUESTS[kind](name))[0]) == refusal


@pytest.mark.parametrize(
    ("right", "done"), [("delete", True), ("describe", False), ("publish", False)]
)
def test_an_operator_has_the_right_to_delete_the_broker(right, done):
    broker = broker_with()
    victim, operator = Talk(broker), Talk(broker, Somebody("ana", (right, BROKER)))
    (reply,) = operator.ask(Disconnect(7, victim.manager.number))
    assert (code(reply) is None) is done
    assert victim.manager.closing is done


def test_what_a_connection_has_needs_no_right():
    broker = broker_with()
    user = Somebody("ana", ("subscribe", "t"), ("publish", "t"), ("create", "t"))
    talk = Talk(broker, user)
    talk.ask(Publish(2, "t", batch(b"x")), Subscribe(3, "t"))
    user.asked.clear()
    assert [type(it) for it in talk.ask(Commit(4, 3, 1), Unsubscribe(5, 3), Ping(6))][-1] is Pong
    assert user.asked == []


def test_a_topic_is_made_on_first_use_only_by_who_may_create_it():
    """As with a broker that creates none: its users may learn that there is none."""
    broker = broker_with()
    talk = Talk(broker, Somebody("ana", ("publish", "t"), ("subscribe", "t")))
    for request in (REQUESTS["publish"]("t"), REQUESTS["subscribe"]("t")):
        assert code(talk.ask(request)[0]) == ErrorCode.NO_SUCH_TOPIC
    assert len(broker.registry) == 0
    talk.user.rights.add(("create", "t"))
    assert isinstance(talk.ask(REQUESTS["publish"]("t"))[0], Published)


def test_forbidden_uses_the_number_of_a_batch_up():
    """PUB-4: or else the next one would be a gap.

    What was answered before is repeated, also without the right.
    """
    broker = broker_with()
    user = Somebody("ana", ("publish", "t"), ("create", "t"))
    talk = Talk(broker, user)

    def numbered(sequence):
        return talk.ask(Publish(7, "t", batch(b"x"), producer=9, sequence=sequence))[0]

    first = numbered(0)
    user.rights.remove(("publish", "t"))
    assert code(numbered(1)) == ErrorCode.FORBIDDEN
    user.rights.add(("publish", "t"))
    assert numbered(2).first_offset == 1
    assert code(numbered(1)) == ErrorCode.FORBIDDEN
    user.rights.clear()
    again = numbered(0)
    assert again.duplicate
    assert again.first_offset == first.first_offset


@pytest.mark.parametrize("default", [0, 1])
def test_the_number_of_a_refused_batch_does_not_tell_whether_a_durable_topic_exists(default):
    """ACC-2: the numbers of a durable topic count there alone, and a user without rights could see
    where they count.
    """
    logs = FakeLogs()
    broker = durable_broker(logs, topic=TopicSettings(durable=default))
    root = Talk(broker, everything())
    root.tell(
        CreateTopic(2, "disk", ((Setting.DURABLE, 1),)),
        CreateTopic(3, "memory", ((Setting.DURABLE, 0),)),
    )
    logs.known["disk"].sync()
    for topics in permutations(["disk", "memory", "none"], 2):
        stranger = Talk(broker, Somebody(f"eve{'-'.join(topics)}"))
        told = [
            stranger.ask(Publish(7, topic, batch(b"x"), producer=9, sequence=sequence))[0]
            for sequence, topic in enumerate(topics)
        ]
        assert [code(reply) for reply in told] == [ErrorCode.FORBIDDEN] * 2, topics


def test_an_unknown_number_without_the_right_tells_nothing_of_topics_or_of_others():
    """ACC-2, ACC-3: `PRODUCER_UNKNOWN` comes before `FORBIDDEN`, about the user's own numbers."""
    broker = broker_with()
    ana = Talk(broker, everything("ana"))
    for sequence in range(3):
        ana.ask(Publish(2, "t", batch(b"x"), producer=9, sequence=sequence))
    eve = Talk(broker, Somebody("eve"))
    told = [
        eve.ask(Publish(7, topic, batch(b"x"), producer=producer, sequence=1))[0]
        for topic in ("t", "none")
        for producer in (9, 10)
    ]
    assert code(told[0]) == ErrorCode.PRODUCER_UNKNOWN
    assert told == told[:1] * 4


def test_what_a_durable_topic_answered_is_repeated_without_the_right():
    logs = FakeLogs()
    broker = durable_broker(logs)
    user = Somebody("ana", ("publish", "t"), ("create", "t"))
    talk = Talk(broker, user)
    for request in (
        CreateTopic(2, "t", ((Setting.DURABLE, 1),)),
        Publish(3, "t", batch(b"x"), producer=9),
    ):
        talk.tell(request)
        logs.known["t"].sync()
        (first,) = talk.heard()
    user.rights.clear()
    (again,) = talk.ask(Publish(4, "t", batch(b"x"), producer=9))
    assert (again.duplicate, again.first_offset) == (True, first.first_offset)
    assert (
        code(talk.ask(Publish(5, "t", batch(b"y"), producer=9, sequence=1))[0])
        == ErrorCode.FORBIDDEN
    )


def test_the_id_that_a_users_producer_gets_is_one_of_2_to_the_64():
    """ACC-3: or else another user's would be found by trying."""
    broker = broker_with()
    owned = {
        broker.producers.owned(Somebody(name), Publish(2, "t", batch(b"x"), producer=9), "")[0]
        for name in map(str, range(50))
    }
    ids = {request.producer for request in owned}
    assert len(ids) == 50
    assert max(ids) >= 2**63
    assert max(ids) < 2**64


def test_a_producer_is_its_users_alone():
    """ACC-3."""
    broker = broker_with()
    ana, eve = Talk(broker, everything("ana")), Talk(broker, everything("eve"))
    ana.ask(Publish(2, "t", batch(b"secret"), producer=9, sequence=0))
    assert (
        code(eve.ask(Publish(2, "t", batch(b"x"), producer=9, sequence=1))[0])
        == ErrorCode.PRODUCER_UNKNOWN
    )
    (reply,) = eve.ask(Publish(2, "t", batch(b"x"), producer=9, sequence=0))
    assert not reply.duplicate
    assert ana.ask(Publish(3, "t", batch(b"more"), producer=9, sequence=1))[0].first_offset == 2


def test_a_name_is_its_users_alone():
    """ACC-3: no other user resumes it, takes it over, or has it forgotten."""
    broker = broker_with()
    ana, eve = Talk(broker, everything("ana")), Talk(broker, everything("eve"))
    broker.registry.create("t", ((Setting.RETENTION_TTL_MS, 1000),), 1)
    ana.ask(*(Publish(0, "t", batch(b"x")) for _ in range(4)), Subscribe(2, "t", name="mine"))
    ana.ask(Commit(3, 2, 1), Unsubscribe(4, 2))
    begun = eve.ask(Subscribe(2, "t", name="mine"))[0]
    assert (begun.resumed, begun.start) == (False, 0)
    eve.ask(Unsubscribe(3, 2, forget=True))
    again = ana.ask(Subscribe(5, "t", name="mine"))[0]
    assert (again.resumed, again.start) == (True, 1)
    assert not any(isinstance(it, SubscriptionEnded) for it in ana.ask(Ping(6)))


def test_a_withdrawn_right_ends_a_subscription_and_frees_what_it_kept():
    """ACC-4: also if its reader reads nothing."""
    broker = broker_with()
    broker.registry.create("t", ((Setting.CAPACITY, 2), (Setting.OVERFLOW, Overflow.REJECT)), 1)
    root, user = Talk(broker, everything()), Somebody("ana", ("subscribe", "t"))
    talk = Talk(broker, user)
    talk.tell(Subscribe(2, "t", credit=1))
    root.ask(Publish(0, "t", batch(b"x")), Publish(0, "t", batch(b"x")))
    assert code(root.ask(Publish(3, "t", batch(b"x")))[0]) == ErrorCode.TOPIC_FULL
    user.rights.clear()
    recheck(broker, rights=False)
    assert code(root.ask(Publish(4, "t", batch(b"x")))[0]) == ErrorCode.TOPIC_FULL
    recheck(broker, rights=True)
    assert isinstance(root.ask(Publish(5, "t", batch(b"x")))[0], Published)
    told = talk.heard()
    assert [type(it) for it in told] == [Subscribed, SubscriptionEnded]
    assert told[-1].code == EndCode.FORBIDDEN
    recheck(broker, rights=True)
    assert talk.ask(Ping(9)) == [Pong(9, 0)]


def test_a_right_that_is_withdrawn_while_the_disk_is_asked_begins_nothing():
    """ACC-4: the right to that subscription would not be checked again."""
    logs = FakeLogs()
    broker = durable_broker(logs)
    user, root = Somebody("ana", ("subscribe", "t")), Talk(broker, everything())
    root.tell(CreateTopic(2, "t", ((Setting.DURABLE, 1), (Setting.CAPACITY, 1))))
    for payload in (b"1", b"2"):
        root.tell(Publish(0, "t", batch(payload)))
        logs.known["t"].sync()
        broker.clock.advance(1)
    talk = Talk(broker, user)
    assert talk.ask(Subscribe(2, "t", start=Start.TIME, value=1, name="n")) == []
    user.rights.clear()
    recheck(broker, rights=True)
    logs.known["t"].look()
    (reply,) = talk.heard()
    assert code(reply) == ErrorCode.FORBIDDEN
    assert len(broker.readers) == len(broker.named_positions) == 0


def test_nothing_that_came_while_the_right_was_gone_is_sent():
    broker = broker_with()
    user, root = Somebody("ana", ("subscribe", "t"), ("create", "t")), Talk(broker, everything())
    talk = Talk(broker, user)
    talk.ask(Subscribe(2, "t", name="n", credit=9))
    user.rights.clear()
    recheck(broker, rights=True)
    root.ask(Publish(0, "t", batch(b"secret")))
    assert not [it for it in talk.heard() if isinstance(it, Messages | Lagged)]
    assert code(talk.ask(Subscribe(3, "t", name="n"))[0]) == ErrorCode.FORBIDDEN
    user.rights.add(("subscribe", "t"))
    begun, *_ = talk.ask(Subscribe(4, "t", name="n"))
    assert (begun.resumed, begun.start) == (True, 0)


def test_for_a_name_whose_user_has_lost_the_right_no_message_is_retained():
    """ACC-4, RET-1: in topics of any name."""
    broker = broker_with()
    ana = everything("ana")
    reader, publisher = Talk(broker, ana), Talk(broker, everything("bob"))
    for number, topic in enumerate(("A", "a"), start=2):
        reader.ask(Subscribe(number, topic, "n"), Unsubscribe(0, number))
    publisher.ask(*(Publish(0, topic, batch(b"x")) for topic in ("A", "a")))
    asked = []
    broker.waive(lambda *who: not asked.append(who))
    assert asked == [("ana", "A"), ("ana", "a")]
    broker.sweep()
    assert [topic.head for topic in broker.registry] == [0, 0]
    broker.waive(lambda user, topic: False)
    broker.sweep()
    assert [topic.head for topic in broker.registry] == [1, 1]


def test_the_journal_of_a_topic_is_as_open_as_the_topic():
    broker = broker_with()
    broker.registry.create(
        "t", ((Setting.JOURNAL_BYTES, 1000), (Setting.RETENTION_TTL_MS, 1000)), 1
    )
    user = Somebody("ana", ("subscribe", "t"))
    talk = Talk(broker, user)
    assert isinstance(talk.ask(Subscribe(2, "$journal/t"))[0], Subscribed)
    user.rights = {("subscribe", "$journal/t")}
    assert code(talk.ask(Subscribe(3, "$journal/t"))[0]) == ErrorCode.FORBIDDEN
    recheck(broker, rights=True)
    assert talk.heard()[-1].code == EndCode.FORBIDDEN


def test_a_login_that_has_ended_ends_its_connections():
    broker = broker_with()
    user = everything("ana")
    talks = [Talk(broker, user), Talk(broker, everything("bob"))]
    user.has_left = True
    recheck(broker, rights=False)
    (goodbye,) = talks[0].ask(Publish(2, "t", batch(b"x")))
    assert (type(goodbye), goodbye.code) == (GoAway, GoAwayCode.CREDENTIALS_ENDED)
    assert talks[0].manager.is_finished
    assert talks[1].ask(Ping(9)) == [Pong(9, 0)]
    assert len(broker.registry) == 0


def described(talk, kind, **fields):
    (reply,) = talk.ask(Describe(9, kind, limit=fields.pop("limit", 100), **fields))
    return bool(reply.more), json.loads(reply.json)


def test_describe_leaves_out_topics_that_the_user_may_not_see_before_pages_are_cut():
    """ACC-5: or else `more` would reveal that something is hidden."""
    broker = broker_with()
    root = Talk(broker, everything())
    root.ask(*(CreateTopic(0, f"t{n}") for n in range(20)))
    talk = Talk(broker, Somebody("ana", ("describe", "t3"), ("describe", "t7")))
    more, found = described(talk, Kind.TOPICS, limit=2)
    assert ([topic["name"] for topic in found["topics"]], more) == (["t3", "t7"], False)
    more, found = described(talk, Kind.TOPICS, limit=1)
    assert ([topic["name"] for topic in found["topics"]], more) == (["t3"], True)


@pytest.mark.parametrize("kind", ["SUBSCRIPTIONS", "CONNECTIONS"])
def test_describe_leaves_out_what_others_do(kind):
    broker = broker_with()
    ana, bob = Talk(broker, everything("ana")), Talk(broker, everything("bob"))
    ana.user.rights.remove(("describe", "*"))
    for talk in (ana, bob):
        talk.ask(Subscribe(2, "t", name="n"), Subscribe(3, "t", name="away"), Unsubscribe(4, 3))
    _, of_ana = described(ana, Kind[kind])
    _, of_all = described(bob, Kind[kind])
    assert len(of_all[kind.lower()]) == 2 * len(of_ana[kind.lower()]) > 0
    assert not any("bob" in str(row) for row in of_ana[kind.lower()])


def test_whoever_holds_a_topic_up_is_named_to_that_user_and_to_operators_only():
    """ACC-5: others learn up to which offset messages are needed, and not by whom."""
    broker = broker_with()
    ana, bob = Talk(broker, everything("ana")), Talk(broker, everything("bob"))
    carl = Talk(broker, everything("carl"))
    for talk in (ana, bob):
        talk.user.rights.remove(("describe", "*"))
        talk.user.rights.add(("describe", "t"))
    ana.ask(Subscribe(2, "t", name="hers", start=Start.EARLIEST, credit=1))
    bob.ask(Subscribe(2, "t", credit=9), Publish(0, "t", batch(b"x", b"y")))
    for talk in (ana, bob):
        talk.heard()
    told = [described(talk, Kind.TOPICS)[1]["topics"][0] for talk in (ana, bob, carl)]
    assert [topic["slowest"] for topic in told] == [
        "t#00000001.0000000002",
        "",
        "t#00000001.0000000002",
    ]
    assert [topic["needed"] for topic in told] == [0, 0, 0]
    furthest = [
        described(talk, Kind.FURTHEST, prefix="t")[1]["subscriptions"] for talk in (ana, bob, carl)
    ]
    assert [[row["connection"] for row in rows] for rows in furthest] == [[1], [2], [1, 2]]
    ana.ask(Unsubscribe(3, 2))
    told = [described(talk, Kind.TOPICS)[1]["topics"][0] for talk in (ana, bob, carl)]
    assert [bool(topic["slowest"]) for topic in told] == [True, False, True]
    furthest = [
        described(talk, Kind.FURTHEST, prefix="t", limit=1)[1]["subscriptions"]
        for talk in (ana, bob, carl)
    ]
    assert [[row["connection"] for row in rows] for rows in furthest] == [[0], [2], [0]]


def test_counters_leave_out_topics_before_pages_are_cut():
    """ACC-5."""
    broker = broker_with()
    Talk(broker, everything()).ask(*(CreateTopic(0, f"t{n:02}") for n in range(60)))
    talk = Talk(broker, Somebody("ana", ("describe", "t03"), ("describe", "t57")))
    more, found = described(talk, Kind.COUNTERS, limit=2)
    assert ([row[0] for row in found["rows"]], more) == (["t03", "t57"], False)


@pytest.mark.parametrize(
    ("rights", "windows", "marks"),
    [
        ({"describe", "subscribe"}, 1, 1),
        ({"describe"}, 0, 1),
        ({"subscribe", "publish"}, 0, 0),
        (set(), 0, 0),
    ],
)
@pytest.mark.parametrize("name", ["t", "$journal/t"])
def test_keys_are_for_those_who_may_read_messages(rights, windows, marks, name):
    """ACC-5: and when these came, for those who may see the topic; its journal's as well."""
    broker = broker_with()
    settings = (
        (Setting.RETENTION_TTL_MS, 9),
        (Setting.COMPACTION_WINDOW_MS, 9),
        (Setting.JOURNAL_BYTES, 2**20),
    )
    Talk(broker, everything()).ask(
        CreateTopic(2, "t", settings), Publish(3, "t", batch((b"secret", b"")))
    )
    talk = Talk(broker, Somebody("ana", *((action, "t") for action in rights)))
    found = described(talk, Kind.WINDOWS, prefix=name)[1]["windows"]
    assert len(found) == (windows if name == "t" else 0)
    assert len(described(talk, Kind.MARKS, prefix=name)[1]["marks"]) == marks


def test_describe_tells_the_limits_to_everybody_and_the_load_to_operators():
    broker = broker_with()
    _, for_ana = described(Talk(broker, Somebody("ana")), Kind.BROKER)
    _, for_root = described(Talk(broker, everything("root")), Kind.BROKER)
    assert set(for_ana) == {"name", "boot", "now_us", "clock", "user", "limits", "topic_defaults"}
    assert for_root["access"] == {}
    assert (for_ana["user"], for_root["user"]) == ("ana", "root")
    assert for_root["connections"] == 2


def test_turns_and_memory_are_charged_to_the_user_from_whatever_address():
    """LAG-5, LAG-6."""
    broker = broker_with()
    talks = [Talk(broker, everything("ana")) for _ in range(2)]
    assert {talk.manager.client for talk in talks} == {"user:ana"}
    assert talks[0].turns.client is talks[1].turns.client
    assert isinstance(talks[0].turns, Turns)
    held = broker.memory.used
    for talk in talks:
        broker.disconnect(talk.manager, "CLOSED")
    assert broker.memory.used == 0 < held


@pytest.mark.parametrize("kind", REQUESTS)
def test_without_access_control_nobody_is_asked(kind):
    (reply, *_) = Talk(broker_with()).ask(CreateTopic(0, "t"), REQUESTS[kind]("t"))
    assert isinstance(reply, Published | Subscribed | TopicCreated | Deleted)


def test_what_a_reader_is_told_of_others_names_none_of_them():
    """Which subscription keeps a lossless topic full is not for other users to know."""
    broker = broker_with()
    broker.registry.create("t", ((Setting.CAPACITY, 1), (Setting.OVERFLOW, Overflow.REJECT)), 1)
    Talk(broker, everything("bob")).ask(Subscribe(2, "t", name="plan", start=Start.EARLIEST))
    root = Talk(broker, everything("ana"))
    (_, refusal) = root.ask(Publish(3, "t", batch(b"x")), Publish(4, "t", batch(b"x")))
    assert code(refusal) == ErrorCode.TOPIC_FULL
    assert "plan" not in refusal.message
    assert "somebody" not in refusal.message


def test_a_login_takes_the_connection_from_its_address():
    """LAG-5: or the address would be charged, and remembered, for a connection of the user's."""
    broker = broker_with()
    manager = Conversation(broker, greeted=False).manager
    before = broker.scheduler.join("address", lambda: True)
    after = broker.log_in(manager, everything("ana"), before)
    assert (after.client.key, after.client.connections) == ("user:ana", 1)
    assert (before.client.connections, before.take()) == (0, False)
    assert after.take()


def test_without_access_control_a_user_has_no_name_and_has_not_logged_in():
    """ACC-1."""
    assert (ANYBODY.name, ANYBODY.how, len(ANYBODY.publishable)) == ("", "", 0)
    assert all(ANYBODY.may(action, "t") for action in ACTIONS)
    assert not ANYBODY.is_ended(2**63)
