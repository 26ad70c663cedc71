"""What would another compaction window keep, save and lose? For any number of windows, in one pass over the data.

The rule (COM-1) is greedy: a message is kept if no *kept* message of its key lies within the window before it.
Whether it is kept depends on what was kept before it, and so on back to the first. That is no `lag` and no time bucket
(`docs/statistics.md` shows both go wrong), and SQL's window functions cannot say it.

The trick is to make the whole table one chain. Sort by key and, within a key, by position. What the rule looks at
is the time that went by since the message before; where another key begins, call that endless. Then walk:

    for number, gap in enumerate(gaps):
        since_opened += gap
        if since_opened >= window:      # nothing of this key was kept within the window: a new one opens
            opens.append(number)
            since_opened = 0

One loop over integers, whatever the number of keys and however skewed they are. (Faster ways with numpy alone were
tried: at most a fifth faster, and hard to believe.) Everything else, such as which payloads differ from that of the
message that won, follows from `opens` with whole-array operations.

Spark's part is to bring the messages of a key together: by a shuffle, or not at all if each partition of the input
has all messages of its keys already, as a topic read with one partition has. A partition must fit into a worker's
memory: about 100 bytes a message. Each sends back a line for each topic and window, so the rest is quick.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

Winner = Literal["first", "last"]
Window = timedelta | Literal["forever"]

FOREVER_US = 2**63 - 1  # the length of a window without end; Spark has no larger integer
_CHUNK = 1 << 20  # gaps that are Python integers at the same time: 32 bytes each

SUMS = ("messages", "bytes", "kept", "kept_bytes", "differing", "delayed", "delay_us", "unseen")
WINDOWS = StructType(
    [
        StructField("topic", StringType()),
        StructField("window_us", LongType()),
        StructField("winner", StringType()),
        *(StructField(name, LongType()) for name in SUMS),
        StructField("max_delay_us", LongType()),
    ]
)
"""What a window would do to a topic.

`messages` and `bytes` were published, `kept` and `kept_bytes` of them stored. `differing` were dropped although their
payload is not that of the message which stayed in their place: information lost. With the winner `first`, readers
see the key's older value meanwhile: for `delayed` of the differing until the next message of their key was stored,
`delay_us` in all and `max_delay_us` at most; for `unseen` of them nothing of their key followed, so the value is never
seen. With `last` a live reader sees everything at once, and only latecomers miss what was superseded.
"""

_ENDLESS = FOREVER_US  # the gap before the first message of a key


def what_if(
    events: DataFrame,
    windows: Iterable[Window],
    winners: Iterable[Winner] = ("first", "last"),
    *,
    partitioned: bool = False,
    partitions: int | None = None,
) -> DataFrame:
    """For each topic, window and winner a row of `WINDOWS`, with the `ratio` kept.

    Args:
        events: as `EVENTS`; status, offset and winner are not looked at.
        windows: lengths.
        winners: which message of a window stays: "first", which the broker does, or "last".
        partitioned: each partition of the input has all messages of its keys, so that nothing need be shuffled.
        partitions: how many to shuffle into; None: as many as the session is set to.
    """
    columns = events.select("topic", "epoch", "position", "accepted_us", "key", "hash", "size")
    if not partitioned:
        columns = by_key(columns, partitions)
    kernel = partial(_kernel, lengths_us=[length_us(window) for window in windows], winners=list(winners))
    return summed(columns.mapInArrow(kernel, WINDOWS)).withColumn("ratio", fn.col("kept") / fn.col("messages"))


def summed(parts: DataFrame) -> DataFrame:
    """Rows of `WINDOWS`, those of a topic, window and winner added up."""
    totals: list[Column] = [fn.sum(name).alias(name) for name in SUMS]
    totals.append(fn.max("max_delay_us").alias("max_delay_us"))
    return parts.groupBy("topic", "window_us", "winner").agg(*totals)


def by_key(events: DataFrame, partitions: int | None = None) -> DataFrame:
    """The same rows, those of a key together in one partition."""
    # A message without a key has nobody to be compared with: spread them, they would all meet in one place.
    key = fn.coalesce("key", fn.col("position").cast("string").cast("binary"))
    by = [fn.col("topic"), key]
    return events.repartition(partitions, *by) if partitions else events.repartition(*by)


def length_us(window: Window) -> int:
    """A window's length in microseconds.

    Raises:
        ValueError: it is not positive.
    """
    if window == "forever":
        return FOREVER_US
    assert isinstance(window, timedelta)  # noqa: S101 (for the type checker: a str is "forever")
    if window <= timedelta(0):
        raise ValueError(f"a window must be longer than nothing, not {window}")
    return window // timedelta(microseconds=1)


def _kernel(
    batches: Iterator[pa.RecordBatch], lengths_us: Sequence[int], winners: Sequence[Winner]
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition's messages."""
    present = [batch for batch in batches if batch.num_rows]
    if not present:
        return
    chain = Chain(pa.Table.from_batches(present))
    rows: list[dict[str, object]] = []
    for length, opens in zip(lengths_us, chain.opens(lengths_us), strict=True):
        for winner in winners:
            sums = chain.sums(opens, winner)
            rows += [
                {"topic": topic, "window_us": length, "winner": winner} | {name: sums[name][n] for name in sums}
                for n, topic in enumerate(chain.topics)
            ]
    yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(WINDOWS))


