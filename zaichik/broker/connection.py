"""One client's socket: a task that reads, a task that writes, and the manager between them.

    bytes ─▶ reader: decode, apply ─▶ SubscriptionManager ─▶ writer: turn, send ─▶ bytes

The reader never waits for a send and the writer never waits for a command. What couples them are two events:
the writer waits for output; the reader waits, if replies have piled up, until some are sent.

There are two short cuts. The reader is called by the event loop with what came, where the loop can do that, and need
not be woken for it. And when it has applied what came and the writer is idle, it sends the replies itself, as far as
the socket takes them at once. So a request is answered without a change of tasks.

The broker is one thread, so a turn is short, and others have theirs before the next one. Who publishes and commits
shares like this with everybody. But frames that move no message are cheap to send, without end. So the time they take
is on an account, and a client that has used up its part of the broker's time rests until it has some again (LAG-5).
"""

import logging
from contextlib import suppress

import anyio
from anyio.lowlevel import checkpoint

from zaichik.broker.broker import Broker
from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.deadlines import Deadlines
from zaichik.broker.foreign import FIRST_BYTES, HTTP_ANSWER, recognised
from zaichik.fair_share import FairShare
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import NEED_DATA, ErrorCode, FrameDecoder, Hello, ProtocolError, Refused

logger = logging.getLogger(__name__)

FRAMES_AT_ONCE, TURN_US = 16, 1000  # of one client; when either is reached, others have their turn
# Of the broker's time, for frames of one client that move no message: a twentieth, half a second at once (LAG-5). No
# rest is as long as the linger, not even if a turn was long because the process was stopped in it.
IDLE_PART, IDLE_SAVED_US, LONGEST_REST_US = 0.05, 500_000, 500_000
LINGER_SECONDS = 1.0  # how long the peer may take to read the last frames before the socket is closed


