"""Frames over a socket: one task reads, one writes, one keeps the heartbeat. A lost socket is replaced.

The reader takes in everything as it comes, at all times. The writer sends everything queued since its last send in one
piece, when the event loop comes to it, a turn later. That suits many small frames; one that is alone, or large, need
not wait: `send_now` sends as much as the socket accepts at once.

Nothing of a socket outlives it: its bytes, its decoder and its unsent frames are gone with it. Keeping what must be
sent again is up to the transport's user.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from zaichik.client.backoff import backoff
from zaichik.client.dialer import Dialer
from zaichik.client.errors import ConnectFailed
from zaichik.client.heartbeat import Heartbeat, Verdict
from zaichik.net.stream import Buffer, Stream
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import NEED_DATA, Frame, FrameDecoder, Hello, ProtocolError, encode, encode_pieces

logger = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0  # at most, in seconds, between attempts to open another socket
STEADY = 0.25  # seconds after which a connection that is lost had been a good one


class User(Protocol):
    """The user of a transport. None of these may fail."""

    def hello(self) -> Hello:
        """Returns the Hello for a new socket; once it is accepted, the user calls `Transport.open`."""

    def take(self, frame: Frame) -> None:
        """Handle a frame that was received."""

    @property
    def is_waiting(self) -> bool:
        """Whether the broker owes a reply."""

    def heartbeat(self) -> None:
        """Send something that the broker replies to; called when a heartbeat is due."""

    def interrupted(self, reason: str) -> None:
        """Note that the socket is lost; the transport now tries to open another one."""

    def lost(self, reason: str) -> None:
        """Note that the connection is lost for good."""


class Transport:
    """The current socket of a connection.

    Args:
        dialer: opens another socket.
        user: the sender and receiver of frames.
        timeout: seconds the broker may take to accept a connection and our Hello; with a password, the Hello may take
            longer.
        reconnect: seconds to keep trying to open another socket.
        silence: seconds that the broker may be silent while it owes a reply.

    Attributes:
        is_open: whether the Hello was accepted, so that frames are sent; before that, they are dropped.
        may_reopen: whether a lost socket is replaced.
        goodbye: why the broker is about to close this one, "" if it has not said so.
    """

    _stream: Stream

    def __init__(self, dialer: Dialer, user: User, timeout: float, reconnect: float, silence: float = math.inf) -> None:
        self.is_open = False
        self.may_reopen = False
        self.goodbye = ""
        self._dialer = dialer
        self._user = user
        self._timeout = timeout
        self._reconnect = reconnect
        self._silence = silence
        self._take_frame = user.take
        self._decoder = FrameDecoder.for_client()
        self._outbox: list[Buffer] = []
        self._calls: list[Callable[[], None]] = []  # for the writer's turn
        self._output = Wakeup()
        self._opened = Wakeup()
        self._idle = 0.0  # seconds of silence after which the broker closes the connection; 0: never
        self._is_idle = False  # the writer waits for output
        self._patience = anyio.CancelScope()  # ends a socket on which our Hello is not answered
        self._reads = self._sends = 0  # how often something came, and was sent
        self._ended = ""  # why the socket is given up
        self._is_hopeless = False  # another one would not help

    # -- one socket after the other --------------------------------------------------------------------------

    async def run(self, stream: Stream) -> None:
        """Read and write, over this socket and its successors, until no other can be opened."""
        waits = backoff(FIRST_WAIT, LONGEST_WAIT)
        give_up_at = anyio.current_time()
        while True:
            began = anyio.current_time()
            was_open = await self._serve(stream)
            reason = self._ended
            if self._is_hopeless or not self.may_reopen:
                break
            if was_open:
                give_up_at = anyio.current_time() + self._reconnect
                logger.warning("the connection to %s was lost (%s); reconnecting", self._dialer.endpoint, reason)
                self._user.interrupted(reason)
                lasted = anyio.current_time() - began
                # The broker did more than greet us, and for some time: it works, and the network is at fault. Without
                # the time, a broker that fails at our request, and at its retry, would be asked without a pause.
                if self._reads > 1 and lasted > STEADY:
                    waits = backoff(FIRST_WAIT, LONGEST_WAIT)
            another, why_not = await self._another(waits, give_up_at)
            if another is None:
                reason += f"; not replaced within {self._reconnect:g} s" + (f" ({why_not})" if why_not else "")
                break
            stream = another
        self._user.lost(reason)

    async def _serve(self, stream: Stream) -> bool:
        """Use one socket until it ends; returns whether the broker has accepted our Hello."""
        self._stream = stream
        self._decoder = FrameDecoder.for_client()
        self._outbox = [encode(self._user.hello())]
        self._is_idle = False
        self._reads = 0
        self._opened = Wakeup()
        self.goodbye, self._ended, self._is_hopeless = "", "", False
        try:
            async with stream:
                with anyio.move_on_after(self._dialer.greeting_seconds(self._timeout)) as self._patience:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._write)
                        tasks.start_soon(self._watch, tasks.cancel_scope)
                        await self._read()
                        tasks.cancel_scope.cancel()
                if self._patience.cancelled_caught:
                    self.end("it took too long", hopeless=False)
            return self.is_open
        finally:
            self.is_open = False

    async def _another(self, waits: Iterator[float], give_up_at: float) -> tuple[Stream | None, str]:
        """Returns another socket, or else why there was none."""
        reason = ""
        while (left := give_up_at - anyio.current_time()) > 0:
            await anyio.sleep(min(next(waits), left))
            try:
                with anyio.fail_after(self._timeout):
                    return await self._dialer.dial(), ""
            except ConnectFailed as error:
                return None, error.message
            except (OSError, TlsFailed) as error:  # TimeoutError is an OSError
                reason = str(error) or "it took too long"
                if isinstance(error, TlsFailed) and error.is_hopeless:
                    break
        return None, reason

    def open(self, idle: float = 0.0) -> None:
        """Send frames from now on, and something at least every `idle / 3` seconds: the Hello was accepted."""
        self.is_open = True
        self._patience.deadline = math.inf
        self._output.set()
        self._idle = idle
        self._opened.set()

    async def _watch(self, socket: anyio.CancelScope) -> None:
        """Keep the heartbeat, and end the socket if the broker is silent for too long: the one timer there is."""
        await self._opened.wait()
        heartbeat = Heartbeat(self._idle, self._silence, anyio.current_time())
        while heartbeat.interval < math.inf:
            await anyio.sleep(heartbeat.interval)
            await checkpoint()  # what has come is read first
            user, now = self._user, anyio.current_time()
            match heartbeat.check(now, self._sends, self._reads, is_waiting=user.is_waiting):
                case Verdict.PING:
                    user.heartbeat()
                case Verdict.LOST:
                    self.end(f"the broker owed a reply and was silent for {self._silence:g} s", hopeless=False)
                    socket.cancel()

    def end(self, reason: str, *, hopeless: bool) -> None:
        """Give up this socket; the first reason is the one that counts."""
        if not self._ended:
            self._ended, self._is_hopeless = reason, hopeless

    # -- sending ---------------------------------------------------------------------------------------------

    def send_soon(self, frame: Frame) -> None:
        """Send a frame in the writer's turn.

        Raises:
            Unencodable: a value does not fit its field; also raised while frames are dropped.
        """
        data = encode(frame)
        if self.is_open:
            self._outbox.append(data)
            self._output.set()

    def send_now(self, frame: Frame) -> None:
        """Send a frame now, unless others are queued before it; the writer sends what the socket does not take at once.

        Raises:
            Unencodable: a value does not fit its field; also raised while frames are dropped.
        """
        pieces: Sequence[Buffer] = encode_pieces(frame)
        if not self.is_open:
            return
        if self._is_idle and not self._outbox:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the reader will find out
                pieces = self._stream.send_pieces_nowait(pieces)
                self._sends += 1
        if pieces:  # else the socket has taken all of it
            self._outbox.extend(pieces)
            self._output.set()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call a function, which must not fail, in the writer's turn, as soon as there is an open socket."""
        self._calls.append(call)
        self._output.set()

    def make_calls(self) -> None:
        """Make the calls that wait for the writer's turn now."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits for the writer."""
        return not self._outbox and not self._calls

    async def _write(self) -> None:
        try:
            while True:
                while self._outbox or (self._calls and self.is_open):
                    if self.is_open:
                        self.make_calls()
                    frames, self._outbox = self._outbox, []
                    await self._stream.send_pieces(frames)
                    self._sends += 1
                self._output = Wakeup()
                self._is_idle = True
                await self._output.wait()
                self._is_idle = False
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the reader will find out too, and may still find the reason in what the broker sent

    # -- receiving -------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            await self._stream.receive_each(self._take)
        except anyio.EndOfStream:
            self.end(self.goodbye or "the broker closed it", hopeless=False)
        except TlsFailed as error:  # in TLS 1.3, a client hears now that its certificate was refused
            self.end(self.goodbye or str(error), hopeless=error.is_hopeless)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.end(self.goodbye or "it was reset", hopeless=False)
        except ProtocolError as error:
            self.end(f"the bytes received are not zaichik's protocol: {error}", hopeless=True)

    def _take(self, data: bytes) -> bool:
        self._reads += 1
        self._decoder.receive_data(data)
        while not self._ended and (frame := self._decoder.next_frame()) is not NEED_DATA:
            self._take_frame(frame)
        return not self._ended
