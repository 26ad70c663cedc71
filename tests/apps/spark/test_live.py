"""Statistics of a stream: what a folder keeps of them.

Their numbers are held against others in `test_equality`.
"""

import random
from datetime import timedelta
from unittest.mock import Mock

import pytest
from gated import gated_broker

from zaichik.apps.spark import live
from zaichik.apps.spark.carry import RAN_US
from zaichik.apps.spark.events import EVENTS, from_journal
from zaichik.apps.spark.storage import NoFileSystem, Storage
from zaichik.apps.statistics.chain import FOREVER_US

POLICIES = [(RAN_US, "first"), (10, "first")]


@pytest.fixture
def micro_batches(spark):
    """Three messages and two: of one key, each different, four units apart."""
    rows = [
        ("t", 5, number, 4 * number, b"k", number, 1, int(number % 3 > 0), None, None, None)
        for number in range(5)
    ]
    return [spark.createDataFrame(part, EVENTS) for part in (rows[:3], rows[3:])]


def sums(spark, folder):
    return {
        row["window_us"]: (row["messages"], row["kept"], row["differing"], row["delayed"])
        for row in live.sums(spark, folder).collect()
    }


def test_a_micro_batch_that_is_repeated_counts_once(spark, micro_batches, tmp_path):
    """As when the program is killed before Spark has noted that it was finished."""
    for batch in (0, 1, 1):
        live._count(
            Storage(spark, tmp_path), POLICIES, 100, live.MAX_KEYS, micro_batches[batch], batch
        )
    # Stored were those at 0 and 12. In a window of ten, too: 4 and 8 are dropped and seen at 12, 16
    # not yet.
    assert sums(spark, tmp_path) == {RAN_US: (5, 2, 3, 2), 10: (5, 2, 3, 2)}
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["0", "1"]


def test_a_micro_batch_that_was_killed_half_way_counts_once(spark, micro_batches, tmp_path):
    """After what it carries was written, and before its sums were."""
    storage = Storage(spark, tmp_path)
    for batch in (0, 1):
        live._count(storage, POLICIES, 100, live.MAX_KEYS, micro_batches[batch], batch)
    (tmp_path / "state" / "1" / "sums.json").unlink()
    assert sums(spark, tmp_path) == {RAN_US: (3, 1, 2, 0), 10: (3, 1, 2, 0)}
    live._count(storage, POLICIES, 100, live.MAX_KEYS, micro_batches[1], 1)
    assert sums(spark, tmp_path) == {RAN_US: (5, 2, 3, 2), 10: (5, 2, 3, 2)}


def test_a_stream_that_begins_anew_leaves_nothing_of_the_one_before(spark, micro_batches, tmp_path):
    """As when somebody takes away its checkpoint."""
    for batch in (0, 1, 0):
        live._count(
            Storage(spark, tmp_path), POLICIES, 100, live.MAX_KEYS, micro_batches[batch], batch
        )
    assert sums(spark, tmp_path) == {RAN_US: (3, 1, 2, 0), 10: (3, 1, 2, 0)}


@pytest.mark.parametrize("name", ["a[1]", "a{b,c}", "a{b", "a\\b", "a*?", "a:b"])
def test_a_folder_may_be_called_whatever_a_file_system_accepts(
    spark, micro_batches, tmp_path, name
):
    """Spark and Hadoop take some letters of a path for a pattern."""
    folder = tmp_path / name
    storage = Storage(spark, folder)
    for number, events in enumerate(micro_batches):
        live._count(storage, POLICIES, 10**9, 100, events, number)
    assert live._versions(storage) == [0, 1]
    assert sums(spark, folder)[10][0] == 5


def test_before_the_first_micro_batch_there_are_no_sums(spark, tmp_path):
    assert sums(spark, tmp_path / "nowhere") == {}


def test_a_folder_keeps_to_its_windows(spark, tmp_path):
    """Those that it counts already know the past, others would not."""
    events = spark.readStream.format("rate").load()
    hour, day = timedelta(hours=1), timedelta(days=1)
    live.writer(events, tmp_path / "new", [hour, day])
    live.writer(events, tmp_path / "new", [day, hour])
    with pytest.raises(live.OtherWindows, match="counts other windows"):
        live.writer(events, tmp_path / "new", [hour])
    with pytest.raises(live.OtherWindows, match="counts other windows"):
        live.writer(events, tmp_path / "new", [hour, day], max_keys=5)


