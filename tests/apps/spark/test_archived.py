"""A topic and its recording as one table, and as one stream."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import archived_s3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import GreaterThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from zaichik.apps.recording import merging
from zaichik.apps.recording.recorder import record
from zaichik.apps.recording.recording import Recording
from zaichik.apps.recording.stores import Store
from zaichik.apps.spark import table
from zaichik.apps.spark.archived import RecordedRange
from zaichik.apps.spark.columns import CHANGES, MESSAGES
from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.reading import CannotRead
from zaichik.apps.spark.session import find_java
from zaichik.apps.spark.source import ZaichikSource
from zaichik.client import blocking

HOUR = 3600


def numbered(count, start=0):
    return [(b"k%d" % (number % 3), b"%d" % number) for number in range(start, start + count)]


@pytest.fixture
def recording(broker, tmp_path):
    """Records the topic t into a folder, which is returned, when called."""
    folder = tmp_path / "recording"

    def go_on():
        with blocking.connect(port=broker.port) as client:
            record(client, "t", folder)
        return folder

    return go_on


@pytest.fixture
def half(broker, recording):
    """A topic of 100 messages. Its recording has the first 80, in four files, the broker the last
    50.
    """
    broker.create("t", capacity=50)
    for start in range(0, 80, 20):
        broker.publish("t", numbered(20, start))
        folder = recording()
    broker.publish("t", numbered(20, 80))
    return folder


def reader(broker, folder, **options):
    words = {"broker": broker.address, "topic": "t", "archive": str(folder)} | options
    return ZaichikSource(words).reader(MESSAGES)


def streamed(broker, folder, **options):
    words = {"broker": broker.address, "topic": "t", "archive": str(folder)} | options
    return ZaichikSource(words).streamReader(MESSAGES)


def rows(a_reader, parts):
    worker = pickle.loads(pickle.dumps(a_reader))
    return [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]


def numbers(a_reader, parts):
    found = rows(a_reader, parts)
    assert all(row["offset"] == int(row["payload"]) for row in found)
    return [row["offset"] for row in found]


# -- as a table ----------------------------------------------------------------------------------


def test_what_the_recording_has_comes_from_there_and_the_rest_from_the_broker(broker, half):
    one = reader(broker, half)
    parts = one.partitions()
    assert [(type(part), part.start, part.end) for part in parts] == [
        (RecordedRange, 0, 80),
        (type(parts[1]), 80, 100),
    ]
    assert numbers(one, parts) == list(range(100))


def test_rows_of_both_have_the_same_columns(broker, half):
    """Those that a schema of one's own may name included."""
    columns = StructType(
        [
            StructField("key", BinaryType()),
            StructField("size", LongType()),
            StructField("accepted_us", LongType()),
            MESSAGES["topic"],
            MESSAGES["timestamp"],
        ]
    )
    words = {"broker": broker.address, "topic": "t", "archive": str(half), "start": "79"}
    one = ZaichikSource(words).reader(columns)
    recorded, held = one.partitions()
    (first,) = one.read(recorded)
    (last,) = one.read(held)
    assert first.schema == last.schema
    (row,) = first.to_pylist()
    assert (row["key"], row["size"], row["topic"]) == (b"k1", 2, "t")
    assert row["timestamp"].timestamp() == row["accepted_us"] / 1e6


def test_a_recording_is_read_by_as_many_tasks_as_are_wanted(broker, half):
    one = reader(broker, half, partitions="4")
    parts = one.partitions()
    recorded = [part for part in parts if isinstance(part, RecordedRange)]
    assert [len(part.pieces) for part in recorded] == [1, 1, 1, 1]
    assert numbers(one, parts) == list(range(100))


@pytest.mark.parametrize(
    ("start", "end"), [(0, 100), (5, 95), (25, 35), (79, 81), (80, 100), (90, 91), (100, 100)]
)
def test_any_range_is_read(broker, half, start, end):
    one = reader(broker, half, start=str(start), end=str(end), partitions="3")
    assert numbers(one, one.partitions()) == list(range(start, end))


