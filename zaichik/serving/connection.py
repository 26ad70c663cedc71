"""One peer's socket, from accept to close: a greeting, then a conversation, then a goodbye.

    run:    greet ──▶ converse ──▶ say goodbye

    turn:   bytes ──▶ decode ──▶ SubscriptionManager.apply
                                 SubscriptionManager.next_output ──▶ send

A conversation is a series of turns. A turn is a plain function: it applies the requests that have arrived, and sends
the next output as far as the socket accepts it at once. So a request is usually answered without waking a single task.
Turns are short, and the scheduler decides which connection is next (LAG-5).

The two tasks of a connection only wait. One waits for input; the other waits for room in the socket, after it has
accepted only a part of the output. The rest stays in `_unsent`, as references to the bytes that the topic holds, and no
more is taken from the topics until it is sent. Reading goes on meanwhile. If it did not, a client that publishes a lot
to a topic it also reads, and reads nothing in between, would wait for the broker, and the broker for the client.
"""

import logging
from contextlib import suppress

import anyio

from zaichik.broker.broker import Broker
from zaichik.net.stream import RECEIVE_BYTES, Buffer, Stream
from zaichik.net.wakeup import Wakeup
from zaichik.serving.deadlines import Deadlines
from zaichik.serving.foreign import ANSWERS
from zaichik.serving.gate import OPEN, Gate
from zaichik.serving.greeting import ForeignProtocol, admit
from zaichik.sharing.quota import Holding
from zaichik_protocol import ErrorCode, Frame, FrameDecoder, NeedData, ProtocolError, Refused

logger = logging.getLogger(__name__)

