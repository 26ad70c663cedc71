"""What is true of the rows of a table after every step."""

from itertools import pairwise

from zaichik.core.tables.keep_last import DEAD_BYTES, ROW


def check_rows(kept):
    """Raises what is not true of the rows of a table."""
    live, size, keyless = [], 0, 0
    assert len(kept._parts) == len(kept._ends)
    after = 0
    for part, end in zip(kept._parts, kept._ends, strict=True):
        rows = len(part.alive)
        assert rows == len(part.offsets) == len(part.times)
        assert rows == len(part.key_ends) - 1 == len(part.payload_ends) - 1
        assert (part.key_ends[-1], part.payload_ends[-1]) == (len(part.keys), len(part.payloads))
        assert 0 < part.live == part.alive.count(1)
        assert part.live * 2 >= rows, "more than half of a part is dead"
        dead_bytes = len(part.keys) + len(part.payloads) + ROW * rows - part.live_bytes
        most = part.live_bytes + DEAD_BYTES * part.live
        assert dead_bytes <= most, "most bytes of a part are dead"
        assert all(one < other for one, other in pairwise(part.offsets))
        assert all(one <= other for one, other in pairwise(part.times))
        assert after <= part.offsets[0]
        assert part.offsets[-1] < end <= kept.next_offset
        after = end
        found = [row for row in range(rows) if part.alive[row]]
        assert part.live_bytes == sum(map(part.size, found))
        size += part.live_bytes
        its_keyless = sum(not part.key(row) for row in found)
        assert part.keyless == its_keyless
        keyless += its_keyless
        live += [(part.offsets[row], part.key(row)) for row in found]
    assert len(live) == kept.live
    assert all(offset >= kept.head for offset, _ in live)
    assert keyless == kept.keyless
    assert size == kept.size + kept.tombstone_bytes
    assert kept.tombstone_bytes == sum(len(key) + ROW for key in kept.tombstones.values())
    assert list(kept.tombstones) == sorted(kept.tombstones)
    for offset, key in live:
        assert not key or kept.offset_of(key) == offset
    assert kept.tombstones.items() <= dict(live).items()
    held = sum(part.memory for part in [*kept._parts, *kept._expired_parts])
    assert kept._parts_memory == held
