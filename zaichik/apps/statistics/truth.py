"""The statistics of a topic, and what they cannot say: an unknown number is None, not a guess.

Some things make numbers incomplete, and each is counted or named:

* messages that are *missing* between others, or at the end: the reader came too late for them;
* messages that were gone *before* the first one here: of the windows that were open then, nothing
  is known;
* a topic with a window of its own and no journal: what that window dropped was not recorded. So no
  other window can be tried, and what a window loses is unknown for every length; a table without a
  journal is the same, as what newer messages superseded was not recorded;
* a broker that forgot windows, because more were open than `max_keys` allows: what it did is known,
  but what other windows would do is worked out for one that forgets none.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from zaichik.apps.recording.folders import JOURNAL_PREFIX
from zaichik.apps.statistics.chain import FOREVER_US, NUMBERS, Winner
from zaichik.apps.statistics.sources import Topic
from zaichik.apps.statistics.tally import Row, Tally
from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik_protocol import FOREVER

ACCOUNT = (
    "published",
    "stored",
    "compacted",
    "bytes",
    "stored_bytes",
    "compacted_bytes",
    "ratio",
    "windows",
    "per_window",
    "differing",
    "unknown",
    "superseded",
)
"""What the policy that ran has done.

`published = stored + compacted`, the same in bytes of payloads; `ratio`, the part stored; `windows`
opened, `per_window` messages in one of them, both counted over messages with a key; `differing`,
dropped though their payload was not the winner's; `unknown`, dropped by a winner that is not among
the events; `superseded`, those that newer messages of a table have superseded.
"""
LOSSES = ("differing", "delayed", "delay_us", "unseen", "max_delay_us")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known about one topic.

    Attributes:
        topic: its name.
        account: the columns of `ACCOUNT`, for the policy that ran; None is unknown.
        what_if: for each window and winner, the shortest window first: `window_us`, `winner`, the
            `NUMBERS` of `chain`, and `ratio`, the part of the messages that is kept; None is
            unknown.
        hot_keys: for each key with many messages `key`, the columns of `ACCOUNT`, and `share`, its
            part of all.
        missing: messages that were gone when they were to be read, although some before them were
            not.
        left_out: messages of epochs that were recorded without the journal that others have.
        before: messages that were gone before the first that was read.
        own_us: the topic's own window, the longest if it changed; 0: it has none; None: the source
            does not say.
        has_journal: whether the topic has a journal.
        is_durable: whether the topic is durable, so that it cannot have one yet.
        is_table: whether the topic is a table, in one of its epochs at least.
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
    left_out: int = 0
    has_journal: bool = False
    is_durable: bool = False
    is_table: bool = False
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
    def as_table(self) -> Row | None:
        """What a table would have kept, or has, if the topic is one."""
        return next(iter(self.of_winner("newest")), None)

    @property
    def is_hidden(self) -> bool:
        """Whether messages were dropped by the topic's own window, or superseded, unrecorded."""
        return (bool(self.own_us) or self.is_table) and not self.is_journaled

    @property
    def is_exact(self) -> bool:
        """Whether all messages ever published are known, and the broker kept to its window."""
        is_known = self.is_journaled or self.own_us is not None
        return is_known and not (
            self.missing or self.before or self.left_out or self.is_hidden or self.forgotten
        )

    @property
    def forgotten(self) -> int:
        """How many messages the window should have dropped and did not (COM-6), if known."""
        own = [row for row in self.of_winner("first") if row["window_us"] == self.own_us]
        if not own or not self.is_journaled or self.missing or self.before:
            return 0
        return int(self.account["stored"] - own[0]["kept"])


