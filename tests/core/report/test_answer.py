"""An answer as a whole: its form, what is refused, and what a user may know."""

import pytest
from asking import at_reader, fates, made, seen, told, verdicts
from conversation import Conversation, batch, broker_with
from test_rights import Somebody, Talk

from zaichik.core.directory import Directory
from zaichik.core.report.subscriptions import MOST_SUBSCRIPTIONS, SEARCHED_SUBSCRIPTIONS
from zaichik_protocol import (
    FOREVER,
    Disconnect,
    Error,
    ErrorCode,
    Explain,
    Explained,
    Publish,
    Subscribe,
    Unsubscribe,
)

K = (b"k", b"x")


@pytest.fixture
def client():
    client = Conversation(broker_with())
    made(client, RETENTION_TTL_MS=FOREVER, COMPACTION_WINDOW_MS=FOREVER)
    client.ask(Publish(0, "t", batch(K)), Publish(0, "t", batch(K)))
    return client


def refusal(client, topic="t", **message):
    (reply,) = client.ask(Explain(99, topic, **message))
    assert isinstance(reply, Error), reply
    assert "\n" not in reply.message
    return reply.code, reply.field


def test_the_form_of_an_answer(client):
    client.broker.clock.advance(1)
    answer = told(client, offset=0)
    assert answer.keys() == {"topic", "epoch", "now_us", "offset", "key", "verdicts"}
    assert [answer[name] for name in ("topic", "epoch", "now_us", "offset", "key")] == [
        "t",
        1_000,
        1_001_000,
        0,
        None,
    ]
    for verdict in (*answer["verdicts"], *verdicts(client, key=b"k")):
        assert verdict.keys() == {"fate", "rule", "text", "next", "evidence"}
        assert verdict["text"]


def test_to_ask_changes_nothing(client):
    before = client.broker.registry.find("t").memory
    for _ in range(3):
        told(client, offset=0)
        told(client, key=b"k")
    topic = client.broker.registry.find("t")
    assert (topic.memory, topic.end, topic.readers, len(topic.decisions.known)) == (
        before,
        1,
        {},
        1,
    )


@pytest.mark.parametrize("name", ["nothing", "$journal/t", "$broker", "$" * 10_000])
def test_a_topic_that_does_not_exist(client, name):
    """And none is made."""
    assert refusal(client, name, offset=0) == (ErrorCode.NO_SUCH_TOPIC, "topic")
    assert refusal(client, name, key=b"k") == (ErrorCode.NO_SUCH_TOPIC, "topic")
    assert len(client.broker.registry) == 1


def test_a_subscription_whose_name_is_as_long_as_a_frame_allows(client):
    """And an error would not hold it."""
    assert refusal(client, subscription="\x01" * 65_535) == (
        ErrorCode.NO_SUCH_SUBSCRIPTION,
        "subscription",
    )


@pytest.mark.parametrize("name", ["", "x" * 201, "\0"])
def test_a_name_that_no_topic_can_have(client, name):
    assert refusal(client, name, offset=0) == (ErrorCode.INVALID_FIELD, "topic")


def test_a_key_that_no_message_can_have(client):
    assert fates(verdicts(client, key=b"x" * 1024)) == ["never_seen"]
    assert refusal(client, key=b"x" * 1025) == (ErrorCode.INVALID_FIELD, "key")


def test_a_time_that_is_still_to_come(client):
    assert told(client, key=b"k", time=1_000)["verdicts"]
    assert refusal(client, key=b"k", time=1_001) == (ErrorCode.INVALID_FIELD, "time")


def test_a_journal_can_be_asked_about(client):
    made(client, "j", RETENTION_TTL_MS=FOREVER, JOURNAL_BYTES=1_000)
    client.ask(Publish(0, "j", batch(K)))
    assert told(client, "$journal/j", offset=0)["verdicts"][0]["fate"] == "readable"


# -- one subscription ----------------------------------------------------------------------------


def test_one_subscription_by_its_name_or_its_number(client):
    client.ask(
        Subscribe(3, "t", "n", credit=5),
        Subscribe(4, "t"),
        Subscribe(5, "t", "away"),
        Unsubscribe(6, 5),
    )
    assert [
        seen(at_reader(client, offset=0, subscription=which), "name")
        for which in ("n", "1.3", "1.4", "away")
    ] == [
        ("in_flight", "CMT-1", "n"),
        ("in_flight", "CMT-1", "n"),
        ("in_flight", "CMT-1", ""),
        ("waits_for_reader", "CMT-3", "away"),
    ]
    assert len(verdicts(client, offset=0)) == 1 + 3


