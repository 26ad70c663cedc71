"""One peer's socket, from accept to close: a greeting, then a conversation, then a goodbye.

    run:    greet ──▶ converse ──▶ say goodbye

    turn:   bytes ──▶ decode ──▶ SubscriptionManager.apply
                                 SubscriptionManager.next_output ──▶ send

A conversation is a series of turns. A turn is a plain function: it applies the requests that have
arrived, and sends the next output as far as the socket accepts it at once. So a request is usually
answered without waking a single task. Turns are short, and the scheduler decides which connection
is next (LAG-5).

The tasks of a connection only wait. Its first one waits for input. A second one comes when the
socket has accepted only a part of the output for the first time; then one of them waits for room.
The rest stays in `_unsent`, as references to the bytes that the topic holds, and no more is taken
from the topics until it is sent. Reading goes on meanwhile. If it did not, a client that publishes
a lot to a topic it also reads, and reads nothing in between, would wait for the broker, and the
broker for the client.
"""

import logging
from contextlib import suppress

import anyio

from zaichik.core.broker import TURNED_AWAY, Broker
from zaichik.core.sharing.quota import Holding
from zaichik.net.stream import GONE, RECEIVE_BYTES, Buffer, Stream
from zaichik.net.wakeup import Wakeup
from zaichik.server.deadlines import Deadlines
from zaichik.server.gate import OPEN, Gate
from zaichik.server.greeting import ForeignProtocol, admit
from zaichik.server.phase import ConnectionPhase
from zaichik.server.places import Place
from zaichik_protocol import ErrorCode, Frame, FrameDecoder, NeedData, ProtocolError, Refused

logger = logging.getLogger("zaichik.serving.connection")

# A turn begins no more requests after this many, or after this time. Then other connections have
# theirs.
REQUESTS_A_TURN = 16
TURN_US = 30

# Received at once from a client that is over its share of memory: enough for commits.
SIP_BYTES = 4096

# How many connections of one address may be without a login, of all that the broker may have. Some
# are left for those that will log in.
GREETED_OF_ALL = 3 / 4

# How long the peer may take to read the last frames before the socket is closed.
LINGER_SECONDS = 1.0


