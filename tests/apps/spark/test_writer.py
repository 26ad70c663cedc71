"""Tables become messages: the same, in the same order, in pieces the broker accepts."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructField, StructType

from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.source import ZaichikSource
from zaichik.apps.spark.writer import CannotWrite, Written, batches
from zaichik.client import blocking
from zaichik.client.errors import InvalidField, MessageTooLarge
from zaichik_protocol import Batch

KEY, PAYLOAD = StructField("key", BinaryType()), StructField("payload", BinaryType())
MESSAGE = StructType([KEY, PAYLOAD])


def table(pairs):
    keys, payloads = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "payload": pa.array(payloads, pa.binary())}
    )


def writer(broker, schema=MESSAGE, **options):
    return ZaichikSource({"broker": broker.address, "topic": "t"} | options).writer(
        schema, overwrite=False
    )


def stored(broker):
    with blocking.connect(port=broker.port) as client:
        until = client.topic("t")["next_offset"]
        with client.subscribe("t", start=0, until=until) as subscription:
            return [(message.key, message.payload) for message in subscription]


pairs = st.lists(
    st.tuples(st.none() | st.binary(min_size=1, max_size=4), st.binary(max_size=9)), max_size=30
)


@given(pairs, st.integers(0, 5), st.integers(1, 8), st.integers(1, 40))
def test_batches_are_the_rows_in_their_order(messages, skipped, most, most_bytes):
    """Also of a slice of a table, whose buffers begin elsewhere than its rows."""
    found = list(batches([table(messages).slice(skipped)], most, most_bytes))
    assert [
        pair for batch in found for pair in zip(batch.keys(), batch.payloads(), strict=True)
    ] == [(key or b"", payload) for key, payload in messages[skipped:]]
    assert all(
        batch.count <= most and (batch.size <= most_bytes or batch.count == 1) for batch in found
    )
    assert all(Batch.parse(batch.data) == batch for batch in found)


def test_a_table_is_published_and_what_was_dropped_is_counted(broker):
    broker.create("t", compaction_window=10)
    rows = [(b"k", b"1"), (b"k", b"2"), (None, b"3"), (None, b"4")]
    assert writer(broker).write(iter([table(rows[:2]), table(rows[2:])])) == Written(
        stored=3, compacted=1
    )
    assert stored(broker) == [(b"k", b"1"), (None, b"3"), (None, b"4")]


def test_changes_of_a_table_delete_its_keys(broker):
    """TAB-6: null, empty as in a recording, or said by the column `deleted`."""
    broker.create("t", table=True)
    broker.publish("t", [(key, b"old") for key in (b"a", b"b", b"c", b"d")])
    schema = StructType([KEY, PAYLOAD, StructField("deleted", BooleanType())])
    pairs = [(b"a", None), (b"b", b""), (b"c", b"last words"), (b"d", b"new"), (None, b"")]
    rows = table(pairs).append_column("deleted", pa.array([False, False, True, None, False]))
    written = writer(broker, schema, table="changes", exactlyOnce="true").write(iter([rows]))
    assert written == Written(stored=5, compacted=0)
    assert stored(broker) == [
        (b"a", b""),
        (b"b", b""),
        (b"c", b""),
        (b"d", b"new"),
        (None, b""),
    ]


def test_nobody_deletes_by_accident(broker):
    """TAB-6."""
    broker.create("t", table=True)
    with pytest.raises(CannotWrite, match=r"a payload is null.*table=changes"):
        writer(broker).write(iter([table([(b"k", None)])]))
    with pytest.raises(InvalidField, match="an empty payload deletes its key"):
        writer(broker).write(iter([table([(b"k", b"")])]))
    with pytest.raises(CannotWrite, match="a row deletes a key, and has none"):
        writer(broker, table="changes").write(iter([table([(None, None)])]))
    with pytest.raises(CannotWrite, match="no column deleted"):
        writer(broker, StructType([KEY, PAYLOAD, StructField("deleted", BooleanType())]))
    with pytest.raises(BadOption, match="a table is written as changes"):
        writer(broker, table="latest")


def test_a_table_without_keys_of_text(broker):
    broker.create("t")
    schema = StructType([StructField("payload", StringType())])
    writer(broker, schema).write(iter([pa.record_batch({"payload": ["one", "two"]})]))
    assert stored(broker) == [(None, b"one"), (None, b"two")]


def test_a_ring_smaller_than_a_batch_gets_it_in_halves(broker):
    """RET-6."""
    broker.create("t", capacity=3)
    assert writer(broker).write(iter([table([(None, b"%d" % n) for n in range(10)])])).stored == 10
    assert [payload for _, payload in stored(broker)] == [b"7", b"8", b"9"]


def test_a_message_too_large_for_the_broker_is_refused(broker):
    with pytest.raises(MessageTooLarge):
        writer(broker).write(iter([table([(None, bytes(2**20 + 1))])]))


@pytest.mark.parametrize(
    ("rows", "words"), [([(b"", b"x")], "a key is empty"), ([(b"k", None)], "a payload is null")]
)
def test_a_value_no_message_can_have_is_refused(rows, words):
    with pytest.raises(CannotWrite, match=words):
        list(batches([table(rows)], 10, 100))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType([KEY]), "need a column payload"),
        (StructType([PAYLOAD, StructField("offset", LongType())]), "no column offset"),
        (StructType([StructField("payload", LongType())]), "binary or string, not bigint"),
        (StructType([PAYLOAD, StructField("value", StringType())]), "two names for one thing"),
        (
            StructType([PAYLOAD, StructField("topic", BinaryType())]),
            "topic must be string, not binary",
        ),
    ],
)
def test_a_table_that_is_no_messages_is_refused(broker, schema, words):
    with pytest.raises(CannotWrite, match=words):
        writer(broker, schema)


def test_several_topics_are_not_written_at_once(broker):
    with pytest.raises(BadOption, match="one topic"):
        writer(broker, topic="a,b")


def test_a_topic_is_named_once(broker):
    schema = StructType([PAYLOAD, StructField("topic", StringType())])
    with pytest.raises(BadOption, match="named twice"):
        writer(broker, schema)
    with pytest.raises(BadOption, match="which topic"):
        writer(broker, topic="")


def test_a_column_says_where_each_row_goes(broker):
    """And `value` is the payload, as Kafka's users call it."""
    schema = StructType([StructField("topic", StringType()), StructField("value", StringType())])
    rows = pa.record_batch({"topic": ["u", "t", "u", "t"], "value": ["1", "2", "3", "4"]})
    assert writer(broker, schema, topic="").write(iter([rows, rows])).stored == 8
    with blocking.connect(port=broker.port) as client:
        for topic, expected in (("t", [b"2", b"4"] * 2), ("u", [b"1", b"3"] * 2)):
            state = client.topic(topic)
            assert state["published"] == 4, expected
    nowhere = pa.record_batch({"topic": ["t", None], "value": ["1", "2"]})
    with pytest.raises(CannotWrite, match="a topic is null"):
        writer(broker, schema, topic="").write(iter([nowhere]))


