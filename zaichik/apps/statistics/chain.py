"""What would another compaction window keep, save and lose?

For any number of windows, over the same sorted messages.

The rule (COM-1) is greedy: a message is kept if no *kept* message of its key lies within the window
before it. Whether it is kept depends on what was kept before it, and so on back to the first. No
`lag` and no time bucket expresses that (`docs/use/statistics.md` shows both go wrong). A loop does:

    # `gap` is the time since the key's message before; it is endless for the first.
    for number, gap in enumerate(gaps):
        since_opened += gap
        # Nothing of this key was kept within the window: a new one opens.
        if since_opened >= window:
            opens.append(number)
            since_opened = 0

Sorted by key and then by position, the whole table is one such chain, whatever the number of keys
and however skewed they are. `walk` is this loop. `opening` finds the same messages faster, all keys
at a time, from two observations:

* A message whose gap is as long as the window opens one, whatever came before. These messages cut
  the chain into runs, and a run that is over within a window opens no other.
* In the other runs, the next window opens at the first message a window later. That is a binary
  search, and numpy makes one for every run at once: each round continues where the round before it
  has arrived.

What follows from where windows open, such as which payloads differ from the one that stayed, are
whole-array operations on the messages that are dropped.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa

Winner = Literal["first", "last", "newest"]
"""Which message stays: the first of a window, its last, or, as in a table, the newest of a key."""
Window = timedelta | Literal["forever"]
Policy = tuple[int, Winner]
"""A window's length in microseconds, and which message stays.

A table has no window: its length is that of one without end.
"""

# The length of a window without end; neither Arrow nor Spark has a larger integer.
FOREVER_US = 2**63 - 1
CHUNK = 1 << 20  # gaps that are Python integers at the same time: 32 bytes each
FEW = 32  # runs for which a round is not worthwhile: they are walked

SUMS = ("messages", "bytes", "kept", "kept_bytes", "differing", "delayed", "delay_us", "unseen")
"""What is counted of a window, and can be added up.

`messages` and `bytes` were published, `kept` and `kept_bytes` of them stored. `differing` were
dropped although their payload is not that of the message which stayed in their place: information
lost. With the winner `first`, readers see the key's older value meanwhile: for `delayed` of the
differing until the next message of their key was stored, `delay_us` in all; for `unseen` of them
nothing of their key followed, so the value is never seen. With `last` a live reader sees everything
at once, and only latecomers miss what was superseded.

