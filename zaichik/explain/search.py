"""The stored message of a key that is nearest to a time, found by looking at the keys around it: a bounded number."""

from collections.abc import Iterator
from typing import NamedTuple

from zaichik.broker.ring import BroadcastRing, Entry

SEARCHED = 1024  # messages before the time, and as many after it: 4 ms at most, about what the largest batch takes


class Found(NamedTuple):
    """What a search has found, and how far it went.

    Attributes:
        before, after: when the nearest message at that time or before it was accepted, and its offset; and the nearest
            one after it. None: there is none among those that were searched.
        first, end: which offsets were searched: none below the first, and none from the end on.
    """

    before: tuple[int, int] | None
    after: tuple[int, int] | None
    first: int
    end: int


def nearest(ring: BroadcastRing, key: bytes, at_us: int) -> Found:
    """Returns the messages of that key in the ring that are nearest to a time."""
    middle = ring.first_accepted_since(at_us + 1)
    before, first = _scan(_backwards(ring, middle), key, ring.head, middle, last=True)
    after, end = _scan(_forwards(ring, middle), key, ring.head, middle, last=False)
    return Found(before, after, first, end)


def _backwards(ring: BroadcastRing, offset: int) -> Iterator[Entry]:
    while offset > ring.head:
        entry = ring.entry(offset - 1)
        yield entry
        offset = entry.base


def _forwards(ring: BroadcastRing, offset: int) -> Iterator[Entry]:
    while offset < ring.next_offset:
        entry = ring.entry(offset)
        yield entry
        offset = entry.base + entry.batch.count


def _scan(
    entries: Iterator[Entry], key: bytes, head: int, start: int, *, last: bool
) -> tuple[tuple[int, int] | None, int]:
    """Returns the first entry's match, and the offset up to which was searched."""
    seen, reached = 0, start
    for entry in entries:
        if seen >= SEARCHED:
            break
        seen += entry.batch.count
        reached = max(entry.base, head) if last else entry.base + entry.batch.count
        if matches := [offset for offset in _offsets(entry, key) if offset >= head]:
            return (entry.accepted_us, matches[-1] if last else matches[0]), reached
    return None, reached


def _offsets(entry: Entry, key: bytes) -> list[int]:
    data, batch = entry.batch.data, entry.batch
    keys_at = len(data) - batch.size
    if data.find(key, keys_at, keys_at + batch.key_size) < 0:  # so most batches are not taken apart
        return []
    return [entry.base + index for index, it in enumerate(batch.keys()) if it == key]