def test_a_task_that_is_tried_again_stores_nothing_twice(broker):
    """PUB-4: in the same batches, also where the ring made halves of them; another write is another
    one.
    """
    broker.create("t", capacity=3)
    rows = [(None, b"%d" % n) for n in range(10)]
    once = writer(broker, exactlyOnce="true")
    first, again = [once.write(iter([table(rows[:2]), table(rows[2:])])) for _ in range(2)]
    assert first == again == Written(stored=10, compacted=0)
    assert broker.topics("t")[0]["published"] == 10
    writer(broker, exactlyOnce="true").write(iter([table(rows)]))
    assert broker.topics("t")[0]["published"] == 20


def test_two_writes_within_one_micro_batch_are_two(broker, spark, tmp_path):
    """What a program does in foreachBatch is its own affair: it may write to one topic twice."""
    broker.create("t")
    broker.publish("t", [("a", b"1"), ("b", b"2")])
    to = {"broker": broker.address, "topic": "copy", "exactlyOnce": "true"}

    def twice(batch, _):
        for key in ("a", "b"):
            rows = batch.where(f"key = cast('{key}' AS binary)").select("payload")
            rows.coalesce(1).write.format("zaichik").options(**to).mode("append").save()

    stream = spark.readStream.format("zaichik").option("broker", broker.address).load("t")
    query = stream.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()
    assert broker.topics("copy")[0]["published"] == 2


def test_a_word_that_is_neither_true_nor_false_is_refused(broker):
    with pytest.raises(BadOption, match="exactlyOnce is 'maybe'"):
        writer(broker, exactlyOnce="maybe")


def test_nothing_is_overwritten(broker):
    source = ZaichikSource({"broker": broker.address, "topic": "t"})
    with pytest.raises(CannotWrite, match="append"):
        source.writer(MESSAGE, overwrite=True)
    with pytest.raises(CannotWrite, match="append"):
        source.streamWriter(MESSAGE, overwrite=True)


def test_spark_writes_tables_and_streams(broker, spark, tmp_path):
    broker.create("t")
    broker.create("copy")
    to = {"broker": broker.address, "topic": "t"}
    rows = [("k", "1"), (None, "2"), ("k", "3")]
    spark.createDataFrame(rows, "key string, payload string").coalesce(1).write.format(
        "zaichik"
    ).options(**to).mode("append").save()
    expected = [(key and key.encode(), payload.encode()) for key, payload in rows]
    assert stored(broker) == expected
    stream = (
        spark.readStream.format("zaichik")
        .options(**to | {"topic": "t"})
        .load()
        .select("key", "payload")
    )
    query = stream.writeStream.format("zaichik").options(broker=broker.address, topic="copy")
    query.option("checkpointLocation", str(tmp_path)).trigger(
        availableNow=True
    ).start().awaitTermination()
    with (
        blocking.connect(port=broker.port) as client,
        client.subscribe("copy", until=3) as subscription,
    ):
        assert [(message.key, message.payload) for message in subscription] == expected


def test_a_micro_batch_that_spark_repeats_is_stored_once(broker, spark, tmp_path):
    """As after a crash between its last task and the note that it was finished."""
    broker.create("t")
    broker.create("copy")
    broker.publish("t", [(None, b"%d" % n) for n in range(20)])

    def run():
        stream = (
            spark.readStream.format("zaichik")
            .options(broker=broker.address, partitions="2")
            .load("t")
        )
        query = stream.select("payload").writeStream.format("zaichik")
        query = query.options(broker=broker.address, topic="copy", exactlyOnce="true")
        query.option("checkpointLocation", str(tmp_path)).trigger(
            availableNow=True
        ).start().awaitTermination()

    run()
    for note in (tmp_path / "commits").iterdir():
        note.unlink()
    run()
    assert broker.topics("copy")[0]["published"] == 20
