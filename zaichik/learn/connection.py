"""One raw connection to the broker under test. Everything is written down; nothing is sent unasked."""

import itertools
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from zaichik.learn import causes, layouts, shown, wire
from zaichik.learn.failure import Failed, Missing, WrongByte, compare, difference, first_wrong_byte
from zaichik.learn.ledger import Ledgers
from zaichik.learn.patterns import Writer
from zaichik.learn.trace import frame_line, shown_hex, whole
from zaichik.learn.wire import BadFrame, Frame, Message

if TYPE_CHECKING:
    from zaichik.learn.trial import Trial


class Connection:
    """A connection of one trial.

    Args:
        stream: the socket, connected.
        trial: whose seed, pattern, patience and record it uses.
        number: which of the trial's connections it is, from 1.

    Attributes:
        ids: numbers for requests.
        events: what came unasked and nobody has looked at yet, in order.
        limits: the Welcome, once it has come.
    """

    limits: Frame

    def __init__(self, stream: SocketStream, trial: "Trial", number: int) -> None:
        self.ids = itertools.count(1)
        self.events: list[Frame] = []
        self.number = number
        self._trial = trial
        self._stream = stream
        self._writer = Writer(stream, trial.pattern, trial.rng)
        self._buffer = bytearray()
        self._sent, self._asked = b"", ""  # the newest request, as bytes, to recognise an echo, and as text
        self._due: dict[int, str] = {}  # the name of the reply to a request, by its id
        self._ledgers = Ledgers()

    # -- bytes out -------------------------------------------------------------------------------------------

    async def send(self, name: str, /, *, frame_id: int | None = None, **fields: Any) -> int:
        """Send a request in the trial's pattern. Returns its id."""
        used = next(self.ids) if frame_id is None else frame_id
        self._due[used] = layouts.reply_to(name)
        self._ledgers.asked(name, used, layouts.DEFAULTS.get(name, {}) | fields)
        await self.send_frame(wire.encode(name, frame_id=used, **fields))
        return used

    async def send_frame(self, frame: bytes) -> None:
        """Send a frame that is already made, in the trial's pattern."""
        self._note(frame)
        with self._broken_is_failed():
            await self._writer.write(frame)

    async def send_bytes(self, data: bytes, note: str = "") -> None:
        """Send bytes in one write, frame or not."""
        self._note(data, note)
        with self._broken_is_failed():
            await self._writer.exactly(data)

    async def flush(self) -> None:
        """Send now what a glued pattern holds back."""
        with self._broken_is_failed():
            await self._writer.flush()

    async def pour(self, data: bytes) -> None:
        """Send much, without a record, and whether or not the server still listens."""
        with suppress(anyio.BrokenResourceError, OSError):
            await self._writer.exactly(data)

    async def end(self) -> None:
        """End this side of the stream (a FIN), and go on reading."""
        with self._broken_is_failed():
            await self._writer.exactly(b"")
            await self._stream.send_eof()
        self._trial.trace.happened(self._trial.elapsed, self.number, "our side ended (FIN)")

    async def reset(self, note: str = "torn down by us (RST)") -> None:
        """Tear the connection down as a crash would (a RST)."""
        raw = self._stream.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._trial.trace.happened(self._trial.elapsed, self.number, note)
        await self._stream.aclose()

    async def aclose(self) -> None:
        """Let go of the socket."""
        await self._stream.aclose()

    def _note(self, data: bytes, note: str = "") -> None:
        self._sent = data
        trace = self._trial.trace
        trace.sent(self._trial.elapsed, self.number, data, note)
        self._asked = trace.entries[-1].line()

    @contextmanager
    def _broken_is_failed(self) -> Iterator[None]:
        """Turns a write that fails into a sentence."""
        try:
            yield
        except (anyio.BrokenResourceError, OSError):
            problem = "the connection broke while a request was being sent"
            raise Failed(problem, asked=self._asked, cause=causes.RESET) from None

    # -- frames in -------------------------------------------------------------------------------------------

    async def read(self, *, awaited: str = "a frame", patience: float | None = None, flush: bool = True) -> Frame:
        """The next frame, whatever it is; after `patience` seconds, by default the trial's, none has come.

        Raises:
            Missing: none came in time, or the stream ended.
            Failed: the bytes are no frame.
        """
        if flush:
            await self.flush()
        while True:
            try:
                if (size := wire.frame_size(self._buffer)) is not None and len(self._buffer) >= size:
                    return self._take(size)
            except BadFrame as bad:
                raise self._no_frame(bad) from None
            await self._fill(awaited, patience or self._trial.patience)

    async def _fill(self, awaited: str, patience: float) -> None:
        try:
            with anyio.fail_after(patience):
                self._buffer += await self._stream.receive()
        except TimeoutError:
            begun = causes.of_unfinished(bytes(self._buffer)) if self._buffer else ""
            raise self._missing(f"nothing came within {patience:g} s", awaited, begun) from None
        except anyio.EndOfStream:
            raise self._missing("the server ended the connection", awaited, causes.ENDED) from None
        except (anyio.BrokenResourceError, OSError):
            raise self._missing("the connection broke", awaited, causes.RESET) from None

    def _missing(self, what: str, awaited: str, cause: str) -> Missing:
        came = f"{len(self._buffer)} bytes: {shown_hex(bytes(self._buffer))}" if self._buffer else "nothing"
        self._trial.trace.happened(self._trial.elapsed, self.number, what)
        return Missing(f"{what} where {awaited} was due", asked=self._asked, expected=awaited, came=came, cause=cause)

    def _take(self, size: int) -> Frame:
        data = bytes(self._buffer[:size])
        try:
            frame = wire.parse(data)
        except BadFrame as bad:
            raise self._no_frame(bad, data) from None
        del self._buffer[:size]
        self._trial.trace.received(self._trial.elapsed, self.number, data, frame)
        if frame.type not in layouts.LAYOUTS or frame.type in layouts.REQUESTS:
            raise Failed(
                f"a broker never sends a frame of type {frame.type:#04x}",
                asked=self._asked,
                came=frame_line(frame),
                cause=causes.of_bytes(data, self._sent) or causes.of_bad_body(data, b""),
            )
        self._ledgers.came(frame)
        return frame

    def _no_frame(self, bad: BadFrame, data: bytes = b"") -> Failed:
        everything = bytes(self._buffer)
        self._trial.trace.received(self._trial.elapsed, self.number, data or everything, bad.so_far, bad.problem)
        cause = causes.of_bytes(everything, self._sent)
        if not cause and data:
            cause = causes.of_bad_body(data, everything[len(data) :])
        return Failed(
            f"what came is no frame: {bad.problem}",
            asked=self._asked,
            came=frame_line(bad.so_far) if bad.so_far else shown_hex(everything),
            wrong=WrongByte(bad.at, bad.field, b"", everything[bad.at : min(bad.at + 8, len(data) or 4)]),
            cause=cause,
        )

    # -- requests and replies --------------------------------------------------------------------------------

    async def reply(self, frame_id: int) -> Frame:
        """The next reply, which must be the one to this request. Events on the way are kept."""
        due = self._due.pop(frame_id, "a reply")
        while (frame := await self.read(awaited=f"{due} with id {frame_id}")).is_event:
            self.events.append(frame)
        if frame.id != frame_id:
            compare(frame, frame.name, {"id": frame_id}, self._asked)
        return frame

    async def ask(self, name: str, /, **fields: Any) -> Frame:
        """Send a request; what answers it, success or not."""
        return await self.reply(await self.send(name, **fields))

    async def ok(self, name: str, /, *, expect: dict[str, Any] | None = None, **fields: Any) -> Frame:
        """Send a request that must succeed, with a reply whose fields are these."""
        frame = await self.ask(name, **fields)
        self.must_be(frame, layouts.reply_to(name), flags=0, **(expect or {}))
        return frame

    async def refused(self, error: str, name: str, /, *, at: str | None = None, **fields: Any) -> Frame:
        """Send a request that must fail in just this way; `at` is the field that the Error must name."""
        frame = await self.ask(name, **fields)
        self.must_be_error(frame, error, request_type=layouts.TYPES[name], at=at)
        return frame

    def must_be(self, frame: Frame, name: str, **fields: Any) -> None:
        """Judge a frame."""
        compare(frame, name, fields, self._asked)

    def must_be_error(
        self, frame: Frame, error: str, *, request_type: int | None = None, at: str | None = None, **fields: Any
    ) -> None:
        """Judge an Error: its code, its flags, what it names, and other fields that are given."""
        fields = {"code": layouts.ERROR_CODES[error], "flags": layouts.error_flags(error)} | fields
        if request_type is not None:
            fields["request_type"] = request_type
        if at is not None:
            fields["field"] = at
        compare(frame, "Error", fields, self._asked)

    async def hello(self, **fields: Any) -> Frame:
        """Say Hello; the Welcome."""
        self.limits = await self.ok("Hello", **fields)
        return self.limits

    async def ping(self) -> None:
        """A round trip."""
        value = self._trial.rng.getrandbits(64)
        await self.ok("Ping", value=value, expect={"value": value})

    async def publish(self, topic: str, *messages: tuple[bytes, bytes], **expect: Any) -> Frame:
        """Publish a batch that must be accepted."""
        return await self.ok("Publish", topic=topic, batch=messages, expect=expect)

    async def subscribe(self, topic: str, *, expect: dict[str, Any] | None = None, **how: Any) -> int:
        """Subscribe; the subscription's id."""
        return (await self.ok("Subscribe", topic=topic, expect=expect, **how)).id

    async def commit(self, subscription: int, following: int) -> None:
        """Settle everything below an offset."""
        await self.ok("Commit", subscription=subscription, next=following, expect={"committed": following})

    # -- events ----------------------------------------------------------------------------------------------

    async def event(self, subscription: int, *, awaited: str = "an event") -> Frame:
        """The next event of a subscription."""
        for index, frame in enumerate(self.events):
            if frame.id == subscription:
                return self.events.pop(index)
        while (frame := await self.read(awaited=awaited)).is_event:
            if frame.id == subscription:
                return frame
            self.events.append(frame)
        raise Failed(f"{awaited} was due, and a reply came that nobody had asked for", came=frame_line(frame))

    async def has_event(self, subscription: int, seconds: float) -> bool:
        """Whether an event of a subscription comes within these seconds; it is kept."""
        with anyio.move_on_after(seconds):
            while not any(frame.id == subscription for frame in self.events):
                frame = await self.read(awaited="an event", patience=2 * seconds)  # so it is we who give up
                if not frame.is_event:
                    raise Failed("a reply came that nobody had asked for", came=frame_line(frame))
                self.events.append(frame)
            return True
        return False

    async def messages(self, subscription: int, first: int, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Receive just these messages, from this offset on, in however many pieces."""
        done = 0
        while done < len(pairs):
            awaited = f"the message with offset {first + done}"
            frame = await self.event(subscription, awaited=awaited)
            self.must_be(frame, "Messages", base=first + done)
            came = frame.messages
            should = list(pairs[done : done + len(came)])
            if frame["batch"] != should:
                raise Failed(
                    ": ".join(filter(None, (self._ledgers.overdrawn(subscription), difference(came, should)))),
                    asked=self._asked,
                    expected=shown.batch(should),
                    came=frame_line(frame),
                    wrong=first_wrong_byte(frame.span("batch"), should),
                )
            if [message.offset for message in came] != list(range(first + done, first + done + len(came))):
                problem = "offsets were left out, though no message was missing"
                raise Failed(problem, asked=self._asked, came=frame_line(frame))
            done += len(came)

    async def next_messages(self, subscription: int) -> list[Message]:
        """What the next event brings, which must be messages."""
        frame = await self.event(subscription, awaited="messages")
        self.must_be(frame, "Messages")
        return frame.messages

    async def lagged(self, subscription: int, from_offset: int, to_offset: int) -> None:
        """Receive just this report of lag."""
        frame = await self.event(subscription, awaited=f"Lagged from {from_offset} to {to_offset}")
        self.must_be(frame, "Lagged", from_offset=from_offset, to_offset=to_offset)

    async def nothing(self, why: str) -> None:
        """Make sure that no event comes: a quiet period, and a round trip that would bring up what is on its way.

        That something will never come cannot be seen, so this may miss a broker that is wrong and slow. It never
        accuses one that is right.
        """
        await self.flush()
        await anyio.sleep(self._trial.quiet)
        asked = self._asked
        await self.ping()
        if self.events:
            raise Failed(
                f"{self._ledgers.overdrawn(self.events[0].id) or why}, and yet {self.events[0].name} came",
                asked=asked,
                expected=f"nothing: {why}",
                came=frame_line(self.events[0]),
            )

    async def overhear(self, seconds: float) -> bytes:
        """What comes within these seconds although nothing was asked; b"" if nothing does."""
        with anyio.move_on_after(seconds):
            try:
                came = await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
                raise Failed("the server ended the connection", cause=causes.ENDED) from None
            self._trial.trace.received(self._trial.elapsed, self.number, came, whole(came))
            return came
        return b""

    async def ends(self) -> None:
        """Make sure that the server ends the stream now, and sends nothing before that."""
        if self._buffer:
            raise Failed("the end was due, and more came", came=shown_hex(bytes(self._buffer)))
        try:
            with anyio.fail_after(self._trial.patience):
                more = await self._stream.receive()
        except anyio.EndOfStream:
            self._trial.trace.happened(self._trial.elapsed, self.number, "the server ended its side (FIN)")
            return
        except TimeoutError:
            problem = f"the server should have closed the connection, and did not within {self._trial.patience:g} s"
            raise Failed(problem, asked=self._asked, expected="the end of the stream", came="nothing") from None
        except (anyio.BrokenResourceError, OSError):
            problem = "the connection should have ended in order (FIN), and was torn down (RST)"
            raise Failed(problem, asked=self._asked, expected="the end of the stream", cause=causes.RESET) from None
        raise Failed("the end was due, and more came", asked=self._asked, came=shown_hex(more))
