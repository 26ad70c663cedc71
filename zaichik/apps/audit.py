"""Do a broker's numbers add up?

The conservation laws of docs/understand/semantics.md, checked against what `describe` reports.

Each law is a sum that a person can follow, because every message has exactly one fate:

    published 12 = stored 10 + compacted 2

A row of `describe` is made between two requests, so its numbers belong together, however busy the
broker is. Two rows may be from different moments: messages come and go between two pages. So each
law is about the numbers of one row, and a correct broker is never accused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Of `client.topics()` or `client.subscriptions()`; docs/use/describe.md documents it.
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sum:
    """A law about one topic or one subscription, with its numbers.

    Attributes:
        kind: "topic" or "subscription".
        name: which one, as `describe` names it.
        whole: the name of what is accounted for, and the amount.
        parts: the name of each fate, and the amount that has met it.
    """

    kind: str
    name: str
    whole: tuple[str, int]
    parts: tuple[tuple[str, int], ...]

    @property
    def difference(self) -> int:
        """The whole less its parts: anything but 0 is a bug of the broker."""
        return self.whole[1] - sum(number for _, number in self.parts)

    def __str__(self) -> str:
        """Returns the sum as a line, without the name of the topic or subscription."""
        name, total = self.whole
        sign = "≠" if self.difference else "="
        parts = " + ".join(f"{part} {number:,}" for part, number in self.parts)
        return f"{name} {total:,} {sign} {parts}"


def audit(topics: Iterable[Row], subscriptions: Iterable[Row] = ()) -> list[Sum]:
    """Returns every law with its numbers, topics first. It holds if its difference is 0.

    Args:
        topics: their states, as `client.topics()` returns them.
        subscriptions: the same, from `client.subscriptions()`. A name whose reader is away has no
            law of its own, and neither has a worker: its shared name has one.
    """
    sums: list[Sum] = []
    for topic in topics:
        sums += _of_topic(topic)
    for reader in subscriptions:
        if "shared" in reader:
            sums.append(_of_shared_name(reader))
        elif reader["connection"] and "worker" not in reader:
            sums += _of_subscription(reader)
    return sums


def _of_topic(row: Row) -> Iterable[Sum]:
    yield _sum("topic", row, "published", row["published"], "stored", "compacted")
    rare = [fate for fate in ("superseded", "damaged") if row.get(fate)]
    fates = ["resident", "expired", "evicted", *rare]
    yield _sum("topic", row, "stored", row["stored"], *fates)


def _of_subscription(row: Row) -> Iterable[Sum]:
    start, delivered = row["start"], row["delivered"]
    end = row.get("next_offset", row["cursor"] + row["ahead"])  # older brokers do not tell it
    fates = ["delivered", "skipped", "ahead"]
    if row.get("passed"):
        fates.insert(2, "passed")
    yield _sum("subscription", row, "since its start", end - start, *fates)
    # What is settled is not counted by the broker. It cannot be more than the offsets that were
    # committed since the start, nor less than nothing: then something is in flight twice, or not at
    # all.
    settled = max(0, min(delivered - row["in_flight"], row["committed"] - start))
    parts = (("settled", settled), ("in flight", row["in_flight"]))
    yield Sum("subscription", row["name"], ("delivered", delivered), parts)


def _of_shared_name(row: Row) -> Sum:
    """Returns the law of a shared name: what was handed out, or passed over, has one fate each."""
    shared = row["shared"]
    parts = [
        ("done", shared["done"]),
        ("dead", shared["dead"]),
        ("open", shared["open"]),
        ("skipped", row["skipped"]),
    ]
    rare = [("passed", row["passed"]), ("forgotten", shared["forgotten"])]
    parts += [(fate, number) for fate, number in rare if number]
    whole = ("since its start", row["cursor"] - row["start"])
    return Sum("subscription", row["name"], whole, tuple(parts))


def _sum(kind: str, row: Row, whole: str, total: int, *parts: str) -> Sum:
    return Sum(kind, row["name"], (whole, total), tuple((part, row[part]) for part in parts))
