"""Readings of a broker, as those who look at it get them."""

from collections import deque
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest

import zaichik
from zaichik.apps.views.topic_state import TopicState
from zaichik.apps.views.topics import Topics
from zaichik.apps.watch import polling
from zaichik.apps.watch.polling import Poller, TopicPoll
from zaichik.client.client import connect
from zaichik.client.errors import InvalidField
from zaichik_protocol import Error, ErrorCode

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch):
    monkeypatch.setattr(polling, "REST", 0)


@asynccontextmanager
async def connected():
    async with (
        zaichik.running_broker() as server,
        connect("127.0.0.1", server.port, name="a view") as client,
    ):
        yield client


async def test_a_reading_has_the_topic_its_readers_and_its_last_messages():
    async with connected() as client:
        await client.create_topic("t", retention_ttl="forever")
        for payload in (b"plain", b'{"a": 1}', b"\xff\xfe", "ä".encode() * 400):
            await client.publish("t", payload, key=b"k")
        async with client.subscribe("t", name="r"):
            page = await TopicPoll(Poller(client), "t").reading()
    state = TopicState.of(page)
    assert (state.name, state.head, state.next_offset) == ("t", 0, 4)
    assert state.boot
    assert state.now_us
    (reader,) = state.readers
    assert reader["client"] == "a view"
    told = [
        (it["offset"], it["key"], it["format"], it["size"], it["is_cut"]) for it in state.messages
    ]
    assert told == [
        (0, "k", "text", 5, False),
        (1, "k", "json", 8, False),
        (2, "k", "hex", 2, False),
        (3, "k", "text", 800, True),
    ]
    assert state.messages[2]["payload"] == "ff fe"
    assert state.messages[3]["payload"] == "ä" * 256


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "text"),
        (b'{"a":' * 100_000, "text"),
        (b"[" * 256 + b"]" * 256, "json"),
        (b'[1, "' + b"x" * 600 + b'"]', "text"),  # not all of it is shown
        (b"[" + b"7" * 5000 + b"]", "text"),
        (b"{]", "text"),
        (b"{}\xff", "hex"),
    ],
)
async def test_of_a_payload_no_more_is_parsed_than_is_shown(payload, kind):
    """Payloads are strangers' data: one of them must not hide the topic from everybody."""
    async with connected() as client:
        await client.create_topic("t", retention_ttl="forever")
        await client.publish("t", b"two apples")
        await client.publish("t", payload)
        page = await TopicPoll(Poller(client), "t").reading()
    first, second = page["messages"]
    assert first["payload"] == "two apples"
    assert second["format"] == kind
    assert second["size"] == len(payload)
    assert len(second["payload"]) <= 3 * polling.PAYLOAD_BYTES


def test_a_payload_that_is_nested_too_deeply_for_the_stack_is_text(monkeypatch):
    def loads(_):
        raise RecursionError

    monkeypatch.setattr(polling, "json", SimpleNamespace(loads=loads))
    assert polling._kind("[]", is_whole=True) == "text"


async def test_what_strangers_wrote_is_printable_in_a_reading():
    async with connected() as client:
        await client.create_topic("t", retention_ttl="forever")
        await client.publish("t", b"\x1b[2J\xc2\x9b", key=b"\xffk\n")
        page = await TopicPoll(Poller(client), "t").reading()
    (message,) = page["messages"]
    assert message["payload"].isprintable()
    assert message["key"].isprintable()


@pytest.mark.parametrize(
    "options", [{"overflow": "reject", "retention_ttl": "forever"}, {"retention_ttl": 0}]
)
async def test_a_topic_that_waits_for_its_readers_is_not_read(options):
    async with connected() as client:
        await client.create_topic("t", **options)
        async with client.subscribe("t", credit=1):
            await client.publish("t", b"x")
            page = await TopicPoll(Poller(client), "t").reading()
    assert page["messages"] == []
    assert any("holds it up" in words for words in page["missing"])


