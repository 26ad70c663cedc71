"""A topic's log, as the core sees it: what is written, who is told, and what may be asked.

    owner ── `write` ──▶ Log: takes the oldest of `owner.waiting`, and writes and syncs them
    owner ◀── `on_synced`, `on_refused`, `on_head_moved` ── Log

Nothing here waits, and nothing here knows of files: `zaichik.storage` has the logs that are on a
disk, and tests have others.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zaichik.core.pending import Pending
from zaichik.core.retained import Wake
from zaichik.core.ring import Entry
from zaichik.core.shared_names.saving import NamesWrite
from zaichik_protocol import Batch, Refused


@dataclass(slots=True)
class Write:
    """What the log is to write, and what waits for it.

    Attributes:
        base: the offset of its first message; without messages, of the next one.
        accepted_us: when it was accepted.
        what: what is stored of a publish; or why a numbered batch was refused for good; or the
            named positions that have moved, with None for those that are forgotten; or what has
            changed of shared names. None: nothing; it only waits for the writes before it.
        producer, sequence: of a numbered batch; else 0.
        dropped: the bitmap of what compaction dropped.
        compacted: how many messages that is.
        opened: the keys whose windows it has opened.
        known: the named positions that the log had before, if some have moved.
        answer: settled when it is on the disk, or with a refusal.
    """

    base: int
    accepted_us: int
    what: Batch | Refused | dict[str, int | None] | NamesWrite | None
    producer: int = 0
    sequence: int = 0
    dropped: bytes = b""
    compacted: int = 0
    opened: Sequence[bytes] = ()
    known: Mapping[str, int] | None = None
    answer: Pending = field(default_factory=Pending)


class LogOwner(Protocol):
    """The topic's side of a log.

    Attributes:
        waiting: what the log is to write, the oldest first. A write in progress stays here until it
            is synced.
        needed: the offset from which nothing is removed to make room.
        head: the oldest offset that can be read.
    """

    @property
    def waiting(self) -> deque[Write]:
        """See above."""

    @property
    def needed(self) -> int:
        """See above."""

    @property
    def head(self) -> int:
        """See above."""

    def on_synced(self, count: int) -> None:
        """Answer this many writes, the oldest: they are on the disk."""

    def on_refused(self, refusal: Refused) -> None:
        """Take back everything that waits, the newest first."""

    def on_head_moved(self, head: int, own: int) -> None:
        """Note that files were removed: the log begins at `head` now.

        What lies below the offset `own` had to go for the log's own limit.
        """


class Log(Protocol):
    """A topic's log on a disk. No method waits.

    Attributes:
        owner: has the writes that wait, and is called with their results.
        head: the first offset on the disk that stays: everything below is gone, or being removed.
        end: the offset after the last message that a start has found on the disk.
        size: its bytes, including those that are being written.
        bound: of a table's: the bytes from which on rewriting comes before writing; else 0.
        damage: what is wrong with it, for a person; "" if no damage is known.
    """

    owner: LogOwner
    head: int
    end: int
    size: int
    bound: int
    damage: str

    def write(self) -> None:
        """Start writing: the owner has more writes that wait."""

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """Returns the batch with that offset.

        None if it has to be read first, after which `wake` is called.

        Raises:
            Refused: `DAMAGED`.
        """

    def is_reading(self, wake: Wake) -> bool:
        """Returns whether something is being read for that reader."""

    def release(self, wake: Wake) -> None:
        """Drop what was read for that reader."""

    def first_since(self, time_us: int, found: Callable[[int | None], None]) -> None:
        """Call that with the first offset on the disk that was accepted at that time or later.

        With None if there is none.
        """

    def expired_until(self, time_us: int) -> int:
        """Returns an offset below which all was accepted at that time or before.

        It is the greatest that is known in memory.
        """

    def size_from(self, offset: int) -> int:
        """Returns the bytes of the files that hold anything from that offset on."""

    def drop_below(self, offset: int) -> None:
        """Remove files that hold nothing from that offset on."""

    def clean(self) -> None:
        """Rewrite files of which half is superseded, if there are any: only those of tables are."""

    def save(self) -> None:
        """Write a checkpoint, if there is anything new."""

    def delete(self, gone: Callable[[], None]) -> None:
        """Remove the log, then call that. Nothing that still waits is written."""


class Logs(Protocol):
    """Where the logs of all topics are.

    Attributes:
        used: their bytes.
    """

    used: int

    def sync_p99_us(self) -> int | None:
        """Returns the 99th percentile of how long the latest groups took to be on the disk.

        None before the first.
        """

    def check(self, name: str) -> None:
        """Refuse a new log of that name.

        Raises:
            Refused: `DAMAGED`: there is one that cannot be read.
        """

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> Log:
        """Returns a new log; call `check` first."""
