"""An answer as a whole: its form, what is refused, and what a user may know."""

import pytest
from asking import at_reader, fates, made, seen, told, verdicts
from conversation import Conversation, batch, broker_with
from test_rights import Somebody, Talk

from zaichik.explain.subscriptions import MOST
from zaichik_protocol import FOREVER, Disconnect, Error, ErrorCode, Explain, Explained, Publish, Subscribe, Unsubscribe

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
    assert [answer[name] for name in ("topic", "epoch", "now_us", "offset", "key")] == ["t", 1_000, 1_001_000, 0, None]
    for verdict in (*answer["verdicts"], *verdicts(client, key=b"k")):
        assert verdict.keys() == {"fate", "rule", "text", "next", "evidence"}
        assert verdict["text"]


def test_to_ask_changes_nothing(client):
    before = client.broker.registry.find("t").memory
    for _ in range(3):
        told(client, offset=0)
        told(client, key=b"k")
    topic = client.broker.registry.find("t")
    assert (topic.memory, topic.end, topic.readers, len(topic.decisions.known)) == (before, 1, {}, 1)


@pytest.mark.parametrize("name", ["nothing", "$journal/t", "$broker", "$" * 10_000])
def test_a_topic_that_does_not_exist(client, name):
    """And none is made."""
    assert refusal(client, name, offset=0) == (ErrorCode.NO_SUCH_TOPIC, "topic")
    assert refusal(client, name, key=b"k") == (ErrorCode.NO_SUCH_TOPIC, "topic")
    assert len(client.broker.registry) == 1


def test_a_subscription_whose_name_is_as_long_as_a_frame_allows(client):
    """And an error would not hold it."""
    assert refusal(client, subscription="\x01" * 65_535) == (ErrorCode.NO_SUCH_SUBSCRIPTION, "subscription")


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


# -- one subscription ----------------------------------------------------------------------------------------------


def test_one_subscription_by_its_name_or_its_number(client):
    client.ask(Subscribe(3, "t", "n", credit=5), Subscribe(4, "t"), Subscribe(5, "t", "away"), Unsubscribe(6, 5))
    assert [seen(at_reader(client, offset=0, subscription=which), "name") for which in ("n", "1.3", "1.4", "away")] == [
        ("in_flight", "CMT-1", "n"), ("in_flight", "CMT-1", "n"), ("in_flight", "CMT-1", ""),
        ("waits_for_reader", "CMT-3", "away"),
    ]  # fmt: skip
    assert len(verdicts(client, offset=0)) == 1 + 3


@pytest.mark.parametrize("which", ["nobody", "1.9", "2.3", "3", "1.3 "])
def test_a_subscription_that_does_not_exist(client, which):
    client.ask(Subscribe(3, "t"))
    assert refusal(client, offset=0, subscription=which) == (ErrorCode.NO_SUCH_SUBSCRIPTION, "subscription")
    assert refusal(client, offset=9, subscription=which) == (ErrorCode.NO_SUCH_SUBSCRIPTION, "subscription")


def test_an_answer_has_so_many_subscriptions_and_says_so(client):
    """EXP-5."""
    client.ask(*(Subscribe(3 + number, "t") for number in range(MOST)))
    assert len(verdicts(client, offset=0)) == 1 + MOST
    client.ask(Subscribe(90, "t", "n", credit=1), Unsubscribe(91, 90))
    found = verdicts(client, offset=0)
    assert fates(found) == ["readable", *["in_flight"] * MOST, "more"]
    assert seen(found[-1], "shown") == ("more", "EXP-5", MOST)
    assert at_reader(client, offset=0, subscription="n")["fate"] == "waits_for_reader"


def test_a_topic_whose_name_begins_like_another_s_subscriptions(client):
    made(client, "t#0", RETENTION_TTL_MS=FOREVER)
    client.ask(Subscribe(3, "t#0"))
    assert at_reader(client, offset=0)["fate"] == "no_reader"


# -- rights --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(client):
    """Ana and bob read the topic, and each has published something that was refused."""
    rights = [("subscribe", "t"), ("describe", "t"), ("publish", "t")]
    talks = [Talk(client.broker, Somebody(name, *rights)) for name in ("ana", "bob")]
    for number, talk in enumerate(talks):
        talk.ask(Subscribe(3, "t", f"name of {talk.user.name}", credit=5))
        talk.ask(Publish(0, "t", batch((b"key", b"x")), producer=5, sequence=1 + number))
    return talks


@pytest.mark.parametrize("rights", [(), ("describe",), ("subscribe",), ("publish", "create", "delete")])
@pytest.mark.parametrize("message", [{"offset": 0}, {"key": b"k"}, {"key": b"x" * 2000}, {"subscription": "n"}])
def test_a_topic_that_a_user_may_not_read_and_see_does_not_exist(client, rights, message):
    """ACC-2, ACC-5, EXP-5: word for word."""
    eve = Talk(client.broker, Somebody("eve", *((right, name) for right in rights for name in "tu")))
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
    assert fates(verdicts(bob, key=b"k")) == ["readable", "in_flight", "kept_out", "kept_out", "window_open"]


def test_who_may_see_the_broker_sees_all(shared):
    """ACC-5."""
    ana, _ = shared
    ana.user.rights.add(("describe", "$broker"))
    assert [it["evidence"]["user"] for it in verdicts(ana, offset=0)[1:]] == ["ana", "bob"]
    assert {it["evidence"]["user"] for it in verdicts(ana, offset=1)[1:]} == {"ana", "bob"}
