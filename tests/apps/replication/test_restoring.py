"""A restore: the same topic, and no offset of it for another message; or a sentence, and nothing.

What Kafka has is read by a client from a broker here, as a bridge does.
"""

from contextlib import asynccontextmanager

import anyio
import pytest
from brokers import GUARD, START_US
from copied import SETTINGS, copied, gap, message, restored

import zaichik
from zaichik.apps.replication.restoring import SKIP, CannotRestore
from zaichik.storage.disk import PosixDisk
from zaichik.storage.repair.checking import check
from zaichik.storage.store import opened
from zaichik_protocol import FOREVER, Setting

pytestmark = pytest.mark.anyio
SECOND_US = 1_000_000


@asynccontextmanager
async def broker(folder, at_us=START_US):
    """A broker of that folder, whose clock stands there, and a client of it."""
    clock = zaichik.ManualClock(at_us)
    with anyio.fail_after(GUARD):
        async with (
            zaichik.running_broker(clock=clock, data=folder) as running,
            zaichik.connect(port=running.port) as client,
        ):
            client.clock = clock
            yield client


async def all_of(client, topic="orders"):
    """All that there is to be read of a topic, and what a reader is told besides."""
    state = await client.topic(topic)
    reading = client.subscribe(topic, start=0, until=state["next_offset"], events=True)
    async with reading as subscription:
        return [item async for item in subscription]


def messages(items):
    return [item for item in items if isinstance(item, zaichik.Message)]


async def original(folder, **settings):
    """A topic with messages of several times, with keys and without: its records in Kafka."""
    async with broker(folder) as client:
        made = await client.create_topic("orders", durable=True, **settings)
        for number in range(10):
            await client.publish_batch(
                "orders", [(b"%d" % number, b"x" * number), (None, b""), (b"same", b"\0\xff")]
            )
            client.clock.move_to(START_US + (number + 1) * SECOND_US)
        return copied(await all_of(client), made.epoch, made.settings), made


# -- what is restored --------------------------------------------------------------------------


async def test_epoch_offsets_times_keys_payloads_and_settings_are_the_same(tmp_path):
    """RS-1."""
    records, made = await original(tmp_path / "a", retention_ttl="forever", log_bytes=2**24)
    done = restored(tmp_path / "b", records)
    assert (done.epoch, done.messages, done.missing, done.last) == (made.epoch, 30, 0, 29)
    async with (
        broker(tmp_path / "a", START_US + 60 * SECOND_US) as before,
        broker(tmp_path / "b", START_US + 60 * SECOND_US) as after,
    ):
        there, here = await before.topic("orders"), await after.topic("orders")
        assert (here["epoch"], here["settings"]) == (there["epoch"], there["settings"])
        assert messages(await all_of(after)) == await all_of(before)


async def test_a_window_that_was_open_is_open_again(tmp_path):
    """RS-1: it follows from the messages, and ends when it would have ended."""
    records, _ = await original(tmp_path / "a", compaction_window=20.0)
    kept = [item for item in records if item.key() == b"same"]
    assert len(kept) == 1
    restored(tmp_path / "b", records)
    for seconds, is_kept in ((19, False), (20, True)):
        async with broker(tmp_path / "b", START_US + seconds * SECOND_US) as client:
            result = await client.publish("orders", b"again", key=b"same")
            assert (result.offset is not None) is is_kept


async def test_the_next_message_comes_behind_the_gap_and_readers_are_told(tmp_path):
    """RS-3."""
    records, _ = await original(tmp_path / "a")
    restored(tmp_path / "b", records)
    async with broker(tmp_path / "b", START_US + 60 * SECOND_US) as client:
        assert (await client.publish("orders", b"next")).offset == 30 + SKIP
        state = await client.topic("orders")
        assert (state["damaged"], state["resident"]) == (SKIP, 31)
        # One that has read a message which is not in Kafka: it gets no other one for it.
        async with client.subscribe(
            "orders", start=32, epoch=state["epoch"], events=True
        ) as subscription:
            told = await anext(subscription)
            assert told == zaichik.Lagged("orders", 32, 30 + SKIP)
            assert (await anext(subscription)).payload == b"next"
        explained = await client.explain("orders", offset=31)
        (verdict, *_) = explained["verdicts"]
        assert (verdict["fate"], verdict["evidence"]["next"]) == ("damaged", 30 + SKIP)
        assert "restore" in verdict["text"]


async def test_a_restored_topic_is_whole_to_a_check(tmp_path):
    records, _ = await original(tmp_path / "a")
    restored(tmp_path / "b", records)
    (checked,) = check(PosixDisk(tmp_path / "b"))
    assert (checked.problems, checked.hopeless, checked.messages) == ([], [], 30)
    assert sum(end - start for start, end in checked.lost) == SKIP


