"""All topics at a glance: the rows of a table, computed from their counters, sweep after sweep."""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from zaichik.base.clock import SECOND_US

BEHIND_S = 1.0  # a reader that is a message behind for a moment is not worth showing
Sample = tuple[int, int, int]  # when, and how much was published and refused until then


class Row(NamedTuple):
    """One topic.

    Attributes:
        rate: messages published per second.
        held, capacity: messages that can be read, and at most. A table's tombstones do not count.
        is_table: whether it is a table.
        lag: messages that the reader furthest behind has still to settle.
        lag_s: seconds since the oldest of these was accepted; None if there is none, or the broker
            does not report it.
        state: "full" if batches are refused, "behind", "live" or "quiet".
        spark: rates of equal times, the newest last; none before the first of them is over.
    """

    name: str
    rate: float
    held: int
    capacity: int
    is_table: bool
    bytes: int
    readers: int
    lag: int
    lag_s: float | None
    state: str
    spark: list[float]


class Topics:
    """The rows of all topics, by name.

    Args:
        most: rates of each `spark`.
        every_us: from one of these to the next, at least; 0: from sweep to sweep.
    """

    def __init__(self, most: int, every_us: int = 0) -> None:
        self.rows: dict[str, Row] = {}
        self._most, self._every_us = most, every_us
        self._samples: dict[str, deque[Sample]] = {}
        self._epochs: dict[str, int] = {}  # 0: the broker is too old to tell

    def seen(self, counted: Mapping[str, Any], now_us: int) -> None:
        """Take one topic's counters (see `describe`, kind 4) at that time of the broker's."""
        name, published = counted["name"], counted["published"]
        samples = self._samples.setdefault(name, deque(maxlen=self._most + 1))
        epoch = counted.get("epoch") or 0
        is_other = epoch != self._epochs.get(name, epoch)
        # The broker was restarted, or it is another topic of that name.
        if is_other or (samples and samples[-1][1] > published):
            samples.clear()
        self._epochs[name] = epoch
        now = now_us, published, counted["refused"] or 0
        if not samples or now_us - samples[-1][0] >= self._every_us:
            samples.append(now)
        self.rows[name] = _row(counted, list(samples), now)

    def keep(self, names: set[str]) -> None:
        """Forget all other topics."""
        for name in self.rows.keys() - names:
            del self.rows[name], self._samples[name], self._epochs[name]

    def found(self, search: str, column: str, *, descending: bool) -> list[Row]:
        """Returns the rows with these letters in their names, sorted by a column.

        They are not sorted if there is no such column.

        Args:
            search: the letters; capitals are the same as others.
            column: a field of `Row`.
            descending: whether the largest come first.
        """
        found = [row for row in self.rows.values() if search.lower() in row.name.lower()]
        if column in Row._fields:
            found.sort(key=lambda row: getattr(row, column) or 0, reverse=descending)
        return found


def _row(counted: Mapping[str, Any], samples: list[Sample], now: Sample) -> Row:
    # At least one whole interval ago, once there is one: a rate over less would jump.
    before = samples[-2:][0]
    rate = next(_rates([before, now]))
    # Older brokers, which do not tell it, have no tables: there it is all from `needed` on.
    lag = counted.get("lag", counted["next_offset"] - counted["needed"])
    needed_us = counted["needed_us"]
    lag_s = round((now[0] - needed_us) / SECOND_US, 1) if needed_us and lag else None
    if now[2] > before[2]:
        state = "full"
    elif lag and (lag_s is None or lag_s >= BEHIND_S):
        state = "behind"
    else:
        state = "live" if rate else "quiet"
    # Older brokers, which do not tell it, have no tables: there it is all from the head on.
    span = counted["next_offset"] - counted["head"] - counted["damaged"]
    held = counted.get("resident", span)
    tombstones = counted.get("tombstones")
    is_table = tombstones is not None
    if is_table:
        held -= tombstones
    sizes = held, counted["capacity"], is_table, counted["bytes"]
    return Row(
        counted["name"],
        rate,
        *sizes,
        counted["subscriptions"],
        lag,
        lag_s,
        state,
        [*_rates(samples)],
    )


def _rates(samples: list[Sample]) -> Iterator[float]:
    for (since_us, was, _), (now_us, count, _) in pairwise(samples):
        yield round((count - was) * SECOND_US / max(1, now_us - since_us), 1)