# A turn begins no more requests after this many, or after this time: then other connections have theirs.
REQUESTS_A_TURN, TURN_US = 16, 30
SIP_BYTES = 4096  # received at once from a client that is over its share of memory: enough for commits
LINGER_SECONDS = 1.0  # how long the peer may take to read the last frames before the socket is closed
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class Connection:
    """One connection, from accept to close.

    Args:
        stream: the socket; closed when `run` returns.
        broker: the state that all connections share.
        peer: the peer's address, for the log.
        client: the client that it is charged to until a user has logged in: an address without the port.
        gate: encrypts the connection, and logs the peer in.
    """

    def __init__(self, stream: Stream, broker: Broker, peer: str, client: str = "", gate: Gate = OPEN) -> None:
        self._stream, self._gate = stream, gate
        self._broker, self._peer = broker, peer
        self._decoder = FrameDecoder.for_broker()
        self._manager = broker.connect(self._ask, peer, client)
        self._turns = broker.scheduler.join(client, self._turn)
        self._deadlines = Deadlines(broker.settings, broker.connection_clock.now_us())
        self._unsent: list[Buffer] = []
        self._frames = self._sends = 0  # frames received; times that the socket accepted output
        self._is_conversing = False  # the greeting is over
        self._holding = Holding(broker.memory, client)  # bytes of frames not applied yet, and of output not sent yet
        # The socket may hold bytes; a task waits for room in it; the peer sends no more; the gate has let it speak.
        self._is_readable = self._is_full = self._is_at_end = self._is_let_in = False
        # The decoder holds no whole frame; a task waits for bytes; nothing reaches the peer: any more, or not yet.
        self._is_applied = self._is_watched = self._is_gone = True
        self._failure: Exception | None = None  # a bug that a turn ran into
        self._cut_off = ""  # the reason, if the broker closed it or it was lost
        self._may_begin, self._read_all, self._watch_again, self._attention = Wakeup(), Wakeup(), Wakeup(), Wakeup()
        self._greeting, self._scope = anyio.CancelScope(), anyio.CancelScope()

    # -- from accept to close ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the peer until one side ends the conversation."""
        reason = "STOPPED"  # if this is cancelled
        try:
            async with self._stream:
                with self._scope:
                    await self._greet()
                    if not (self._is_at_end and self._is_over):  # or else the peer left before its Hello
                        await self._converse()
                reason = self._cut_off or self._manager.reason
            if self._failure is not None:
                raise self._failure  # noqa: TRY301 (it was raised in a turn, and belongs here)
        except Exception:
            reason = f"{ErrorCode.INTERNAL.name}: a bug of the broker"
            raise
        finally:
            self._broker.scheduler.leave(self._turns)
            self._holding.update(0)
            # These are in a reference cycle: what they hold would stay in memory until the garbage collector runs.
            self._unsent, self._decoder = [], FrameDecoder.for_broker()
            self._broker.disconnect(self._manager, reason)
            level = logging.INFO if self._is_let_in else logging.DEBUG  # or else strangers could fill the log
            logger.log(level, "%s %r disconnected: %s", self._peer, self._manager.client, reason)

    async def _greet(self) -> None:
        """Wait for the first turn, then for the Hello. A peer that sends none is sent an Error that says why."""
        self._ask()
        await self._may_begin.wait()
        # A peer that is refused before the greeting gets the Error over TLS, too: it would take plain bytes for a
        # wrong port.
        scope = anyio.move_on_after(LINGER_SECONDS) if self._manager.closing else self._greeting
        try:
            with scope:
                self._stream = await self._gate.secure(self._stream, self._peer)
                self._is_gone, self._is_let_in = False, True
                logger.info("%s connected", self._peer)
                if self._manager.closing:
                    self._gate.left(self._peer)
                    return
                seconds = self._broker.settings.handshake_timeout
                hello, user = await admit(self._gate, self._stream, self._decoder, self._peer, seconds)
                self._turns = self._broker.log_in(self._manager, user, self._turns)
                self._holding.client = self._manager.share
                self._apply(hello, self._broker.clock.now_us())
        except Refused as refusal:
            self._is_gone, self._is_let_in = False, True  # `TLS_REQUIRED` is said in plain
            self.refuse(refusal)
        except ForeignProtocol as foreign:
            self._unsent = [ANSWERS[str(foreign)]] if str(foreign) in ANSWERS else []
            self._manager.end(f"NOT_ZAICHIK: it speaks {foreign}")
        except (anyio.EndOfStream, *GONE) as error:
            self._end_input(error)
        self._is_at_end |= self._is_gone
        if self._manager.greeted:
            self._decoder.greeted(self._broker.settings.max_frame)
            self._is_applied = False  # requests may have come with the Hello

    async def _converse(self) -> None:
        """Watch the socket and ask for turns until all output is sent; then close gracefully."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_input)
            self._is_conversing = True
            self._ask()
            while not self._is_over:
                if self._is_full:
                    with suppress(*GONE):  # the next turn finds out
                        await self._stream.wait_writable()
                    self._is_full = False
                    self._ask()
                else:
                    self._attention = Wakeup()
                    await self._attention.wait()
            with anyio.move_on_after(LINGER_SECONDS):
                with suppress(*GONE):
                    await self._stream.send_eof()
                await self._read_all.wait()
            tasks.cancel_scope.cancel()

    async def _watch_input(self) -> None:
        while not self._is_at_end:
            if self._is_watched:
                try:
                    await self._stream.each_readable(self._on_readable)
                except GONE as error:
                    self._end_input(error)
                    self._ask()
            else:
                self._watch_again = Wakeup()
                await self._watch_again.wait()

    def _on_readable(self) -> bool:
        """Asks for a turn; returns whether to go on watching: not while an earlier request for a turn waits."""
        self._is_readable = True
        self._is_watched = not self._turns.is_waiting and self._may_receive
        if self._is_watched:
            self._broker.scheduler.ask(self._turns, is_readable=True)
        return self._is_watched and not self._is_at_end

    def _ask(self) -> None:
        self._broker.scheduler.ask(self._turns)

    # -- endings that others decide on -------------------------------------------------------------------------

    def finish_requests(self, until_us: int) -> None:
        """Apply the requests that were read, until that time, and none after it: the broker is stopping (CLO-2)."""
        while self._broker.connection_clock.now_us() < until_us and self._apply_next(self._broker.clock.now_us()):
            pass
        self._manager.accept_no_more()

    def go_away(self, *, at_once: bool = False) -> None:
        """Send a GoAway after the messages that the peer has credit for (CLO-2), or if the disk has failed, at once."""
        (self._manager.give_up if at_once else self._manager.stop)()
        self._greeting.cancel()

    def restrict_to_operators(self) -> None:
        """Allow only the requests with which an operator makes room (CLO-5)."""
        self._manager.restrict()

    def refuse(self, refusal: Refused) -> None:
        """End the connection with an Error; one that answers no request, unless it is about the bytes of one."""
        self._manager.refuse(refusal, refusal.request_id, refusal.request_type)

    def check_deadlines(self, now_us: int) -> None:
        """Disconnect a peer past a deadline; a server calls this once a second (TIM-2, TIM-3, LAG-3)."""
        deadlines, manager = self._deadlines, self._manager
        seen = self._frames, self._decoder.buffered, self._decoder.needed
        deadlines.advance(now_us)
        if deadlines.is_stuck(self._sends, is_full=self._is_full):
            # A frame may be partly sent, so an Error now could not be decoded. A reset also drops what the system
            # holds for the peer.
            self._stream.reset()
            self._cut_off = f"{ErrorCode.SLOW_CONSUMER.name}: it read nothing for {deadlines.patience:g} s"
            self._scope.cancel()
        # Input waits because of LAG-3, or because the broker is busy with other clients. But if it waits because the
        # client is over its share, deadlines apply: an incomplete frame would be held forever.
        elif not self._wants_input or (self._is_behind and self._may_receive):
            deadlines.excuse()
        elif manager.greeted and manager.is_open and (refusal := deadlines.check(*seen, heartbeat=manager.heartbeat)):
            self.refuse(refusal)
        if self._holding.is_over:
            self._holding.check()
            self._ask()

    # -- turns -------------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Reads, applies and sends; returns whether there is more to do. Never raises: the turns of others follow."""
        if not self._is_conversing:
            self._may_begin.set()
            if self._manager.closing:  # an operator has ended it: its Hello no longer matters
                self._greeting.cancel()
            return False
        try:
            self._send(self._read())
        except Exception as error:
            self._failure = error
            self._scope.cancel()
            return False
        self._manager.note_unsent(unsent := sum(map(len, self._unsent)))
        self._holding.update(self._decoder.buffered + self._manager.replies.bytes + unsent)
        if self._is_full or self._is_over:
            self._attention.set()
        if self._is_behind:
            if (self._wants_input and not self._is_applied) or (self._may_receive and self._is_readable):
                return True
        elif not self._is_watched and self._may_receive:
            self._is_watched = True
            self._watch_again.set()
        return not self._is_full and not self._is_gone and self._manager.has_output

    @property
    def _wants_input(self) -> bool:
        """Whether to read input: not while replies pile up (LAG-3). After the last frame, input is read and dropped."""
        # Closing a socket that holds unread bytes resets it, and a reset can destroy our last frames before the peer
        # has read them.
        manager, most = self._manager, self._broker.settings.max_replies
        return not self._is_at_end and (not manager.is_open or not manager.replies.is_behind(most))

    @property
    def _may_receive(self) -> bool:
        """Whether to receive bytes. A client over its share is read only on connections that hold nothing (LAG-6).

        Such input may be commits, or the end of the connection, and so make room.
        """
        return self._wants_input and not (self._holding.is_over and self._holding.amount)

    @property
    def _is_behind(self) -> bool:
        """Whether there may be input that was not applied yet."""
        return self._is_readable or not self._is_applied

    @property
    def _is_over(self) -> bool:
        """Whether all output is sent; if the peer has gone, whether all its requests are applied (CLO-1)."""
        return self._is_at_end if self._is_gone else self._manager.is_finished and not self._unsent

    def _read(self) -> int:
        """Applies requests: those left over from the last turn, then what the socket holds. Returns the time."""
        clock, watch = self._broker.clock, self._broker.connection_clock  # two, if the first may stand still
        now_us, may_receive = clock.now_us(), self._is_readable  # once per turn, however fast the peer sends
        last, last_us = self._frames + REQUESTS_A_TURN, (now_us if watch is clock else watch.now_us()) + TURN_US
        while self._frames < last and (now_us if watch is clock else watch.now_us()) <= last_us and self._wants_input:
            if not self._is_applied:
                self._is_applied = not (self._apply_next(now_us) and self._decoder.buffered)
            elif may_receive and self._may_receive and self._receive():
                may_receive = self._is_applied = False
            else:
                break
            now_us = clock.now_us()
        return now_us

    def _receive(self) -> bool:
        """Receives once, without waiting; returns whether any bytes came."""
        try:
            data = self._stream.receive_nowait(SIP_BYTES if self._holding.is_over else RECEIVE_BYTES)
        except (anyio.EndOfStream, *GONE) as error:
            self._end_input(error)
            return False
        self._is_readable = not self._stream.is_drained
        self._decoder.receive_data(data if self._manager.is_open else b"")
        return bool(data)

    def _end_input(self, error: Exception) -> None:
        """Note that the peer sends nothing more, and close."""
        self._is_readable, self._is_at_end = False, True
        self._read_all.set()
        if not isinstance(error, anyio.EndOfStream) and not self._is_over:  # or else there is nothing more to lose
            self._lose(error)
        self._manager.close()

    def _apply_next(self, now_us: int) -> bool:
        """Applies the next frame; returns whether there was a complete one, and it could be carried out."""
        if not self._manager.is_open or self._manager.replies.must_wait:
            return False
        try:
            frame = self._decoder.next_frame()
        except ProtocolError as error:
            self._frames += 1
            self.refuse(error)
            return True
        if is_whole := not isinstance(frame, NeedData):
            self._apply(frame, now_us)
        return is_whole

    def _apply(self, frame: Frame, now_us: int) -> None:
        self._frames += 1
        try:
            self._manager.apply(frame, now_us)
        except Exception:
            logger.exception("%s: a bug in carrying out %s", self._peer, type(frame).__name__)
            bug = Refused(ErrorCode.INTERNAL, "the broker has a bug; its log has the details")
            self._manager.refuse(bug, frame.id, frame.TYPE)

    def _send(self, now_us: int) -> None:
        """Send the rest of the last output, or else the next, as far as the socket accepts it at once."""
        if self._is_gone:
            self._manager.drop_replies()
        elif not self._is_full:
            self._unsent = self._unsent or [*self._manager.next_output(now_us)]
            if self._unsent:
                try:
                    left = self._stream.send_pieces_nowait(self._unsent)
                except GONE as error:
                    self._lose(error)
                    return
                self._sends += left != self._unsent
                self._unsent, self._is_full = left, bool(left)

    def _lose(self, error: Exception) -> None:
        """Stop sending to a peer that has gone. Its earlier requests are still carried out (CLO-1)."""
        self._is_gone, self._is_full, self._unsent = True, False, []
        self._manager.drop_replies()  # requests that waited because of them can be read now
        self._cut_off = self._cut_off or f"GONE: {type(error).__name__}"