async def test_the_last_messages_of_a_table_are_found_beyond_its_holes_and_tombstones_are_told():
    async with connected() as client:
        await client.create_topic("t", table=True)
        poll = TopicPoll(Poller(client), "t")
        for key in ("old", "gone"):
            await client.publish("t", b"x", key=key)
        for _ in range(polling.MESSAGES + 5):
            await client.publish("t", b"x", key="hot")
        await client.publish("t", None, key="gone")
        page = await poll.reading()
    last = polling.MESSAGES + 5 + 2
    assert page["readable"] == [1, 1, 1]
    assert [(it["offset"], it["key"], it["is_tombstone"]) for it in page["messages"]] == [
        (0, "old", False),
        (last - 1, "hot", False),
        (last, "gone", True),
    ]


async def test_of_a_large_table_no_more_messages_are_read_than_are_shown():
    """Also if most of them have come since its marks were asked for."""
    async with connected() as client:
        await client.create_topic("t", table=True)
        poll = TopicPoll(Poller(client), "t")
        counts = []
        for more in (200, 1, 10, 300):
            await client.publish_batch("t", [(b"%d %d" % (more, n), b"x") for n in range(more)])
            poll._due.pop("messages", None)
            page = await poll.reading()
            counts.append([message["offset"] for message in page["messages"]])
    assert [len(offsets) for offsets in counts] == [polling.MESSAGES] * 4
    assert [offsets[-1] for offsets in counts] == [199, 200, 210, 510]


async def test_what_is_empty_in_a_topic_that_is_no_table_is_no_tombstone():
    async with connected() as client:
        await client.create_topic("t", retention_ttl="forever")
        await client.publish("t", b"", key="k")
        page = await TopicPoll(Poller(client), "t").reading()
    (message,) = page["messages"]
    assert (message["payload"], message["is_tombstone"]) == ("", False)


async def test_what_was_read_of_a_deleted_topic_is_not_told_of_the_next_one_of_its_name():
    async with connected() as client:
        poll, told = TopicPoll(Poller(client), "t"), []
        for payload in (b"old", b"new"):
            await client.create_topic("t", retention_ttl="forever")
            await client.publish("t", payload)
            page = await poll.reading()
            told.append([message["payload"] for message in page["messages"]])
            await client.delete_topic("t")
    assert told == [["old"], ["new"]]


async def test_there_is_no_reading_of_a_topic_that_does_not_exist():
    async with connected() as client:
        await client.create_topic("topic")
        assert await TopicPoll(Poller(client), "t").reading() is None
        assert [topic["name"] for topic in await client.topics()] == ["topic"]


async def test_a_reading_does_not_mix_topics_whose_names_begin_alike():
    async with connected() as client, client.subscribe("t"), client.subscribe("t#a"):
        page = await TopicPoll(Poller(client), "t").reading()
    assert [reader["topic"] for reader in page["readers"]] == ["t"]


async def test_drops_are_counted_from_the_journal():
    async with connected() as client, anyio.create_task_group() as tasks:
        await client.create_topic("t", compaction_window=60, journal=1024 * 1024)
        poll = TopicPoll(Poller(client), "t")
        tasks.start_soon(poll.follow_journal)
        with anyio.fail_after(60):
            while not (page := await poll.reading())["drops"]:
                await client.publish("t", b"x", key=b"k")
        tasks.cancel_scope.cancel()
    assert set(page["drops"]) == {"k"}


async def test_counters_tell_of_every_topic():
    async with connected() as client:
        for number in range(9):
            await client.publish(f"t{number}", b"x")
        rows = [row async for _, page in Poller(client).counters(0) for row in page]
    assert [row["name"] for row in rows] == [f"t{number}" for number in range(9)]
    assert {row["published"] for row in rows} == {1}
    assert {"refused", "needed_us", "capacity", "subscriptions"} <= set(rows[0])


async def test_an_old_broker_is_asked_once_for_what_it_does_not_know():
    asked = []

    class Old:
        async def describe_page(self, kind, *_, **__):
            asked.append(kind)
            raise InvalidField(Error(1, ErrorCode.INVALID_FIELD, 0, "kind", 0, "unknown"))

    poller = Poller(Old())
    for _ in range(2):
        assert await poller.pages(7, "subscriptions") == []
    assert asked == [7]


