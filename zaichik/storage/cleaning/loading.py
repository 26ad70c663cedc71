"""Loading: a table as it was, from the files of its log.

The files are read twice: first for the newest offset of each key, then for the messages that have
one of these. So a message that was superseded costs no more than a look at its key. Storing all of
them one after the other, as they came, would take several times as long.

All of the log is read, not only what a checkpoint does not cover. So a start finds all damage in a
table, and the table ends there: what comes after it may supersede what comes before.
"""

import logging
from array import array
from collections.abc import Iterator
from itertools import compress
from operator import eq

from zaichik.core.tables.keep_last import KeepLast, Rows
from zaichik.core.tables.key_index import KeyIndex
from zaichik.storage.cleaning.kept import rows_of
from zaichik.storage.disk import Disk
from zaichik.storage.record import StoredRecord
from zaichik.storage.recovery import Recovered
from zaichik.storage.walk import walk

logger = logging.getLogger("zaichik.log.recovery")


def load(disk: Disk, recovered: Recovered) -> None:
    """Read the table of a log that a start has found, if it is a table."""
    topic = recovered.topic
    if topic is None or not topic.is_table:
        return
    state = recovered.state
    segments = recovered.segments
    kept = KeepLast()
    recovered.kept = kept
    if segments:
        kept.head = segments[0].base
    else:
        kept.head = state.end
    newest: dict[bytes, int] = {}
    end = kept.head
    for record in _whole(disk, recovered):
        end = record.base + record.count
        rows = rows_of(record)
        if rows is not None:
            _note_newest(newest, rows)
    newest.pop(b"", None)
    state.end = end
    kept.restore(KeyIndex.of(newest), _live(disk, recovered, newest), end)
    kept.deleted_below = max(
        state.deleted_below,
        max((segment.deleted_below for segment in segments), default=0),
        # There may have been tombstones in what was damaged.
        max((after for _, after in topic.lost), default=0),
    )
    state.deleted_below = kept.deleted_below
    lost = sum(after - max(begin, kept.head) for begin, after in topic.lost if after > kept.head)
    kept.expired = kept.head
    kept.superseded = end - kept.head - kept.live - lost


def _whole(disk: Disk, recovered: Recovered) -> Iterator[StoredRecord]:
    """Returns the records up to the first that is damaged, if any is: that is noted."""
    end = -1
    for segment in recovered.segments:
        if end not in (-1, segment.base):
            _note_damage(recovered, f"{segment.path}: what comes before it is missing", end)
            return
        end = segment.base
        for step in walk(disk, segment):
            record = step.record
            if record is None or record.base != end:
                where = f"{segment.path}: damaged at position {step.position}"
                _note_damage(recovered, where, end)
                return
            end = record.base + record.count
            yield record


def _note_damage(recovered: Recovered, where: str, end: int) -> None:
    if not recovered.damage:
        recovered.damage = f"{where}, from offset {end} on"


def _note_newest(newest: dict[bytes, int], rows: Rows) -> None:
    newest.update(zip(rows.batch.keys(), rows.offsets, strict=True))


def _live(disk: Disk, recovered: Recovered, newest: dict[bytes, int]) -> Iterator[Rows]:
    """Returns the messages that nothing has superseded."""
    for record in _whole(disk, recovered):
        rows = rows_of(record)
        if rows is not None:
            live = _live_of(rows, newest)
            if live is not None:
                yield live


def _live_of(rows: Rows, newest: dict[bytes, int]) -> Rows | None:
    """Returns those of the messages that are the newest of their keys, or have none."""
    offsets = rows.offsets
    keys = rows.batch.keys()
    alive = [*map(eq, map(newest.get, keys), offsets)]
    # Nothing supersedes a message without a key.
    if b"" in keys:
        alive = [it or not key for it, key in zip(alive, keys, strict=True)]
    if all(alive):
        return rows
    left = [*compress(range(len(keys)), alive)]
    if not left:
        return None
    times = array("q", compress(rows.times, alive))
    return Rows(array("q", compress(offsets, alive)), times, rows.batch.select(left))