def statistics_of(topic: Topic, tally: Tally) -> Statistics:
    """Returns the statistics that a tally of a topic's events supports, and no more."""
    settings = list(topic.settings.values())
    known = [one for one in settings if one]
    windows = [_own_us(one) for one in settings]
    lengths = [window for window in windows if window is not None]
    # The longest, if the topic had several; unknown, if that of one epoch is.
    own_us = None
    if len(lengths) == len(windows):
        own_us = max(lengths, default=None)
    spans = tally.spans.values()
    count = sum(span.count for span in spans)
    before = sum(span.first for span in spans)
    missing = sum(topic.ends.values()) - before - count
    is_table = any(one.get("table") for one in known)
    if is_table and not topic.is_journaled:
        before, missing = topic.gone(count)
    what_if = []
    for (length, winner), numbers in sorted(tally.what_if.items()):
        ratio = numbers["kept"] / numbers["messages"]
        what_if.append({"window_us": length, "winner": winner, **numbers, "ratio": ratio})
    published = tally.counts["published"]
    hot_keys = [_hot(row, published) for row in tally.hot_keys]
    first_us = min(span.first_us for span in spans)
    last_us = max(span.last_us for span in spans)
    has_journal = any(one.get("journal_bytes") for one in known)
    is_durable = any(one.get("durable") for one in known)
    found = Statistics(
        topic=topic.name,
        account=account(tally.counts),
        what_if=what_if,
        hot_keys=hot_keys,
        missing=missing,
        before=before,
        left_out=topic.left_out,
        has_journal=has_journal,
        is_durable=is_durable,
        is_table=is_table,
        own_us=own_us,
        is_journaled=topic.is_journaled,
        source=str(topic.place),
        count=count,
        first_us=first_us,
        last_us=last_us,
    )
    if not found.is_hidden:
        return found
    if found.is_table:
        return _of_table(found, topic.counters, sum(topic.ends.values()))
    return _without_guesses(found, topic.counters, set(windows))


def _of_table(found: Statistics, counters: Mapping[str, Any] | None, end: int) -> Statistics:
    """The same of a table, of which only what it keeps is known.

    A table stores everything, so its offsets tell how many messages there were. How many of those
    that are not there were superseded, the broker knows: others have expired.
    """
    nothing = dict.fromkeys(ACCOUNT)
    is_whole = not (found.missing or found.before)
    told = nothing | {"published": end, "stored": end, "compacted": 0}
    if counters is not None:
        told["superseded"] = counters["superseded"]
    what_if = []
    for row in found.what_if:
        known: Row = {}
        if row["winner"] == "newest" and is_whole:
            known = {name: row[name] for name in ("kept", "kept_bytes")}
            known |= {"messages": end, "ratio": row["kept"] / end}
        what_if.append(row | dict.fromkeys((*NUMBERS, "ratio")) | known)
    # Each key has one message, whatever there was of it.
    return replace(found, account=told, what_if=what_if, hot_keys=[])


def account(counts: Mapping[str, int]) -> Row:
    """The columns of `ACCOUNT`, out of the counts of a tally."""
    row = dict(counts)
    keyed = row.pop("keyed")
    ratio = row["stored"] / row["published"]
    per_window = keyed / row["windows"] if row["windows"] else None
    return {name: row.get(name) for name in ACCOUNT} | {"ratio": ratio, "per_window": per_window}


def _hot(row: Row, published: int) -> Row:
    counts = {name: row[name] for name in row if name != "key"}
    share = row["published"] / published
    return {"key": row["key"], **account(counts), "share": share}


def _own_us(settings: Mapping[str, int] | None) -> int | None:
    """Returns the topic's own window in µs; None if its settings are not known."""
    if settings is None:
        return None
    window_ms = settings["compaction_window_ms"]
    return FOREVER_US if window_ms == FOREVER else window_ms * 1000