async def test_counters_of_an_old_broker_come_from_its_topics():
    """What the first edition tells of a topic is enough for a table; its topics had no disk to be
    damaged.
    """
    topic = {
        "name": "orders",
        "settings": {"capacity": 10},
        "head": 0,
        "needed": 2,
        "next_offset": 2,
        "published": 2,
    }

    class Old:
        async def describe_page(self, kind, *_, **__):
            if kind == 1:
                return {"topics": [{**topic, "bytes": 9, "subscriptions": 0}]}, False
            raise InvalidField(Error(1, ErrorCode.INVALID_FIELD, 0, "kind", 0, "unknown"))

    ((now_us, rows),) = [page async for page in Poller(Old()).counters(7)]
    assert now_us == 7
    table = Topics(most=2)
    table.seen(rows[0], now_us)
    assert (table.rows["orders"].held, table.rows["orders"].capacity) == (2, 10)


@pytest.fixture
def timed(monkeypatch):
    """A function that asks one question whose answers take so many seconds; returns the rests after
    them.
    """
    now, rests = [100.0], []

    async def sleep_until(at):
        rests.append(round(at - now[0], 6))
        now[0] = max(now[0], at)

    async def asked(answers, trips=None):
        poller, left = Poller(None), iter((*answers, 0.0))

        async def slow():
            now[0] += next(left)

        for _ in range(len(answers) + 1):
            await poller.ask(slow, trips)
        return rests[1:]

    monkeypatch.setattr(polling, "REST", 50)
    monkeypatch.setattr(
        polling,
        "anyio",
        SimpleNamespace(current_time=lambda: now[0], sleep_until=sleep_until, Lock=anyio.Lock),
    )
    return asked


async def test_after_each_question_the_broker_is_left_alone_for_many_times_as_long_as_it_took(
    timed,
):
    rests = await timed([0.02, 0.01, 100.0])
    assert rests == [50 * 0.02, 50 * 0.01, 2.0], (
        "nor is it left alone for an hour because a computer slept"
    )


async def test_an_answer_that_only_waited_for_the_processor_calls_for_no_longer_rest(timed):
    rests = await timed([0.01, 0.03, 0.02, 0.03], deque(maxlen=3))
    assert rests == [50 * 0.01, 50 * 0.01, 50 * 0.01, 50 * 0.02], (
        "what has become more work is noticed in the end"
    )


async def test_a_topic_that_goes_on_fast_while_the_broker_rests_has_last_messages(caplog):
    async with connected() as client:

        class Resting(Poller):
            async def ask(self, *question):
                for number in range(3):
                    await client.publish("t", b"%d" % number)
                return await super().ask(*question)

        await client.create_topic("t", retention_ttl="forever", capacity=2)
        page = await TopicPoll(Resting(client), "t").reading()
    assert [message["payload"] for message in page["messages"]] == ["1", "2"]
    assert not caplog.messages


async def test_who_asks_once_need_not_rest(monkeypatch):
    monkeypatch.setattr(polling, "REST", 1e9)
    monkeypatch.setattr(polling, "MOST_REST_SECONDS", 1e9)
    async with connected() as client:
        poller = Poller(client, rests=False)
        with anyio.fail_after(60):
            for _ in range(2):
                assert await poller.ask(client.describe)


async def test_readers_of_an_old_broker_are_those_that_it_lists_first(monkeypatch):
    async def furthest(*_):
        raise InvalidField(Error(1, ErrorCode.INVALID_FIELD, 0, "kind", 0, "unknown"))

    async with (
        connected() as client,
        client.subscribe("t"),
        client.subscribe("t#u"),
        client.subscribe("t"),
    ):
        monkeypatch.setattr(client, "furthest", furthest)
        poll = TopicPoll(Poller(client), "t")
        pages = [await poll.reading(), await poll.reading()]
        monkeypatch.setattr(polling, "MOST_READERS", 1)
        few = await TopicPoll(poll._poller, "t").reading()
    assert [[reader["topic"] for reader in page["readers"]] for page in pages] == [["t", "t"]] * 2
    assert len(few["readers"]) <= 2
