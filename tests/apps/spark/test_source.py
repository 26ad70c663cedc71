"""Topics as tables: what a reader plans and reads, mostly without Spark itself."""

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from embedded import START_US
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from zaichik.apps.recording.columns import keys, payloads
from zaichik.apps.spark import options as options_module
from zaichik.apps.spark.columns import CHANGES, MESSAGES, UnknownColumn, check, record_batch
from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import CannotRead, Range, read_range
from zaichik.apps.spark.source import ZaichikSource
from zaichik.client.endpoint import Endpoint
from zaichik.client.errors import ConnectFailed, EpochChanged, TopicShrunk
from zaichik_protocol import Batch, Messages

ROOT = Path(__file__).parents[3]


def reader(broker, schema=MESSAGES, **options):
    return ZaichikSource({"broker": broker.address} | options).reader(schema)


def rows(a_reader):
    """What a reader reads: its ranges, and all rows.

    Everything is pickled on the way, as Spark does.
    """
    a_reader = pickle.loads(pickle.dumps(a_reader))
    ranges = pickle.loads(pickle.dumps(a_reader.partitions()))
    return ranges, [
        row for part in ranges for batch in a_reader.read(part) for row in batch.to_pylist()
    ]


def numbered(count, key=None, start=0):
    return [(key, b"%d" % number) for number in range(start, start + count)]


# -- what is read --------------------------------------------------------------------------------


def test_a_topic_is_a_table(broker):
    broker.create("t")
    broker.publish("t", [("k", b"one"), (None, b"two")])
    broker.clock.advance(1)
    broker.publish("t", [(None, b"")])
    when = [
        datetime.fromtimestamp((START_US + microseconds) / 1e6, UTC)
        for microseconds in (0, 0, 1_000_000)
    ]
    _, found = rows(reader(broker, topic="t"))
    assert found == [
        {"topic": "t", "offset": 0, "timestamp": when[0], "key": b"k", "payload": b"one"},
        {"topic": "t", "offset": 1, "timestamp": when[1], "key": None, "payload": b"two"},
        {"topic": "t", "offset": 2, "timestamp": when[2], "key": None, "payload": b""},
    ]


@pytest.mark.parametrize(("parts", "sizes"), [(1, [10]), (3, [3, 3, 4]), (20, [1] * 10)])
def test_a_topic_is_cut_into_tasks(broker, parts, sizes):
    broker.create("t")
    broker.publish("t", numbered(10))
    ranges, found = rows(reader(broker, topic="t", partitions=str(parts)))
    assert [one.end - one.start for one in ranges] == sizes
    assert [row["offset"] for row in found] == list(range(10))


def test_a_table_that_is_read_once_has_its_changes(broker):
    """TAB-5: from the earliest nothing was missed, from an offset it may have been."""
    broker.create("t", table=True, tombstones=1)
    broker.publish("t", [("a", b"1")], [("a", None)], [("b", b"2")])
    _, found = rows(reader(broker, CHANGES, topic="t", table="changes", partitions="2"))
    assert [(row["offset"], row["deleted"]) for row in found] == [(1, True), (2, False)]
    broker.clock.advance(2)
    broker.sweep()
    for start in ("earliest", "0"):
        a_reader = reader(broker, topic="t", start=start, partitions="3")
        assert [row["offset"] for row in rows(a_reader)[1]] == [2]
    with pytest.raises(CannotRead, match="keys of t may have been deleted unseen"):
        reader(broker, topic="t", start="1").partitions()
    assert [
        row["offset"] for row in rows(reader(broker, topic="t", start="1", onLag="skip"))[1]
    ] == [2]


def test_several_topics(broker):
    for topic in ("a", "b", "empty"):
        broker.create(topic)
    broker.publish("a", numbered(2))
    broker.publish("b", numbered(1))
    _, found = rows(reader(broker, topic="a, b,empty"))
    assert [(row["topic"], row["offset"]) for row in found] == [("a", 0), ("a", 1), ("b", 0)]