def test_what_neither_has_is_an_error_unless_skipped(broker, half):
    broker.publish("t", numbered(40, 100))
    with pytest.raises(
        CannotRead, match=r"10 messages of t are gone \(offsets 80 to 89\): the archive has none"
    ):
        reader(broker, half).partitions()
    skipping = reader(broker, half, onLag="skip")
    assert numbers(skipping, skipping.partitions()) == [*range(80), *range(90, 140)]


def test_a_file_that_is_missing_is_a_hole_unless_the_broker_has_it(broker, half):
    files = sorted(half.rglob("*-*-*.parquet"), key=lambda file: int(file.stem.split("-")[1]))
    assert len(files) == 4
    files[3].unlink()
    one = reader(broker, half)
    assert numbers(one, one.partitions()) == list(range(100)), "the broker has 50 to 99"
    files[1].unlink()
    with pytest.raises(CannotRead, match=r"gone \(offsets 20 to 39\)"):
        reader(broker, half).partitions()


@pytest.mark.parametrize("names", [["a", "b"], ["key", "offset", "timestamp", "payload"]])
def test_a_file_of_somebody_else_with_a_name_of_ours_is_told(broker, half, names):
    (file,) = half.rglob("*-20-40.parquet")
    pq.write_table(pa.table({name: list(range(20, 40)) for name in names}), file)
    one = reader(broker, half)
    with pytest.raises(CannotRead, match=r"-20-40.parquet is not part of a recording: its columns"):
        numbers(one, one.partitions())


def test_files_that_are_merged_meanwhile_are_found_again(broker, half, monkeypatch):
    one = reader(broker, half)
    parts = one.partitions()
    monkeypatch.setattr(merging, "FEWEST", 2)
    with Recording.open(half, "t") as recording:
        recording.merge()
    assert len(recording.parts()) == 1
    assert numbers(one, parts) == list(range(100))


def test_a_file_that_goes_meanwhile_is_an_error_unless_skipped(broker, half):
    one, skipping = reader(broker, half), reader(broker, half, onLag="skip")
    parts = one.partitions()
    (file,) = half.rglob("*-20-40.parquet")
    file.unlink()
    with pytest.raises(CannotRead, match=r"20 messages of t are gone \(offsets 20 to 39\)"):
        numbers(one, parts)
    assert numbers(skipping, parts) == [*range(20), *range(40, 100)]


def test_another_epoch_of_the_topic_is_left_out(broker, half):
    """TOP-5: offsets of both count from 0."""
    broker.delete("t")
    broker.create("t")
    broker.publish("t", numbered(5))
    one = reader(broker, half)
    assert numbers(one, one.partitions()) == list(range(5))


def test_a_recording_beyond_the_topic_s_end_is_an_error(broker, half):
    """Offsets that both have are other messages, once an older copy of the topic was restored."""
    file = max(half.rglob("*-60-80.parquet"))
    file.rename(file.with_name(file.name.replace("-60-80", "-60-101")))
    for one in (reader(broker, half).partitions, streamed(broker, half).initialOffset):
        with pytest.raises(CannotRead, match="t ends before offset 100, and its archive has it up"):
            one()


def test_a_recording_of_what_came_since_is_none_beyond_the_end(broker, half, monkeypatch):
    recorded_of = table.recorded_of

    def publish_and_list(client, options, state):
        broker.publish("t", numbered(20, 100))
        with blocking.connect(port=broker.port) as other:
            record(other, "t", half)
        return recorded_of(client, options, state)

    monkeypatch.setattr(table, "recorded_of", publish_and_list)
    one = reader(broker, half)
    assert numbers(one, one.partitions()) == list(range(100))


def test_what_two_recorders_have_written_is_there_once(broker, half):
    """AR-3: as objects of an object store, where nobody locks anything."""
    folder = half / "topic=t"
    (day,) = folder.glob("day=*")
    (epoch,) = {file.name.partition("-")[0] for file in day.glob("*.parquet")}
    with blocking.connect(port=broker.port) as client, client.subscribe("t", start=50) as at_once:
        frames = [frame for frame in at_once.fetch() if frame.base < 70]
    with Recording.open(half.parent / "other", "t") as other:
        other.add(int(epoch), frames)
    (file,) = (half.parent / "other").rglob("*-50-*.parquet")
    shutil.copy(file, day / file.name)
    one = reader(broker, half)
    assert numbers(one, one.partitions()) == list(range(100))


