"""What one micro-batch leaves for the next, so that windows continue across both.

A micro-batch cannot be counted by itself: what becomes of its messages depends on the windows that
are open when it begins. So each leaves behind the last window of each key, as a few rows that look
like messages. The next one puts those rows before its own messages, and walks over both with the
same `Chain`:

    change of the sums = those of (carried rows and new messages) - those of the carried rows alone

How little may be carried? A row stands for all messages of a window that are alike for what may
come. Keeping first messages, that is one row for those equal to the winner, and one for those that
differ and wait to be seen. Keeping last messages, it is a row for each different payload, because
each of them may come last again. A key leaves when its window is over and nothing waits; what waits
is given up after a while, and stays unseen. So what is carried is bounded by the windows open at
one time, not by the keys there ever were. Of windows that never close, there are as many as a
broker remembers: see `forgetting`. What a table would do takes a row for each key that is not
deleted, which is as much as the table would have.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from zaichik.apps.spark.events import EVENTS
from zaichik.apps.spark.forgetting import Turns, turned
from zaichik.apps.spark.windows import WINDOWS
from zaichik.apps.statistics.chain import FOREVER_US, NUMBERS, TABLE, Chain, Policy, numbered
from zaichik.apps.statistics.events import STORED

RAN_US = (
    0  # where a window's length is expected: the policy that ran, whose decisions are in the events
)

NEW = StructType(
    [
        EVENTS[name]
        for name in ("topic", "epoch", "position", "accepted_us", "key", "hash", "size", "status")
    ]
)
CARRIED = StructType(
    [*NEW, *(StructField(name, LongType()) for name in ("count", "behind_us", "window_us", "turn")),
     StructField("winner", StringType())]
)  # fmt: skip
"""A row that stands for `count` equal messages of a key's last window.

It is for one length and one winner; see `Chain`.

`turn` is the number of a window that never closes, null for others.
"""
ALONE = (*NEW.fieldNames(), "count", "behind_us")
"""The columns of a row that stands for one message."""
LATEST = ("now_us", "turns", "floor")
COUNTED = StructType(
    [
        *CARRIED,
        *(WINDOWS[name] for name in NUMBERS),
        *(StructField(name, LongType()) for name in LATEST),
    ]
)
"""A row to carry, without numbers; or numbers to add to the sums, and their topic's latest time.

With those of windows that never close comes how far these have come by then: `Turns`.
"""
CHANGES = ("topic", "window_us", "winner", *NUMBERS, *LATEST)  # the columns of numbers to add


def never_closes(policy: Policy) -> bool:
    """Whether its windows are those that a broker forgets: see `forgetting`."""
    return policy[0] == FOREVER_US and policy != TABLE


def count(
    batches: Iterator[pa.RecordBatch],
    policies: Sequence[Policy],
    latest: Mapping[str, int],
    turns: Mapping[str, Turns],
    *,
    remember_us: int,
    max_keys: int,
) -> Iterator[pa.RecordBatch]:
    """Returns all that one partition's keys change and leave, as `COUNTED`.

    Args:
        batches: rows of `CARRIED`: those carried, and new messages, which have no `window_us`. If
            there are policies whose windows never close, they are all of their topics; else all of
            their keys.
        policies: lengths and winners.
        latest: what time it was in each topic before; here it is that of the topic's latest message
            in this partition at least.
        turns: how far windows that never close had come in each topic.
        remember_us: see `live.writer`.
        max_keys: see `live.writer`.
    """
    schema = to_arrow_schema(CARRIED)
    table = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
    new = table.filter(pc.is_null(table["window_us"]))
    latest = _later(latest, new)
    later: dict[str, Turns] = {}
    if any(map(never_closes, policies)):
        has_turn = pc.is_valid(table["turn"])
        new, later = turned(new, table.filter(has_turn), turns, max_keys)
        turns = {**turns, **later}
    for policy in policies:
        length, winner = policy
        carried = table.filter(
            pc.and_(pc.equal(table["window_us"], length), pc.equal(table["winner"], winner))
        )
        whole = pa.concat_tables([carried, new])
        if policy == TABLE:
            yield from _count_table(whole, carried)
            continue
        if len(whole):
            walk = _Walk(whole, policy)
            yield walk.sums(1, later)
            yield from walk.last_windows(latest, turns, remember_us)
        if len(carried):
            yield _Walk(carried, policy).sums(-1, {})


def _count_table(whole: pa.Table, carried: pa.Table) -> Iterator[pa.RecordBatch]:
    """What a table's keys change and leave; `whole` are the carried rows and new messages."""
    if len(whole):
        chain = Chain(whole)
        yield _as_counted(TABLE, _change(chain, chain.as_table(), 1))
        rows = whole.take(chain.order[chain.living()])
        rows = rows.filter(pc.is_valid(rows["key"]))
        if len(rows):
            yield _as_counted(TABLE, {name: rows[name] for name in ALONE})
    if len(carried):
        chain = Chain(carried)
        yield _as_counted(TABLE, _change(chain, chain.as_table(), -1))