class Connection:
    """A connection from accept to close.

    Args:
        stream: the peer's bytes; closed when `run` returns.
        broker: what all connections share.
        peer: the peer's address, for the log.
    """

    def __init__(self, stream: SocketStream, broker: Broker, peer: str) -> None:
        self._stream = stream
        self._broker = broker
        self._peer = peer
        self._output = anyio.Event()
        self._is_applying = False  # the reader is at work, and will see to the output itself
        self._is_idle = False  # the writer waits for output
        self._unsent = b""  # what a turn has left for the writer to send
        self._room = anyio.Event()
        self._read_all = anyio.Event()
        self._decoder = FrameDecoder.for_broker()
        self._first_bytes = b""  # of a peer that was not greeted yet
        self._frames = 0  # that came, good or bad
        self._idle = FairShare(IDLE_PART, IDLE_SAVED_US, LONGEST_REST_US)  # of frames that move no message
        self._rest_us = 0.0  # before the next turn
        self._manager = broker.connect(self._on_output, peer)
        self._deadlines = Deadlines(broker.settings, broker.clock.now_us())

    def _on_output(self) -> None:
        if not self._is_applying:
            self._output.set()

    def go_away(self, until_us: int) -> None:
        """Begin to end: what was read is still answered, until that time, then the client is told (CLO-2)."""
        while self._broker.clock.now_us() < until_us and self._apply_next():
            pass
        self._manager.go_away()

    def refuse(self, refusal: Refused) -> None:
        """End the conversation for a reason that is no request's."""
        self._manager.refuse(refusal, 0, 0)

    def look(self, now_us: int) -> None:
        """Cut the client off if it takes too long; a server does it once a second (TIM-1 to TIM-3)."""
        manager, decoder = self._manager, self._decoder
        # While replies pile up nothing is read: then LAG-3 is the rule, and the time of the deadlines stands still.
        if not manager.closing and manager.reply_bytes <= self._broker.settings.max_replies:
            greeted, heartbeat = manager.greeted, manager.heartbeat
            if refusal := self._deadlines.look(
                now_us, self._frames, decoder.buffered, decoder.needed, greeted=greeted, heartbeat=heartbeat
            ):
                self.refuse(refusal)

    async def run(self) -> None:
        """Serve the client until one side ends the conversation."""
        logger.info("%s connected", self._peer)
        reason = "STOPPED"
        try:
            async with self._stream, anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                reason = await self._write()
                tasks.cancel_scope.cancel()
        except Exception:
            reason = f"{ErrorCode.INTERNAL.name}: a bug of the broker"
            raise
        finally:
            self._broker.disconnect(self._manager, reason)
            logger.info("%s %r disconnected: %s", self._peer, self._manager.client, reason)

    # -- reading ---------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                await self._stream.receive_each(self._take)
                await self._pause()
                while not self._apply_some():
                    await self._pause()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self._manager.close()
        finally:
            self._read_all.set()

    def _take(self, data: bytes) -> bool:
        # After a Close or a fatal error the client is read and not heard. Closing a socket that holds unread bytes
        # resets it, and a reset can take our last frames away from the peer.
        if not self._manager.greeted:
            self._first_bytes = (self._first_bytes + data)[:FIRST_BYTES]
        self._decoder.receive_data(b"" if self._manager.closing else data)
        return self._apply_some()

    def _apply_some(self) -> bool:
        """Apply what came whole, and send replies; False if there may be more of it, or a rest is due: for a pause."""
        manager, now_us, max_replies = self._manager, self._broker.clock.now_us, self._broker.settings.max_replies
        then_us, idle_us, is_all = now_us(), 0, False
        last, last_us = self._frames + FRAMES_AT_ONCE, then_us + TURN_US
        self._is_applying = True
        while not is_all and self._frames < last and then_us <= last_us and manager.reply_bytes <= max_replies:
            moved, before_us = manager.moved, then_us
            is_all = not (self._apply_next() and self._decoder.buffered)
            then_us = now_us()
            idle_us += 0 if manager.moved > moved else then_us - before_us
        self._is_applying = False
        self._send_now()
        self._rest_us = self._idle.rest_us(idle_us, then_us) if idle_us else 0.0
        return manager.closing or (is_all and not self._rest_us)

    async def _pause(self) -> None:
        """Rest, and let others have their turn; if replies have piled up, let the peer read some of them first."""
        if self._manager.reply_bytes > self._broker.settings.max_replies:
            self._room = anyio.Event()
            await self._room.wait()
        await checkpoint()  # Who is woken has his turn before the loop has looked at others' sockets. So twice:
        await anyio.sleep(self._rest_us / MICROSECONDS)

    def _apply_next(self) -> bool:
        """Apply the next frame, if it is there whole."""
        manager = self._manager
        if manager.closing:
            return False
        try:
            frame = self._decoder.next_frame()
        except ProtocolError as error:
            self._frames += 1
            is_too_long = error.code is ErrorCode.FRAME_TOO_LARGE
            if not manager.greeted and is_too_long and (protocol := recognised(self._first_bytes)):
                self._unsent = HTTP_ANSWER if protocol == "HTTP" else b""
                manager.end(f"NOT_ZAICHIK: it speaks {protocol}")
            else:
                manager.refuse(error, error.request_id, error.request_type)
            return True
        if frame is NEED_DATA:
            return False
        self._frames += 1
        try:
            manager.apply(frame, self._broker.clock.now_us())
        except Exception:
            logger.exception("%s: a bug in carrying out %s", self._peer, type(frame).__name__)
            bug = Refused(ErrorCode.INTERNAL, "the broker has a bug; its log tells more")
            manager.refuse(bug, frame.id, frame.TYPE)
        if isinstance(frame, Hello) and manager.greeted:
            self._decoder.greeted(self._broker.settings.max_frame)
        return True

    # -- writing ---------------------------------------------------------------------------------------------

    async def _write(self) -> str:
        """Send until the conversation is over; the reason why it is."""
        manager = self._manager
        try:
            while True:
                if self._unsent or self._take_turn():
                    self._room.set()
                    await self._send_rest()
                elif manager.closing:
                    break
                else:
                    # No await since the turn came back empty, so nothing can have come in between.
                    self._output = anyio.Event()
                    self._is_idle = True
                    await self._output.wait()
                    self._is_idle = False
            await self._stream.send_eof()
        except TimeoutError:  # before OSError, of which it is one
            # Part of a frame may be on its way: nothing that could be said now would be understood.
            return f"{ErrorCode.SLOW_CONSUMER.name}: it read nothing for {self._broker.settings.write_timeout:g} s"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            # What it sent before is still carried out (CLO-1). The reader's own sends see to the replies: they fail.
            self._is_idle = True
            self._room.set()
            await self._read_all.wait()
            return f"GONE: {type(error).__name__}"
        with anyio.move_on_after(LINGER_SECONDS):
            await self._read_all.wait()
        return manager.reason

    def _take_turn(self) -> bool:
        """Send what is next, as far as the socket takes it at once; False if there is nothing to say."""
        if pieces := self._manager.turn(self._broker.clock.now_us()):
            self._unsent = self._stream.send_pieces_nowait(pieces)
        return bool(pieces)

    def _send_now(self) -> None:
        """Take a turn, if the writer is idle; all the rest is the writer's work."""
        if self._is_idle and not self._unsent:
            with suppress(anyio.BrokenResourceError):  # what came before the peer went is applied all the same
                self._take_turn()
        if self._unsent or self._manager.has_output or self._manager.closing:
            self._output.set()

    async def _send_rest(self) -> None:
        """Send what a turn has left; something must move within the write timeout, however much it is."""
        rest, self._unsent = memoryview(self._unsent), b""
        while rest:
            with anyio.fail_after(self._broker.settings.write_timeout):
                await self._stream.wait_writable()
            rest = rest[self._stream.send_nowait(rest) :]
        await checkpoint()  # others have their turn, however fast this peer reads