def _without_guesses(
    found: Statistics, counters: Mapping[str, Any] | None, windows: Collection[int | None]
) -> Statistics:
    """The same without the numbers that need the messages that were dropped."""
    nothing = dict.fromkeys(ACCOUNT)
    told = nothing | {
        "stored": found.account["stored"],
        "stored_bytes": found.account["stored_bytes"],
    }
    # They are of the topic's whole life, whose beginning the events may have lost.
    if counters is not None:
        told |= {name: counters[name] for name in ("published", "stored", "compacted")}
        told["ratio"] = told["stored"] / told["published"] if told["published"] else None
        told["stored_bytes"] = None if found.before or found.missing else told["stored_bytes"]
    whole = counters is not None and not (found.before or found.missing)
    published = told["published"] if whole else None
    keys = [
        row
        | nothing
        | {"share": None, "stored": row["stored"], "stored_bytes": row["stored_bytes"]}
        for row in found.hot_keys
    ]
    # If the window has changed, the numbers are of several.
    own_us = found.own_us if len(windows) == 1 else None
    what_if = [_tried(row, own_us, published) for row in found.what_if]
    return replace(found, account=told, what_if=what_if, hot_keys=keys)


def _tried(row: Row, own_us: int | None, published: int | None) -> Row:
    """Returns the statistics of a window tried on what another one had left.

    Something is known only if it is the very same window.
    """
    if row["window_us"] != own_us or row["winner"] == "newest":
        return row | dict.fromkeys((*NUMBERS, "ratio"))
    winner: Winner = row["winner"]
    unknown = dict.fromkeys(("bytes", "ratio", *LOSSES)) | (
        {"kept_bytes": None} if winner == "last" else {}
    )
    ratio = {"ratio": row["kept"] / published} if published else {}
    return row | unknown | {"messages": published} | ratio


def caveats(found: Statistics) -> list[str]:
    """What is not known, in a sentence each."""
    topic = shown(found.topic)
    return [f"{topic}: {sentence}" for sentence in (*_incomplete(found), *_assumed(found))]


def _incomplete(found: Statistics) -> Iterator[str]:
    if found.missing:
        what = counted(found.missing, "message")
        yield (
            f"{what} {_be(found.missing, 'are')} missing among those counted here, or after them: "
            "no "
            "number is exact."
        )
    if found.before:
        what = counted(found.before, "message")
        yield (
            f"{what} {_be(found.before, 'were')} gone before the first one here, and counted "
            "nowhere."
        )
    if found.left_out:
        what = counted(found.left_out, "message")
        yield (
            f"{what} of other epochs {_be(found.left_out, 'were')} recorded without a journal, and "
            "counted nowhere."
        )
    if found.is_hidden:
        if found.has_journal:
            journal = (
                f"Read its journal: zaichik record {shlex.quote(JOURNAL_PREFIX + found.topic)}"
            )
        elif found.is_durable:
            journal = "A journal would tell, but a durable topic cannot have one yet"
        else:
            setting = "--compaction-window …"
            if found.is_table:
                setting = "--table"
            journal = f"A journal would tell: zaichik create TOPIC {setting} --journal 64MiB"
        if found.is_table:
            what = "it is a table, and what newer messages superseded was not recorded"
            others = "windows"
        else:
            what = "it has a window of its own, and what that dropped was not recorded"
            others = "other windows"
        yield (
            f"{what}. So it is unknown what {others} would do, and what any of them loses. "
            f"{journal}"
        )
    elif found.own_us is None and not found.is_journaled:
        yield (
            "its settings are not in the recording: if it has a window, the numbers miss what "
            "that dropped."
        )


def _be(count: int, several: str) -> str:
    """Returns the form of *to be* for that many things: `several`, if it is not one."""
    one = {"are": "is", "were": "was"}[several]
    return one if count == 1 else several


def _assumed(found: Statistics) -> Iterator[str]:
    if found.forgotten:
        yield (
            f"its own window should have dropped {counted(found.forgotten, 'message')} more than "
            "the broker did, which forgets "
            "windows when more keys are open than max_keys. The windows tried here are never "
            "forgotten."
        )
    tried = [
        row["window_us"]
        for row in found.what_if
        if row["window_us"] != FOREVER_US and row["kept"] is not None
    ]
    span_us = found.last_us - found.first_us
    if tried and max(tried) > span_us > 0:
        span = timedelta(seconds=round(span_us / 1_000_000)) or "less than a second"
        yield (
            f"the messages span {span}, less than the longest window tried: updates whose window "
            "was still open at the "
            'end count as "never seen".'
        )