async def test_a_restored_topic_can_be_restored_again(tmp_path):
    """RS-3: over the gap of the first restore, which its bridge has passed."""
    records, made = await original(tmp_path / "a")
    restored(tmp_path / "b", records)
    async with broker(tmp_path / "b", START_US + 60 * SECOND_US) as client:
        await client.publish("orders", b"next")
        found = await all_of(client)
    # The bridge goes on after the last record that Kafka has.
    more = copied([item for item in found if getattr(item, "offset", 30) >= 30], made.epoch, {})
    done = restored(tmp_path / "c", records + more)
    assert (done.messages, done.missing, done.last) == (31, SKIP, 30 + SKIP)
    async with broker(tmp_path / "c", START_US + 90 * SECOND_US) as client:
        assert await all_of(client) == [*found, zaichik.Lagged("orders", 31 + SKIP, done.next)]
        assert (await client.publish("orders", b"once more")).offset == 31 + 2 * SKIP


def test_gaps_of_the_bridge_are_gaps(tmp_path):
    told = [gap(0, 4, 7, settings=SETTINGS), message(4), gap(5, 9, 1004), message(9)]
    done = restored(tmp_path, told, skip=0)
    assert (done.messages, done.missing, done.next) == (2, 8, 10)
    (checked,) = check(PosixDisk(tmp_path))
    assert (checked.problems, checked.lost) == ([], [(0, 4), (5, 9)])


def test_messages_of_one_time_are_few_records_and_never_a_large_one(tmp_path):
    """A reader reads at least one record at once."""
    large = [message(number, 5, None, bytes(100_000)) for number in range(10)]
    small = [message(number, 6, None, b"") for number in range(10, 9000)]
    restored(tmp_path, large + small, skip=0)
    (checked,) = check(PosixDisk(tmp_path))
    assert checked.messages == 9000
    (part,) = checked.parts
    # Ten of 100 kB in records of three, and two records of the others.
    assert 1_000_000 < part.segment.size < 1_000_000 + 9000 * 8 + 20 * 4096


# -- settings ------------------------------------------------------------------------------------


def settings_of(folder):
    (checked,) = check(PosixDisk(folder))
    return checked.topic.settings


def test_settings_that_are_named_hold_in_place_of_those_that_it_had(tmp_path):
    pairs = ((Setting.LOG_BYTES, 2**26),)
    restored(tmp_path, [message(0, settings=SETTINGS)], pairs=pairs)
    found = settings_of(tmp_path)
    assert (found["log_bytes"], found["retention_ttl_ms"]) == (2**26, FOREVER)


def test_a_topic_that_was_in_memory_becomes_a_durable_one(tmp_path):
    """Also one that has kept nothing for latecomers, and one with a journal."""
    had = {"retention_ttl_ms": 0, "capacity": 5, "journal_bytes": 1000}
    restored(tmp_path, [message(0, settings=had)])
    found = settings_of(tmp_path)
    assert (found["durable"], found["retention_ttl_ms"]) == (1, FOREVER)
    assert (found["capacity"], found["journal_bytes"]) == (5, 0)


def test_without_settings_in_kafka_the_defaults_hold(tmp_path):
    restored(tmp_path, [message(0)])
    assert settings_of(tmp_path)["retention_ttl_ms"] == FOREVER


# -- what is refused -----------------------------------------------------------------------------

REFUSED = {
    "nothing is there": ([], "no committed record"),
    "it does not begin at the beginning": ([message(5)], "is message 5 of the topic"),
    "another epoch": ([message(0), message(1, epoch=8)], "epoch 8, and those before it"),
    "something is missing": ([message(0), message(2)], "message 2, and message 1 comes next"),
    "something is missing after a gap": ([gap(0, 3, 7), message(4)], "and message 3 comes next"),
    "something comes twice": ([message(0), message(0)], "message 0, which came before"),
    "a gap comes twice": ([gap(0, 3, 7), gap(0, 3, 7)], "message 0, which came before"),
    "time goes back": ([message(0), message(1, 5)], "of an earlier time"),
    "others write there": ([message(0), "foreign"], "was not written by `zaichik bridge`"),
    "a setting of a later version": (
        [message(0, settings={"colour": 3})],
        "the topic's setting 'colour' is 3",
    ),
    "a table": ([message(0, settings={"table": 1})], "was a table"),
    "settings that do not go together": (
        [message(0, settings={"log_bytes": 5})],
        "log_bytes is 5; it must be",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_all_of_one_topic_is_refused_and_nothing_is_left(case, tmp_path):
    records, sentence = REFUSED[case]
    foreign = message(1)
    foreign.headers().clear()
    records = [foreign if item == "foreign" else item for item in records]
    with pytest.raises(CannotRestore) as told:
        restored(tmp_path, records)
    assert sentence in str(told.value)
    assert [*(tmp_path / "topics").iterdir()] == []


def test_the_place_in_kafka_is_named(tmp_path):
    with pytest.raises(CannotRestore, match="at Kafka's offset 6 is message 2"):
        restored(tmp_path, [message(0), message(2)])


def test_a_topic_that_the_folder_has_is_left_alone(tmp_path):
    restored(tmp_path, [message(0)])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        CannotRestore, match=r"has a topic 'orders' already: .* move topics/orders\."
    ):
        restored(tmp_path, [message(0, epoch=8)])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert restored(tmp_path, [message(0)], topic="others").messages == 1


def test_no_broker_can_use_the_folder_meanwhile(tmp_path):
    disk, lock = opened(tmp_path)
    try:
        with pytest.raises(zaichik.CannotOpen, match="another broker uses"):
            opened(tmp_path)
    finally:
        lock.release()
    assert disk.files("topics") == {}