def test_a_recording_that_begins_later_than_the_broker_is_no_hole(broker, recording):
    broker.create("t")
    broker.publish("t", numbered(10))
    folder = recording()
    broker.publish("t", numbered(10, 10))
    recording()
    (first,) = folder.rglob("*-0-10.parquet")
    first.unlink()
    one = reader(broker, folder)
    assert numbers(one, one.partitions()) == list(range(20))


def test_a_topic_without_a_recording_is_read_from_the_broker(broker, tmp_path):
    broker.create("t")
    broker.publish("t", numbered(3))
    one = reader(broker, tmp_path / "nothing")
    assert numbers(one, one.partitions()) == [0, 1, 2]


def test_holes_of_a_table_are_not_missing(broker, recording):
    """TAB-2."""
    broker.create("t", table=True)
    broker.publish("t", [(b"a", b"0")], [(b"a", b"1")], [(b"b", b"2")])
    recording()
    broker.publish("t", [(b"a", b"3")], [(b"a", b"4")])
    folder = recording()
    broker.publish("t", [(b"b", b"5")], [(b"b", b"6")])
    one = reader(broker, folder)
    assert numbers(one, one.partitions()) == [1, 2, 4, 6]


@pytest.mark.parametrize(
    ("hours", "first"), [(-1, 0), (0, 0), (0.5, 20), (1, 20), (2, 40), (3, 60), (3.5, 80), (4, 80)]
)
def test_a_time_is_found_in_the_recording_and_at_the_broker(broker, recording, hours, first):
    """RET-4."""
    broker.create("t", capacity=30)
    begin_us = broker.clock.now_us()
    for start in range(0, 100, 20):
        broker.publish("t", numbered(20, start))
        if start < 80:
            folder = recording()
        broker.clock.advance(HOUR)
    when = (begin_us + hours * HOUR * 1_000_000) / 1e6
    one = reader(broker, folder, start=datetime.fromtimestamp(when, UTC).isoformat())
    assert numbers(one, one.partitions()) == list(range(first, 100))


@pytest.mark.parametrize(
    ("hours", "expected"), [(0, range(100)), (2, range(40, 100)), (4, range(80, 100)), (9, [])]
)
def test_filters_narrow_what_is_read_of_both(broker, recording, hours, expected):
    broker.create("t", capacity=30)
    begin = datetime.fromtimestamp(broker.clock.now_us() / 1e6, UTC)
    for start in range(0, 100, 20):
        broker.publish("t", numbered(20, start))
        if start < 80:
            folder = recording()
        broker.clock.advance(HOUR)
    one = reader(broker, folder, pushDown="true")
    [*one.pushFilters([GreaterThanOrEqual(("timestamp",), begin + timedelta(hours=hours))])]
    assert numbers(one, one.partitions()) == list(expected)


def test_options_that_contradict_an_archive_are_refused(broker, tmp_path):
    words = {"broker": broker.address, "topic": "t", "archive": str(tmp_path)}
    with pytest.raises(BadOption, match="only the broker knows the state of a table"):
        ZaichikSource(words | {"table": "changes"}).reader(CHANGES)
    for url, problem in (
        ("ftp://lake/x", "archive: a recording can't be at ftp://"),
        ("s3://", "archive: s3:// names no bucket"),
        ("s3://key:very-secret@lake/x", "archive: s3://lake/x is given with a login"),
    ):
        with pytest.raises(BadOption, match=problem) as raised:
            ZaichikSource(words | {"archive": url}).reader(MESSAGES)
        assert "secret" not in str(raised.value)


# -- as a stream ---------------------------------------------------------------------------------


