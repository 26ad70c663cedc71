"""All numbers of one topic, added up part by part.

They are those of the policy that ran, of hot keys, and of what other windows would do.

The policy that ran is not recomputed: `status` and `winner` of each event are what the broker
decided and wrote down. So the totals of a topic with a journal are the counters that `zaichik
describe` shows, as far back as the journal reaches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zaichik.apps.statistics.chain import (
    NUMBERS,
    SUMS,
    WINNERS,
    Chain,
    Policy,
    groups,
    numbered,
    policies,
)
from zaichik.apps.statistics.events import STORED

Row = dict[str, Any]

COUNTS = (
    "published",
    "stored",
    "compacted",
    "bytes",
    "stored_bytes",
    "compacted_bytes",
    "windows",
    "keyed",
    "differing",
    "unknown",
    "superseded",
)


@dataclass(slots=True)
class Span:
    """The messages of one epoch.

    Attributes:
        first, last: their lowest and highest position.
        count: how many they are.
        first_us, last_us: when the first and the last of them were accepted.
    """

    first: int
    last: int
    count: int
    first_us: int
    last_us: int

    def merged(self, other: "Span") -> "Span":
        """Returns the span of both."""
        return Span(
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            count=self.count + other.count,
            first_us=min(self.first_us, other.first_us),
            last_us=max(self.last_us, other.last_us),
        )


@dataclass(slots=True)
class Tally:
    """The numbers of one topic so far.

    Args:
        lengths_us: of the windows to try.
        most_keys: how many hot keys to find.

    Attributes:
        counts: of the policy that ran, by the names of `COUNTS`.
        hot_keys: the keys with the most messages, a row each: `key`, and their `COUNTS`.
        what_if: the `NUMBERS` of each policy: of each length and winner, and of a table.
        spans: by epoch.
    """

    lengths_us: Sequence[int]
    most_keys: int = 10
    counts: Row = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    hot_keys: list[Row] = field(default_factory=list)
    what_if: dict[Policy, dict[str, int]] = field(default_factory=dict)
    spans: dict[int, Span] = field(default_factory=dict)

    def add(self, events: pa.Table) -> None:
        """Count events, which must have all messages of their keys, and not be empty."""
        facts, (keys, key) = _facts(events), numbered(events.column("key"))
        for name, count in _counted(facts, slice(None)).items():
            self.counts[name] += count
        hot = self.hot_keys + _hottest(keys, key, facts, self.most_keys)
        self.hot_keys = sorted(hot, key=lambda row: (-row["published"], row["key"]))[
            : self.most_keys
        ]
        self._add_spans(events)
        chain = Chain(events, groups(key, len(keys), events.column("epoch")))
        for policy, numbers in chain.tried(policies(self.lengths_us, WINNERS)):
            sums = {name: of_topics[0] for name, of_topics in numbers.items()}
            before = self.what_if.setdefault(policy, dict.fromkeys(NUMBERS, 0))
            before |= {name: before[name] + sums[name] for name in SUMS}
            before["max_delay_us"] = max(before["max_delay_us"], sums["max_delay_us"])

    def _add_spans(self, events: pa.Table) -> None:
        aggregates = [(name, how) for name in ("position", "accepted_us") for how in ("min", "max")]
        found = events.group_by("epoch").aggregate([*aggregates, ("position", "count")])
        for row in found.to_pylist():
            span = Span(
                row["position_min"], row["position_max"], row["position_count"],
                row["accepted_us_min"], row["accepted_us_max"],
            )  # fmt: skip
            before = self.spans.get(row["epoch"])
            self.spans[row["epoch"]] = span if before is None else before.merged(span)


def _facts(events: pa.Table) -> dict[str, np.ndarray]:
    """Returns an array for each column that `_counted` uses."""
    stored = events.column("status").to_numpy() == STORED
    differs, unknown = np.zeros(len(events), bool), np.zeros(len(events), bool)
    if not stored.all():
        _compare(events, stored, differs, unknown)
    return {
        "stored": stored,
        "size": events.column("size").to_numpy(),
        "keyed": events.column("key").is_valid().to_numpy(),
        "differs": differs,
        "unknown": unknown,
        "supersedes": events.column("superseded").is_valid().to_numpy(),
    }


def _compare(
    events: pa.Table, stored: np.ndarray, differs: np.ndarray, unknown: np.ndarray
) -> None:
    """Note which of the dropped messages differ from their winner, and which have none known."""
    epoch, hash_ = (events.column(name).to_numpy() for name in ("epoch", "hash"))
    offset, winner = (events.column(name).fill_null(-1).to_numpy() for name in ("offset", "winner"))
    for one in events.column("epoch").unique().to_pylist():
        kept = np.flatnonzero(stored & (epoch == one))
        dropped = np.flatnonzero(~stored & (epoch == one))
        if not len(kept):
            unknown[dropped] = True
            continue
        kept = kept[np.argsort(offset[kept], kind="stable")]
        at = np.minimum(np.searchsorted(offset[kept], winner[dropped]), len(kept) - 1)
        is_known = offset[kept][at] == winner[dropped]
        unknown[dropped] = ~is_known
        differs[dropped] = is_known & (hash_[dropped] != hash_[kept][at])


def _counted(facts: dict[str, np.ndarray], at: np.ndarray | slice) -> Row:
    """Returns `COUNTS` of some of the events."""
    stored, size, keyed, differs, unknown, supersedes = (values[at] for values in facts.values())
    published = len(stored)
    kept = np.count_nonzero(stored)
    numbers = {
        "published": published,
        "stored": kept,
        "compacted": published - kept,
        "bytes": size.sum(),
        "stored_bytes": size[stored].sum(),
        "compacted_bytes": size[~stored].sum(),
        "windows": np.count_nonzero(stored & keyed),
        "keyed": np.count_nonzero(keyed),
        "differing": np.count_nonzero(differs),
        "unknown": np.count_nonzero(unknown),
        "superseded": np.count_nonzero(supersedes),
    }
    return {name: int(number) for name, number in numbers.items()}


def _hottest(keys: pa.Array, key: np.ndarray, facts: dict[str, np.ndarray], most: int) -> list[Row]:
    """Returns the keys with the most messages.

    Of those with as many, the first in the order of bytes.
    """
    counts = np.bincount(key, minlength=len(keys) + 1)[: len(keys)]
    ranked = pa.table({"key": keys, "count": counts, "number": np.arange(len(keys))})
    by = [("count", "descending"), ("key", "ascending")]
    chosen = ranked.take(pc.select_k_unstable(ranked, k=min(most, len(keys)), sort_keys=by))
    of_chosen = np.flatnonzero(np.isin(key, chosen["number"].to_numpy()))
    return [
        {"key": row["key"]} | _counted(facts, of_chosen[key[of_chosen] == row["number"]])
        for row in chosen.to_pylist()
    ]
