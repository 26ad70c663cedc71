"""What users with a login try: others' names, others' topics, and what they once could read.

As if it did not exist.
"""

import contextlib
import json
import unicodedata

import anyio
import pytest
from attacked import GUARD, attacked_broker
from raw_client import (
    DELETE,
    DESCRIBE,
    DISCONNECT,
    ENDED,
    ERROR,
    GO_AWAY,
    HELLO,
    MESSAGES,
    PRODUCER_UNKNOWN,
    PUBLISH,
    SUBSCRIBE,
    TABLES,
    UNSUBSCRIBE,
    commit,
    create,
    delete,
    describe,
    disconnect,
    frame,
    hello,
    publish,
    subscribe,
    unsubscribe,
)

import zaichik
from zaichik_protocol import EndCode, ErrorCode, GoAwayCode

pytestmark = pytest.mark.anyio

FORBIDDEN = ErrorCode.FORBIDDEN
FORGET = 1
TOPICS, SUBSCRIPTIONS, CONNECTIONS, BROKER, ABOUT_TOPICS = 1, 2, 3, 0, (4, 5, 6, 7)
BOTH = "user ana\nallow all *\nallow all $broker\nuser boris\nallow publish,subscribe,create *\n"


@pytest.fixture
async def broker(tmp_path):
    async with attacked_broker(tmp_path / "access") as running:
        yield running


@pytest.fixture
async def open_broker(tmp_path):
    """One where both may read and write everything."""
    async with attacked_broker(tmp_path / "access", BOTH) as running:
        yield running


async def code(client, kind, body, **how):
    answer = await client.request(kind, body, **how)
    return answer.code if answer.kind == ERROR else None


def told(answer):
    """What a page says, apart from when."""
    return {
        key: value
        for key, value in json.loads(answer.json).items()
        if key not in ("now_us", "boot")
    }


# -- names

NFC, NFD = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")
TRICKY = [
    "*",
    "#",
    "+",
    "%u",
    "%u/x",
    NFC,
    NFD,
    "secret",
    "Secret",
    " secret",
    "secret ",
    "secret\u200b",
    "",
    "x" * 255,
]
RULES = (
    "user ana\nallow all *\nallow all $broker\nuser boris\ndeny all secret*\ndeny all "
    f"{NFC}\nallow all *\n"
)
REQUESTS = {
    "publish": lambda name: (PUBLISH, publish(name, [b"x"])),
    "subscribe": lambda name: (SUBSCRIBE, subscribe(name)),
    "subscribe by name": lambda name: (SUBSCRIBE, subscribe(name, name="queue")),
    "the journal": lambda name: (SUBSCRIBE, subscribe(f"$journal/{name}")),
    "the journal by name": lambda name: (SUBSCRIBE, subscribe(f"$journal/{name}", name="queue")),
    "the journal of the journal": lambda name: (SUBSCRIBE, subscribe(f"$journal/$journal/{name}")),
    "create": lambda name: (2, create(name)),
    "delete": lambda name: (DELETE, delete(name)),
}


@pytest.mark.parametrize("kind", REQUESTS)
async def test_one_rule_decides_about_a_name_however_it_is_asked_for(tmp_path, kind):
    """ACC-2: letter by letter; a name under which somebody subscribes, or a journal, is no way
    around.
    """
    async with attacked_broker(tmp_path / "access", RULES) as broker, broker.raw("boris") as client:
        for name in TRICKY:
            if not name and kind != "publish":
                continue
            denied = name.startswith("secret") or name == NFC
            found = await code(client, *REQUESTS[kind](name))
            if kind == "the journal of the journal":
                assert found is not None, name
            else:
                assert (found == FORBIDDEN) == denied, name
        assert {topic.name for topic in broker.server.broker.registry} & {"secret", NFC} == set()


async def test_two_users_with_one_subscription_name_have_two_positions(open_broker):
    """ACC-3: neither resumes, takes over, settles or forgets the other's."""
    async with open_broker.raw("ana") as ana, open_broker.raw("boris") as boris:
        await ana.create("t", {1: 1000})
        await ana.publish("t", *[b"x"] * 4)
        hers, his = await ana.subscribe("t", name="n"), await boris.subscribe("t", name="n")
        assert [his.flags, his.start, hers.start] == [1, 0, 0]
        await ana.messages(hers.id, 0, 1, 2, 3)
        await ana.commit(hers.id, 3)
        await boris.messages(his.id, 0, 1, 2, 3)
        assert await code(boris, UNSUBSCRIBE, unsubscribe(his.id), flags=FORGET) is None
        await ana.unsubscribe(hers.id)
        again = await ana.subscribe("t", name="n")
        assert (again.flags, again.start) == (3, 3)
        assert not boris.events