class _Walk:
    """The windows of one policy, over some rows of `CARRIED`."""

    def __init__(self, table: pa.Table, policy: Policy) -> None:
        self.table = table
        self.length, self.winner = policy
        self.chain = Chain(table)
        self.stored = table["status"].to_numpy()[self.chain.order] == STORED
        if self.length == RAN_US:
            self.opens = np.flatnonzero(self.chain.begins | self.stored)
        elif self.length == FOREVER_US:
            self.turn = table["turn"].fill_null(-1).to_numpy()[self.chain.order]
            self.opens = np.flatnonzero(self.chain.begins | (np.diff(self.turn, prepend=-1) != 0))
        else:
            (self.opens,) = self.chain.opens([self.length])

    def sums(self, sign: int, later: Mapping[str, Turns]) -> pa.RecordBatch:
        """Returns a row for each topic, to be added (1) or taken away (-1).

        It says how far each topic that had messages has come.
        """
        chain = self.chain
        sums = chain.sums(self.opens, self.winner)
        # What was dropped by a message that is not known opens a window, but is not kept.
        if self.length == RAN_US:
            size = self.table["size"].to_numpy()[chain.order]
            sums |= {
                "kept": chain.totals(self.stored),
                "kept_bytes": chain.totals(self.stored * size),
            }
        columns = _change(chain, sums, sign)
        if self.length == FOREVER_US:
            come = [later.get(topic) for topic in chain.topics]
            columns["turns"] = [one and one.opened for one in come]
            columns["floor"] = [one and one.floor for one in come]
        return _as_counted((self.length, self.winner), columns)

    def last_windows(
        self, latest: Mapping[str, int], turns: Mapping[str, Turns], remember_us: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows to carry."""
        chain, opens = self.chain, self.opens
        window = np.repeat(np.arange(len(opens)), np.diff(opens, append=len(chain.time)))
        differs = chain.hash != chain.hash[opens][window]
        table = self.table.take(chain.order)
        is_last = (
            np.append(chain.begins[opens[1:]], True) & pc.is_valid(table["key"]).to_numpy()[opens]
        )
        age = _of_topics(table["topic"], latest)[opens] - chain.time[opens]
        if self.length == FOREVER_US:
            floors = {topic: come.floor for topic, come in turns.items()}
            open_still = self.turn[opens] >= _of_topics(table["topic"], floors)[opens]
        else:
            open_still = age < (remember_us if self.length == RAN_US else self.length)
        if self.winner == "first":
            waits = np.logical_or.reduceat(differs, opens)
            # When it was forgotten is not known.
            lasted = 0 if self.length == FOREVER_US else self.length
            open_still |= waits & (age - lasted < remember_us)
        mine = np.flatnonzero((is_last & open_still)[window])
        if len(mine):
            opened = chain.time[opens][window[mine]]
            merged = self._merged(table.take(mine), opened, differs[mine])
            yield _as_counted((self.length, self.winner), merged)

    def _merged(
        self, table: pa.Table, opened: np.ndarray, differs: np.ndarray
    ) -> dict[str, pa.Array]:
        """The columns of `CARRIED`, with one row for all messages that are alike."""
        if self.winner == "first":
            alike = pa.array(differs)
            since = table["accepted_us"].to_numpy() - opened
            position = "min"
        else:
            # Keeping last messages, the order of rows is that of their last messages, and no
            # message waits: all times are one.
            alike = table["hash"]
            since = np.zeros_like(opened)
            position = "max"
        all_since = since * table["count"].to_numpy() + table["behind_us"].to_numpy()
        table = table.append_column("alike", alike)
        table = table.append_column("opened", pa.array(opened))
        table = table.append_column("since", pa.array(since))
        table = table.append_column("all_since", pa.array(all_since))

        by = ("topic", "epoch", "key", "alike")
        how = dict.fromkeys(("opened", "since", "hash", "size", "status", "turn"), "min")
        how["position"] = position
        how["all_since"] = "sum"
        how["count"] = "sum"
        groups = table.group_by(by, use_threads=False).aggregate(list(how.items()))
        rows = {name: groups[name] for name in by}
        for name, what in how.items():
            rows[name] = groups[f"{name}_{what}"]
        rows["accepted_us"] = pc.add(rows["opened"], rows["since"])
        counted = pc.multiply(rows["since"], rows["count"])
        rows["behind_us"] = pc.subtract(rows["all_since"], counted)
        return rows


def _change(chain: Chain, sums: Mapping[str, Sequence[int]], sign: int) -> dict[str, Any]:
    """Returns the columns of numbers to be added (1) or taken away (-1)."""
    # A maximum cannot be taken away. It need not be: in carried rows, nothing was followed by
    # anything yet.
    numbers: dict[str, Any] = {name: np.array(values) * sign for name, values in sums.items()}
    return numbers | {"topic": pa.array(chain.topics), "now_us": chain.latest()}


def _as_counted(policy: Policy, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """These columns, the policy's, and nulls for the others."""
    schema = to_arrow_schema(COUNTED)
    rows = len(columns["topic"])
    length, winner = policy
    columns = dict(columns) | {"window_us": [length] * rows, "winner": [winner] * rows}
    arrays = []
    for item in schema:
        column = pa.nulls(rows, item.type)
        if item.name in columns:
            given = columns[item.name]
            if isinstance(given, pa.ChunkedArray):
                given = given.combine_chunks()
            column = pa.array(given, item.type)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _later(latest: Mapping[str, int], new: pa.Table) -> dict[str, int]:
    found = new.group_by("topic").aggregate([("accepted_us", "max")]).to_pylist()
    return {
        **latest,
        **{row["topic"]: max(row["accepted_us_max"], latest.get(row["topic"], 0)) for row in found},
    }


def _of_topics(topics: pa.ChunkedArray, values: Mapping[str, int]) -> np.ndarray:
    """Returns what each message's topic has; 0 in one without messages: no time has gone by."""
    names, number = numbered(topics)
    found: np.ndarray = np.array([values.get(name, 0) for name in names.to_pylist()], np.int64)[
        number
    ]
    return found