class Chain:
    """Messages in the order of topic, key and position, as arrays.

    Args:
        table: the columns topic, epoch, position, accepted_us, key, hash and size. A row can stand for several
            messages with an equal payload: then it also has `count`, how many, `accepted_us` of the first, and
            `behind_us`, by how much the others came after it, in all; see `live`.

    Attributes:
        topics: their names, in the order in which they lie.
        order: which row of the table each message is.
        begins: whether a message has another key than the one before it.
        time, hash: of each message.
    """

    def __init__(self, table: pa.Table) -> None:
        topics, topic = _numbered(table.column("topic"))
        keys, key = _numbered(table.column("key"))
        epochs, epoch = _numbered(table.column("epoch"))
        position = table.column("position").to_numpy()
        group = (topic * (len(epochs) + 1) + epoch) * (len(keys) + 1) + key  # a number for each key of each topic
        self.order = order = _order(group, position)
        group = group[order]
        self.time, self.hash, self._size = (
            table.column(name).to_numpy()[order] for name in ("accepted_us", "hash", "size")
        )
        single = "count" not in table.column_names
        self._count = np.ones(len(order), np.int64) if single else table.column("count").to_numpy()[order]
        self._behind = np.zeros(len(order), np.int64) if single else table.column("behind_us").to_numpy()[order]
        self.begins = np.ones(len(order), bool)
        self.begins[1:] = (group[1:] != group[:-1]) | (key[order][1:] == len(keys))  # no key: each for itself
        self._topic_starts = np.flatnonzero(np.diff(topic[order], prepend=-1))
        self.topics = topics.take(pa.array(topic[order][self._topic_starts])).to_pylist()

    def opens(self, lengths_us: Sequence[int]) -> list[np.ndarray]:
        """For each window's length the numbers of the messages at which a window opens."""
        gaps = np.diff(self.time, prepend=0)
        gaps[self.begins] = _ENDLESS
        found: list[list[int]] = [[] for _ in lengths_us]
        since = [0] * len(lengths_us)
        for start in range(0, len(gaps), _CHUNK):
            chunk = gaps[start : start + _CHUNK].tolist()
            for number, length in enumerate(lengths_us):
                since[number] = _walk(chunk, start, length, since[number], found[number])
        return [np.array(numbers, np.int64) for numbers in found]

    def sums(self, opens: np.ndarray, winner: Winner) -> dict[str, list[int]]:
        """The columns of `WINDOWS` that are numbers, each with a value for each topic."""
        ends = np.append(opens[1:], len(self.time))
        won = opens if winner == "first" else ends - 1
        differing = self.hash != np.repeat(self.hash[won], ends - opens)
        kept = np.zeros(len(self.time), bool)
        kept[won] = True
        measures = {
            "messages": self._count,
            "bytes": self._size * self._count,
            "kept": kept,
            "kept_bytes": self._size * kept,
            "differing": differing * self._count,
        }
        if winner == "last":
            nothing = np.zeros(len(self.time), np.int64)
            measures |= dict.fromkeys(("delayed", "delay_us", "unseen", "max_delay_us"), nothing)
        else:
            measures |= self._delays(differing, opens, ends)
        return {
            name: self.totals(values, np.maximum if name == "max_delay_us" else np.add)
            for name, values in measures.items()
        }

    def totals(self, values: np.ndarray, add: np.ufunc = np.add) -> list[int]:
        """For each topic the sum of what its messages have, or what else `add` makes of it."""
        found: list[int] = add.reduceat(values.astype(np.int64), self._topic_starts).tolist()
        return found

    def _delays(self, differing: np.ndarray, opens: np.ndarray, ends: np.ndarray) -> dict[str, np.ndarray]:
        """Until when what was dropped and differs stays unseen: until the key's next window opens."""
        followed = np.append(~self.begins[opens[1:]], False)
        followed_at = np.append(self.time[opens[1:]], 0)
        delayed = differing & np.repeat(followed, ends - opens)
        delay = np.where(delayed, np.repeat(followed_at, ends - opens) - self.time, 0)
        return {
            "delayed": delayed * self._count,
            "delay_us": delay * self._count - np.where(delayed, self._behind, 0),
            "unseen": (differing & ~delayed) * self._count,
            "max_delay_us": delay,
        }


def _walk(gaps: list[int], start: int, window: int, since: int, opens: list[int]) -> int:
    """Append where windows open; the time since the last one did, at the end of these gaps."""
    for number, gap in enumerate(gaps, start):
        since += gap
        if since >= window:
            opens.append(number)
            since = 0
    return since


def _order(group: np.ndarray, position: np.ndarray) -> np.ndarray:
    """The order by group and then by position."""
    position = position - position.min()
    span = int(position.max()) + 1
    if (int(group.max()) + 1) * span < FOREVER_US:  # one integer for both: sorting those is four times as fast
        return np.argsort(group * span + position)
    return np.lexsort((position, group))


def _numbered(column: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray]:
    """The distinct values, and for each row the number of its value; null has the number after the last."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    values = encoded.dictionary
    return values, encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
