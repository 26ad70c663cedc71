"""The stored message of a key that is nearest to a time, found by looking at the keys around it: a bounded number."""

from collections.abc import Iterator
from typing import NamedTuple

from zaichik.broker.ring import BroadcastRing, Entry

SEARCHED = 4096  # messages before the time, and as many after it: half as many as one batch may have


class Found(NamedTuple):
    """What a search has found, and how far it went.

    Attributes:
        before, after: when the nearest message at that time or before it was accepted, and its offset; and the nearest
            one after it. None: there is none among those that were searched.
        first, end: the offsets that were searched, if no message was found earlier.
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
        matches = [entry.base + index for index, it in enumerate(entry.batch.keys()) if it == key]
        matches = [offset for offset in matches if offset >= head]
        if matches:
            return (entry.accepted_us, matches[-1] if last else matches[0]), reached
    return None, reached
