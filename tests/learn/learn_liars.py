"""A right broker whose every word can be turned into a lie, one at a time.

A check is run once honestly, and each of its judgements written down: which statement of the stage
judged which field of which frame. Then it is run again for each of them, and that field is changed
on its way in. The check must fail, at that statement. So every judgement is shown to be one, also
those that no plausible broker would ever fail.
"""

import ast
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from zaichik.learn import connection, stages, wire
from zaichik.learn.connection import Connection

STAGES = Path(stages.__file__).parent
JUDGING = {
    *("must_be", "must_be_error", "expect_frame", "expect_event", "expect_messages", "expect_lag"),
    *("expect_no_event", "expect_error", "expect_end", "expect_fatal", "_ends", "_same"),
}
# With any keyword, or with this one.
JUDGING_IF_TOLD = {
    "publish": None,
    "publish_singly": None,
    "create": None,
    "ok": "expect",
    "subscribe": "expect",
}
RAISING = {"expect_silence", "must_be_now"}  # that judge what is not a field of a frame
STRANGER = wire.encode("Lagged", frame_id=2**32 - 1, from_offset=0, to_offset=1)


@dataclass(frozen=True)
class Place:
    """A statement of a stage: its file's stem, its first line, and its last one."""

    file: str
    first: int
    last: int


@dataclass(frozen=True)
class Judgement:
    """What a statement looked at.

    Attributes:
        place: the statement.
        connection, frame: which frame, counted from 0, of which connection; -1 is what comes after
            the last one.
        field: which field of it; "" if it must not be there at all.
    """

    place: Place
    connection: int
    frame: int
    field: str


def statements(path, kinds=(ast.Expr, ast.Assign, ast.Return, ast.Raise)):
    """The simple statements of a file."""
    return [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
    ]


def calls(node):
    """The calls of a statement, each with the last part of its name."""
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        yield (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else getattr(call.func, "id", ""),
            call,
        )


def raises(node):
    """Whether a statement raises Failure by itself, or by a call that looks at no frame."""
    if isinstance(node, ast.Raise):
        return isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "Failure"
    return any(name in RAISING for name, _ in calls(node))


def judges(node):
    """Whether a statement judges anything by a call that does."""
    for name, call in calls(node):
        told = {keyword.arg for keyword in call.keywords}
        if name in JUDGING or (
            name in JUDGING_IF_TOLD and told & {JUDGING_IF_TOLD[name] or next(iter(told), "")}
        ):
            return True
    return False


def places(*, raising):
    """All statements that judge: those that raise Failure themselves, or those that let others do
    it.
    """
    return {
        Place(path.stem, node.lineno, node.end_lineno)
        for path in STAGES.glob("s[0-9]*.py")
        for node in statements(path)
        if (raises(node) if raising else not isinstance(node, ast.Raise) and judges(node))
    }


def places_in(error):
    """The statements of stages that an error came through."""
    return {
        (Path(frame.filename).stem, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parent == STAGES
    }


def is_at(place, lines):
    """Whether one of these lines is of this statement."""
    return any(file == place.file and place.first <= line <= place.last for file, line in lines)


def running_lines():
    """The lines of stages that are being carried out, in the task that asks."""
    frame, lines = sys._getframe(1), set()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.parent == STAGES:
            lines.add((path.stem, frame.f_lineno))
        frame = frame.f_back
    return lines


class Ear:
    """Hears every frame of a trial before its check does: writes down who judges it, or changes
    one.

    Args:
        monkeypatch: puts it between the tester and its connections.
        lie: what to change; None to listen only.
    """

    def __init__(self, monkeypatch, lie=None):
        self.judgements = []
        self._all = places(raising=False)
        self._lie = lie
        self._counts = {}
        self._heard = {}
        take, compare = Connection._take, connection.compare
        ends, nothing = Connection.expect_end, Connection.expect_no_event
        monkeypatch.setattr(Connection, "_take", lambda conn, size: self._take(take, conn, size))
        monkeypatch.setattr(connection, "compare", lambda *words: self._compare(compare, *words))
        monkeypatch.setattr(Connection, "expect_end", lambda conn: self._ends(ends, conn))
        monkeypatch.setattr(
            Connection, "expect_no_event", lambda conn, why: self._nothing(nothing, conn, why)
        )

    def _note(self, conn, frame, field):
        lines = running_lines()
        self.judgements += [
            Judgement(place, conn, frame, field) for place in self._all if is_at(place, lines)
        ]

    def _take(self, take, conn, size):
        index = self._counts[conn] = self._counts.get(conn, -1) + 1
        if self._is_to_be_told(conn.number, index, data := bytes(conn._buffer[:size])):
            data = changed(data, self._lie.field)
            conn._buffer[:size] = data
            size, self._lie = wire.frame_size(data), None
        frame = take(conn, size)
        self._heard[id(frame)] = (
            conn.number,
            index,
            frame,
        )  # the frame, too, so that its id stays its own
        return frame

    def _is_to_be_told(self, conn, index, data):
        """Whether this is the frame to lie about, or the next one with such a field: runs differ a
        little.
        """
        if self._lie is None or self._lie.connection != conn or not 0 <= self._lie.frame <= index:
            return False
        return self._lie.field in {
            "",
            "type",
            "flags",
            *(span.name for span in wire.parse(data).spans),
        }

    def _compare(self, compare, frame, name, expected, asked):
        number, index, _ = self._heard[id(frame)]
        for field in expected or {"type": 0}:
            self._note(number, index, field)
        if (
            name == "Messages"
            and sys._getframe(2).f_back.f_code is Connection.expect_messages.__code__
        ):
            self._note(number, index, "batch")
        compare(frame, name, expected, asked)

    async def _ends(self, ends, conn):
        self._note(conn.number, -1, "")
        if self._lie and (self._lie.connection, self._lie.frame) == (conn.number, -1):
            conn._buffer += b"!"
        await ends(conn)

    async def _nothing(self, nothing, conn, why):
        self._note(conn.number, self._counts[conn] + 1, "")
        await nothing(conn, why)


def changed(data, field):
    """A frame with another value in one field; without a field, a frame before it that nobody waits
    for.
    """
    if not field:
        return STRANGER + data
    frame = wire.parse(data)
    body = {span.name: span.value for span in frame.spans[5:]}
    header = {"flags": frame.flags, "frame_id": frame.id}
    if field == "type":
        return data[:4] + bytes([0x88 if frame.name != "Closed" else 0x85]) + data[5:]
    if field == "flags":  # a bit that no type defines
        return data[:5] + bytes([data[5] ^ 0x80]) + data[6:]
    name = "frame_id" if field == "id" else field
    fields = header if name in header else body
    fields[name] = another(fields[name])
    return wire.encode(frame.name, **header, **body)


def another(value):
    """A value like this one."""
    match value:
        case int():
            return value ^ 1
        case str():
            return value + "x"
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:] if value else b"\1"
        case [(int(), int()), *_]:
            return [(number, setting ^ 1) for number, setting in value]
        case [*rest, (key, payload)]:
            return [*rest, (key, payload + b"x")]
