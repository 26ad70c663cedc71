"""A table as it is now: one row for each key, whatever is published meanwhile."""

import pickle
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from zaichik.apps.spark import current
from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.reading import CannotRead, Range
from zaichik.apps.spark.source import ZaichikSource
from zaichik.client.messages import DeletionsMissed
from zaichik_protocol import Batch, Messages


def reader(broker, schema=MESSAGES, **options):
    words = {"broker": broker.address, "topic": "t", "table": "latest"} | options
    return ZaichikSource(words).reader(schema)


def state(a_reader):
    """The rows by key, and how many rows there are."""
    a_reader = pickle.loads(pickle.dumps(a_reader))
    ranges = pickle.loads(pickle.dumps(a_reader.partitions()))
    rows = [row for one in ranges for batch in a_reader.read(one) for row in batch.to_pylist()]
    return {row["key"]: (row["offset"], row["payload"]) for row in rows}, len(rows)


@pytest.fixture
def prices(broker):
    """A table with five messages: one price of three keys each, and two that were superseded."""
    broker.create("t", table=True)
    broker.publish("t", [("a", b"1"), ("b", b"2"), ("a", b"3")], [("c", b"4"), ("b", b"5")])
    return broker


def test_a_table_is_a_row_for_each_key(prices):
    assert state(reader(prices)) == ({b"a": (2, b"3"), b"c": (3, b"4"), b"b": (4, b"5")}, 3)


def test_a_deleted_key_has_no_row(prices):
    """TAB-5: its tombstone is still in the table, and is none either."""
    prices.publish("t", [("a", None)])
    assert state(reader(prices)) == ({b"c": (3, b"4"), b"b": (4, b"5")}, 2)


def test_messages_without_a_key_are_rows_of_their_own(prices):
    prices.publish("t", [(None, b"x")], [(None, b"")])
    assert state(reader(prices))[1] == 5


def test_an_empty_table_has_no_rows(broker):
    broker.create("t", table=True)
    assert state(reader(broker)) == ({}, 0)


def test_what_is_published_after_planning_is_in_the_state(prices):
    """Its older message is a hole by then: to end where it was planned would lose the key."""
    a_reader = reader(prices)
    (planned,) = a_reader.partitions()
    prices.publish("t", [("a", b"6"), ("c", None)])
    rows = [row for batch in a_reader.read(planned) for row in batch.to_pylist()]
    assert [(row["key"], row["payload"]) for row in rows] == [(b"b", b"5"), (b"a", b"6")]


def test_what_is_published_while_it_is_read_is_in_the_state(prices, monkeypatch):
    """At the end as it was known, the broker is asked for the end as it is now."""
    batches = [[("b", b"7"), ("d", b"8")], [("d", None)]]
    ask = current.state_of

    def state_of(*arguments):
        if batches:
            prices.publish("t", batches.pop(0))
        return ask(*arguments)

    a_reader = reader(prices)
    (planned,) = a_reader.partitions()
    monkeypatch.setattr(current, "state_of", state_of)
    rows = [row for batch in a_reader.read(planned) for row in batch.to_pylist()]
    assert not batches
    assert {row["key"]: row["payload"] for row in rows} == {b"a": b"3", b"c": b"4", b"b": b"7"}


def test_a_table_whose_end_is_never_reached_is_an_error(prices, monkeypatch):
    ask = current.state_of

    def state_of(*arguments):
        prices.publish("t", [("a", b"again")])
        return ask(*arguments)

    times = iter(range(0, 1000, 30))
    a_reader = reader(prices)
    (planned,) = a_reader.partitions()
    monkeypatch.setattr(current, "state_of", state_of)
    monkeypatch.setattr(current, "time", SimpleNamespace(monotonic=lambda: next(times)))
    with pytest.raises(CannotRead, match="published to faster than it can be read"):
        [*a_reader.read(planned)]


class Scripted:
    """A subscription that gives out these rounds, and begins again when it is told to."""

    def __init__(self, rounds, again):
        self._rounds, self._again = rounds, again
        self.next, self.live = 0, 2

    def fetch(self):
        items = self._rounds.pop(0)
        for item in items:
            if isinstance(item, Messages):
                self.next = item.base + item.batch.count
        return items

    def start_over(self):
        self._rounds, self.next, self.live = self._again, 0, 4


def test_after_deletions_that_were_missed_the_table_is_read_again(monkeypatch):
    """TAB-5: a key that was read may be deleted by now."""
    stale = Messages(1, 0, 0, Batch.of([(b"deleted", b"1")]))
    true = Messages(1, 3, 0, Batch.of([(b"k", b"2")]))
    scripted = Scripted([[stale], [DeletionsMissed("t", 3)]], [[true]])

    @contextmanager
    def subscribe(*_, **__):
        yield scripted

    monkeypatch.setattr(current, "state_of", lambda *_: {"next_offset": 4})
    client = SimpleNamespace(subscribe=subscribe)
    assert current._read_to_the_end(client, Range("t", 1, 0, 2)) == [[true]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": "5"}, "leave out start, end"),
        ({"end": "5"}, "leave out start, end"),
        ({"partitions": "2"}, "in one task"),
        ({"pushDown": "true"}, "pushDown"),
        ({"table": "newest"}, "it must be latest"),
    ],
)
def test_options_that_do_not_go_with_a_state_are_refused(prices, options, words):
    with pytest.raises(BadOption, match=words):
        reader(prices, **options)


def test_a_plain_topic_has_no_state(broker):
    broker.create("t")
    with pytest.raises(CannotRead, match="t is not a table"):
        reader(broker).partitions()


def test_a_stream_has_no_state(prices):
    words = {"broker": prices.address, "topic": "t", "table": "latest"}
    with pytest.raises(BadOption, match="a stream has a table's changes"):
        ZaichikSource(words).streamReader(MESSAGES)


def test_columns_may_be_left_out(prices):
    schema = StructType([StructField("topic", StringType())])
    (planned,) = reader(prices).partitions()
    (batch,) = reader(prices, schema).read(planned)
    assert batch.to_pylist() == [{"topic": "t"}] * 3


def test_spark_reads_the_state(spark, prices):
    words = {"broker": prices.address, "table": "latest"}
    rows = spark.read.format("zaichik").options(**words).load("t").collect()
    assert {bytes(row["key"]): bytes(row["payload"]) for row in rows} == {
        b"a": b"3",
        b"b": b"5",
        b"c": b"4",
    }
