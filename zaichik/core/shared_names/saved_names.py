"""What a log keeps of the shared names of its topic: changes, one after another (SHR-9).

    {"thumbs": {"numbers": [...], "rows": {"5": [...], "6": null}}, "mails": null}

Numbers are of the whole name, rows of the messages that are open or dead, by offset; null is what
is not there any more. So what is written in a second is what has happened in it, however much is
open. All that a name is follows from its changes, so the same function takes over
those of a second, and those since the beginning, which a checkpoint has. It is plain data, as JSON
can hold it.
"""

from collections.abc import Iterable
from typing import Any

from zaichik.core.work_queue.message import Place
from zaichik.core.work_queue.saved import SavedDead, SavedOpen, SavedQueue, save_queue
from zaichik.core.work_queue.work_queue import WorkQueue

# Of an open message: place, count, whether it is suspect, how often it was given back, when it is
# due, ticket, owner, bytes, key in hexadecimal digits. Of a dead one: count, time, key, reason.
Row = list[Any]
OF_OPEN = 9
OF_DEAD = 4
# start, next, done, skipped, passed, forgotten, max_deliveries, by_key
OF_NUMBERS = 8
NEXT = 1  # the index of `next`
# Numbers, and rows by offset.
SavedName = dict[str, Any]


def saved_name(queue: WorkQueue, offsets: Iterable[int]) -> SavedName:
    """Returns what of a name is open or dead at these offsets, as it is now."""
    saved = save_queue(queue, offsets)
    numbers = [
        saved.start,
        saved.next,
        saved.done,
        saved.skipped,
        saved.passed,
        saved.forgotten,
        saved.max_deliveries,
        saved.by_key,
    ]
    rows: dict[str, Row] = {}
    keys = saved.keys or [b""] * len(saved.opened)
    for (offset, place, *more), key in zip(saved.opened, keys, strict=True):
        count, is_suspect, given_back, due_us, ticket, owner, size = more
        # A time-out is not believed after a start, and would be another one each time.
        if place != Place.DELAYED:
            due_us = 0
        row = [place, count, is_suspect, given_back, due_us, ticket, owner, size, key.hex()]
        rows[str(offset)] = row
    dead = zip(saved.dead, saved.dead_keys, saved.reasons, strict=True)
    for (offset, count, died_us), key, reason in dead:
        rows[str(offset)] = [count, died_us, key.hex(), reason]
    return {"numbers": numbers, "rows": rows}


def take_over(names: dict[str, SavedName], changes: dict[str, SavedName | None]) -> None:
    """Change what is known of names."""
    for key, change in changes.items():
        if change is None:
            names.pop(key, None)
            continue
        known = names.setdefault(key, {"numbers": [], "rows": {}})
        known["numbers"] = change["numbers"]
        for offset, row in change["rows"].items():
            if row is None:
                known["rows"].pop(offset, None)
            else:
                known["rows"][offset] = row


class FoldedChanges:
    """What many changes of names change together.

    Rows that were opened and settled among them leave no trace. So what is left is no more than
    what was open at the first of them or the last, however many there were.

    Args:
        is_first: whether nothing was known of any name before.
    """

    def __init__(self, *, is_first: bool) -> None:
        self._is_first = is_first
        self._gone: dict[str, None] = {}
        self._names: dict[str, SavedName] = {}
        # By name, the least offset of which no row can be from before.
        self._new_from: dict[str, int] = {}

    def add(self, changes: dict[str, SavedName | None]) -> None:
        """Add the next changes."""
        for key, change in changes.items():
            if change is None:
                self._gone[key] = None
                self._names.pop(key, None)
            elif key in self._names:
                self._change(key, change)
            else:
                self._begin(key, change)

    def _begin(self, key: str, change: SavedName) -> None:
        rows = dict(change["rows"])
        new_from = change["numbers"][NEXT]
        # A name that was made again has nothing of the one before.
        if self._is_first or key in self._gone:
            rows = {offset: row for offset, row in rows.items() if row is not None}
            new_from = 0
        self._names[key] = {"numbers": change["numbers"], "rows": rows}
        self._new_from[key] = new_from

    def _change(self, key: str, change: SavedName) -> None:
        known = self._names[key]
        known["numbers"] = change["numbers"]
        for offset, row in change["rows"].items():
            if row is None and int(offset) >= self._new_from[key]:
                known["rows"].pop(offset, None)
            else:
                known["rows"][offset] = row

    def changes(self) -> list[dict[str, SavedName | None]]:
        """Returns changes to be taken over one after another, with the same result.

        Names that have gone come first: some of them may have been made again.
        """
        found: list[dict[str, SavedName | None]] = []
        if self._gone and not self._is_first:
            found.append(dict.fromkeys(self._gone))
        if self._names:
            found.append({**self._names})
        return found


def queue_of(name: SavedName) -> SavedQueue:
    """Returns a name as a start restores it."""
    opened: list[SavedOpen] = []
    keys: list[bytes] = []
    dead: list[SavedDead] = []
    dead_keys: list[bytes] = []
    reasons: list[str] = []
    for text in sorted(name["rows"], key=int):
        offset = int(text)
        row = name["rows"][text]
        if len(row) == OF_OPEN:
            place, count, is_suspect, given_back, due_us, ticket, owner, size, key = row
            opened.append(
                (offset, place, count, is_suspect, given_back, due_us, ticket, owner, size)
            )
            keys.append(bytes.fromhex(key))
        else:
            count, died_us, key, reason = row
            dead.append((offset, count, died_us))
            dead_keys.append(bytes.fromhex(key))
            reasons.append(reason)
    start, next_offset, done, skipped, passed, forgotten, max_deliveries, by_key = name["numbers"]
    return SavedQueue(
        start,
        next_offset,
        done,
        skipped,
        passed,
        forgotten,
        max_deliveries,
        by_key,
        opened,
        keys,
        dead,
        dead_keys,
        reasons,
    )