def test_a_stream_begins_in_the_recording_and_goes_on_live(broker, half):
    a_stream = streamed(broker, half, maxMessagesPerTrigger="30")
    start = a_stream.initialOffset()
    seen, ends = [], []
    while (end := a_stream.latestOffset(start, ReadMaxRows(30))) != start:
        seen += numbers(a_stream, a_stream.partitions(start, end))
        ends.append(end["t"]["next"])
        start = end
    assert (seen, ends) == (list(range(100)), [30, 60, 90, 100])
    broker.publish("t", numbered(5, 100))
    later = a_stream.latestOffset(start, ReadAllAvailable())
    assert numbers(a_stream, a_stream.partitions(start, later)) == [100, 101, 102, 103, 104]
    a_stream.stop()


def test_a_micro_batch_that_is_repeated_has_the_same_messages(broker, half, recording):
    """Though they come from elsewhere by then."""
    a_stream = streamed(broker, half)
    start = {"t": a_stream.initialOffset()["t"] | {"next": 70}}
    end = a_stream.latestOffset(start, ReadAllAvailable())
    first = rows(a_stream, a_stream.partitions(start, end))
    a_stream.stop()
    recording()
    broker.publish("t", numbered(45, 100))
    again = streamed(broker, half)
    parts = again.partitions(start, end)
    assert rows(again, parts) == first
    assert [type(part) for part in parts] == [RecordedRange]
    again.stop()


def test_a_stream_that_keeps_up_asks_for_no_listing(broker, half, monkeypatch):
    a_stream = streamed(broker, half)
    start = a_stream.initialOffset()
    end = a_stream.latestOffset(start, ReadAllAvailable())
    a_stream.partitions(start, end)
    monkeypatch.setattr("zaichik.apps.spark.stream.recorded_of", None)
    broker.publish("t", numbered(5, 100))
    later = a_stream.latestOffset(end, ReadAllAvailable())
    assert numbers(a_stream, a_stream.partitions(end, later)) == [100, 101, 102, 103, 104]
    a_stream.stop()


def test_a_stream_that_falls_behind_finds_what_was_recorded_since(broker, half, recording):
    a_stream = streamed(broker, half)
    start = a_stream.initialOffset()
    end = a_stream.latestOffset(start, ReadAllAvailable())
    a_stream.partitions(start, end)
    broker.publish("t", numbered(30, 100))
    recording()
    broker.publish("t", numbered(45, 130))
    later = a_stream.latestOffset(end, ReadAllAvailable())
    assert numbers(a_stream, a_stream.partitions(end, later)) == list(range(100, 175))
    # Of this micro-batch the recording had the beginning, when it was listed.
    recording()
    broker.publish("t", numbered(45, 175))
    assert numbers(a_stream, a_stream.partitions(end, later)) == list(range(100, 175))
    a_stream.stop()


def test_what_neither_has_ends_a_stream_unless_skipped(broker, half):
    broker.publish("t", numbered(40, 100))
    failing, skipping = streamed(broker, half), streamed(broker, half, onLag="skip")
    start = failing.initialOffset()
    end = failing.latestOffset(start, ReadAllAvailable())
    with pytest.raises(CannotRead, match=r"gone \(offsets 80 to 89\)"):
        failing.partitions(start, end)
    assert numbers(skipping, skipping.partitions(start, end)) == [*range(80), *range(90, 140)]
    failing.stop()
    skipping.stop()


def test_a_name_keeps_what_a_stream_has_not_read_though_it_begins_in_the_recording(broker, half):
    a_stream = streamed(broker, half, name="query")
    start = a_stream.initialOffset()
    end = a_stream.latestOffset(start, ReadMaxRows(30))
    assert numbers(a_stream, a_stream.partitions(start, end)) == list(range(30))
    last = a_stream.latestOffset(end, ReadAllAvailable())
    a_stream.commit(end)
    assert numbers(a_stream, a_stream.partitions(end, last)) == list(range(30, 100))
    a_stream.commit(last)
    (position,) = broker.subscriptions()
    assert (position["session"], position["committed"]) == ("query", 100)
    a_stream.stop()