def test_a_topic_without_messages_is_an_empty_table(broker):
    """Of no tasks at all, Spark would make one that is told nothing."""
    broker.create("t")
    ranges, found = rows(reader(broker, topic="t"))
    assert (len(ranges), found) == (1, [])


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({"start": "2", "end": "4"}, [2, 3]),
        ({"start": "latest"}, []),
        ({"start": '{"t": 2}', "end": '{"t": 4}'}, [2, 3]),
        ({"start": "2023-11-14T22:13:30+00:00"}, [3, 4, 5]),
        ({"end": "2023-11-14T22:13:30+00:00"}, [0, 1, 2]),
    ],
)
def test_a_part_of_a_topic(broker, options, offsets):
    """RET-4: by offset, or by the time of acceptance."""
    broker.create("t")
    broker.publish("t", numbered(3))
    broker.clock.advance(10)
    broker.publish("t", numbered(3))
    _, found = rows(reader(broker, topic="t", **options))
    assert [row["offset"] for row in found] == offsets


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": "4", "end": "2"}, r"start \(4\) is after end \(2\)"),
        ({"start": "2100-01-01T00:00:00+00:00"}, "that is in the future"),
    ],
)
def test_a_part_that_cannot_be_is_an_error_and_not_empty(broker, options, words):
    broker.create("t")
    broker.publish("t", numbered(6))
    with pytest.raises(CannotRead, match=words):
        reader(broker, topic="t", **options).partitions()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": '{"other": 2}'}, "names other, which is not among the topics"),
        ({"start": '{"t": '}, "which is not JSON"),
        ({"start": '{"t": "soon"}'}, "start is 'soon'"),
        ({"path": "u"}, "the topic is named twice"),
    ],
)
def test_options_that_mean_nothing_are_explained(options, words):
    with pytest.raises(BadOption, match=words):
        Options.of({"topic": "t"} | options)


def test_load_names_the_topic():
    assert Options.of({"path": "orders"}).topics == ("orders",)


def test_a_task_has_a_million_messages_unless_told_otherwise():
    whole = Range("t", 1, 0, 2_500_000)
    assert [part.end - part.start for part in whole.split(None)] == [833_333, 833_333, 833_334]
    assert len(whole.split(7)) == 7


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType([StructField("Offset", LongType())]), "write offset, in small letters"),
        (StructType([StructField("offset", LongType())] * 2), "the column offset more than once"),
    ],
)
def test_columns_that_cannot_be_are_explained(schema, words):
    with pytest.raises(UnknownColumn, match=words):
        check(schema)


def test_only_the_columns_asked_for_are_made(broker):
    broker.create("t")
    broker.publish("t", [("key", b"four")])
    schema = StructType([StructField("size", LongType()), StructField("accepted_us", LongType())])
    assert rows(reader(broker, schema, topic="t"))[1] == [{"size": 4, "accepted_us": START_US}]


def test_offsets_with_holes_are_kept():
    frame = Messages(
        1, 5, START_US, Batch.of([(b"", b"a"), (b"", b"b")]), deltas=(0, 3), holes=True
    )
    assert record_batch("t", [frame], MESSAGES).column("offset").to_pylist() == [5, 8]


def test_columns_point_into_the_batch_and_do_not_copy_it():
    batch = Batch.of([(b"key", b"payload"), (b"", b"")])
    whole = pa.py_buffer(batch.data)
    for column in (keys(batch), payloads(batch)):
        for buffer in column.buffers()[1:]:
            assert whole.address <= buffer.address <= whole.address + whole.size
    assert (keys(batch).to_pylist(), payloads(batch).to_pylist()) == (
        [b"key", None],
        [b"payload", b""],
    )


# -- what is refused -----------------------------------------------------------------------------


def test_deleting_a_missing_topic_does_not_create_it(broker):
    with pytest.raises(CannotRead, match="there is no topic 't';"):
        reader(broker, topic="t").partitions()
    broker.create("t", capacity=5)  # it would exist with other settings


def test_a_topic_that_is_shorter_than_a_range_is_not_waited_for(broker):
    """As when an older copy of the broker's folder is restored in between."""
    epoch = broker.create("t")
    broker.publish("t", numbered(4))
    options = reader(broker, topic="t").options
    with pytest.raises(TopicShrunk, match="t ends before offset 4, and had reached 5"):
        list(read_range(Range("t", epoch, 2, 5), options, MESSAGES))


def test_messages_that_are_gone_are_an_error(broker):
    broker.create("t", capacity=4)
    broker.publish("t", numbered(4), numbered(4))
    with pytest.raises(
        CannotRead, match=r"2 messages of t are gone \(offsets 2 to 3\).*onLag=skip"
    ):
        reader(broker, topic="t", start="2").partitions()