async def test_subscriptions_of_others_cannot_be_settled_or_ended_by_their_number(open_broker):
    async with open_broker.raw("ana") as ana, open_broker.raw("boris") as boris:
        hers = await ana.subscribe("t")
        await ana.publish("t", b"x")
        assert await code(boris, 6, commit(hers.id, 1)) == ErrorCode.NO_SUCH_SUBSCRIPTION
        assert (
            await code(boris, UNSUBSCRIBE, unsubscribe(hers.id)) == ErrorCode.NO_SUCH_SUBSCRIPTION
        )
        await ana.messages(hers.id, 0)


async def test_two_users_with_one_producer_id_are_two_producers(open_broker):
    """ACC-3: a duplicate tells nobody what another user has published, nor uses up its numbers."""
    async with open_broker.raw("ana") as ana, open_broker.raw("boris") as boris:
        for sequence in range(2):
            await ana.ok(PUBLISH, publish("t", [b"x"], producer=7, sequence=sequence))
        assert (
            await code(boris, PUBLISH, publish("t", [b"y"], producer=7, sequence=2))
            == PRODUCER_UNKNOWN
        )
        mine = await boris.ok(PUBLISH, publish("t", [b"y"], producer=7, sequence=0))
        assert (mine.flags, mine.first_offset) == (0, 2)
        more = await ana.ok(PUBLISH, publish("t", [b"x"], producer=7, sequence=2))
        assert more.first_offset == 3


async def test_what_is_hidden_answers_as_what_is_not_there(broker):
    """ACC-2, ACC-5: in every word but the name."""
    async with broker.raw("ana") as ana, broker.raw("boris") as boris:
        await ana.create("hidden", {1: 60_000, 2: 60_000})
        await ana.publish("hidden", (b"key", b"x"))
        await ana.subscribe("hidden", name="hers")
        for kind in REQUESTS:
            answers = []
            for name in ("hidden", "absent"):
                answer = await boris.request(*REQUESTS[kind](name))
                answers.append(
                    (answer.code, answer.field, answer.flags, answer.message.replace(name, "NAME"))
                )
            assert answers[0] == answers[1], kind
        for kind in (TOPICS, SUBSCRIPTIONS, *ABOUT_TOPICS):
            hidden, absent = [
                await boris.request(DESCRIBE, describe(kind, name)) for name in ("hidden", "absent")
            ]
            assert told(hidden) == told(absent), kind
            assert told(await ana.request(DESCRIBE, describe(kind, "hidden"))) != told(absent), kind
        victim = (await ana.request(DESCRIBE, describe(CONNECTIONS, limit=9))).json
        numbers = [row["connection"] for row in json.loads(victim)["connections"]]
        for number in (*numbers, 10**9):
            assert await code(boris, DISCONNECT, disconnect(number)) == FORBIDDEN


async def test_pages_of_describe_tell_nothing_of_what_is_left_out(broker):
    """ACC-5: neither by `more` nor by `after`."""
    async with broker.raw("ana") as ana, broker.raw("boris") as boris:
        for number in range(30):
            await ana.create(f"{'public' if number % 10 == 0 else 'qrs'}-{number:02}")
        after, found, pages = "", [], 0
        while True:
            answer = await boris.request(DESCRIBE, describe(TOPICS, after=after, limit=2))
            page = [topic["name"] for topic in json.loads(answer.json)["topics"]]
            found, pages = [*found, *page], pages + 1
            if not answer.more:
                break
            after = page[-1]
        assert (found, pages) == (["public-00", "public-10", "public-20"], 2)
        hidden = await boris.request(DESCRIBE, describe(TOPICS, after="qrs-05", limit=2))
        assert (hidden.more, told(hidden)) == (0, {"topics": []})
        for kind in (SUBSCRIPTIONS, CONNECTIONS, BROKER):
            assert b"ana" not in (await boris.request(DESCRIBE, describe(kind, limit=9))).json


# -- rights that are withdrawn


@contextlib.contextmanager
def changed(broker, rules):
    (broker.folder / "rules").write_text(rules)
    assert broker.gate.reload()
    broker.server.sweep()
    yield


def remove(broker, user):
    text = json.loads((broker.folder / "users.json").read_text())
    text["users"] = [one for one in text["users"] if one["name"] != user]
    (broker.folder / "users.json").write_text(json.dumps(text))
    broker.server.sweep()


