"""A broker and three clients who send whatever they like: real connections, on sockets that are a
list of bytes.

An entry of the log is a step: `0:HEX`, client 0 sends these bytes, and its socket takes little of
what is answered; `t0`, it takes all, and has a turn; `x0`, it goes; `g0`, the broker tells it to;
`+N`, so many microseconds pass, and more by the clock of messages, which clients can move (TIM-4).
After each the broker must be as sound as before, and no other client must have noticed.

No event loop does anything. The greeting, which is a coroutine, is sent on by hand when bytes come,
and turns are given where the log has them.
"""

import asyncio
import json
import types
from collections import deque
from contextlib import nullcontext
from unittest.mock import patch

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.reader import Reader
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.sharing.scheduler import Scheduler
from zaichik.net.socket_stream import without_first
from zaichik.server import greeting
from zaichik.server.connection import Connection
from zaichik.server.phase import ConnectionPhase
from zaichik_protocol import (
    EVENTS,
    NEED_DATA,
    Closed,
    Error,
    ErrorCode,
    Explained,
    FrameDecoder,
    GoAway,
    Lagged,
    Messages,
    ProtocolError,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    encode,
)

from . import invariants, mutation, requests

SETTINGS = BrokerSettings(
    max_message=400,
    max_batch=16,
    max_frame=700,
    max_key=8,
    max_credit=20,
    max_bytes=2500,
    max_topics=6,
    max_subscriptions=3,
    max_producers=2,
    producer_ttl=4,
    max_sessions=3,
    session_ttl=3,
    max_open=6,
    max_dead=2,
    soft_output=300,
    max_replies=200,
    write_timeout=3,
    topic=TopicSettings(capacity=40, max_bytes=1000, max_keys=5),
)
CLIENTS = 3
STEPS = 100
SIP, ALL = 50, 2**60  # bytes that a socket takes in one turn
KNOCKS = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x00\xf8\x01",
    b"SSH-2.0-x\r\n",
    b"*1\r\n$4\r\nPING\r\n",
]


class Wire:
    """A socket.

    Attributes:
        incoming, sent: bytes that nobody has received.
        room: how many more are taken.
        is_reset: the connection is to be reset.
    """

    def __init__(self):
        self.incoming = self.sent = b""
        self.room = ALL
        self.is_reset = False
        self.unacknowledged_bytes = None  # as where the system does not tell

    async def receive(self):
        while not self.incoming:
            await _until_more_comes()
        return self.receive_nowait()

    def receive_nowait(self, max_bytes=2**63):
        data, self.incoming = self.incoming[:max_bytes], self.incoming[max_bytes:]
        self.is_drained = len(data) < max_bytes
        return data

    def send_pieces_nowait(self, pieces):
        taken = b"".join(pieces)[: self.room]
        self.room -= len(taken)
        self.sent += taken
        return without_first(pieces, len(taken))

    def reset(self):
        self.is_reset = True


@types.coroutine
def _until_more_comes():
    yield Wire


class _Cancelled(BaseException):
    """What `Scope` ends a coroutine with."""


class Scope:
    """What a connection cancels, where no event loop does it."""

    is_cancelled = False

    def cancel(self):
        self.is_cancelled = True

    def __enter__(self):
        pass

    def __exit__(self, kind, error, traceback):
        return kind is _Cancelled


class NobodysTurn(Scheduler):
    """Gives no turns."""

    def ask(self, turns):
        pass


