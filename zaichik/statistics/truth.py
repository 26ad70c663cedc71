"""The statistics of a topic, and what they cannot say: a number that is not known is None, and never a guess.

Three things make numbers incomplete, and each is counted or named:

* messages that are *missing* between others: the reader came too late for them;
* messages that were gone *before* the first one here: of the windows that were open then, nothing is known;
* a topic with a window of its own and no journal: what that window has dropped, nobody has written down. So shorter
  windows cannot be tried at all, and what a window loses is unknown for every length. Longer windows are tried on what
  was stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zaichik.escapes import shown
from zaichik.statistics.chain import FOREVER_US, NUMBERS, Winner
from zaichik.statistics.sources import Topic
from zaichik.statistics.tally import Row, Tally
from zaichik_protocol import FOREVER

ACCOUNT = ("published", "stored", "compacted", "bytes", "stored_bytes", "compacted_bytes", "ratio", "windows",
           "per_window", "differing", "unknown")  # fmt: skip
"""What the policy that ran has done.

`published = stored + compacted`, the same in bytes of payloads; `ratio`, the part stored; `windows` opened,
`per_window` messages in one of them, both counted over messages with a key; `differing`, dropped though their payload
was not the winner's; `unknown`, dropped by a winner that is not among the events.
"""
LOSSES = ("differing", "delayed", "delay_us", "unseen", "max_delay_us")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of one topic.

    Attributes:
        topic: its name.
        account: the columns of `ACCOUNT`, for the policy that ran; None is unknown.
        what_if: for each window and winner, the shortest window first: `window_us`, `winner`, the `NUMBERS` of `chain`,
            and `ratio`, the part of the messages that is kept; None is unknown.
        hot_keys: for each key with many messages `key`, the columns of `ACCOUNT`, and `share`, its part of all.
        missing: messages that were gone when they were to be read, although some before them were not.
        before: messages that were gone before the first that was read.
        own_us: the topic's own window; 0: it has none; None: the source does not say.
        is_journaled: whether the journal was read, which has what was dropped, too.
        source: where the events come from.
        count: how many there are.
        first_us, last_us: when the first and the last of them were accepted.
    """

    topic: str
    account: Row
    what_if: list[Row] = field(default_factory=list)
    hot_keys: list[Row] = field(default_factory=list)
    missing: int = 0
    before: int = 0
    own_us: int | None = 0
    is_journaled: bool = False
    source: str = ""
    count: int = 0
    first_us: int = 0
    last_us: int = 0

    def of_winner(self, winner: str) -> list[Row]:
        """The rows of one winner."""
        return [row for row in self.what_if if row["winner"] == winner]

    @property
    def is_hidden(self) -> bool:
        """Whether the topic's own window has dropped messages of which nothing is known."""
        return bool(self.own_us) and not self.is_journaled

    @property
    def is_exact(self) -> bool:
        """Whether all messages are known that were ever published."""
        return not (self.missing or self.before or self.is_hidden)


def statistics_of(topic: Topic, tally: Tally) -> Statistics:
    """What a tally of a topic's events says, and no more than it can."""
    own_us = _own_us(topic.settings)
    spans = tally.spans.values()
    missing = sum(span.last - span.first + 1 - span.count for span in spans)
    before = sum(span.first for span in spans)
    found = Statistics(
        topic=topic.name,
        account=account(tally.counts),
        what_if=[
            {"window_us": length, "winner": winner} | numbers | {"ratio": numbers["kept"] / numbers["messages"]}
            for (length, winner), numbers in sorted(tally.what_if.items())
        ],
        hot_keys=[_hot(row, tally.counts["published"]) for row in tally.hot_keys],
        missing=missing,
        before=before,
        own_us=own_us,
        is_journaled=topic.is_journaled,
        source=str(topic.place),
        count=sum(span.count for span in spans),
        first_us=min(span.first_us for span in spans),
        last_us=max(span.last_us for span in spans),
    )
    return _without_guesses(found, topic.counters) if found.is_hidden else found


def account(counts: Mapping[str, int]) -> Row:
    """The columns of `ACCOUNT`, out of the counts of a tally."""
    row = dict(counts)
    keyed = row.pop("keyed")
    ratio = row["stored"] / row["published"]
    per_window = keyed / row["windows"] if row["windows"] else None
    return {name: row.get(name) for name in ACCOUNT} | {"ratio": ratio, "per_window": per_window}


def _hot(row: Row, published: int) -> Row:
    return {"key": row["key"]} | account({name: row[name] for name in row if name != "key"}) | {
        "share": row["published"] / published
    }  # fmt: skip


def _own_us(settings: Mapping[str, int] | None) -> int | None:
    """Returns the topic's own window in µs; None if its settings are not known."""
    if settings is None:
        return None
    window_ms = settings["compaction_window_ms"]
    return FOREVER_US if window_ms == FOREVER else window_ms * 1000


def _without_guesses(found: Statistics, counters: Mapping[str, Any] | None) -> Statistics:
    """The same without the numbers that need the messages that were dropped."""
    nothing = dict.fromkeys(ACCOUNT)
    told = nothing | {"stored": found.account["stored"], "stored_bytes": found.account["stored_bytes"]}
    if counters is not None:  # of the topic's whole life, of which the events may have lost the beginning
        told |= {name: counters[name] for name in ("published", "stored", "compacted")}
        told["ratio"] = told["stored"] / told["published"] if told["published"] else None
        told["stored_bytes"] = None if found.before or found.missing else told["stored_bytes"]
    whole = counters is not None and not (found.before or found.missing)
    published = told["published"] if whole else None
    keys = [
        row | nothing | {"share": None, "stored": row["stored"], "stored_bytes": row["stored_bytes"]}
        for row in found.hot_keys
    ]
    assert found.own_us is not None  # noqa: S101 (or else nothing is hidden)
    what_if = [_tried(row, found.own_us, published) for row in found.what_if]
    return replace(found, account=told, what_if=what_if, hot_keys=keys)


def _tried(row: Row, own_us: int, published: int | None) -> Row:
    """A window that was tried on what another one had left."""
    if row["window_us"] < own_us:
        return row | dict.fromkeys((*NUMBERS, "ratio"))
    winner: Winner = row["winner"]
    unknown = dict.fromkeys(("bytes", "ratio", *LOSSES)) | ({"kept_bytes": None} if winner == "last" else {})
    ratio = {"ratio": row["kept"] / published} if published else {}
    return row | unknown | {"messages": published} | ratio


def caveats(found: Statistics) -> list[str]:
    """What is not known, in a sentence each."""
    topic, said = shown(found.topic), []
    if found.missing:
        said.append(f"{found.missing:,} messages are missing between those that were counted, so no number is exact.")
    if found.before:
        what = "of which nothing is counted. Windows that were open then are not known"
        said.append(f"{found.before:,} messages were gone before the first one here, {what}.")
    if found.is_hidden:
        said.append(
            "it has a window of its own and no journal, so what that window has dropped is unknown: what shorter "
            "windows would do, and what any window loses. Longer ones are tried on what was stored. A journal tells: "
            "zaichik create TOPIC --compaction-window … --journal 64MiB"
        )
    elif found.own_us is None and not found.is_journaled:
        said.append(
            "its settings are not in the recording: if it has a window of its own, the numbers miss what that dropped."
        )
    return [f"{topic}: {sentence}" for sentence in said]
