"""The stored message of a key that is nearest to a time, among a bounded number around it."""

from typing import NamedTuple

from zaichik.core.ring import BroadcastRing, Entry

# Messages before the time, and as many after it: 4 ms at most, about what the largest batch takes.
SEARCHED_MESSAGES = 1024

# When a message was accepted, and its offset.
Match = tuple[int, int]


class Found(NamedTuple):
    """What a search has found, and how far it went.

    Attributes:
        before, after: when the nearest message at that time or before it was accepted, and its
            offset; and the nearest one after it. None: there is none among those that were
            searched.
        first, end: which offsets were searched: none below the first, and none from the end on.
    """

    before: Match | None
    after: Match | None
    first: int
    end: int


def nearest(ring: BroadcastRing, key: bytes, at_us: int) -> Found:
    """Returns the messages of that key in the ring that are nearest to a time."""
    middle = ring.first_accepted_since(at_us + 1)
    before, first = _last_below(ring, key, middle)
    after, end = _first_from(ring, key, middle)
    return Found(before, after, first, end)


def _last_below(ring: BroadcastRing, key: bytes, middle: int) -> tuple[Match | None, int]:
    """Returns the key's last message below that offset, and the first offset searched."""
    seen = 0
    reached = middle
    while reached > ring.head and seen < SEARCHED_MESSAGES:
        entry = ring.entry(reached - 1)
        seen += entry.batch.count
        # The first messages of a batch may be gone already.
        reached = max(entry.base, ring.head)
        offsets = _offsets(entry, key, ring.head)
        if offsets:
            return (entry.accepted_us, offsets[-1]), reached
    return None, reached


def _first_from(ring: BroadcastRing, key: bytes, middle: int) -> tuple[Match | None, int]:
    """Returns the key's first message from that offset on, and the end of what was searched."""
    seen = 0
    reached = middle
    while reached < ring.next_offset and seen < SEARCHED_MESSAGES:
        entry = ring.entry(reached)
        seen += entry.batch.count
        reached = entry.base + entry.batch.count
        offsets = _offsets(entry, key, ring.head)
        if offsets:
            return (entry.accepted_us, offsets[0]), reached
    return None, reached


def _offsets(entry: Entry, key: bytes, head: int) -> list[int]:
    """Returns the offsets of the key's messages, from the head on."""
    batch = entry.batch
    # Most batches do not have the key's bytes anywhere among their keys: they are not parsed.
    keys_at = len(batch.data) - batch.size
    keys_end = keys_at + batch.key_size
    if batch.data.find(key, keys_at, keys_end) < 0:
        return []
    offsets: list[int] = []
    for offset, it in enumerate(batch.keys(), start=entry.base):
        if it == key and offset >= head:
            offsets.append(offset)
    return offsets