class Client:
    """A connection, and what its client knows: which answers it is owed, and where its
    subscriptions stand.
    """

    def __init__(self, broker):
        self.broker = broker
        self.wire = Wire()
        self.connection = Connection(self.wire, broker, "somebody")
        self.manager = list(broker.managers.values())[-1]
        self.requests = 0
        self.half = b""  # of a frame: what is not sent yet
        self._heard = FrameDecoder.for_client()
        self._frames = []  # said, and not judged yet
        self._said = b""  # and not sent yet, as far as was noted
        self._owed = deque()  # requests without an answer: id, type, whether it shares a name
        self._note_what_is_read(self.connection._decoder)
        self._note_what_is_said()
        self._offsets = {}  # the next one of each subscription
        self._tickets = {}  # the last one of each subscription to a shared name
        self._is_told = False  # the last word came
        self.connection._greeting, self.connection._scope = Scope(), Scope()
        self.connection._may_begin.set()
        self._greeting = self.connection._greet()
        self._greet()

    def _greet(self, error=None):
        """Go on with the greeting as far as there are bytes; then the conversation begins."""
        try:
            send, value = (self._greeting.throw, error) if error else (self._greeting.send, None)
            while send(value) is not Wire:
                send, value = self._greeting.send, None
        except StopIteration:
            self._greeting = None
            self._said += b"".join(self.connection._unsent)  # an answer in another protocol
            if self.connection._phase is ConnectionPhase.GREETING:
                self.connection._phase = ConnectionPhase.CONVERSING

    def send(self, data):
        """Let these bytes come, and have turns until all is read; the socket takes a little in
        each.
        """
        connection = self.connection
        self.wire.incoming += data
        if self._greeting and data:
            self._greet()
        if not self._greeting:
            connection._is_readable = True  # as the event loop would note it
            while connection._may_have_input:
                self._take_turn(SIP)
        decoder = connection._decoder
        assert not self.manager.is_open or decoder.buffered < decoder.needed, (
            "all that is whole is read"
        )
        self._judge()

    def turn(self):
        """Send what is next, and look whether it is right; False if there was nothing: then nothing
        is owed.
        """
        is_something = self._take_turn(ALL)
        if (
            self._greeting and self.connection._greeting.is_cancelled
        ):  # another client has ended this connection
            self._greet(_Cancelled())
            is_something = self._take_turn(ALL)
        self._judge()
        assert is_something or not any(request_id for request_id, *_ in self._owed), (
            "every request is answered"
        )
        assert is_something or not self.manager.closing or self.connection._is_over
        return is_something

    def go_away(self):
        """The broker stops: what was read is answered, and the client is told."""
        self.connection.finish_requests(2**62)
        self.connection.go_away()
        if self._greeting:
            assert self.connection._greeting.is_cancelled
            self._greet(_Cancelled())

    def leave(self, reason):
        if self._greeting:
            self._greeting.close()
        self.broker.disconnect(self.manager, reason)

    def _take_turn(self, room):
        """Whether anything was sent, or may be in the next turn."""
        connection, wire, before = self.connection, self.wire, len(self.wire.sent)
        wire.room, connection._is_full = room, False
        is_more = connection._turn()
        assert connection._failure is None, connection._failure
        is_something = is_more or len(wire.sent) > before
        assert self._said.startswith(wire.sent), "what was said is sent, once and in its order"
        if not connection._unsent:
            assert wire.sent == self._said
            wire.sent = self._said = b""
        return is_something

    def _note_what_is_said(self):
        real = self.manager.next_output

        def next_output(now_us):
            known = set(self.manager.readers)
            pieces = real(now_us)
            for piece in pieces:
                self._said += piece
                self._heard.receive_data(piece)
            frames = list(iter(self._heard.next_frame, NEED_DATA))
            assert self._heard.buffered == 0, "a turn ends with a whole frame"
            for frame in frames:
                is_event = isinstance(frame, EVENTS) and not isinstance(frame, GoAway)
                assert not is_event or frame.id in known, "UNS-1"
            self._frames += frames
            return pieces

        self.manager.next_output = next_output

    def known(self):
        """All that another client must not change."""
        manager = self.manager
        own = (
            manager.greeted,
            manager.heartbeat,
            manager.closing,
            manager.client_name,
            manager.reason,
            list(manager.replies.waiting),
        )
        # What a worker has depends on others: on the time that they move, and on its owner.
        workers = [
            (one.id, one.credit, one.credit_bytes)
            for one in manager.readers.values()
            if not isinstance(one, Reader)
        ]
        return (
            own,
            workers,
            [
                (
                    one.id,
                    one.start,
                    one.cursor,
                    one.committed,
                    one.delivered,
                    one.skipped,
                    one.in_flight,
                    one.in_flight_bytes,
                    one.credit,
                    one.credit_bytes,
                    one.until,
                    one.ended,
                )
                for one in manager.readers.values()
                if isinstance(one, Reader)
            ],
        )

    def _note_what_is_read(self, decoder):
        real = decoder.next_frame

        def next_frame():
            try:
                frame = real()
            except ProtocolError as error:
                self._owed.append((error.request_id, error.request_type, False))
                raise
            if frame is not NEED_DATA:
                shares = isinstance(frame, Subscribe) and frame.shared
                self._owed.append((frame.id, frame.TYPE, shares))
            return frame

        decoder.next_frame = next_frame

    def _judge(self):
        if self.manager.reason.startswith("NOT_ZAICHIK"):
            self._owed.clear()
        frames, self._frames = self._frames, []
        for frame in frames:
            assert not self._is_told, "nothing comes after the last word"
            if isinstance(frame, GoAway):
                self._is_told = True
            elif isinstance(frame, EVENTS):
                self._follow(frame)
            elif isinstance(frame, Error):
                assert frame.code != ErrorCode.INTERNAL
                self._is_told = frame.fatal
                if frame.code not in (ErrorCode.FRAME_TIMEOUT, ErrorCode.IDLE_TIMEOUT):
                    self._settle(frame.id, frame.request_type)
            else:
                self._is_told = isinstance(frame, Closed)
                shares = self._settle(frame.id, frame.TYPE & 0x7F)
                if isinstance(frame, Explained):
                    assert all(
                        verdict["fate"] and verdict["text"]
                        for verdict in json.loads(frame.json)["verdicts"]
                    )
                if isinstance(frame, Subscribed):
                    assert frame.id not in self._offsets, "an id names one subscription"
                    self._offsets[frame.id] = frame.start
                    if shares:
                        self._tickets[frame.id] = 0

    def _settle(self, request_id, request_type):
        """An answer: to the first request that it may answer; those before asked for silence.

        Returns whether that was a Subscribe that shares its name.
        """
        while True:
            owed = self._owed.popleft()
            shares = owed[2]
            if owed[:2] == (request_id, request_type):
                return shares
            assert owed[0] == 0, "answers come in the order of the requests"

    def _follow(self, event):
        """P1, P2: every offset in its turn, as a message or as lag, until the end."""
        match event:
            case Messages() | Lagged() if event.id in self._tickets:
                self._work(event)
            case Messages(base=base, batch=batch):
                assert base == self._offsets[event.id]
                self._offsets[event.id] += batch.count
            case Lagged(from_offset=begin, to_offset=end):
                assert begin == self._offsets[event.id] < end
                self._offsets[event.id] = end
            case SubscriptionEnded():
                following = self._offsets.pop(event.id)
                assert event.next == following or event.id in self._tickets

    def _work(self, event):
        """SHR-3: each has a ticket, and tickets grow."""
        if isinstance(event, Messages):
            assert event.tickets
            assert event.ticket > self._tickets[event.id]
            assert event.number >= 1
            assert event.redelivered or event.number == 1
            self._tickets[event.id] = event.ticket + event.batch.count - 1