@pytest.mark.parametrize("which", ["nobody", "1.9", "2.3", "3", "1.3 "])
def test_a_subscription_that_does_not_exist(client, which):
    client.ask(Subscribe(3, "t"))
    assert refusal(client, offset=0, subscription=which) == (
        ErrorCode.NO_SUCH_SUBSCRIPTION,
        "subscription",
    )
    assert refusal(client, offset=9, subscription=which) == (
        ErrorCode.NO_SUCH_SUBSCRIPTION,
        "subscription",
    )


def test_an_answer_has_so_many_subscriptions_and_says_so(client):
    """EXP-5."""
    assert MOST_SUBSCRIPTIONS == 8
    client.ask(*(Subscribe(3 + number, "t") for number in range(MOST_SUBSCRIPTIONS)))
    assert len(verdicts(client, offset=0)) == 1 + MOST_SUBSCRIPTIONS
    client.ask(Subscribe(90, "t", "n", credit=1), Unsubscribe(91, 90))
    found = verdicts(client, offset=0)
    assert fates(found) == ["readable", *["in_flight"] * MOST_SUBSCRIPTIONS, "more"]
    assert seen(found[-1], "shown") == ("more", "EXP-5", MOST_SUBSCRIPTIONS)
    assert at_reader(client, offset=0, subscription="n")["fate"] == "waits_for_reader"


@pytest.mark.parametrize("name", ["1.3", "1.4", "01.3", "x.1", "t#00000001.0000000003"])
def test_a_name_that_looks_like_a_number_is_a_name_all_the_same(client, name):
    """Then two may be meant; but one subscription is told of once."""
    client.ask(Subscribe(3, "t", name), Subscribe(4, "t"))
    found = [
        it["evidence"]["subscription"] for it in verdicts(client, offset=0, subscription=name)[1:]
    ]
    assert found == (["1.4", "1.3"] if name == "1.4" else ["1.3"])


@pytest.fixture
def searched(monkeypatch):
    """How many entries of the directories were looked at."""
    taken, after = [], Directory.after
    monkeypatch.setattr(
        Directory, "after", lambda *where: (taken.append(it) or it for it in after(*where))
    )
    return taken


def test_of_two_thousand_subscriptions_only_those_of_the_answer_are_looked_at(client, searched):
    """EXP-5: others wait while it is made."""
    for _ in range(10):
        reader = Conversation(client.broker)
        reader.ask(
            *[
                Subscribe(number, "t", f"n{number}" if number % 10 == 2 else "")
                for number in range(2, 202)
            ]
        )
    number = reader.manager.number
    for which, most in (
        ("", MOST_SUBSCRIPTIONS + 1),
        (f"{number}.201", 1),
        ("n12", 2),
        ("n1", 10),
        (f"{number}.9999", 1),
    ):
        searched.clear()
        client.ask(Explain(99, "t", which))
        assert len(searched) <= most, which


def test_of_very_many_subscriptions_of_others_some_are_looked_at_and_the_answer_says_so(
    client, searched
):
    """EXP-5."""
    for number in range(3):
        Conversation(client.broker).ask(
            *[Subscribe(2 + it, "t", f"{number}.{it}") for it in range(500)]
        )
    ana = Talk(client.broker, Somebody("ana", ("subscribe", "t"), ("describe", "t")))
    ana.ask(Subscribe(3, "t", "mine"))
    searched.clear()
    found = verdicts(ana, offset=0)
    assert SEARCHED_SUBSCRIPTIONS <= len(searched) <= SEARCHED_SUBSCRIPTIONS + 1
    assert fates(found) == ["readable", "more"]
    assert seen(found[-1], "shown") == ("more", "EXP-5", 0)
    for which in ("mine", f"{ana.manager.number}.3"):
        assert at_reader(ana, offset=0, subscription=which)["evidence"]["name"] == "mine"


def test_a_topic_whose_name_begins_like_another_s_subscriptions(client):
    made(client, "t#0", RETENTION_TTL_MS=FOREVER)
    client.ask(Subscribe(3, "t#0"))
    assert at_reader(client, offset=0)["fate"] == "no_reader"


# -- rights --------------------------------------------------------------------------------------