With `newest`, which is what a table does (TAB-1), `kept` is what a late reader would read who comes
after the last of the messages: the newest of each key, unless it is a tombstone, and all without a
key. `differing` were superseded by a message that says something else, so only those read them who
came before it. A tombstone is none of these: whoever comes later finds its key gone.
"""
NUMBERS = (*SUMS, "max_delay_us")
"""These, and the longest delay."""


WINNERS: tuple[Winner, ...] = ("first", "last", "newest")
TABLE: Policy = (FOREVER_US, "newest")


def policies(lengths_us: Iterable[int], winners: Collection[Winner]) -> list[Policy]:
    """Returns each length with each winner of a window; and the table, if it is asked for, once."""
    found: list[Policy] = []
    for length in lengths_us:
        found += [(length, winner) for winner in winners if winner != "newest"]
    if "newest" in winners:
        found.append(TABLE)
    return found


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


class Chain:
    """Messages in the order of topic, key and position, as arrays.

    Args:
        table: at least one row, with the columns position, accepted_us, hash and size; epoch and
            key, or instead of these `group`, a number that the messages of a key have in common,
            and `tombstone`, whether the message deletes its key; and topic, unless there is only
            one. A row can stand for several messages with an equal
            payload: then it also has `count`, how many, `accepted_us` of the first, and
            `behind_us`, by how much the others came after it, in all; see `carry`.
        group: `groups` of the table, if they are known already.

    Attributes:
        topics: their names, in the order in which they lie; [""] without names.
        order: which row of the table each message is.
        begins: whether a message has another key than the one before it.
        time, hash: of each message.
    """

    def __init__(self, table: pa.Table, group: np.ndarray | None = None) -> None:
        position = table.column("position").to_numpy()
        group = _groups(table) if group is None else group
        topics, topic = pa.array([""]), np.zeros(len(position), np.int64)
        if "topic" in table.column_names:
            topics, topic = numbered(table.column("topic"))
            group = group + topic * (int(group.max()) + 1)
        self.order = order = _order(group, position)
        self.time, self.hash, self._size = (
            table.column(name).to_numpy()[order] for name in ("accepted_us", "hash", "size")
        )
        self._tombstone = _tombstones(table)[order]
        counted = "count" in table.column_names
        if counted:
            self._count = table.column("count").to_numpy()[order]
            self._behind = table.column("behind_us").to_numpy()[order]
        else:
            self._count = np.broadcast_to(1, len(order))
            self._behind = np.broadcast_to(0, len(order))
        self.begins = np.diff(group[order], prepend=-1) != 0
        topic = topic[order]
        starts = np.flatnonzero(np.diff(topic, prepend=-1))
        self.topics: list[str] = topics.take(pa.array(topic[starts])).to_pylist()
        self._edges = np.append(starts, len(order))
        self._whole = {
            "messages": self.totals(self._count),
            "bytes": self.totals(self._size * self._count),
        }

    def opens(self, lengths_us: Sequence[int]) -> Iterator[np.ndarray]:
        """Yields, for each length, the numbers of the messages at which a window opens, in order.

        They are made one length at a time, because each takes up to eight bytes per message.
        """
        gaps = np.diff(self.time, prepend=0)
        gaps[self.begins] = FOREVER_US
        for length in lengths_us:
            yield opening(gaps, length)

    def tried(self, policies: Sequence[Policy]) -> Iterator[tuple[Policy, dict[str, list[int]]]]:
        """Yields what each policy would do: `NUMBERS`, each with a value for each topic."""
        lengths = sorted({policy[0] for policy in policies if policy != TABLE})
        for length, opens in zip(lengths, self.opens(lengths), strict=True):
            for policy in policies:
                if policy[0] == length and policy != TABLE:
                    yield policy, self.sums(opens, policy[1])
        if TABLE in policies:
            yield TABLE, self.as_table()

    def as_table(self) -> dict[str, list[int]]:
        """What a table would do: `NUMBERS`, each with a value for each topic."""
        is_newest = self.newest()
        kept = self.living()
        says_more = np.append(self.hash[1:] != self.hash[:-1], False)
        lost = np.flatnonzero(~is_newest & ~self._tombstone & says_more)
        found = dict(self._whole)
        found["kept"] = np.diff(np.searchsorted(kept, self._edges)).tolist()
        found["kept_bytes"] = self._totals_at(kept, self._size[kept])
        found["differing"] = np.diff(np.searchsorted(lost, self._edges)).tolist()
        # Live readers see everything at once, and late ones what is up to date.
        return found | self._no_delays()

    def newest(self) -> np.ndarray:
        """Whether each message is the newest of its key."""
        found: np.ndarray = np.append(self.begins[1:], True)
        return found

    def living(self) -> np.ndarray:
        """The numbers of the messages whose keys a table would have: their newest, no tombstone."""
        return np.flatnonzero(self.newest() & ~self._tombstone)

    def sums(self, opens: np.ndarray, winner: Winner) -> dict[str, list[int]]:
        """What windows would do: `NUMBERS`, each with a value for each topic.

        Args:
            opens: where they open; see `opens`.
            winner: the message of a window that stays: its first or its last.
        """
        won = opens if winner == "first" else np.append(opens[1:], len(self.time)) - 1
        is_won = np.zeros(len(self.time), bool)
        is_won[won] = True
        dropped = np.flatnonzero(~is_won)
        # In whose window: of the messages up to one that is dropped, all but the dropped ones have
        # won.
        window = dropped - np.arange(len(dropped)) - (winner == "first")
        differs = self.hash[dropped] != self.hash[won[window]]
        lost, window = dropped[differs], window[differs]
        found = dict(self._whole)
        found["kept"] = np.diff(np.searchsorted(won, self._edges)).tolist()
        found["kept_bytes"] = self._totals_at(won, self._size[won])
        found["differing"] = self._totals_at(lost, self._count[lost])
        if winner == "last":
            # The last message of a window is the one that is up to date.
            return found | self._no_delays()
        following = np.append(opens[1:], -1)[window]
        return found | self._delays(lost, following)

    def _no_delays(self) -> dict[str, list[int]]:
        nothing = [0] * len(self.topics)
        return dict.fromkeys(("delayed", "delay_us", "unseen", "max_delay_us"), nothing)

    def totals(self, values: np.ndarray) -> list[int]:
        """For each topic the sum of what its messages have."""
        return [int(values[start:end].sum()) for start, end in pairwise(self._edges)]

    def latest(self) -> list[int]:
        """For each topic the latest time of its messages."""
        return [int(self.time[start:end].max()) for start, end in pairwise(self._edges)]

    def _totals_at(self, at: np.ndarray, values: np.ndarray) -> list[int]:
        """The same, only of the messages with the given numbers, in order."""
        return [
            int(values[start:end].sum())
            for start, end in pairwise(np.searchsorted(at, self._edges))
        ]

    def _delays(self, lost: np.ndarray, following: np.ndarray) -> dict[str, list[int]]:
        """Until when what is lost stays unseen: until the next window of its key opens.

        Args:
            lost: numbers of messages.
            following: for each, where the next window opens, of whatever key; -1 if none does.
        """
        is_followed = (following >= 0) & ~self.begins[following]
        late = lost[is_followed]
        never = lost[~is_followed]
        delay = self.time[following[is_followed]] - self.time[late]
        # A row may stand for several messages, which came before the time of the row.
        delays = delay * self._count[late] - self._behind[late]
        edges = np.searchsorted(late, self._edges)
        longest = [int(delay[start:end].max(initial=0)) for start, end in pairwise(edges)]
        return {
            "delayed": self._totals_at(late, self._count[late]),
            "delay_us": self._totals_at(late, delays),
            "unseen": self._totals_at(never, self._count[never]),
            "max_delay_us": longest,
        }


def opening(gaps: np.ndarray, window: int) -> np.ndarray:
    """Returns the numbers of the messages at which a window of that length opens, as `walk` does.

    Args:
        gaps: the time between each message and the one before it of its key, `FOREVER_US` for a
            key's first.
        window: in µs.
    """
    starts = np.flatnonzero(gaps >= window)
    lengths = np.diff(starts, append=len(gaps))
    several = lengths > 1
    if window == FOREVER_US or not several.any():
        return starts
    # One axis for all runs, in which each begins a window after the end of the one before it.
    members = np.flatnonzero(np.repeat(several, lengths))
    steps = np.minimum(gaps[members], window)
    begins = np.concatenate(([0], np.cumsum(lengths[several])))
    opens = np.zeros(len(gaps), bool)
    opens[starts] = True
    if steps.sum(dtype=np.float64) < 2.0**62:
        axis = np.cumsum(steps)
        at, end = begins[:-1], begins[1:]
        is_long = axis[end - 1] - axis[at] >= window
        at, end = at[is_long], end[is_long]
        while len(at) > FEW:
            at = np.searchsorted(axis, axis[at] + window)
            inside = at < end
            at, end = at[inside], end[inside]
            opens[members[at]] = True
    else:  # the axis would be too long for an integer: centuries, and very many keys
        at, end = begins[:1], begins[-1:]
    for start, stop in zip((at + 1).tolist(), end.tolist(), strict=True):
        opens[members[start + walk(steps[start:stop], window)]] = True
    return np.flatnonzero(opens)


def walk(gaps: np.ndarray, window: int) -> np.ndarray:
    """Returns where windows open in a part of the chain that follows an opening message."""
    opens: list[int] = []
    since = 0
    for start in range(0, len(gaps), CHUNK):
        for number, gap in enumerate(gaps[start : start + CHUNK].tolist(), start):
            since += gap
            if since >= window:
                opens.append(number)
                since = 0
    return np.array(opens, np.int64)


def numbered(column: pa.ChunkedArray) -> tuple[pa.Array, np.ndarray]:
    """Returns the distinct values, and for each row the number of its value.

    Null has the number after the last.
    """
    chunks = column.dictionary_encode().chunks
    if not chunks:
        return pa.array([], column.type), np.zeros(0, np.int64)
    values = chunks[-1].dictionary
    null = pa.scalar(len(values), pa.int32())
    numbers = [chunk.indices.fill_null(null).to_numpy(zero_copy_only=False) for chunk in chunks]
    return values, np.concatenate(numbers).astype(np.int64)


def groups(key: np.ndarray, keys: int, epochs: pa.ChunkedArray) -> np.ndarray:
    """Returns a small number for each message: its key's and epoch's.

    A message without a key has its own (COM-5).

    Args:
        key: of each message, the number of its key; `keys` if it has none.
        keys: how many there are.
        epochs: of each message.
    """
    without = key == keys
    if without.any():
        key = key.copy()
        key[without] += np.arange(np.count_nonzero(without))
    several, epoch = numbered(epochs)
    group: np.ndarray = key * (len(several) + 1) + epoch
    return group


def _tombstones(table: pa.Table) -> np.ndarray:
    """Returns whether each message deletes its key: it has one, and no payload (TAB-5)."""
    if "tombstone" in table.column_names:
        given: np.ndarray = table.column("tombstone").to_numpy()
        return given
    if "key" not in table.column_names:
        return np.zeros(len(table), bool)
    found: np.ndarray = table.column("key").is_valid().to_numpy()
    found &= table.column("size").to_numpy() == 0
    return found


def _groups(table: pa.Table) -> np.ndarray:
    if "group" in table.column_names:
        return numbered(table.column("group"))[1]
    keys, key = numbered(table.column("key"))
    return groups(key, len(keys), table.column("epoch"))


def _order(group: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Returns the order by group and then by position."""
    position = position - position.min()
    span = int(position.max()) + 1
    # One integer for both: sorting those is four times as fast.
    if (int(group.max()) + 1) * span < FOREVER_US:
        order: np.ndarray = np.argsort(group * span + position)
    else:
        order = np.lexsort((position, group))
    return order