class Story:
    """A broker, its clients, and all that happens to them."""

    def __init__(self):
        self.clock, self.watch = ManualClock(1_000_000), ManualClock(1_000_000)
        self.broker = Broker(SETTINGS, self.clock, NobodysTurn())
        self.broker.connection_clock = self.watch
        self.clients = [Client(self.broker) for _ in range(CLIENTS)]

    def step(self, entry):
        """Carry out an entry of the log; raises what is wrong then."""
        number, colon, data = entry.partition(":")
        if colon:
            self._send(int(number), bytes.fromhex(data))
        elif entry[0] == "+":
            for clock in (self.clock, self.watch):
                clock.move_to(clock.now_us() + int(entry))
            self.broker.sweep()
            for client in self.clients:
                client.connection.check_deadlines(self.watch.now_us())
        elif entry[0] == "t":
            self.clients[int(entry[1:])].turn()
        elif entry[0] == "g":
            self.clients[int(entry[1:])].go_away()
        else:
            self._leave(int(entry[1:]), "GONE")
        for index, client in enumerate(self.clients):
            if client.wire.is_reset:
                self._leave(index, "SLOW_CONSUMER")
            elif client.manager.closing:
                while client.turn():
                    pass
                self._leave(index, client.manager.reason)
        invariants.check(self.broker)

    def _send(self, index, data):
        others = [client for client in self.clients if client is not self.clients[index]]
        before = [client.known() for client in others]
        self.clients[index].send(data)
        for client, known in zip(others, before, strict=True):
            is_sent_away = client.manager.reason == "DISCONNECTED"
            assert is_sent_away or client.known() == known, "what one sends is no other's business"

    def _leave(self, index, reason):
        self.clients[index].leave(reason)
        self.clients[index] = Client(self.broker)


def _bytes(rng, client):
    """What this client sends next."""
    if not client.manager.greeted and rng.random() < 0.02:
        return rng.choice(KNOCKS)
    data = client.half
    client.half = b""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        client.requests += rng.choice((1, 1, 1, 1, 1, 1, 0, 5))
        request_id = 0 if rng.random() < 0.15 else client.requests
        frame = encode(requests.request(rng, request_id, client.manager, client.broker))
        data += mutation.mutated(rng, frame) if rng.random() < 0.04 else frame
    if rng.random() < 0.01:
        data += mutation.stream(rng, mutation.REQUESTS)
    if data and rng.random() < 0.04:
        at = rng.randrange(len(data))
        data, client.half = data[:at], data[at:]
    return data


def in_a_loop(function):
    """A connection has events and scopes, which are made in an event loop, even an idle one."""

    def in_loop(*arguments):
        async def run():
            with patch.object(greeting, "anyio", types.SimpleNamespace(move_on_after=nullcontext)):
                function(*arguments)

        asyncio.run(run())

    in_loop.__doc__ = function.__doc__
    return in_loop


@in_a_loop
def play(rng, log):
    """A story of some steps, made while it is told; each is noted in the log before."""
    story = Story()
    log.append(f"0:{b''.join(map(encode, requests.beginning(rng))).hex()}")
    story.step(log[-1])
    for _ in range(STEPS):
        index, kind = rng.randrange(CLIENTS), rng.random()
        if kind < 0.08:
            entry = f"+{rng.choice((0, 1, 999, 1000, 1001, 2000, 1_000_000, 2_000_000))}"
        elif kind < 0.3:
            entry = f"t{index}"
        elif kind < 0.305:
            entry = f"{rng.choice('xg')}{index}"
        else:
            entry = f"{index}:{_bytes(rng, story.clients[index]).hex()}"
        log.append(entry)
        story.step(entry)


@in_a_loop
def replay(log):
    """The steps of a log, with a new broker."""
    story = Story()
    for entry in log:
        story.step(entry)
