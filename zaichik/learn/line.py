"""The raw half of a connection: bytes out, frames in. It records everything it does."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import AsyncResource, SocketAttribute, SocketStream

from zaichik.learn import causes, layouts, wire
from zaichik.learn.failure import Failure, Missing, WrongByte
from zaichik.learn.patterns import Writer
from zaichik.learn.trace import frame_line, shown_hex, whole
from zaichik.learn.wire import BadFrame, Frame

if TYPE_CHECKING:
    from zaichik.learn.trial import Trial


class Line(AsyncResource):
    """One of a trial's connections, as bytes and frames. As a context manager, it closes.

    Args:
        stream: the socket, connected.
        trial: it uses the trial's seed, pattern, patience and trace.
        number: the number of the connection in the trial, from 1.
    """

    def __init__(self, stream: SocketStream, trial: "Trial", number: int) -> None:
        self.number = number
        self._trial = trial
        self._stream = stream
        self._writer = Writer(stream, trial.pattern, trial.rng)
        self._buffer = bytearray()
        # The last request, as bytes, to recognise an echo, and as text.
        self._sent, self._asked = b"", ""

    # -- bytes out -------------------------------------------------------------------------------

    async def send_frame(self, frame: bytes) -> None:
        """Send an encoded frame, in the trial's pattern."""
        self._note(frame)
        with self._broken_is_failed():
            await self._writer.write(frame)

    async def send_bytes(self, data: bytes, note: str = "") -> None:
        """Send bytes in one write, whether a frame or not."""
        self._note(data, note)
        with self._broken_is_failed():
            await self._writer.exactly(data)

    async def flush(self) -> None:
        """Send what a glued pattern is holding back."""
        with self._broken_is_failed():
            await self._writer.flush()

    async def pour(self, data: bytes) -> None:
        """Send a lot, unrecorded, whether or not the server still reads."""
        with suppress(anyio.BrokenResourceError, OSError):
            await self._writer.exactly(data)

    async def end(self) -> None:
        """End this side of the stream (FIN); reading goes on."""
        with self._broken_is_failed():
            await self._writer.exactly(b"")
            await self._stream.send_eof()
        self._happened("we ended our side (FIN)")

    async def reset(self, note: str = "we reset the connection (RST)") -> None:
        """Reset the connection, as a crash would (RST)."""
        raw = self._stream.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._happened(note)
        await self._stream.aclose()

    async def aclose(self) -> None:
        """Close the socket."""
        await self._stream.aclose()

    def _note(self, data: bytes, note: str = "") -> None:
        self._sent = data
        self._trial.trace.sent(self._trial.elapsed, self.number, data, note)
        self._asked = self._trial.trace.entries[-1].line()

    def _happened(self, note: str) -> None:
        self._trial.trace.happened(self._trial.elapsed, self.number, note)

    def _failed(self, problem: str, **more: Any) -> Failure:
        return Failure(problem, asked=self._asked, **more)

    @contextmanager
    def _broken_is_failed(self) -> Iterator[None]:
        """Turn a failed write into a Failure."""
        try:
            yield
        except (anyio.BrokenResourceError, OSError):
            problem = "the connection broke while a request was being sent"
            raise self._failed(problem, cause=causes.RESET) from None

    # -- frames in -------------------------------------------------------------------------------

    async def read(
        self, *, awaited: str = "a frame", patience: float | None = None, flush: bool = True
    ) -> Frame:
        """The next frame, whatever it is, within `patience` seconds (by default the trial's).

        Raises:
            Missing: none came in time, or the stream ended.
            Failure: the bytes are not a frame.
        """
        if flush:
            await self.flush()
        while True:
            try:
                if (size := wire.frame_size(self._buffer)) is not None and len(
                    self._buffer
                ) >= size:
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
        came = (
            f"{len(self._buffer)} bytes: {shown_hex(bytes(self._buffer))}"
            if self._buffer
            else "nothing"
        )
        self._happened(what)
        return Missing(
            f"{what}; {awaited} was due",
            asked=self._asked,
            expected=awaited,
            came=came,
            cause=cause,
        )

    def _take(self, size: int) -> Frame:
        data = bytes(self._buffer[:size])
        try:
            frame = wire.parse(data)
        except BadFrame as bad:
            raise self._no_frame(bad, data) from None
        del self._buffer[:size]
        self._trial.trace.received(self._trial.elapsed, self.number, data, frame)
        if frame.type not in layouts.LAYOUTS or frame.type in layouts.REQUESTS:
            cause = causes.of_bytes(data, self._sent) or causes.of_bad_body(data, b"")
            raise self._failed(
                f"a broker never sends a frame of type {frame.type:#04x}", frame=frame, cause=cause
            )
        return frame

    def _no_frame(self, bad: BadFrame, data: bytes = b"") -> Failure:
        everything = bytes(self._buffer)
        self._trial.trace.received(
            self._trial.elapsed, self.number, data or everything, bad.so_far, bad.problem
        )
        cause = causes.of_bytes(everything, self._sent)
        if not cause and data:
            cause = causes.of_bad_body(data, everything[len(data) :])
        came = frame_line(bad.so_far) if bad.so_far else shown_hex(everything)
        wrong = WrongByte(
            bad.at, bad.field, b"", everything[bad.at : min(bad.at + 8, len(data) or 4)]
        )
        return self._failed(
            f"what came is not a frame: {bad.problem}", came=came, wrong=wrong, cause=cause
        )

    async def take_in(self) -> tuple[float, float]:
        """Take all bytes until the server ends its side, for `read` to judge.

        For a server that need not wait for a client that reads slowly, as this one does while it
        decodes and records. Whatever is wrong with the end, `read` comes upon it.

        Returns:
            the seconds until the last bytes came, and those of silence after them.
        """
        began = last = self._trial.elapsed
        with suppress(TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError, OSError):
            while True:
                with anyio.fail_after(self._trial.patience):
                    self._buffer += await self._stream.receive()
                last = self._trial.elapsed
        return last - began, self._trial.elapsed - last

    # -- silence, and the end ----------------------------------------------------------------------

    async def overhear(self, seconds: float) -> bytes:
        """What comes unasked within this many seconds; b"" if nothing does."""
        with anyio.move_on_after(seconds):
            try:
                came = await self._stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
                raise Failure("the server ended the connection", cause=causes.ENDED) from None
            self._trial.trace.received(self._trial.elapsed, self.number, came, whole(came))
            return came
        return b""

    async def expect_silence(self, otherwise: str) -> None:
        """Make sure that nothing comes in a quiet period; `otherwise` describes the failure."""
        if came := await self.overhear(self._trial.quiet):
            raise Failure(otherwise, expected="nothing", came=shown_hex(came))

    async def expect_end(self) -> None:
        """Make sure that the server now ends the stream without sending anything more."""
        if self._buffer:
            came = shown_hex(bytes(self._buffer))
            raise Failure("the stream should have ended, but more came", came=came)
        try:
            with anyio.fail_after(self._trial.patience):
                more = await self._stream.receive()
        except anyio.EndOfStream:
            self._happened("the server ended its side (FIN)")
            return
        except TimeoutError:
            problem = f"the server should have ended the stream within {self._trial.patience:g} s"
            raise self._failed(problem, expected="the end of the stream", came="nothing") from None
        except (anyio.BrokenResourceError, OSError):
            problem = "the connection should have ended cleanly (FIN), but was reset (RST)"
            raise self._failed(
                problem, expected="the end of the stream", cause=causes.RESET
            ) from None
        raise self._failed("the stream should have ended, but more came", came=shown_hex(more))