def test_a_stream_of_a_pattern_begins_in_the_recordings(broker, half):
    words = {"broker": broker.address, "subscribePattern": "t**", "archive": str(half)}
    a_stream = ZaichikSource(words).streamReader(MESSAGES)
    broker.create("t2")
    broker.publish("t2", numbered(2))
    start = a_stream.initialOffset()
    end = a_stream.latestOffset(start, ReadAllAvailable())
    found = rows(a_stream, a_stream.partitions(start, end))
    assert [row["offset"] for row in found if row["topic"] == "t"] == list(range(100))
    assert [row["offset"] for row in found if row["topic"] == "t2"] == [0, 1]
    a_stream.stop()


def test_an_archive_is_not_sent_along_with_the_names_of_its_objects(broker, half):
    a_stream = streamed(broker, half)
    end = a_stream.latestOffset(a_stream.initialOffset(), ReadAllAvailable())
    a_stream.partitions(a_stream.initialOffset(), end)
    assert b".parquet" not in pickle.dumps(a_stream)
    a_stream.stop()


# -- in Spark ------------------------------------------------------------------------------------


def test_spark_reads_a_topic_and_its_recording_as_one_table(spark, broker, half):
    table = spark.read.format("zaichik").option("broker", broker.address)
    table = table.option("archive", str(half)).option("partitions", 2).load("t")
    found = [row["offset"] for row in table.orderBy("offset").collect()]
    assert found == list(range(100))


def test_a_query_that_is_started_again_goes_on_over_the_end_of_the_recording(
    spark, broker, half, tmp_path
):
    """Its checkpoint has offsets, which mean the same in the recording and at the broker."""

    def run_once():
        reading = spark.readStream.format("zaichik").option("broker", broker.address)
        reading = reading.option("archive", str(half)).option("maxMessagesPerTrigger", 30)
        query = reading.load("t").writeStream.format("parquet")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    run_once()
    broker.publish("t", numbered(20, 100))
    run_once()
    written = spark.read.parquet(str(tmp_path / "out"))
    assert [row["offset"] for row in written.orderBy("offset").collect()] == list(range(120))


PAGE = (Path(__file__).parents[3] / "docs" / "use" / "archive.md").read_text(encoding="utf-8")


@pytest.mark.long  # what it runs has tests above
def test_the_page_is_run_as_it_stands(spark, broker, tmp_path, capsys):
    broker.create("orders", retention_ttl="forever")
    broker.publish("orders", numbered(10))
    with blocking.connect(port=broker.port) as client:
        record(client, "orders", tmp_path / "archive")
    broker.publish("orders", numbered(5, 10))
    names = {
        "spark": spark,
        "broker": broker.address,
        "archive": str(tmp_path / "archive"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "folder": str(tmp_path / "out"),
    }
    table, stream = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[-2:]
    exec(table, names)  # noqa: S102 (our own document)
    assert "|[6B 30]|    5|" in capsys.readouterr().out
    exec(stream, names)  # noqa: S102 (our own document)
    names["query"].processAllAvailable()
    names["query"].stop()
    assert spark.read.parquet(names["folder"]).count() == 15


@pytest.mark.cluster
def test_workers_read_an_object_store_without_hadoop(broker, tmp_path, monkeypatch):
    """Another's S3, and Arrow's client with credentials from the environment."""
    # Not above: each process of the suite would import them.
    import boto3
    from moto.server import ThreadedMotoServer

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "{}:{}".format(*server.get_host_and_port())
    boto3.client("s3", endpoint_url=f"http://{address}", region_name="us-east-1").create_bucket(
        Bucket="lake"
    )
    where = f"s3://lake/zaichik?scheme=http&endpoint_override={address}&region=us-east-1"
    broker.create("t", capacity=50)
    with blocking.connect(port=broker.port) as client:
        for start in range(0, 100, 20):
            broker.publish("t", numbered(20, start))
            if start < 80:
                record(client, "t", Store.at(where))
    done = subprocess.run(
        [sys.executable, archived_s3.__file__, broker.address, where, str(tmp_path)],
        env=os.environ | {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    server.stop()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[100, 100], [100, 100]]
