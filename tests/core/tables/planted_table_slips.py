"""Bugs in tables, which the naive table of `test_table_model` finds.

Each is one wrong expression or statement; `planting` says how its place and its code are written.
It is planted in the running program: only the function that has it is replaced.
"""

from dataclasses import dataclass

from planting import plant, planted


@dataclass(frozen=True)
class TableSlip:
    """A wrong line.

    Attributes:
        name: what is wrong.
        where: the method or function that has it.
        right: what stands there, an expression or statements; `wrong` stands there instead.
        nth: which one, counted from 1, if what is right is there several times.
    """

    name: str
    where: str
    right: str
    wrong: str
    nth: int = 0

    def planted(self):
        """The file that has the slip, and its text with it."""
        return planted(self.where, self.right, self.wrong, self.nth)

    def plant(self, monkeypatch):
        """Replace the method by the wrong one, which uses all else as it is."""
        plant(monkeypatch, self.where, self.right, self.wrong, self.nth)


TABLE_SLIPS = [
    TableSlip(
        "within a batch the first message of a key wins",
        "KeepLast.judge",
        "key and last[key] != index",
        "key and last[key] < index",
    ),
    TableSlip(
        "a tombstone that is superseded counts as a message",
        "KeepLast.judge",
        "messages += 1",
        "pass",
    ),
    TableSlip(
        "a key that has expired is superseded",
        "KeepLast.judge",
        "self._index.find(last, self.head)",
        "self._index.find(last, 0)",
    ),
    TableSlip(
        "a tombstone counts towards the bytes",
        "KeepLast.judge",
        "size -= len(key) + ROW",
        "pass",
    ),
    TableSlip(
        "what is superseded within a batch is not counted",
        "KeepLast.append",
        "len(change.superseded) + len(change.replaced)",
        "len(change.replaced)",
    ),
    TableSlip(
        "what was read before is read again",
        "KeepLast.append",
        "self._found = None",
        "pass",
    ),
    TableSlip(
        "a superseded tombstone takes bytes for ever",
        "KeepLast._supersede",
        "self.tombstone_bytes -= len(key) + ROW",
        "pass",
    ),
    TableSlip(
        "dead rows stay",
        "KeepLast._tidy",
        "not part.must_be_trimmed",
        "part.live",
    ),
    TableSlip(
        "a part that is joined is lost",
        "KeepLast._join",
        "part.add(after)",
        "pass",
    ),
    TableSlip(
        "the head goes over holes",
        "KeepLast._expire",
        "part.offsets[part.alive.rfind(1, 0, stop)] + 1",
        "part.offsets[stop - 1] + 1",
    ),
    TableSlip(
        "tombstones that expire are counted twice",
        "KeepLast._expire",
        "count -= 1",
        "pass",
    ),
    TableSlip(
        "a message without a key that expires is still counted",
        "KeepLast._expire",
        "self.keyless -= keyless",
        "pass",
    ),
    TableSlip(
        "a tombstone whose time is over is not counted",
        "KeepLast.expire_tombstones",
        "self.expired += 1",
        "pass",
    ),
    TableSlip(
        "a tombstone goes a moment early",
        "KeepLast.expire_tombstones",
        "self._parts[index].times[row] > limit_us",
        "self._parts[index].times[row] > limit_us + 1",
    ),
    TableSlip(
        "the newest message may go",
        "KeepLast._oldest_tombstone",
        "offset < self.next_offset - 1",
        "True",
    ),
    TableSlip(
        "the last deletion is not told",
        "KeepLast._drop",
        "offset + 1",
        "offset",
    ),
    TableSlip(
        "a deleted key is not forgotten",
        "KeepLast._drop",
        "self._index.discard(key, offset)",
        "pass",
    ),
    TableSlip(
        "before the first row is the last one",
        "Part.row",
        "max(offset - offsets[0], 0)",
        "offset - offsets[0]",
    ),
    TableSlip(
        "rewriting mixes up times",
        "Part.trim",
        'self.times = array("q", compress(self.times, alive))',
        "pass",
    ),
    TableSlip(
        "holes are told as lag",
        "Table.lost_until",
        "max(offset, self.kept.head)",
        "self.kept.readable_from(offset)",
    ),
    TableSlip(
        "a frame goes beyond until",
        "Table.read",
        "offsets[stop - 1] >= before",
        "False",
    ),
    TableSlip(
        "missing offsets are not told",
        "Table.read",
        "offsets[stop - 1] - offset >= stop - first",
        "offsets[stop - 1] - offset > stop - first",
    ),
    TableSlip(
        "a table holds one less",
        "Table._check",
        "change.messages > self._capacity",
        "change.messages >= self._capacity",
    ),
    TableSlip(
        "bytes are judged a batch late",
        "Table._check",
        "change.size > self._max_bytes",
        "size > self._max_bytes",
    ),
    TableSlip(
        "tombstones never go early",
        "Table._store",
        "self.kept.limit_tombstones(self._max_bytes // TOMBSTONES_PART)",
        "pass",
    ),
    TableSlip(
        "a tombstone that is superseded at once need not be meant",
        "Table._judged",
        "change.has_tombstones",
        "change.tombstones",
    ),
    TableSlip(
        "holes are not counted",
        "Reader._pass",
        "self.passed += to_offset - self.cursor",
        "pass",
    ),
    TableSlip(
        "holes inside a frame are not counted",
        "Reader._send",
        "self.passed += end - first - count",
        "pass",
    ),
    TableSlip(
        "holes are passed beyond until",
        "Reader._go_on",
        "self._pass(min(readable, self.until))",
        "self._pass(readable)",
    ),
    TableSlip(
        "a new reader from the earliest has missed deletions",
        "Reader._has_missed_deletions",
        "self.cursor < below and not self.position.is_fresh",
        "self.cursor < below",
    ),
    TableSlip(
        "a deletion that was read is missed",
        "Reader._has_missed_deletions",
        "self.cursor < below and not self.position.is_fresh",
        "not self.position.is_fresh",
    ),
    TableSlip(
        "deletions are told again and again",
        "Reader._has_missed_deletions",
        "self._deletions_known_below = below",
        "pass",
    ),
    TableSlip(
        "who was sent something counts as new",
        "Reader._send",
        "position.is_fresh = False",
        "pass",
    ),
    TableSlip(
        "a commit inside a frame settles offsets, not messages",
        "Reader.commit",
        "len(offsets) - bisect_left(offsets, next_offset)",
        "end - next_offset",
    ),
    TableSlip(
        "everybody begins at the earliest",
        "_own_position",
        "request.start == Start.EARLIEST",
        "True",
    ),
    TableSlip(
        "a key that has expired is superseded, says the journal",
        "KeepLast.predecessors",
        "self.offset_of(key)",
        "self._index.get(key)",
    ),
    TableSlip(
        "only what was there before is superseded, says the journal",
        "KeepLast.predecessors",
        "newest[key] = offset",
        "pass",
    ),
]
