"""The last message of each key, in rows: a newer message of a key supersedes the older one (TAB).

    offsets   0   1   2   3   4   5   6   7   8   9
    keys      a   b   a   c   b   d   a   b   c   c      0, 1, 2, 3, 4 and 8 are superseded: holes
    rows      5 d │ 6 a │ 7 b │ 9 c

A ring keeps batches as they came, because they go as they came. Here single messages go, from
anywhere, so each is a row of four columns: offset, time, key and payload. A thousand rows are a
*part*. A `KeyIndex` has the newest offset of each key; the row is found by bisection, first among
the parts, then in the part.

A row whose message was superseded is dead: a byte says so, and nothing moves. When half of a part
is dead, in rows or in bytes, it is rewritten without the dead rows, and joined with the next part
if both are small. So dead rows take about as much room as live ones at most, a message costs the
same however large the table is, and no step takes long. Rewriting at every message would copy a
part for each; rewriting the whole table now and then would stop the broker for seconds.

Columns are arrays and bytes, and not lists of objects: see `BroadcastRing` for why the garbage
collector must not find a million objects here.

A message with a key and no payload is a *tombstone*. It deletes its key, and is kept for a while,
so that readers are sent it. `deleted_below` tells those that come later what they have missed.

What has expired is a prefix, as in a ring, and can be as large as the table. Whole parts go at
once, and their keys leave the index some at a time: one with an offset below the head is not there.

Plain and synchronous: no I/O, no clock, no lock.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import accumulate, compress, pairwise
from operator import sub
from struct import pack
from typing import NamedTuple

from zaichik.core.decisions import EXPIRED, Move, note
from zaichik.core.tables.key_index import KeyIndex
from zaichik_protocol import Batch

ROWS = 1024  # of a part, at most: rewriting one takes half a millisecond
PART_BYTES = 256 * 1024  # a part with more keys and payloads than that takes no more rows
DEAD_BYTES = 64  # for each live row, that may be dead besides: what copying it costs
ROW = 8  # bytes of a batch for each message, besides its key and payload: what limits count
PARTS_AT_ONCE = 4  # whose keys are forgotten in one step

# The memory of a row besides its key and payload, of a key in the index besides its bytes (the
# entry, the object, the offset), and of a part besides its rows.
ROW_COST = 26
KEY_COST = 150
PART_COST = 900


class Part:
    """Rows with neighbouring offsets, in columns.

    Attributes:
        offsets, times: of each row, both in order.
        keys, payloads: those of all rows, end to end.
        key_ends, payload_ends: where each begins, and the end of the last.
        alive: a byte for each row: 0 if it is dead.
        live: how many rows are not.
        live_bytes: their keys and payloads, and `ROW` for each.
        keyless: how many rows have no key. None of them is ever superseded.
        is_dense: whether no offset is missing between those of the rows.
    """

    def __init__(self) -> None:
        self.offsets = array("q")
        self.times = array("q")
        self.keys = bytearray()
        self.key_ends = array("i", [0])
        self.payloads = bytearray()
        self.payload_ends = array("i", [0])
        self.alive = bytearray()
        self.live = 0
        self.live_bytes = 0
        self.keyless = 0
        self.is_dense = True

    @property
    def memory(self) -> int:
        """The bytes that it takes."""
        rows = len(self.alive)
        return PART_COST + ROW_COST * rows + len(self.keys) + len(self.payloads)

    @property
    def has_room(self) -> bool:
        """Whether more rows may be added."""
        return len(self.alive) < ROWS and len(self.keys) + len(self.payloads) < PART_BYTES

    @property
    def must_be_trimmed(self) -> bool:
        """Whether more than half of it is dead, in rows or in bytes."""
        rows = len(self.alive)
        if self.live * 2 < rows:
            return True
        # One large message among many small ones is few rows, and nearly all of the bytes. A large
        # message superseded again and again must not copy all of its neighbours each time, so the
        # more of them there are, the more bytes may be dead.
        size = len(self.keys) + len(self.payloads) + ROW * rows
        return size - self.live_bytes > self.live_bytes + DEAD_BYTES * self.live

    def row(self, offset: int) -> int:
        """Returns the first row at that offset or after it."""
        offsets = self.offsets
        if self.is_dense:
            return max(offset - offsets[0], 0)
        return bisect_left(offsets, offset)

    def live_from(self, row: int) -> int:
        """Returns the first row from that one on that is not dead; -1 if all are."""
        return self.alive.find(1, row)

    def key(self, row: int) -> bytes:
        """Returns the key of a row."""
        ends = self.key_ends
        return bytes(self.keys[ends[row] : ends[row + 1]])

    def size(self, row: int) -> int:
        """Returns the bytes of a row's key and payload, and `ROW`."""
        keys = self.key_ends
        payloads = self.payload_ends
        return keys[row + 1] - keys[row] + payloads[row + 1] - payloads[row] + ROW

    def size_between(self, row: int, stop: int) -> int:
        """Returns what the rows from one up to another, that are not dead, take: see `size`."""
        keys = self.key_ends[row : stop + 1]
        payloads = self.payload_ends[row : stop + 1]
        alive = self.alive[row:stop]
        live = alive.count(1)
        key_size: int = keys[-1] - keys[0]
        payload_size: int = payloads[-1] - payloads[0]
        # Often none of them is dead, and then no single row is looked at.
        if live < len(alive):
            key_size = sum(compress(map(sub, keys[1:], keys), alive))
            payload_size = sum(compress(map(sub, payloads[1:], payloads), alive))
        return key_size + payload_size + ROW * live

    def together(self, row: int) -> "Together":
        """Returns the rows from that one on that were accepted at the same time.

        That row must not be dead.
        """
        accepted_us = self.times[row]
        stop = bisect_right(self.times, accepted_us, lo=row)
        if self.alive.find(0, row, stop) < 0:
            return Together(self.offsets[row:stop].tolist(), accepted_us, self._cut(row, stop))
        rows = [*compress(range(row, stop), self.alive[row:stop])]
        keys = [self.key(at) for at in rows]
        ends = self.payload_ends
        payloads = [bytes(self.payloads[ends[at] : ends[at + 1]]) for at in rows]
        offsets = [self.offsets[at] for at in rows]
        return Together(offsets, accepted_us, Batch.of_columns(keys, payloads))

    def _cut(self, row: int, stop: int) -> Batch:
        """Returns the messages of rows that follow each other, without a look at each of them."""
        keys = self.key_ends[row : stop + 1]
        payloads = self.payload_ends[row : stop + 1]
        first_key = keys[0]
        first_payload = payloads[0]
        offsets = [end - first_key for end in keys]
        offsets += [end - first_payload for end in payloads]
        data = pack(f"<I{len(offsets)}i", stop - row, *offsets)
        data += self.keys[first_key : keys[-1]]
        data += self.payloads[first_payload : payloads[-1]]
        return Batch(data, stop - row)

    def add_messages(
        self, change: "Change", start: int, stop: int, base: int, accepted_us: int
    ) -> None:
        """Add the messages of a batch from `start` up to, not including, `stop`.

        They are accepted at one time, and their offsets are counted from `base`.
        """
        batch = change.batch
        count = stop - start
        self.offsets.extend(range(base + start, base + stop))
        self.times.extend(array("q", [accepted_us]) * count)

        keys = change.key_ends
        payloads = change.payload_ends
        keys_at = len(batch.data) - batch.size
        payloads_at = keys_at + keys[-1]
        shift = len(self.keys) - keys[start]
        self.key_ends.extend([end + shift for end in keys[start + 1 : stop + 1]])
        self.keys += batch.data[keys_at + keys[start] : keys_at + keys[stop]]
        shift = len(self.payloads) - payloads[start]
        self.payload_ends.extend([end + shift for end in payloads[start + 1 : stop + 1]])
        self.payloads += batch.data[payloads_at + payloads[start] : payloads_at + payloads[stop]]

        first_row = len(self.alive)
        self._note_density()
        self.alive += b"\1" * count
        self.live += count
        size = keys[stop] - keys[start] + payloads[stop] - payloads[start]
        self.live_bytes += size + ROW * count
        if change.keyless:
            self.keyless += sum(keys[at] == keys[at + 1] for at in range(start, stop))
        superseded = change.superseded
        for index in superseded[bisect_left(superseded, start) : bisect_left(superseded, stop)]:
            self.kill(first_row + index - start)

    def add_rows(self, rows: "Rows", start: int, stop: int) -> None:
        """Add some rows that were kept before, and what they take to what is alive.

        Args:
            rows: of these, some are added.
            start: the index of the first one.
            stop: the index after the last one.
        """
        batch = rows.batch.cut(start, stop)
        before = len(self.keys)
        self.key_ends.extend([before + end for end in batch.key_offsets[1:]])
        body_at = len(batch.data) - batch.size
        payloads_at = body_at + batch.key_size
        self.keys += batch.data[body_at:payloads_at]
        before = len(self.payloads)
        self.payload_ends.extend([before + end for end in batch.payload_offsets[1:]])
        self.payloads += batch.data[payloads_at:]
        self.offsets.extend(rows.offsets[start:stop])
        self.times.extend(rows.times[start:stop])
        self.alive += b"\1" * batch.count
        self.live += batch.count
        self.live_bytes += batch.size + ROW * batch.count
        self.keyless += sum(begin == end for begin, end in pairwise(batch.key_offsets))
        self._note_density()

    def kill(self, row: int) -> None:
        """Make a row dead, which is not."""
        self.alive[row] = 0
        self.live -= 1
        self.live_bytes -= self.size(row)

    def add(self, other: "Part") -> None:
        """Add the rows of another part, which come next."""
        self.offsets.extend(other.offsets)
        self.times.extend(other.times)
        before = len(self.keys)
        self.key_ends.extend([before + end for end in other.key_ends[1:]])
        self.keys += other.keys
        before = len(self.payloads)
        self.payload_ends.extend([before + end for end in other.payload_ends[1:]])
        self.payloads += other.payloads
        self.alive += other.alive
        self.live += other.live
        self.live_bytes += other.live_bytes
        self.keyless += other.keyless
        self._note_density()

    def trim(self) -> None:
        """Remove the dead rows."""
        alive = self.alive
        rows = [*compress(range(len(alive)), alive)]
        self.offsets = array("q", compress(self.offsets, alive))
        self.times = array("q", compress(self.times, alive))
        self.keys, self.key_ends = _packed(self.keys, self.key_ends, rows)
        self.payloads, self.payload_ends = _packed(self.payloads, self.payload_ends, rows)
        self.alive = bytearray(b"\1") * len(rows)
        self._note_density()

    def _note_density(self) -> None:
        offsets = self.offsets
        self.is_dense = offsets[-1] - offsets[0] == len(offsets) - 1