@pytest.fixture
def shared(client):
    """Ana and bob read the topic, and each has published something that was refused."""
    rights = [("subscribe", "t"), ("describe", "t"), ("publish", "t")]
    talks = [Talk(client.broker, Somebody(name, *rights)) for name in ("ana", "bob")]
    for number, talk in enumerate(talks):
        talk.ask(Subscribe(3, "t", f"name of {talk.user.name}", credit=5))
        talk.ask(Publish(0, "t", batch((b"key", b"x")), producer=5, sequence=1 + number))
    return talks


@pytest.mark.parametrize(
    "rights", [(), ("describe",), ("subscribe",), ("publish", "create", "delete")]
)
@pytest.mark.parametrize(
    "message", [{"offset": 0}, {"key": b"k"}, {"key": b"x" * 2000}, {"subscription": "n"}]
)
def test_a_topic_that_a_user_may_not_read_and_see_does_not_exist(client, rights, message):
    """ACC-2, ACC-5, EXP-5: word for word."""
    eve = Talk(
        client.broker, Somebody("eve", *((right, name) for right in rights for name in "tu"))
    )
    there, gone = (eve.ask(Explain(99, name, **message)) for name in ("t", "u"))
    assert [reply.code for reply in there + gone] == [ErrorCode.NO_SUCH_TOPIC] * 2
    assert there[0].message.replace("'t'", "'u'") == gone[0].message


def test_rights_to_a_journal_are_those_to_its_topic(client):
    """ACC-2."""
    made(client, "j", RETENTION_TTL_MS=FOREVER, JOURNAL_BYTES=1_000)
    client.ask(Publish(0, "j", batch(K)))
    eve = Talk(client.broker, Somebody("eve", ("subscribe", "j")))
    assert refusal(eve, "$journal/j", offset=0) == (ErrorCode.NO_SUCH_TOPIC, "topic")
    eve.user.rights.add(("describe", "j"))
    assert told(eve, "$journal/j", offset=0)["verdicts"][0]["fate"] == "readable"


def test_a_user_sees_only_their_own_subscriptions(shared):
    """ACC-5, EXP-5: neither others' names nor their numbers nor how many there are."""
    ana, bob = shared
    (reply,) = ana.ask(Explain(99, "t", offset=0))
    assert isinstance(reply, Explained)
    assert b"bob" not in reply.json
    assert at_reader(ana, offset=0)["evidence"]["name"] == "name of ana"
    mine = refusal(ana, offset=0, subscription="nobody")
    for which in ("name of bob", f"{bob.manager.number}.3"):
        assert refusal(ana, offset=0, subscription=which) == mine
    client = Conversation(ana.broker)
    client.ask(Disconnect(7, bob.manager.number))
    assert len(verdicts(ana, offset=0)) == 2


def test_a_user_sees_only_their_own_refusals(shared):
    """EXP-5."""
    ana, bob = shared
    for talk in shared:
        (verdict,) = verdicts(talk, key=b"key")
        assert seen(verdict, "user") == ("refused", "PUB-4", talk.user.name)
        assert [it["evidence"]["user"] for it in verdicts(talk, offset=1)[1:]] == [talk.user.name]
    ana.user.rights.discard(("describe", "t"))
    bob.ask(Publish(0, "t", batch(K)))
    assert fates(verdicts(bob, key=b"k")) == [
        "readable",
        "in_flight",
        "kept_out",
        "kept_out",
        "window_open",
    ]


def test_who_may_see_the_broker_sees_the_name_of_every_user(shared):
    """ACC-3: each of them has a position of their own; one is away."""
    ana, bob = shared
    for talk in shared:
        talk.ask(Subscribe(7, "t", "same", credit=5))
    bob.ask(Unsubscribe(8, 7))
    assert [it["fate"] for it in verdicts(ana, offset=0, subscription="same")[1:]] == ["in_flight"]
    ana.user.rights.add(("describe", "$broker"))
    found = verdicts(ana, offset=0, subscription="same")[1:]
    assert [(it["evidence"]["user"], it["fate"]) for it in found] == [
        ("ana", "in_flight"), ("bob", "waits_for_reader"),
    ]  # fmt: skip


def test_who_may_see_the_broker_sees_all(shared):
    """ACC-5."""
    ana, _ = shared
    ana.user.rights.add(("describe", "$broker"))
    assert [it["evidence"]["user"] for it in verdicts(ana, offset=0)[1:]] == ["ana", "bob"]
    assert {it["evidence"]["user"] for it in verdicts(ana, offset=1)[1:]} == {"ana", "bob"}