def test_windows_that_never_close_are_forgotten_as_the_broker_forgets_them(broker, spark, tmp_path):
    """COM-6: with the setting of the topic, the numbers are its counters, and what is carried is
    bounded by it, too.
    """
    dice = random.Random(3)
    broker.create("t", compaction_window="forever", max_keys=5, journal=2**20)
    for _ in range(30):
        broker.clock.advance(1)
        broker.publish(
            "t", [(b"%d" % dice.randrange(12), b"%d" % dice.randrange(2)) for _ in range(5)]
        )
    options = {"broker": broker.address, "topic": "$journal/t", "maxMessagesPerTrigger": "43"}
    events = from_journal(spark.readStream.format("zaichik").options(**options).load())
    counting = live.writer(
        events, tmp_path, ["forever"], ["first"], timedelta(seconds=1), max_keys=5
    )
    counting.trigger(availableNow=True).start().awaitTermination()
    (counters,) = broker.topics("t")
    assert counters["forgotten_windows"] > 20
    by_window = sums(spark, tmp_path)
    assert (
        by_window[FOREVER_US][:2]
        == by_window[RAN_US][:2]
        == (counters["published"], counters["stored"])
    )
    carried = spark.read.parquet(str(tmp_path / "state" / "3" / "carried"))
    keys = carried.where(f"window_us = {FOREVER_US}").select("key").distinct().count()
    assert 5 <= keys <= 5 + 5


@pytest.fixture
def elsewhere(spark, tmp_path):
    """A folder of Spark's default file system, which for this test is not the local one.

    Where it really is, too.
    """
    configuration = spark._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    real = tmp_path / "real"
    real.mkdir()
    configuration.set("fs.viewfs.mounttable.elsewhere.link./data", real.as_uri())
    configuration.set("fs.defaultFS", "viewfs://elsewhere/")
    yield f"/data/{tmp_path.name}", real / tmp_path.name
    configuration.set("fs.defaultFS", before)


def test_where_the_default_file_system_is_not_the_local_one_nothing_is_lost(
    spark, micro_batches, elsewhere, tmp_path
):
    """All of the state is there: what Spark writes, and what Python looks for."""
    folder, real = elsewhere
    for batch in (0, 1):
        live._count(
            Storage(spark, folder), POLICIES, 100, live.MAX_KEYS, micro_batches[batch], batch
        )
    assert sums(spark, folder) == {RAN_US: (5, 2, 3, 2), 10: (5, 2, 3, 2)}
    assert sorted(path.name for path in (real / "state").iterdir()) == ["0", "1"]
    stream = spark.readStream.format("rate").load()
    live.writer(stream, folder, [timedelta(hours=1)])
    with pytest.raises(live.OtherWindows, match="counts other windows"):
        live.writer(stream, folder, [timedelta(hours=2)])
    assert (real / "policies.json").exists()
    assert not (tmp_path / "data").exists()


def test_a_session_without_a_java_of_its_own_is_refused():
    with pytest.raises(NoFileSystem, match="Spark Connect"):
        Storage(Mock(_jvm=None), "/data")


def test_statistics_go_on_at_a_broker_that_asks_for_a_login(spark, tmp_path):
    with gated_broker(tmp_path) as gated:
        gated.fill(
            "t",
            *(b"%d" % (number // 2) for number in range(10)),
            compaction_window=60,
            journal=2**20,
        )
        token = tmp_path / "token"
        token.touch(mode=0o600)
        token.write_text(gated.token)
        options = {"broker": gated.address, "tokenFile": str(token)}
        stream = spark.readStream.format("zaichik").options(**options).load("$journal/t")
        counting = live.writer(from_journal(stream), tmp_path / "live", ["forever"])
        counting.trigger(availableNow=True).start().awaitTermination()
    assert {row["messages"] for row in live.sums(spark, tmp_path / "live").collect()} == {10}
    files = [path for path in (tmp_path / "live").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if gated.token.encode() in path.read_bytes()]