def _packed(
    column: bytearray, ends: "array[int]", rows: list[int]
) -> tuple[bytearray, "array[int]"]:
    """Returns what a column has in these rows, end to end, and where each begins."""
    pieces = [column[ends[row] : ends[row + 1]] for row in rows]
    return bytearray().join(pieces), array("i", accumulate(map(len, pieces), initial=0))


class Together(NamedTuple):
    """Messages that were accepted together, as far as they are in one part.

    Attributes:
        offsets: of each.
        accepted_us: when.
        batch: the messages.
    """

    offsets: list[int]
    accepted_us: int
    batch: Batch


class Rows(NamedTuple):
    """Messages that were kept before, and are to be kept again, in the order of their offsets.

    Attributes:
        offsets: of each.
        times: when each was accepted.
        batch: the messages.
    """

    offsets: "array[int]"
    times: "array[int]"
    batch: Batch


class Change(NamedTuple):
    """What storing a batch would change.

    Attributes:
        batch: the batch.
        key_ends, payload_ends: its offsets.
        last: of each key in it, the index of its last message.
        superseded: the indices of messages that are superseded within the batch, in order.
        tombstones: the indices of tombstones that are not, with their keys.
        replaced: the offsets of messages that it supersedes.
        rows: where these are: the index of the part, and the row; and what each takes.
        keyless: how many messages have no key.
        messages, size: how many could be read afterwards, without tombstones, and what they take.
        has_tombstones: whether any message is a tombstone.
    """

    batch: Batch
    key_ends: tuple[int, ...]
    payload_ends: tuple[int, ...]
    last: dict[bytes, int]
    superseded: list[int]
    tombstones: list[tuple[int, bytes]]
    replaced: list[int]
    rows: list[tuple[int, int, int]]
    keyless: int
    messages: int
    size: int
    has_tombstones: bool