class Connection:
    """One connection, from accept to close.

    Args:
        stream: the socket; closed when `run` returns.
        broker: the state that all connections share.
        peer: the peer's address, for the log.
        client: the client that it is charged to until a user has logged in: an address without the
            port.
        gate: encrypts the connection, and logs the peer in.
    """

    def __init__(
        self, stream: Stream, broker: Broker, peer: str, client: str = "", gate: Gate = OPEN
    ) -> None:
        self._stream = stream
        self._gate = gate
        self._broker = broker
        self._peer = peer
        self._place = Place(peer, self._turn_away)
        self._decoder = FrameDecoder.for_broker()
        self._manager = broker.connect(self._ask, peer, client)
        self._turns = broker.scheduler.join(client, self._turn)
        self._deadlines = Deadlines(broker.settings, broker.connection_clock.now_us())
        # What the client is charged for: bytes of frames not applied yet, and of output not sent.
        self._holding = Holding(broker.memory, client)

        self._phase = ConnectionPhase.SECURING
        self._cut_off = ""  # the reason, if the broker closed the connection or it was lost
        self._failure: Exception | None = None  # a bug that a turn ran into

        # Facts about the socket.
        self._is_readable = False  # it may hold bytes
        self._is_watched = True  # a task waits for bytes, and asks for a turn when they come
        self._is_at_end = False  # the peer sends no more
        self._is_full = False  # it took only a part of the output; a task waits for room
        self._unsent: list[Buffer] = []  # the other part

        # Whether all frames that were received whole have been applied.
        self._is_applied = True

        # For the deadlines: frames received, and times that the socket accepted output.
        self._frames = 0
        self._sends = 0

        self._may_begin = Wakeup()  # the first turn has come
        self._watch_again = Wakeup()  # input that had to wait can be read
        self._attention = Wakeup()  # the socket is full, or all is over
        self._greeting = anyio.CancelScope()
        self._alone = anyio.CancelScope()  # until the socket is full, or all is over
        self._scope = anyio.CancelScope()

    # -- from accept to close

    async def run(self) -> None:
        """Serve the peer until one side ends the conversation."""
        reason = "STOPPED"  # if this is cancelled
        try:
            async with self._stream:
                with self._scope:
                    await self._greet()
                    has_left = self._is_at_end and self._is_over
                    if not has_left:
                        await self._converse()
                reason = self._cut_off or self._manager.reason
            if self._failure is not None:
                raise self._failure  # noqa: TRY301 (it was raised in a turn, and belongs here)
        except Exception:
            reason = f"{ErrorCode.INTERNAL.name}: a bug of the broker"
            raise
        finally:
            self._gate.depart(self._place)
            self._broker.scheduler.leave(self._turns)
            self._holding.update(0)
            # These are in a reference cycle: what they hold would stay in memory until the garbage
            # collector runs.
            self._unsent = []
            self._decoder = FrameDecoder.for_broker()
            # It never got beyond the gate: what it was told is one of many such things.
            if self._place.is_beyond:
                reason = f"{TURNED_AWAY}: {reason}"
            self._broker.disconnect(self._manager, reason)
            level = logging.INFO
            # Anybody can cause a line about a peer that the gate has not let in. On INFO, such
            # lines could fill the log.
            if self._phase is ConnectionPhase.SECURING or self._place.is_beyond:
                level = logging.DEBUG
            name = self._manager.client_name
            logger.log(level, "%s %r disconnected: %s", self._peer, name, reason)

    async def _greet(self) -> None:
        """Wait for the first turn, then for the Hello.

        A peer that sends none is sent an Error that says why.
        """
        self._ask()
        await self._may_begin.wait()
        # It has waited for its turn, and what has come meanwhile will be read. Only now can others
        # that come after it close it.
        most = int(self._broker.settings.max_connections * GREETED_OF_ALL)
        self._gate.arrive(self._place, most)
        scope = self._greeting
        # A peer that is refused before the greeting gets the Error over TLS, too: it would take
        # plain bytes for a wrong port.
        if self._manager.closing:
            scope = anyio.move_on_after(LINGER_SECONDS)
        try:
            with scope:
                self._stream = await self._gate.secure(self._stream, self._place)
                self._phase = ConnectionPhase.GREETING
                level = logging.INFO
                if self._place.is_beyond:
                    level = logging.DEBUG
                logger.log(level, "%s connected", self._peer)
                if self._manager.closing:
                    self._gate.left(self._place)
                    return
                await self._log_in()
        except Refused as refusal:
            # It may be the gate that refuses: `TLS_REQUIRED` is sent in plain bytes.
            self._phase = ConnectionPhase.GREETING
            self.refuse(refusal)
        except ForeignProtocol as foreign:
            if foreign.answer:
                self._unsent = [foreign.answer]
            self._manager.end(f"NOT_ZAICHIK: it speaks {foreign}")
        except (anyio.EndOfStream, *GONE) as error:
            self._end_input(error)
        # The time was up before the gate had let the peer in: there is nobody to talk to.
        if self._phase is ConnectionPhase.SECURING:
            self._is_at_end = True
        if self._manager.greeted:
            self._decoder.greeted(self._broker.settings.max_frame)
            self._is_applied = False  # requests may have come with the Hello

    async def _log_in(self) -> None:
        """Receive the Hello, log the user in, and send the Welcome."""
        seconds = self._broker.settings.handshake_timeout
        hello, user = await admit(self._gate, self._stream, self._decoder, self._place, seconds)
        self._turns = self._broker.log_in(self._manager, user, self._turns)
        self._holding.client = self._manager.client
        self._apply(hello, self._broker.clock.now_us())

    async def _converse(self) -> None:
        """Watch the socket and ask for turns until all output is sent; then close gracefully."""
        self._phase = ConnectionPhase.CONVERSING
        self._ask()
        # Most peers take all output at once, as long as they are there: then this task is enough.
        with self._alone:
            await self._watch_input()
            # The peer sends no more, and is sent what it has asked for.
            await anyio.sleep_forever()
        if not self._is_over:
            await self._converse_in_two_tasks()
        with anyio.move_on_after(LINGER_SECONDS):
            with suppress(*GONE):
                await self._stream.send_eof()
            await self._watch_input()

    async def _converse_in_two_tasks(self) -> None:
        """Go on with a peer whose socket was full: whenever it is, this task waits for room."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_input)
            while not self._is_over:
                if self._is_full:
                    with suppress(*GONE):  # the next turn finds out
                        await self._stream.wait_writable()
                    self._is_full = False
                    self._ask()
                else:
                    self._attention = Wakeup()
                    await self._attention.wait()
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
        """Asks for a turn.

        Returns whether to go on watching: not while an earlier request for a turn waits.
        """
        self._is_readable = True
        self._is_watched = not self._turns.is_waiting and self._may_receive
        if self._is_watched:
            self._broker.scheduler.ask(self._turns, is_readable=True)
        return self._is_watched and not self._is_at_end

    def _ask(self) -> None:
        self._broker.scheduler.ask(self._turns)

    # -- endings that others decide on

    def _turn_away(self) -> None:
        """Close the connection: the gate needs its place for a newer one."""
        self._cut_off = "a newer connection needed its place"
        self._scope.cancel()

    def finish_requests(self, until_us: int) -> None:
        """Apply the requests that were read, until that time, and none after it.

        The broker is stopping (CLO-2).
        """
        # Until the login is done, what came after the Hello is nobody's request. The greeting goes
        # on, and whatever comes of it, there is no Welcome any more.
        if not self._manager.greeted:
            self._manager.accept_no_more()
            return
        try:
            while self._broker.connection_clock.now_us() < until_us:
                if not self._apply_next(self._broker.clock.now_us()):
                    break
        except Exception as error:
            self._fail(error)
        self._manager.accept_no_more()

    def go_away(self, *, at_once: bool = False) -> None:
        """Send a GoAway after the messages that the peer has credit for (CLO-2).

        Args:
            at_once: the disk has failed: do not send these messages.
        """
        if at_once:
            self._manager.give_up()
        else:
            self._manager.stop()
        self._greeting.cancel()

    def restrict_to_operators(self) -> None:
        """Allow only the requests with which an operator makes room (CLO-5)."""
        self._manager.restrict()

    def refuse(self, refusal: Refused) -> None:
        """End the connection with an Error.

        One that answers no request, unless it is about the bytes of one.
        """
        self._manager.refuse(refusal, refusal.request_id, refusal.request_type)

    def check_deadlines(self, now_us: int) -> None:
        """Disconnect a peer past a deadline.

        A server calls this once a second (TIM-2, TIM-3, LAG-3).
        """
        deadlines = self._deadlines
        deadlines.advance(now_us)
        unacknowledged = None
        # Asking takes a system call, and tells something only of a socket that is full.
        if self._is_full:
            unacknowledged = self._stream.unacknowledged_bytes
        if deadlines.is_stuck(self._sends, unacknowledged, is_full=self._is_full):
            # A frame may be partly sent, so an Error now could not be decoded. A reset also drops
            # what the system holds for the peer.
            self._stream.reset()
            code = ErrorCode.SLOW_CONSUMER.name
            self._cut_off = f"{code}: it read nothing for {deadlines.write_timeout:g} s"
            self._scope.cancel()
        # Input waits because of LAG-3, or because the broker is busy with other clients. But if it
        # waits because the client is over its share, deadlines apply: an incomplete frame would be
        # held forever.
        elif not self._wants_input or (self._may_have_input and self._may_receive):
            deadlines.excuse()
        else:
            self._check_input()
        if self._holding.is_over:
            self._holding.check()
            self._ask()

    def _check_input(self) -> None:
        """Disconnect a peer whose next frame, or whose heartbeat, is overdue."""
        manager = self._manager
        # The greeting has a deadline of its own.
        if not manager.greeted or not manager.is_open:
            return
        buffered = self._decoder.buffered
        needed = self._decoder.needed
        heartbeat = manager.heartbeat
        refusal = self._deadlines.check(self._frames, buffered, needed, heartbeat=heartbeat)
        if refusal is not None:
            self.refuse(refusal)

    # -- turns

    def _turn(self) -> bool:
        """Reads, applies and sends; returns whether there is more to do.

        Never raises: the turns of others follow.
        """
        if self._phase is ConnectionPhase.SECURING or self._phase is ConnectionPhase.GREETING:
            self._may_begin.set()
            if self._manager.closing:  # an operator has ended it: its Hello no longer matters
                self._greeting.cancel()
            return False
        try:
            self._send(self._read())
        except Exception as error:
            self._fail(error)
            return False
        unsent = sum(map(len, self._unsent))
        self._manager.note_unsent(unsent)
        self._holding.update(self._decoder.buffered + self._manager.replies.bytes + unsent)
        if self._is_full or self._is_over:
            self._alone.cancel()
            self._attention.set()
        if self._may_have_input:
            can_apply = self._wants_input and not self._is_applied
            if can_apply or (self._may_receive and self._is_readable):
                return True
        elif not self._is_watched and self._may_receive:
            self._is_watched = True
            self._watch_again.set()
        if self._is_full or self._phase is ConnectionPhase.GONE:
            return False
        return self._manager.has_output

    def _fail(self, bug: Exception) -> None:
        """End this connection, and no other, because of a bug."""
        self._failure = bug
        self._scope.cancel()

    @property
    def _wants_input(self) -> bool:
        """Whether to read input: not while replies pile up (LAG-3).

        After the last frame, input is read and dropped.
        """
        if self._is_at_end:
            return False
        # Closing a socket that holds unread bytes resets it, and a reset can destroy our last
        # frames before the peer has read them.
        if not self._manager.is_open:
            return True
        return not self._manager.replies.is_backed_up(self._broker.settings.max_replies)

    @property
    def _may_receive(self) -> bool:
        """Whether to receive bytes.

        A client over its share is read only on connections that hold nothing (LAG-6).

        Such input may be commits, or the end of the connection, and so make room.
        """
        return self._wants_input and not (self._holding.is_over and self._holding.amount)

    @property
    def _may_have_input(self) -> bool:
        """Whether there may be input that was not applied yet."""
        return self._is_readable or not self._is_applied

    @property
    def _is_over(self) -> bool:
        """Whether all output is sent.

        If nothing can be sent, whether all the peer's requests are applied (CLO-1).
        """
        if self._phase is ConnectionPhase.GONE or self._phase is ConnectionPhase.SECURING:
            return self._is_at_end
        return self._manager.is_finished and not self._unsent

    def _read(self) -> int:
        """Applies requests: those left over from the last turn, or what the socket holds.

        Returns the time.
        """
        # The socket is read once in a turn, and only when all that it has brought is applied.
        if self._is_applied and self._is_readable and self._may_receive:
            self._is_applied = not self._receive()
        # Not earlier: no request is accepted at a time before it was sent.
        clock = self._broker.clock
        now_us = clock.now_us()
        # Usually the same clock, and one reading does. But the broker's may stand still, in a
        # lesson, and then another one has to end the turn.
        watch = self._broker.connection_clock
        watch_us = now_us
        if watch is not clock:
            watch_us = watch.now_us()
        last = self._frames + REQUESTS_A_TURN
        last_us = watch_us + TURN_US
        while not self._is_applied and self._wants_input:
            self._is_applied = not (self._apply_next(now_us) and self._decoder.buffered)
            now_us = clock.now_us()
            watch_us = now_us
            if watch is not clock:
                watch_us = watch.now_us()
            if self._frames >= last or watch_us > last_us:
                break
        return now_us

    def _receive(self) -> bool:
        """Receives once, without waiting; returns whether any bytes came."""
        most = RECEIVE_BYTES
        if self._holding.is_over:
            most = SIP_BYTES
        try:
            data = self._stream.receive_nowait(most)
        except (anyio.EndOfStream, *GONE) as error:
            self._end_input(error)
            return False
        self._is_readable = not self._stream.is_drained
        kept = data
        # What comes after the last request is dropped.
        if not self._manager.is_open:
            kept = b""
        self._decoder.receive_data(kept)
        return bool(data)

    def _end_input(self, error: Exception) -> None:
        """Note that the peer sends nothing more, and close."""
        self._is_readable = False
        self._is_at_end = True
        # If it is over already, there was nothing more to lose, and the connection has not failed.
        if not isinstance(error, anyio.EndOfStream) and not self._is_over:
            self._lose(error)
        self._manager.close()

    def _apply_next(self, now_us: int) -> bool:
        """Applies the next frame.

        Returns whether there was a complete one, and it could be carried out.
        """
        if not self._manager.is_open or self._manager.replies.must_wait:
            return False
        try:
            frame = self._decoder.next_frame()
        except ProtocolError as error:
            self._frames += 1
            self.refuse(error)
            return True
        if isinstance(frame, NeedData):
            return False
        self._apply(frame, now_us)
        return True

    def _apply(self, frame: Frame, now_us: int) -> None:
        self._frames += 1
        try:
            self._manager.apply(frame, now_us)
        except Exception:
            logger.exception("%s: a bug in carrying out %s", self._peer, type(frame).__name__)
            bug = Refused(ErrorCode.INTERNAL, "the broker has a bug; its log has the details")
            self._manager.refuse(bug, frame.id, frame.TYPE)

    def _send(self, now_us: int) -> None:
        """Send what the socket has not taken of the last output, or else the next output.

        As much is sent as the socket accepts at once.
        """
        if self._phase is ConnectionPhase.GONE:
            self._manager.drop_replies()
        elif not self._is_full:
            if not self._unsent:
                self._unsent = [*self._manager.next_output(now_us)]
            if self._unsent:
                try:
                    left = self._stream.send_pieces_nowait(self._unsent)
                except GONE as error:
                    self._lose(error)
                    return
                if left != self._unsent:
                    self._sends += 1
                self._unsent, self._is_full = left, bool(left)

    def _lose(self, error: Exception) -> None:
        """Stop sending to a peer that has gone.

        Its earlier requests are still carried out (CLO-1).
        """
        self._phase = ConnectionPhase.GONE
        self._is_full = False
        self._unsent = []
        self._manager.drop_replies()  # requests that waited because of them can be read now
        self._cut_off = self._cut_off or f"GONE: {type(error).__name__}"
