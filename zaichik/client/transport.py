"""Frames over a socket, which is replaced when it is lost.

One task reads, one writes, one keeps the heartbeat. The reader takes in everything as it comes, at
all times. The writer sends everything queued since its last send in one piece, when the event loop
comes to it, a turn later. That suits many small frames; one that is alone, or large, need not wait:
`send_now` sends as much as the socket accepts at once.

Nothing of a socket outlives it: its bytes, its decoder and its unsent frames are gone with it.
Keeping what must be sent again is up to the connection that uses the transport.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from zaichik.client.backoff import backoff
from zaichik.client.dialer import Dialer
from zaichik.client.errors import ConnectFailed
from zaichik.client.heartbeat import Action, Heartbeat
from zaichik.net.callback_reader import CallbackReader
from zaichik.net.stream import GONE, Buffer, Stream
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import (
    NEED_DATA,
    Frame,
    FrameDecoder,
    ProtocolError,
    encode,
    encode_pieces,
)

if TYPE_CHECKING:
    from zaichik.client.connection import BrokerConnection

logger = logging.getLogger(__name__)

# Seconds between attempts to open another socket, at most: before the second, and where the
# doubling ends.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 5.0
# Seconds after which a connection that is lost had been a good one.
STEADY_SECONDS = 0.25
# Bytes of a frame that is not complete yet which are a sign of life. Fewer are none: a length that
# is wrong would swallow one reply after the other, and each would look like a broker that works.
SIGN_OF_LIFE = 4096


class Transport:
    """The current socket of a connection.

    Args:
        dialer: opens another socket.
        connection: sends and receives the frames. It sends the Hello for a new socket, and calls
            `open` once that is accepted; what the transport calls must not fail.
        timeout: seconds the broker may take to accept a connection and our Hello; with a password,
            the Hello may take longer.
        reconnect: seconds to keep trying to open another socket.
        silence_timeout: seconds that the broker may be silent while it owes a reply.

    Attributes:
        is_open: whether the Hello was accepted, so that frames are sent; before that, they are
            dropped.
        is_driven: whether another thread than the event loop's sends and receives at the moment,
            and will call `end_turn` then: meanwhile, the writer need not be woken.
        may_reopen: whether a lost socket is replaced.
        goodbye: why the broker is about to close this one, "" if it has not said so.
    """

    _stream: Stream

    def __init__(
        self,
        dialer: Dialer,
        connection: "BrokerConnection",
        timeout: float,
        reconnect: float,
        silence_timeout: float = math.inf,
    ) -> None:
        self.is_open = False
        self.is_driven = False
        self.may_reopen = False
        self.goodbye = ""
        self._dialer = dialer
        self._connection = connection
        self._timeout = timeout
        self._reconnect = reconnect
        self._silence_timeout = silence_timeout
        self._take_frame = connection.take
        self._decoder = FrameDecoder.for_client()
        self._outbox: list[Buffer] = []
        # Calls that wait for the writer's turn.
        self._scheduled: list[Callable[[], None]] = []
        self._output = Wakeup()
        self._opened = Wakeup()
        # Seconds of silence after which the broker closes the connection; 0: never.
        self._idle_s = 0.0
        # Whether the writer waits for output.
        self._is_idle = False
        # Ends a socket on which our Hello is not answered.
        self._greeting = anyio.CancelScope()
        # How often something came over this socket, how often that was a sign of life, and how
        # often something was sent.
        self._reads = 0
        self._signs = 0
        self._sends = 0
        # Bytes of an incomplete frame at the last sign of life.
        self._begun = 0
        # Why the socket is given up, and whether another one would not help.
        self._ended = ""
        self._is_hopeless = False
        # Ends what reads and writes it.
        self._socket = anyio.CancelScope()

    # -- one socket after the other --------------------------------------------------------------

    async def run(self, stream: Stream) -> None:
        """Read and write, over this socket and its successors, until no other can be opened."""
        pauses_s = backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        give_up_at = anyio.current_time()
        while True:
            began = anyio.current_time()
            was_open = await self._serve(stream)
            reason = self._ended
            if self._is_hopeless or not self.may_reopen:
                break
            if was_open:
                give_up_at = anyio.current_time() + self._reconnect
                logger.warning(
                    "the connection to %s was lost (%s); reconnecting",
                    self._dialer.endpoint,
                    reason,
                )
                self._connection.interrupted(reason)
                lasted_s = anyio.current_time() - began
                # The broker did more than greet us, and for some time: it works, and the network is
                # at fault. Without the time, a broker that fails at our request, and at its retry,
                # would be asked without a pause.
                if self._reads > 1 and lasted_s > STEADY_SECONDS:
                    pauses_s = backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            another, why_not = await self._another(pauses_s, give_up_at)
            if another is None:
                reason += f"; {why_not}"
                break
            stream = another
        self._connection.lost(reason)

    async def _serve(self, stream: Stream) -> bool:
        """Use one socket until it ends; returns whether the broker has accepted our Hello."""
        self._stream = stream
        self._decoder = FrameDecoder.for_client()
        self._outbox = [encode(self._connection.hello())]
        self._is_idle = False
        self._reads = 0
        self._begun = 0
        self._opened = Wakeup()
        self.goodbye = ""
        self._ended = ""
        self._is_hopeless = False
        greeting_seconds = self._dialer.greeting_seconds(self._timeout)
        try:
            async with stream:
                with anyio.move_on_after(greeting_seconds) as self._greeting:
                    async with anyio.create_task_group() as tasks:
                        self._socket = tasks.cancel_scope
                        tasks.start_soon(self._write)
                        tasks.start_soon(self._watch, tasks.cancel_scope)
                        await self._read()
                        tasks.cancel_scope.cancel()
                if self._greeting.cancelled_caught:
                    self.end("it took too long", hopeless=False)
            return self.is_open
        finally:
            self.is_open = False

    async def _another(
        self, pauses_s: Iterator[float], give_up_at: float
    ) -> tuple[Stream | None, str]:
        """Returns another socket, or else why there is none: in time, or ever."""
        reason = ""
        left_s = give_up_at - anyio.current_time()
        while left_s > 0:
            await self._dialer.pause(min(next(pauses_s), left_s))
            try:
                with anyio.fail_after(self._timeout):
                    return await self._dialer.dial(), ""
            except ConnectFailed as error:
                return None, f"not replaced: {error.message}"
            except (OSError, TlsFailed) as error:  # TimeoutError is an OSError
                reason = str(error) or "it took too long"
                if isinstance(error, TlsFailed) and error.is_hopeless:
                    return None, f"not replaced: {reason}"
            left_s = give_up_at - anyio.current_time()
        late = f"not replaced within {self._reconnect:g} s"
        if reason:
            late += f" ({reason})"
        return None, late

    def open(self, idle_s: float = 0.0) -> None:
        """Send frames from now on: the Hello was accepted.

        At least every `idle_s / 3` seconds, something is sent.
        """
        self.is_open = True
        self._greeting.deadline = math.inf
        self._output.set()
        self._idle_s = idle_s
        self._opened.set()

    async def _watch(self, socket: anyio.CancelScope) -> None:
        """Keep the heartbeat, and end the socket if the broker is silent for too long.

        This is the one timer there is.
        """
        await self._opened.wait()
        heartbeat = Heartbeat(self._idle_s, self._silence_timeout, anyio.current_time())
        while heartbeat.interval_s < math.inf:
            await anyio.sleep(heartbeat.interval_s)
            # What has come is read first.
            await checkpoint()
            now = anyio.current_time()
            is_waiting = self._connection.is_waiting
            match heartbeat.check(now, self._sends, self._signs, is_waiting=is_waiting):
                case Action.PING:
                    self._connection.heartbeat()
                case Action.LOST:
                    seconds = self._silence_timeout
                    silent = f"the broker owed a reply and was silent for {seconds:g} s"
                    self.end(silent, hopeless=False)
                    socket.cancel()

    def end(self, reason: str, *, hopeless: bool) -> None:
        """Give up this socket; the first reason is the one that counts."""
        if not self._ended:
            self._ended = reason
            self._is_hopeless = hopeless

    def replace(self, reason: str) -> None:
        """Give up this socket for another one, although it works: the broker is elsewhere now."""
        if self.is_open:
            self.end(reason, hopeless=False)
            self._socket.cancel()

    # -- sending ---------------------------------------------------------------------------------

    def send_soon(self, frame: Frame) -> None:
        """Send a frame in the writer's turn.

        Raises:
            Unencodable: a value does not fit its field; also raised while frames are dropped.
        """
        data = encode(frame)
        if self.is_open:
            self._outbox.append(data)
            self._wake_writer()

    def send_now(self, frame: Frame) -> None:
        """Send a frame now, unless others are queued before it.

        What the socket does not take at once is sent by the writer.

        Raises:
            Unencodable: a value does not fit its field; also raised while frames are dropped.
        """
        pieces: Sequence[Buffer] = encode_pieces(frame)
        if not self.is_open:
            return
        if self._is_idle and not self._outbox:
            # If the socket is gone, the reader will find out.
            with suppress(*GONE):
                pieces = self._stream.send_pieces_nowait(pieces)
                self._sends += 1
        if pieces:
            # The socket has not taken all of it.
            self._outbox.extend(pieces)
            self._wake_writer()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call a function in the writer's turn, as soon as there is an open socket.

        The function must not fail.
        """
        self._scheduled.append(call)
        self._wake_writer()

    def _wake_writer(self) -> None:
        if not self.is_driven:
            self._output.set()

    def run_scheduled(self) -> None:
        """Make the calls that wait for the writer's turn now."""
        scheduled = self._scheduled
        self._scheduled = []
        for call in scheduled:
            call()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits for the writer."""
        return not self._outbox and not self._scheduled

    def end_turn(self) -> None:
        """Take the writer's turn, at the end of one in which `is_driven` was set.

        What the socket does not take at once is sent by the writer.
        """
        self.is_driven = False
        if not self._outbox and not self._scheduled:
            return
        if self.is_open and self._is_idle:
            self.run_scheduled()
            self._send_outbox()
        if self._outbox or self._scheduled:
            self._output.set()

    def _send_outbox(self) -> None:
        # If the socket is gone, the reader will find out.
        with suppress(*GONE):
            self._outbox = self._stream.send_pieces_nowait(self._outbox)
            self._sends += 1

    async def _write(self) -> None:
        try:
            while True:
                while self._outbox or (self._scheduled and self.is_open):
                    if self.is_open:
                        self.run_scheduled()
                    frames = self._outbox
                    self._outbox = []
                    await self._stream.send_pieces(frames)
                    self._sends += 1
                self._output = Wakeup()
                self._is_idle = True
                await self._output.wait()
                self._is_idle = False
        except GONE:
            # The reader will find out too, and may still find the reason in what the broker sent.
            pass

    # -- receiving -------------------------------------------------------------------------------

    @property
    def callback_reader(self) -> CallbackReader | None:
        """What receives from the open socket (see `Stream`); None if there is none now."""
        if not self.is_open:
            return None
        return self._stream.callback_reader

    async def _read(self) -> None:
        try:
            await self._stream.receive_each(self._take)
        except anyio.EndOfStream:
            self.end(self.goodbye or "the broker closed it", hopeless=False)
        except TlsFailed as error:
            # In TLS 1.3, a client hears now that its certificate was refused.
            self.end(self.goodbye or str(error), hopeless=error.is_hopeless)
        except GONE:
            self.end(self.goodbye or "it was reset", hopeless=False)
        except ProtocolError as error:
            self.end(f"the bytes received are not zaichik's protocol: {error}", hopeless=True)

    def _take(self, data: bytes) -> bool:
        self._reads += 1
        self._decoder.receive_data(data)
        has_frame = False
        while not self._ended and (frame := self._decoder.next_frame()) is not NEED_DATA:
            self._take_frame(frame)
            has_frame = True
        if has_frame:
            self._signs += 1
            self._begun = 0
        elif self._decoder.buffered - self._begun >= SIGN_OF_LIFE:
            self._signs += 1
            self._begun = self._decoder.buffered
        return not self._ended