async def test_a_right_that_is_withdrawn_ends_what_nobody_reads(broker):
    """ACC-4: the pins of a reader that reads nothing are gone with the sweep, and nothing comes any
    more.
    """
    settings = {3: 4, 7: 1, 1: 2**64 - 1}
    async with broker.raw("ana") as ana, broker.raw("boris") as boris:
        await ana.create("public", settings)
        mine = await boris.subscribe("public", credit=1)
        journal = await boris.request(SUBSCRIBE, subscribe("$journal/public"))
        await ana.publish("public", *[b"secret"] * 4)
        assert await code(ana, PUBLISH, publish("public", [b"x"] * 4)) == ErrorCode.TOPIC_FULL
        with changed(broker, "user ana\nallow all *\n"):
            await ana.publish(
                "public", *[b"later"] * 4
            )  # the place is free though boris has read nothing
        got = [await boris.read()]
        while got[-1].kind == MESSAGES and got[-1].id == mine.id:
            got.append(await boris.read())
        assert (got[-1].kind, got[-1].code) == (ENDED, EndCode.FORBIDDEN)
        assert sum(len(it.messages) for it in got[:-1]) <= 1  # for which there was credit
        if journal.kind != ERROR:
            assert (await boris.read()).code == EndCode.FORBIDDEN
        assert await code(boris, SUBSCRIBE, subscribe("public")) == FORBIDDEN
        assert await code(boris, DESCRIBE, describe(TOPICS, "public", limit=1)) is None
        assert b"public" not in boris.log[-1].fields["json"]


async def test_a_user_who_follows_topics_is_told_of_those_it_may_read(broker):
    """PAT-5: also after the rules have changed, when everybody begins again."""
    async with broker.raw("ana") as ana, broker.raw("boris", features=TABLES) as boris:
        await ana.create("public")
        await ana.create("hidden")
        reading = await boris.subscribe("$topics", credit=9)
        assert await names_of(boris, reading) == [b"public"]
        await ana.request(DELETE, delete("hidden"))
        await ana.create("hidden")
        await boris.ping()
        with changed(broker, "user ana\nallow all *\nuser boris\nallow subscribe hidden\n"):
            ended = await boris.event(ENDED, reading.id)
        assert ended.code == EndCode.DELETED
        assert not boris.events
        again = await boris.subscribe("$topics", credit=9)
        assert again.epoch > reading.epoch
        assert await names_of(boris, again) == [b"hidden"]


async def names_of(client, reading):
    messages = (await client.event(MESSAGES, reading.id)).messages
    return [name for _, name, _ in messages]


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_right_that_is_withdrawn_frees_what_a_name_kept(broker, is_away):
    """ACC-4: or else whoever may no longer read a lossless topic stops those who write to it."""
    async with broker.raw("ana") as ana:
        await ana.create("public", {3: 4, 7: 1, 1: 2**64 - 1})
        async with contextlib.AsyncExitStack() as while_there:
            boris = await while_there.enter_async_context(broker.raw("boris"))
            await boris.subscribe("public", name="n", credit=1)
            if is_away:
                await while_there.aclose()
                await only(broker, 1)
            await ana.publish("public", *[b"x"] * 4)
            assert await code(ana, PUBLISH, publish("public", [b"x"])) == ErrorCode.TOPIC_FULL
            with changed(broker, "user ana\nallow all *\n"):
                await ana.publish("public", *[b"later"] * 4)
            with changed(
                broker, "user *\nallow all *\n"
            ):  # the position is still there, and keeps messages again
                assert await code(ana, PUBLISH, publish("public", [b"x"])) == ErrorCode.TOPIC_FULL


async def test_a_user_who_is_removed_keeps_nothing_by_a_name(broker):
    async with broker.raw("ana") as ana:
        await ana.create("public", {3: 4, 7: 1, 1: 2**64 - 1})
        async with broker.raw("boris") as boris:
            await boris.subscribe("public", name="n")
        await ana.publish("public", *[b"x"] * 4)
        remove(broker, "boris")
        await ana.publish("public", *[b"later"] * 4)


async def test_a_user_who_is_removed_is_gone_though_it_reads_nothing(broker):
    async with broker.raw("ana"), broker.raw("boris") as boris:
        await boris.send(frame(SUBSCRIBE, 2, subscribe("public")))
        remove(broker, "boris")
        frames = await boris.rest()
        assert (frames[-1].kind, frames[-1].code) == (GO_AWAY, GoAwayCode.CREDENTIALS_ENDED)


# -- the operator's way in (CLO-5)


async def test_the_operators_place_in_a_full_broker_needs_a_login_and_a_right(tmp_path):
    settings = zaichik.BrokerSettings(max_connections=1)
    async with (
        attacked_broker(tmp_path / "access", settings=settings) as broker,
        broker.raw("boris") as hog,
    ):
        await hog.ping()
        async with broker.encrypted(source="127.0.0.1") as stranger:
            assert await code(stranger, HELLO, hello()) == ErrorCode.AUTH_FAILED
        await only(broker, 1)
        async with broker.raw("boris") as client:
            rows = json.loads(
                (await client.request(DESCRIBE, describe(CONNECTIONS, limit=9))).json
            )["connections"]
            assert await code(client, DISCONNECT, disconnect(rows[0]["connection"])) == FORBIDDEN
        await only(broker, 1)
        async with broker.client("ana") as operator:
            (taken, _) = await operator.connections()
            await operator.disconnect(taken["connection"])
        assert (await hog.read()).kind == GO_AWAY


async def only(broker, number):
    with anyio.fail_after(GUARD):
        while len(broker.server.broker.managers) > number:
            await anyio.lowlevel.checkpoint()