def test_one_message_that_is_gone_is_no_plural(broker, caplog):
    broker.create("t", capacity=4)
    broker.publish("t", numbered(4), numbered(4))
    with pytest.raises(CannotRead, match=r"1 message of t is gone \(offset 3\)"):
        reader(broker, topic="t", start="3").partitions()
    rows(reader(broker, topic="t", start="3", onLag="skip"))
    assert "t: 1 message is gone" in caplog.text


def test_messages_that_are_gone_are_left_out_if_asked_for(broker, caplog):
    broker.create("t", capacity=4)
    broker.publish("t", numbered(4), numbered(4))
    _, found = rows(reader(broker, topic="t", start="2", onLag="skip"))
    assert [row["offset"] for row in found] == [4, 5, 6, 7]
    assert "2 messages are gone" in caplog.text


@pytest.mark.parametrize("on_lag", ["fail", "skip"])
def test_messages_that_go_between_planning_and_reading(broker, on_lag):
    broker.create("t", capacity=4)
    broker.publish("t", numbered(4))
    planned = reader(broker, topic="t", onLag=on_lag)
    ranges = planned.partitions()
    broker.publish("t", numbered(3))
    if on_lag == "fail":
        with pytest.raises(CannotRead, match="3 messages of t are gone"):
            list(planned.read(ranges[0]))
    else:
        assert [
            row["offset"] for batch in planned.read(ranges[0]) for row in batch.to_pylist()
        ] == [3]


def test_an_offset_beyond_the_end_is_an_error(broker):
    broker.create("t")
    with pytest.raises(CannotRead, match="ends before offset 0"):
        reader(broker, topic="t", start="1").partitions()


def test_another_epoch_is_an_error_when_planning_and_when_reading(broker):
    """TOP-5."""
    epoch = broker.create("t")
    broker.publish("t", numbered(1))
    assert reader(broker, topic="t", epoch=str(epoch)).partitions() == [Range("t", epoch, 0, 1)]
    with pytest.raises(CannotRead, match="another topic"):
        reader(broker, topic="t", epoch=str(epoch + 1)).partitions()
    with pytest.raises(EpochChanged):
        list(reader(broker, topic="t").read(Range("t", epoch + 1, 0, 1)))


def test_no_broker_is_an_error():
    with pytest.raises(ConnectFailed, match="zaichik serve"):
        ZaichikSource({"broker": "127.0.0.1:1", "topic": "t"}).reader(MESSAGES).partitions()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "which topic"),
        ({"topic": " , "}, "which topic"),
        ({"topic": "a,b,a"}, "each topic once"),
        ({"topic": "t", "strat": "latest"}, "no option strat"),
        ({"topic": "t", "start": "yesterday"}, "start is 'yesterday'"),
        ({"topic": "t", "end": "-1"}, "end is '-1'"),
        ({"topic": "t", "partitions": "0"}, "at least 1"),
        ({"topic": "t", "onLag": "ignore"}, "fail or skip"),
        ({"topic": "a,b", "epoch": "5"}, "belongs to one topic"),
        ({"topic": "t", "broker": "localhost"}, "HOST:PORT"),
        ({"topic": "t", "broker": "localhost:99999"}, "HOST:PORT"),
    ],
)
def test_an_option_that_means_nothing_is_explained(options, words):
    with pytest.raises(BadOption, match=words):
        Options.of(options)


def test_every_option_is_documented():
    known = options_module._KNOWN
    for text in (
        options_module.__doc__,
        (ROOT / "docs" / "use" / "statistics.md").read_text(encoding="utf-8"),
    ):
        table = text.partition("| option | meaning |")[2].partition("\n\n")[0]
        named = [row.partition(" | ")[0] for row in table.splitlines()[2:]]
        assert {
            name for names in named for name in names.strip("| ").replace("`", "").split(", ")
        } == set(known)


def test_an_ipv6_address():
    assert Options.of({"topic": "t", "broker": "[::1]:8889"}).broker.address == Endpoint(
        "::1", 8889
    )


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (StructField("value", LongType()), "no column value"),
        (StructField("offset", IntegerType()), "bigint, not int"),
    ],
)
def test_a_column_that_a_topic_has_not_is_explained(field, words):
    with pytest.raises(UnknownColumn, match=words):
        check(StructType([field]))