class KeepLast:
    """The last message of each key, those without a key, and tombstones for a while.

    Attributes:
        head: the offset after the last message that has expired; holes may follow it.
        next_offset: the offset that the next message will get.
        messages: how many can be read, without tombstones.
        size: what these take: keys, payloads, and `ROW` for each.
        keyless: how many of them have no key.
        tombstones: those that can be read, by their offsets, in order: their keys.
        tombstone_bytes: what these take.
        superseded: messages that newer ones of their keys have replaced.
        expired: messages whose retention has ended, and tombstones whose time was over.
        evicted: tombstones that went early.
        deleted_below: the offset after the last tombstone that is gone.
        moves: see `BroadcastRing`.
    """

    def __init__(self) -> None:
        self.head = 0
        self.next_offset = 0
        self.messages = 0
        self.size = 0
        self.keyless = 0
        self.tombstones: OrderedDict[int, bytes] = OrderedDict()
        self.tombstone_bytes = 0
        self.superseded = 0
        self.expired = 0
        self.evicted = 0
        self.deleted_below = 0
        self.moves: list[Move] = []
        # The newest offset of each key. One below the head is gone.
        self._index = KeyIndex()
        # Each has a row that is not dead.
        self._parts: list[Part] = []
        # Of each part, an offset above its rows, and not above those of the next one.
        self._ends: list[int] = []
        self._parts_memory = 0
        # Parts that have expired as a whole, and whose keys are still in the index.
        self._expired_parts: deque[Part] = deque()
        # What was read last: often, other readers read it next.
        self._found: Together | None = None
        # Callbacks for the next message, by waiter, as in a ring.
        self._waiting: dict[object, Callable[[], None]] = {}

    @property
    def live(self) -> int:
        """How many messages can be read, tombstones included."""
        return self.messages + len(self.tombstones)

    @property
    def memory(self) -> int:
        """The bytes that all of it takes."""
        index = self._index
        return self._parts_memory + KEY_COST * len(index) + index.key_bytes

    # -- writing ---------------------------------------------------------------------------------

    def judge(self, batch: Batch) -> Change:
        """Returns what storing the batch would change. Nothing is changed yet."""
        count = batch.count
        keys = batch.keys()
        last = dict(zip(keys, range(count), strict=True))
        keyless = 0
        # Messages without a key supersede nothing, and nothing supersedes them.
        if b"" in last:
            keyless = keys.count(b"")
            del last[b""]
        superseded: list[int] = []
        # Some key is there more than once.
        if len(last) + keyless < count:
            superseded = [index for index, key in enumerate(keys) if key and last[key] != index]

        payload_ends = batch.payload_offsets
        lengths = [*map(sub, payload_ends[1:], payload_ends)]
        size = self.size + batch.size + ROW * count
        for index in superseded:
            size -= len(keys[index]) + lengths[index] + ROW
        tombstones: list[tuple[int, bytes]] = []
        has_tombstones = False
        # Tombstones that stay do not count; those that are superseded were taken off above.
        if 0 in lengths:
            for index, key in enumerate(keys):
                if key and not lengths[index]:
                    has_tombstones = True
                    if last[key] == index:
                        tombstones.append((index, key))
                        size -= len(key) + ROW

        replaced = self._index.find(last, self.head)
        rows = self._rows_of(replaced)
        messages = self.messages + len(last) + keyless - len(tombstones) - len(replaced)
        for _, _, its_size in rows:
            size -= its_size
        # A tombstone that is superseded had not been counted.
        if self.tombstones:
            for offset in replaced:
                tombstone = self.tombstones.get(offset)
                if tombstone is not None:
                    messages += 1
                    size += len(tombstone) + ROW
        return Change(
            batch,
            batch.key_offsets,
            payload_ends,
            last,
            superseded,
            tombstones,
            replaced,
            rows,
            keyless,
            messages,
            size,
            has_tombstones,
        )

    def _rows_of(self, offsets: list[int]) -> list[tuple[int, int, int]]:
        """Returns where the rows of these offsets are, and their sizes.

        As `_place` and `Part.size` do: calls for each message cost time.
        """
        parts = self._parts
        ends = self._ends
        rows: list[tuple[int, int, int]] = []
        for offset in offsets:
            index = bisect_right(ends, offset)
            part = parts[index]
            row = offset - part.offsets[0]
            if not part.is_dense:
                row = bisect_left(part.offsets, offset)
            keys = part.key_ends
            payloads = part.payload_ends
            after = row + 1
            size = keys[after] - keys[row] + payloads[after] - payloads[row] + ROW
            rows.append((index, row, size))
        return rows

    def _place(self, offset: int) -> tuple[int, int]:
        """Returns where the row of that offset is: its part's index, and the row."""
        index = bisect_right(self._ends, offset)
        return index, self._parts[index].row(offset)

    def predecessors(self, batch: Batch) -> list[int]:
        """Returns the offset that each message of a batch would supersede; -1 for none.

        That is the newest of its key which can be read, in the batch itself or before it.
        """
        newest: dict[bytes, int] = {}
        found: list[int] = []
        for offset, key in enumerate(batch.keys(), self.next_offset):
            before = -1
            if key:
                before = newest.get(key, -1)
                if before < 0:
                    before = self.offset_of(key)
                newest[key] = offset
            found.append(before)
        return found

    def append(self, change: Change, accepted_us: int) -> None:
        """Store a batch that was judged, since when nothing may have changed."""
        base = self.next_offset
        self.next_offset += change.batch.count
        self.superseded += len(change.superseded) + len(change.replaced)
        self.messages = change.messages
        self.size = change.size
        self.keyless += change.keyless
        self._found = None
        self._supersede(change)
        self._add(change, base, accepted_us)
        self._index.update(change.last, base)
        for index, key in change.tombstones:
            self.tombstones[base + index] = key
            self.tombstone_bytes += len(key) + ROW
        self.forget_expired()
        # A waiter that is called may wait again, for the next message.
        waiting = self._waiting
        self._waiting = {}
        for wake in waiting.values():
            wake()

    def _supersede(self, change: Change) -> None:
        """Make the rows dead that a batch supersedes, and tidy the parts that they are in."""
        parts = self._parts
        touched: set[int] = set()
        for index, row, size in change.rows:
            # As `Part.kill` does.
            part = parts[index]
            part.alive[row] = 0
            part.live -= 1
            part.live_bytes -= size
            touched.add(index)
        if self.tombstones:
            for offset in change.replaced:
                key = self.tombstones.pop(offset, None)
                if key is not None:
                    self.tombstone_bytes -= len(key) + ROW
        # From the end, because a part that goes moves those after it.
        for index in sorted(touched, reverse=True):
            self._tidy(index)

    def _add(self, change: Change, base: int, accepted_us: int) -> None:
        """Add the messages of a batch as rows, some of which are dead already."""
        count = change.batch.count
        done = 0
        while done < count:
            if not self._parts or not self._parts[-1].has_room:
                self._parts.append(Part())
                self._ends.append(base)
                self._parts_memory += PART_COST
            part = self._parts[-1]
            stop = min(count, done + ROWS - len(part.alive))
            self._parts_memory -= part.memory
            part.add_messages(change, done, stop, base, accepted_us)
            self._parts_memory += part.memory
            self._ends[-1] = base + stop
            done = stop
            self._tidy(len(self._parts) - 1)

    def restore(self, index: KeyIndex, found: Iterable[Rows], end: int) -> None:
        """Keep what was kept before. Nothing may have been stored yet but the head.

        Args:
            index: the newest offset of each key.
            found: the messages, all of which are the newest of their keys, or have none.
            end: the offset that the next message will get.
        """
        self._index = index
        for rows in found:
            self._restore(rows)
        self.next_offset = end
        self.messages -= len(self.tombstones)
        self.size -= self.tombstone_bytes
        self.keyless = sum(part.keyless for part in self._parts)

    def _restore(self, rows: Rows) -> None:
        count = rows.batch.count
        self.messages += count
        self.size += rows.batch.size + ROW * count
        payloads = rows.batch.payload_offsets
        lengths = [*map(sub, payloads[1:], payloads)]
        if 0 in lengths:
            for key, length, offset in zip(rows.batch.keys(), lengths, rows.offsets, strict=True):
                if key and not length:
                    self.tombstones[offset] = key
                    self.tombstone_bytes += len(key) + ROW
        done = 0
        while done < count:
            if not self._parts or not self._parts[-1].has_room:
                self._parts.append(Part())
                self._ends.append(0)
                self._parts_memory += PART_COST
            part = self._parts[-1]
            stop = min(count, done + ROWS - len(part.alive))
            self._parts_memory -= part.memory
            part.add_rows(rows, done, stop)
            self._parts_memory += part.memory
            self._ends[-1] = rows.offsets[stop - 1] + 1
            done = stop

    def _tidy(self, index: int) -> None:
        """Remove a part that is dead; rewrite one of which half is, and join it with the next."""
        part = self._parts[index]
        if not part.must_be_trimmed:
            return
        self._found = None
        self._parts_memory -= part.memory
        if not part.live:
            del self._parts[index]
            del self._ends[index]
            return
        part.trim()
        self._parts_memory += part.memory
        if index + 1 < len(self._parts):
            self._join(index)

    def _join(self, index: int) -> None:
        """Join a part with the next one, if both together are small."""
        part = self._parts[index]
        after = self._parts[index + 1]
        rows = len(part.alive) + len(after.alive)
        size = len(part.keys) + len(part.payloads) + len(after.keys) + len(after.payloads)
        if rows <= ROWS // 2 and size <= PART_BYTES // 2:
            self._parts_memory -= part.memory + after.memory
            part.add(after)
            self._parts_memory += part.memory
            del self._parts[index + 1]
            del self._ends[index]

    # -- what goes -------------------------------------------------------------------------------

    def expire_accepted_until(self, limit_us: int) -> None:
        """Drop every message accepted at or before `limit_us` and count it as expired."""
        while self._parts and self._parts[0].times[-1] <= limit_us:
            part = self._parts.pop(0)
            del self._ends[0]
            self._expired_parts.append(part)
            self._expire(part, len(part.alive))
        if self._parts and self._parts[0].times[0] <= limit_us:
            part = self._parts[0]
            stop = bisect_right(part.times, limit_us)
            self._expire(part, stop)
            for row in compress(range(stop), part.alive):
                self._index.discard(part.key(row), part.offsets[row])
                if part.key_ends[row] == part.key_ends[row + 1]:
                    part.keyless -= 1
                part.kill(row)
            self._tidy(0)

    def _expire(self, part: Part, stop: int) -> None:
        """Count the rows before that one, of the first part, as expired; the head moves on."""
        count = part.live
        size = part.live_bytes
        keyless = part.keyless
        if stop < len(part.alive):
            rows = [*compress(range(stop), part.alive)]
            count = len(rows)
            size = sum(map(part.size, rows))
            keyless = sum(part.key_ends[row] == part.key_ends[row + 1] for row in rows)
        if not count:
            return
        self._found = None
        note(self.moves, self.head, part.times[stop - 1], EXPIRED)
        self.head = part.offsets[part.alive.rfind(1, 0, stop)] + 1
        self.expired += count
        self.keyless -= keyless
        while self.tombstones:
            offset = next(iter(self.tombstones))
            if offset >= self.head:
                break
            its_size = len(self.tombstones.pop(offset)) + ROW
            self.tombstone_bytes -= its_size
            size -= its_size
            count -= 1
        self.messages -= count
        self.size -= size

    def forget_expired(self) -> None:
        """Remove keys of messages that have expired from the index, those of some parts."""
        for _ in range(min(PARTS_AT_ONCE, len(self._expired_parts))):
            part = self._expired_parts.popleft()
            self._parts_memory -= part.memory
            for row in compress(range(len(part.alive)), part.alive):
                self._index.discard(part.key(row), part.offsets[row])

    def drop_all(self) -> None:
        """Drop every message and count it as expired: the topic is deleted."""
        self.expired += self.live
        self.head = self.next_offset
        self.messages = 0
        self.size = 0
        self.keyless = 0
        self.tombstones.clear()
        self.tombstone_bytes = 0
        self._index = KeyIndex()
        self._parts.clear()
        self._ends.clear()
        self._parts_memory = 0
        self._expired_parts.clear()
        self._found = None

    def expire_tombstones(self, limit_us: int, most: int) -> None:
        """Drop up to `most` tombstones accepted at or before `limit_us`; they have expired.

        The newest message stays: a reader that has been sent it has missed nothing.
        """
        for _ in range(most):
            offset = self._oldest_tombstone()
            if offset < 0:
                break
            index, row = self._place(offset)
            if self._parts[index].times[row] > limit_us:
                break
            self._drop_tombstone(offset)
            self.expired += 1

    def limit_tombstones(self, max_bytes: int) -> None:
        """Evict the oldest tombstones, but not the newest message, until they take no more."""
        while self.tombstone_bytes > max_bytes and self._evict_tombstone():
            pass

    def limit_memory(self, memory: int) -> None:
        """Evict the oldest tombstones, but not the newest message, until all takes no more."""
        while self.memory > memory and self._evict_tombstone():
            pass

    def _evict_tombstone(self) -> bool:
        """Drop the oldest tombstone that may go; returns whether there was one."""
        offset = self._oldest_tombstone()
        if offset < 0:
            return False
        self._drop_tombstone(offset)
        self.evicted += 1
        return True

    def _oldest_tombstone(self) -> int:
        """Returns the offset of the oldest tombstone but for the newest message; -1 without one."""
        for offset in self.tombstones:
            if offset < self.next_offset - 1:
                return offset
            break
        return -1

    def _drop_tombstone(self, offset: int) -> None:
        key = self.tombstones.pop(offset)
        self.tombstone_bytes -= len(key) + ROW
        self._drop(key, offset)

    def forget(self, key: bytes) -> None:
        """Drop the message of a key, as if it were a tombstone: `deleted_below` tells.

        There must be one, and it is none. It is not counted, as it may go for several reasons.
        """
        offset = self.offset_of(key)
        index, row = self._place(offset)
        self.messages -= 1
        self.size -= self._parts[index].size(row)
        self._drop(key, offset)

    def _drop(self, key: bytes, offset: int) -> None:
        self.deleted_below = max(self.deleted_below, offset + 1)
        self._found = None
        self._index.discard(key, offset)
        index, row = self._place(offset)
        self._parts[index].kill(row)
        self._tidy(index)

    # -- reading ---------------------------------------------------------------------------------

    def readable_from(self, offset: int) -> int:
        """Returns the first offset from that one on that can be read; else `next_offset`."""
        offset = max(offset, self.head)
        parts = self._parts
        # Each part has a live row, but perhaps none from there on.
        for index in range(bisect_right(self._ends, offset), len(parts)):
            part = parts[index]
            row = part.live_from(part.row(offset))
            if row >= 0:
                return part.offsets[row]
        return self.next_offset

    def together(self, offset: int) -> Together:
        """Returns the message with that offset, which can be read, and others.

        They were accepted at the same time, and may be before it and after it.
        """
        found = self._found
        if found is None or not found.offsets[0] <= offset <= found.offsets[-1]:
            index, row = self._place(offset)
            found = self._parts[index].together(row)
            self._found = found
        return found

    def first_accepted_since(self, time_us: int) -> int:
        """Returns the first readable offset accepted at `time_us` or later; else `next_offset`."""
        parts = self._parts
        index = bisect_left(parts, time_us, key=lambda part: part.times[-1])
        if index == len(parts):
            return self.next_offset
        part = parts[index]
        return self.readable_from(part.offsets[bisect_left(part.times, time_us)])

    def accepted_us(self, offset: int) -> int | None:
        """Returns when the first message from that offset on was accepted; None without one."""
        offset = self.readable_from(offset)
        if offset == self.next_offset:
            return None
        index, row = self._place(offset)
        return self._parts[index].times[row]

    def live_between(self, begin: int, end: int) -> tuple[int, int]:
        """Returns how many messages of these offsets can be read, and what they take."""
        messages = 0
        size = 0
        for at in range(bisect_right(self._ends, begin), len(self._parts)):
            part = self._parts[at]
            if part.offsets[0] >= end:
                break
            rows = len(part.alive)
            first = min(part.row(begin), rows)
            stop = min(part.row(end), rows)
            if first or stop < rows:
                messages += part.alive.count(1, first, stop)
                size += part.size_between(first, stop)
            else:
                messages += part.live
                size += part.live_bytes
        return messages, size

    def live_offsets(self, offset: int, most: int, until: int = 0) -> "array[int]":
        """Returns the first offsets from that one on that can be read.

        They are a part more than `most`, or all below `until` if these are more.
        """
        found = array("q")
        for at in range(bisect_right(self._ends, offset), len(self._parts)):
            part = self._parts[at]
            if len(found) >= most and part.offsets[0] >= until:
                break
            first = part.row(offset)
            found.extend(compress(part.offsets[first:], part.alive[first:]))
        return found

    def key_at(self, offset: int) -> bytes:
        """Returns the key of the message with that offset, which can be read."""
        index, row = self._place(offset)
        return self._parts[index].key(row)

    def offset_of(self, key: bytes) -> int:
        """Returns the offset of the message of that key; -1 if there is none."""
        offset = self._index.get(key)
        if offset < self.head:
            return -1
        return offset

    def size_of(self, key: bytes) -> int:
        """Returns what the message of that key takes; 0 if there is none, or a tombstone."""
        offset = self.offset_of(key)
        if offset < 0 or offset in self.tombstones:
            return 0
        index, row = self._place(offset)
        return self._parts[index].size(row)

    def successor(self, offset: int) -> int:
        """Returns the offset of the message that has superseded that one; -1 if it is not known.

        It is known while the dead row is there.
        """
        index = bisect_right(self._ends, offset)
        if offset < self.head or index == len(self._parts):
            return -1
        part = self._parts[index]
        row = part.row(offset)
        if row >= len(part.alive) or part.offsets[row] != offset or part.alive[row]:
            return -1
        return self.offset_of(part.key(row))

    def marks(self, most: int) -> list[tuple[int, int]]:
        """Returns offsets of messages, in order, and when they were accepted.

        Half of them are the newest ones, the others are spread evenly over all before these. If
        there are not more than `most`, all are among them.
        """
        newest = self._newest(max(most // 2, 1))
        if not newest:
            return []
        starts = [*accumulate((len(part.alive) for part in self._parts), initial=0)]
        index, row = self._place(newest[0][0])
        rows = starts[index] + row
        steps = most - len(newest)
        # There is room for all, so no row is left out.
        if self.live - len(newest) <= steps:
            steps = rows
        found: dict[int, int] = {}
        for step in range(min(steps, rows)):
            at = step * rows // steps
            index = bisect_right(starts, at) - 1
            part = self._parts[index]
            row = part.live_from(at - starts[index])
            # Those that follow in this part are dead, and in the next one some are not.
            if row < 0:
                part = self._parts[index + 1]
                row = part.live_from(0)
            found[part.offsets[row]] = part.times[row]
        return [*(found | dict(newest)).items()]

    def _newest(self, most: int) -> list[tuple[int, int]]:
        """Returns the offsets of the newest messages, in order, and when they were accepted."""
        found: list[tuple[int, int]] = []
        for part in reversed(self._parts):
            row = part.alive.rfind(1)
            while row >= 0 and len(found) < most:
                found.append((part.offsets[row], part.times[row]))
                row = part.alive.rfind(1, 0, row)
            if len(found) == most:
                break
        found.reverse()
        return found

    def wait(self, waiter: object, wake: Callable[[], None]) -> None:
        """Call `wake` once, when the next message is stored."""
        self._waiting[waiter] = wake

    def stop_waiting(self, waiter: object) -> None:
        """Remove a waiter, if it is waiting."""
        self._waiting.pop(waiter, None)
