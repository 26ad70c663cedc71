"""One peer's socket: what is read, what is written, and how it ends. The sockets are in memory."""

import logging
from contextlib import asynccontextmanager
from itertools import count

import anyio
import pytest
from conversation import batch, broker_with, frames_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peer import GUARD, Peer, connected_to, settled

from zaichik.base.clock import ManualClock
from zaichik.core.pending import Pending
from zaichik.core.sharing.scheduler import SLICE_US, Scheduler
from zaichik.core.subscription_manager import MESSAGES_A_TURN, SubscriptionManager
from zaichik.server import connection as connection_module
from zaichik.server.connection import REQUESTS_A_TURN, TURN_US, Connection
from zaichik.server.foreign import ANSWERS
from zaichik_protocol import (
    HEARTBEAT,
    Close,
    Closed,
    CreateTopic,
    Describe,
    Disconnect,
    Disconnected,
    Error,
    ErrorCode,
    GoAway,
    Hello,
    Kind,
    Messages,
    Ping,
    Pong,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    TopicCreated,
    Welcome,
    encode,
)

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(*peers, **settings):
    """A broker serving these peers; what comes out is the broker and the connections."""
    broker = broker_with(**settings)
    async with connected_to(broker, *peers) as connections:
        yield broker, connections


def assert_nothing_is_left(broker):
    """CLO-3, CMT-4: no cursor and no waiter outlives its connection."""
    assert not broker.managers
    for topic in broker.registry:
        assert not topic.readers
        assert not topic.retained.ring._waiting


def reasons(caplog):
    return [
        record.getMessage().split("disconnected: ")[1]
        for record in caplog.records
        if "disc" in record.msg
    ]


async def test_a_conversation(caplog):
    """CLO-1: Close is answered, the broker ends its side, and closes when the peer has ended its
    own.
    """
    caplog.set_level(logging.INFO)
    peer = Peer()
    async with connected(peer) as (broker, _):
        peer.send(Subscribe(2, "t", credit=5), Publish(3, "t", batch(b"hello")))
        assert isinstance(await peer.receive(), Welcome)
        assert [type(await peer.receive()) for _ in range(3)] == [Subscribed, Published, Messages]
        peer.send(Close(4), Ping(5))
        assert await peer.rest() == [Closed(4)]
        assert not peer.stream.is_closed
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert_nothing_is_left(broker)
    assert reasons(caplog) == ["CLOSED"]


@pytest.mark.usefixtures("patchable")
async def test_no_request_is_accepted_at_a_time_before_it_was_received(monkeypatch):
    """Receiving takes its time, and the process may be stopped meanwhile."""
    peer = Peer()
    received = []
    receive = Connection._receive

    def slow(connection):
        clock = connection._broker.clock
        clock.advance(1)
        has_come = receive(connection)
        if has_come:
            received.append(clock.now_us())
        return has_come

    monkeypatch.setattr(Connection, "_receive", slow)
    async with connected(peer) as (broker, _):
        assert isinstance(await peer.receive(), Welcome)
        peer.send(Publish(2, "t", batch(b"x")))
        assert isinstance(await peer.receive(), Published)
        ring = broker.registry.get_or_create("t", broker.clock.now_us()).retained.ring
        assert ring.entry(0).accepted_us == received[-1]


async def test_frames_in_any_pieces():
    peer = Peer()
    async with connected(peer):
        for byte in encode(Ping(2, 7)) + encode(Ping(3, 8)):
            peer.send_bytes(bytes([byte]))
        peer.end()
        assert (await peer.rest())[1:] == [Pong(2, 7), Pong(3, 8)]


async def test_the_end_of_the_stream_is_a_close_without_a_reply():
    """CLO-1: what came before it is answered; half a frame is dropped."""
    peer = Peer()
    async with connected(peer) as (broker, _):
        peer.send(Publish(2, "t", batch(b"")), Ping(3))
        peer.send_bytes(encode(Ping(4))[:-1])
        peer.end()
        assert [type(frame) for frame in await peer.rest()] == [Welcome, Published, Pong]
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert_nothing_is_left(broker)


@pytest.mark.parametrize("room", [2**60, 0])
async def test_requests_sent_before_a_peer_left_are_carried_out(room):
    """CLO-1, though its socket takes no answers any more: found in its turn, or while it waits for
    room.
    """
    peer = Peer(room)
    async with connected(peer, max_replies=100) as (broker, _):
        await settled()
        if room:
            peer.stream.send_failure = anyio.BrokenResourceError()
        for number in range(1000):
            peer.send(Publish(2 + number, "t", batch(b"")))
        peer.end()
        await settled()  # without room, requests wait until replies have been sent
        peer.stream.send_failure = anyio.BrokenResourceError()
        peer.stream.change()
        await peer.stream.until(lambda: peer.stream.is_closed)
        assert broker.registry.get_or_create("t", 0).retained.ring.next_offset == 1000
        await settled()
        assert_nothing_is_left(broker)


async def test_input_after_a_close_is_read_and_ignored():
    """Unread bytes would turn the close into a reset, which could take the last frames away."""
    peer = Peer()
    async with connected(peer):
        peer.send(Close(2))
        assert [type(frame) for frame in await peer.rest()] == [Welcome, Closed]
        peer.send(Ping(3))
        peer.send_bytes(b"\xff" * 100)
        await settled()
        assert not peer.stream.incoming
        assert not peer.stream.sent


async def test_a_peer_that_never_closes_its_side_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", 0.01)
    peer = Peer()
    async with connected(peer) as (broker, _):
        peer.send(Close(2))
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert_nothing_is_left(broker)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x07\x00\x00\x00", ErrorCode.MALFORMED),
        (b"\xff\xff\xff\xff", ErrorCode.FRAME_TOO_LARGE),
        (encode(Ping(2))[:-1] + b"\0\0", ErrorCode.MALFORMED),
    ],
)
async def test_malformed_bytes_end_the_connection_after_the_requests_before_them(data, code):
    peer = Peer()
    async with connected(peer):
        peer.send_bytes(
            encode(Publish(2, "t", batch(b""))) + (data if len(data) < 8 else malformed())
        )
        welcome, published, error = await peer.rest()
        assert (type(welcome), type(published)) == (Welcome, Published)
        assert (error.code, error.fatal) == (code, True)


def malformed():
    """A Ping whose header announces one byte too many, and has it."""
    data = bytearray(encode(Ping(2)) + b"\0")
    data[0] += 1
    return bytes(data)


async def test_the_first_frame_must_be_a_hello():
    peer = Peer()
    peer.stream.incoming.clear()
    async with connected(peer):
        peer.send(Ping(2), Ping(3))
        (error,) = await peer.rest()
        assert (error.code, error.id, error.fatal) == (ErrorCode.HELLO_REQUIRED, 2, True)


async def test_frames_are_limited_to_little_before_the_hello_and_to_the_limit_after_it():
    """One below the limit, at the limit, beyond."""
    for length, fits in ((5_999, True), (6_000, True), (6_001, False)):
        peer = Peer()
        async with connected(peer, max_frame=6_000):
            frame = Publish(2, "t", batch(b"p" * (length - 8 - 16 - 3 - 20)))
            assert len(encode(frame)) == length + 4
            peer.send(frame)
            await peer.receive()
            reply = await peer.receive()
            assert isinstance(reply, Published if fits else Error)
    peer = Peer()
    peer.stream.incoming.clear()
    async with connected(peer, max_frame=6_000):
        peer.send_bytes((4_097).to_bytes(4, "little"))
        assert (await peer.receive()).code == ErrorCode.FRAME_TOO_LARGE


async def test_an_invalid_field_is_answered_and_the_connection_continues():
    peer = Peer()
    async with connected(peer):
        bad = bytearray(encode(Publish(2, "t", batch(b""))))
        bad[30] = 0xFF  # the topic's one letter is no UTF-8 any more
        peer.send_bytes(bytes(bad) + encode(Ping(3)))
        await peer.receive()
        error = await peer.receive()
        assert (error.id, error.code, error.field) == (2, ErrorCode.INVALID_FIELD, "topic")
        assert await peer.receive() == Pong(3, 0)


# -- bugs of ours


@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_a_request_ends_that_connection_and_no_other(monkeypatch, caplog):
    """P5: INTERNAL for the one, one traceback for the log, nothing for the others."""
    real = SubscriptionManager._carry_out

    def carry_out(self, request, now_us):
        if isinstance(request, Ping) and request.value == 13:
            raise ZeroDivisionError
        return real(self, request, now_us)

    monkeypatch.setattr(SubscriptionManager, "_carry_out", carry_out)
    victim, other = Peer(), Peer()
    async with connected(victim, other) as (broker, _):
        victim.send(Ping(2, 1), Ping(3, 13), Ping(4, 2))
        welcome, pong, error = await victim.rest()
        assert (type(welcome), pong) == (Welcome, Pong(2, 1))
        assert (error.id, error.request_type, error.code, error.fatal) == (
            3,
            Ping.TYPE,
            ErrorCode.INTERNAL,
            True,
        )
        other.send(Ping(5, 5))
        await other.receive()
        assert await other.receive() == Pong(5, 5)
        victim.end()
        await victim.stream.until(lambda: victim.stream.is_closed)
        await settled()
        assert len(broker.managers) == 1
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [
        ZeroDivisionError
    ]


# -- turns


class Turns(list):
    """What each turn of any connection has done: how many requests it applied, how many frames it
    said.

    Attributes:
        takes: seconds of the broker's clock that each request takes.
        applied: the connections' numbers, for each request.
    """

    takes = 0.0

    def __init__(self, monkeypatch):
        super().__init__()
        self.applied = []
        self._around(monkeypatch, Connection, "_turn", self._turn)
        self._around(monkeypatch, SubscriptionManager, "apply", self._apply)
        self._around(monkeypatch, SubscriptionManager, "next_output", self._next_output)

    def _around(self, monkeypatch, cls, name, wrapped):
        real = getattr(cls, name)
        monkeypatch.setattr(cls, name, lambda *arguments: wrapped(real, *arguments))

    def _turn(self, real, connection):
        self.append([0, 0])
        return real(connection)

    def _apply(self, real, manager, request, now_us):
        self.applied.append(manager.number)
        if self:
            self[-1][0] += 1
        manager._broker.connection_clock.advance(self.takes)
        real(manager, request, now_us)

    def _next_output(self, real, manager, now_us):
        pieces = real(manager, now_us)
        self[-1][1] += len(frames_of(pieces))
        return pieces


@pytest.fixture
def turns(patchable, monkeypatch):
    return Turns(monkeypatch)


def costly(turn_us):
    """A scheduler by whose time each turn takes so long: the time goes on whenever it is read."""
    times = count(step=turn_us)
    return Scheduler(lambda: next(times))


@pytest.mark.parametrize("is_by_hand", [False, True])
@pytest.mark.parametrize(("takes", "requests"), [(0.0, REQUESTS_A_TURN), (TURN_US / 1e6, 2)])
async def test_a_client_that_sends_much_at_once_lets_others_have_their_turn(
    turns, takes, requests, is_by_hand
):
    """LAG-5: a turn is so many requests or so much time.

    The event loop looks at the others after two at the latest.

    TIM-4: also if the clock that messages go by stands still.
    """
    busy, other = Peer(), Peer()
    async with connected(busy, other, scheduler=costly(SLICE_US)) as (broker, _):
        broker.connection_clock = ManualClock(5_000) if is_by_hand else broker.clock
        for peer in (busy, other):
            assert isinstance(await peer.receive(), Welcome)
        await settled()
        turns.clear()
        turns.applied.clear()
        turns.takes = takes
        busy.send(*[Publish(0, "t", batch(b""))] * (9 * REQUESTS_A_TURN), Ping(2))
        other.send(Ping(3))
        assert await busy.receive() == Pong(2, 0)
        assert await other.receive() == Pong(3, 0)
        busy.end()
        other.end()
    assert max(applied for applied, _ in turns) == requests
    (alone,) = (at for at, number in enumerate(turns.applied) if turns.applied.count(number) == 1)
    assert alone <= 2 * requests


async def test_a_turn_of_deliveries_is_bounded(turns):
    """LAG-5: batches of one small message are as dear as large ones.

    Nothing is lost between two turns.
    """
    reader, writer = Peer(), Peer()
    total = 10 * MESSAGES_A_TURN + 1
    async with connected(reader, writer):
        writer.send(CreateTopic(2, "t", ((1, 10_000),)), *[Publish(0, "t", batch(b""))] * total)
        writer.send(Ping(3))  # when it is answered, all are stored
        assert [type(await writer.receive()) for _ in range(3)] == [Welcome, TopicCreated, Pong]
        reader.send(Subscribe(2, "t", credit=10 * total))
        assert [type(await reader.receive()) for _ in range(2)] == [Welcome, Subscribed]
        assert [(await reader.receive()).base for _ in range(total)] == list(range(total))
    assert max(said for _, said in turns) <= 1 + MESSAGES_A_TURN  # with the reply to Subscribe


async def test_a_reader_of_much_lets_others_have_their_turn(turns):
    """LAG-5: also one that asks for nothing while it reads."""
    reader, other = Peer(), Peer()
    async with connected(reader, other, scheduler=costly(SLICE_US)) as (broker, _):
        broker.registry.create("t", ((1, 10_000),), broker.clock.now_us())
        for _ in range(20 * MESSAGES_A_TURN):
            broker.registry.get_or_create("t", 0).publish(batch(b""), broker.clock.now_us())
        for peer in (reader, other):
            assert isinstance(await peer.receive(), Welcome)
        await settled()
        turns.clear()
        reader.send(Subscribe(2, "t", credit=10**6))
        other.send(Ping(2))
        assert await other.receive() == Pong(2, 0)
        await settled()
    (alone,) = (at for at, (applied, said) in enumerate(turns) if applied and said == 1)
    assert alone <= 2


async def test_work_that_a_turn_causes_for_others_is_charged_to_them(turns):
    """A publish wakes its readers; each is sent the message in a turn of its own."""
    readers, writer = [Peer() for _ in range(5)], Peer()
    async with connected(*readers, writer):
        for reader in readers:
            reader.send(Subscribe(2, "t", credit=9))
            assert [type(await reader.receive()) for _ in range(2)] == [Welcome, Subscribed]
        await settled()
        turns.clear()
        writer.send(Publish(2, "t", batch(b"")))
        for reader in readers:
            assert (await reader.receive()).base == 0
    assert sorted(turns)[-5:] == [[0, 1]] * 4 + [[1, 1]]


# -- ends


def stop(broker, connections, seconds=1.0):
    """What a server does when it is told to stop."""
    with broker.scheduler.between_turns():
        for connection in connections:
            connection.finish_requests(broker.clock.now_us() + round(seconds * 1e6))
        for connection in connections:
            connection.go_away()


async def test_a_stop_does_not_wait_for_all_that_was_read(turns):
    """CLO-2: what takes too long is not answered."""
    peer = Peer(room=0)
    async with connected(peer, max_replies=30) as (broker, connections):
        peer.send(*[Ping(2)] * 50)
        await settled()
        turns.applied.clear()
        turns.takes = 0.1
        stop(broker, connections)
        peer.read_on()
        frames = await peer.rest()
    assert len(turns.applied) == 10
    assert isinstance(frames[-1], GoAway)


async def test_messages_acknowledged_while_the_broker_stops_are_delivered(monkeypatch):
    """CLO-2: to all that read and have credit for it, in whatever order they have connected.

    Then comes the GoAway.
    """
    writer, readers = Peer(room=1), [Peer(), Peer()]
    async with connected(readers[0], writer, readers[1], max_replies=100) as (broker, connections):
        for reader in readers:
            reader.send(Subscribe(2, "t", credit=1000))
            assert [type(await reader.receive()) for _ in range(2)] == [Welcome, Subscribed]
        writer.send(*[Publish(2 + number, "t", batch(b"")) for number in range(100)])
        await settled()  # most of them wait until replies are read
        assert broker.registry.get_or_create("t", 0).retained.ring.next_offset < 20
        stop(broker, connections)
        writer.read_on()
        assert [type(frame) for frame in await writer.rest()] == [
            Welcome,
            *[Published] * 100,
            GoAway,
        ]
        for reader in readers:
            *messages, last = await reader.rest()
            assert [frame.base for frame in messages] == list(range(100))
            assert isinstance(last, GoAway)


async def test_more_than_a_turn_of_messages_is_delivered_before_the_goodbye():
    """CLO-2."""
    reader, total = Peer(room=1), 5 * MESSAGES_A_TURN
    async with connected(reader) as (broker, connections):
        reader.send(Subscribe(2, "t", credit=1000), *[Publish(0, "t", batch(b""))] * total)
        await settled()
        stop(broker, connections)
        reader.read_on()
        welcome, subscribed, *messages, last = await reader.rest()
        assert (type(welcome), type(subscribed), type(last)) == (Welcome, Subscribed, GoAway)
        assert [frame.base for frame in messages] == list(range(total))


async def test_no_turn_begins_in_the_middle_of_a_request(monkeypatch):
    """Also when the broker is stopped: what a request brings about for others comes after it."""
    requests, turns = [], []

    def apply(manager, request, now_us):
        requests.append(request)
        real_apply(manager, request, now_us)
        requests.pop()

    def turn(connection):
        turns.append(len(requests))
        return real_turn(connection)

    real_apply, real_turn = SubscriptionManager.apply, Connection._turn
    monkeypatch.setattr(Connection, "_turn", turn)
    writer, reader = Peer(room=1), Peer()
    async with connected(writer, reader, max_replies=100) as (broker, connections):
        reader.send(Subscribe(2, "t", credit=1000))
        assert [type(await reader.receive()) for _ in range(2)] == [Welcome, Subscribed]
        await settled()  # the writer is greeted, too
        monkeypatch.setattr(SubscriptionManager, "apply", apply)
        writer.send(*[Publish(2 + number, "t", batch(b"")) for number in range(100)])
        await settled()
        stop(broker, connections)
        assert [(await reader.receive()).base for _ in range(100)] == list(range(100))
    assert set(turns) == {0}


async def test_a_peer_that_resets_leaves_nothing(caplog):
    """CLO-3: in the original a failed send left the connection's tasks behind."""
    caplog.set_level(logging.INFO)
    peer, other = Peer(), Peer()
    async with connected(peer, other) as (broker, _):
        peer.send(Subscribe(2, "t", credit=100))
        other.send(Subscribe(2, "t", credit=100))
        assert [type(await peer.receive()) for _ in range(2)] == [Welcome, Subscribed]
        assert [type(await other.receive()) for _ in range(2)] == [Welcome, Subscribed]
        peer.reset()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert len(broker.managers) == 1
        other.send(Publish(3, "t", batch(b"")))
        assert (await other.receive()).subscribers == 1
    assert "GONE: BrokenResourceError" in reasons(caplog)


async def test_a_reset_after_the_last_frame_does_not_change_the_reason(caplog):
    """P7: everything was said and read; that the peer does not end its side in order is nobody's
    loss.
    """
    caplog.set_level(logging.INFO)
    peer = Peer()
    async with connected(peer):
        peer.send(Close(2))
        assert [type(frame) for frame in await peer.rest()] == [Welcome, Closed]
        await settled()
        peer.reset()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
    assert reasons(caplog) == ["CLOSED"]


async def test_a_send_that_fails_ends_the_connection():
    """CLO-3: also while messages are on their way."""
    peer = Peer(room=1)
    async with connected(peer, write_timeout=10) as (broker, _):
        peer.send(Subscribe(2, "t", credit=1000), *[Publish(0, "t", batch(b"p" * 1000))] * 100)
        await settled()
        assert len(broker.managers) == 1
        peer.reset()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert_nothing_is_left(broker)


# -- peers that do not read


async def checked(broker, connections, seconds):
    """So much time passes; the connections are checked once a second, as by a server."""
    for _ in range(seconds):
        broker.clock.advance(1)
        for connection in connections:
            connection.check_deadlines(broker.clock.now_us())
        await settled()


async def test_a_peer_that_reads_nothing_is_reset(caplog):
    """LAG-3, P7: nothing moved for the write timeout, and the log has the reason."""
    caplog.set_level(logging.INFO)
    peer, other = Peer(room=0), Peer()
    async with connected(peer, other, write_timeout=3) as (broker, connections):
        peer.send(Ping(2))
        await settled()
        await checked(broker, connections, 3)
        assert not peer.stream.is_closed
        await checked(broker, connections, 1)
        assert peer.stream.is_closed
        assert peer.stream.is_reset
        assert len(broker.managers) == 1
        other.send(Ping(3))
        assert isinstance(await other.receive(), Welcome)
        assert await other.receive() == Pong(3, 0)
        assert not other.stream.is_reset
    assert reasons(caplog)[0] == "SLOW_CONSUMER: it read nothing for 3 s"


async def test_a_peer_that_reads_a_little_now_and_then_stays():
    """LAG-3: however little, and however much is left."""
    peer = Peer(room=0)
    async with connected(peer, write_timeout=3) as (broker, connections):
        peer.send(*[Ping(2)] * 100)
        await settled()
        for _ in range(20):
            await checked(broker, connections, 3)
            peer.stream.room = 1
            peer.stream.change()
            await settled()
        assert not peer.stream.is_closed


async def test_a_peer_that_reads_less_than_the_socket_accepts_again_at_stays():
    """LAG-3: the system tells that its bytes go, though it takes no new ones yet."""
    peer = Peer(room=0)
    async with connected(peer, write_timeout=3) as (broker, connections):
        peer.send(*[Ping(2)] * 100)
        await settled()
        for left in range(20, 0, -1):
            peer.stream.unacknowledged_bytes = left
            await checked(broker, connections, 3)
        assert not peer.stream.is_closed
        await checked(broker, connections, 1)
        assert peer.stream.is_reset


async def test_a_peer_that_reads_nothing_does_not_hold_up_the_end_of_its_conversation():
    """LAG-3, CLO-1: also when the last word is said."""
    peer = Peer(room=1)
    async with connected(peer, write_timeout=3) as (broker, connections):
        peer.send(Close(2))
        await settled()
        await checked(broker, connections, 5)
        assert peer.stream.is_reset
        assert peer.stream.is_closed
        assert_nothing_is_left(broker)


async def test_requests_are_not_read_while_replies_pile_up():
    """LAG-3: and are, one after the other and none forgotten, when the peer reads."""
    peer = Peer(room=1)
    async with connected(peer, max_replies=100) as (broker, _):
        await settled()  # the Welcome took the room there was
        peer.send(*[Ping(2 + number, number) for number in range(50)])
        await settled()
        peer.send(Publish(0, "t", batch(b"")))
        await settled()
        (manager,) = broker.managers.values()
        assert manager.replies.bytes <= 2 * 120
        assert len(peer.stream.incoming) == 1
        assert len(broker.registry) == 0
        peer.read_on()
        assert isinstance(await peer.receive(), Welcome)
        assert [await peer.receive() for _ in range(50)] == [
            Pong(2 + number, number) for number in range(50)
        ]
        await settled()
        assert len(broker.registry) == 1


async def test_the_end_is_noticed_while_replies_pile_up():
    """CLO-1."""
    peer = Peer(room=1)
    async with connected(peer, max_replies=100):
        await settled()
        peer.send(*[Ping(2)] * 50, Close(3))
        peer.end()
        await settled()
        peer.read_on()
        frames = await peer.rest()
        assert len(frames) == 52
        assert frames[-1] == Closed(3)


async def test_publishing_much_to_a_subscribed_topic_without_reading_does_not_deadlock():
    """LAG-3: in the original both sides waited for each other for ever.

    400 batches of 64 KiB; little of it waits.
    """
    peer = Peer(room=1)
    big = Publish(0, "t", batch(b"p" * 64 * 1024))
    async with connected(peer) as (broker, _):
        peer.send(Subscribe(2, "t", credit=1000, credit_bytes=2**30))
        for _ in range(400):
            peer.send(big)
        topic = broker.registry.get_or_create("t", 0)
        with anyio.fail_after(GUARD):
            while topic.retained.ring.next_offset < 400:
                await anyio.lowlevel.checkpoint()
        (subscription,) = topic.readers
        assert subscription.delivered <= 6
        peer.read_on()
        frames = [await peer.receive() for _ in range(402)]
        assert [type(frame) for frame in frames[:2]] == [Welcome, Subscribed]
        assert [frame.base for frame in frames[2:]] == list(range(400))


# -- who takes too long, and who is wrong here


@pytest.mark.parametrize(
    ("greeting", "first", "code"),
    [
        (False, b"", ErrorCode.HANDSHAKE_TIMEOUT),
        (False, encode(Hello(1))[:-1], ErrorCode.HANDSHAKE_TIMEOUT),
        (True, encode(Ping(2))[:-1], ErrorCode.FRAME_TIMEOUT),
        (False, encode(Hello(1, features=HEARTBEAT)), ErrorCode.IDLE_TIMEOUT),
    ],
)
async def test_a_client_that_takes_too_long_is_told_and_disconnected(
    greeting, first, code, caplog, monkeypatch
):
    """TIM-1, TIM-2, TIM-3; the others never notice."""
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    peer, other = Peer(greeting=greeting), Peer()
    async with connected(peer, other, idle_timeout=20, handshake_timeout=0.01) as (
        broker,
        connections,
    ):
        if first:
            peer.send_bytes(first)
        await settled()
        await checked(broker, connections, 30)
        error = (await peer.rest())[-1]
        assert (error.code, error.fatal, error.retryable) == (code, True, True)
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert len(broker.managers) == 1
        assert broker.ends == {code.name: 1}
    assert reasons(caplog)[0].startswith(f"{code.name}: ")


@pytest.mark.parametrize("seconds", [9, 14])
async def test_time_in_which_requests_are_not_read_does_not_count(seconds):
    """TIM-2, LAG-3: a frame that was begun waits with the requests, and has the ten seconds that it
    had before.
    """
    peer = Peer(room=1)
    pings = [Ping(2 + number, number) for number in range(100 // len(encode(Pong(2, 0))) + 1)]
    async with connected(peer, max_replies=100, write_timeout=10**6) as (broker, connections):
        await settled()
        peer.send(*pings)
        peer.send_bytes(encode(Ping(99))[:-1])
        await settled()
        await checked(broker, connections, 60)
        peer.read_on()
        await settled()
        await checked(broker, connections, seconds)
        peer.send_bytes(encode(Ping(99))[-1:])
        peer.end()
        last = (await peer.rest())[-1]
    assert last == Pong(99, 0) if seconds < 10 else last.code == ErrorCode.FRAME_TIMEOUT


async def test_time_in_which_a_connection_waits_for_its_turn_does_not_count():
    """TIM-3: what is in its socket was sent in time."""
    peer = Peer(greeting=False)
    peer.send(Hello(1, features=HEARTBEAT))
    async with connected(peer, idle_timeout=5) as (broker, connections):
        assert isinstance(await peer.receive(), Welcome)
        await settled()
        with broker.scheduler.between_turns():  # nobody has a turn
            peer.send(Ping(2))
            await settled()
            await checked(broker, connections, 60)
        await checked(broker, connections, 3)
        assert await peer.receive() == Pong(2, 0)
        await checked(broker, connections, 60)
        assert (await peer.receive()).code == ErrorCode.IDLE_TIMEOUT


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize(
    ("first", "name", "answer"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP", ANSWERS["HTTP"]),
        (bytes.fromhex("16030100f8010000f40303"), "TLS", ANSWERS["TLS"]),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP", ANSWERS["HTTP"]),
        (b"*1\r\n$4\r\nPING\r\n", "Redis", b""),
        (b"*12\r\n$4\r\nPING\r\n", "Redis", b""),
        (b"SSH-2.0-x\r\n", "SSH", b""),
        (bytes.fromhex("101600044d5154540402003c"), "MQTT", b""),
    ],
)
async def test_a_client_of_another_protocol_is_named_in_the_log_and_closed(
    first, name, answer, step, caplog
):
    """Byte by byte, too: what comes is judged as soon as it cannot be ours."""
    caplog.set_level(logging.INFO)
    peer = Peer(greeting=False)
    async with connected(peer) as (broker, _):
        for at in range(0, len(first), step):
            peer.send_bytes(first[at : at + step])
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert_nothing_is_left(broker)
    assert peer.stream.sent == answer
    assert reasons(caplog) == [f"NOT_ZAICHIK: it speaks {name}"]


async def test_a_frame_of_ours_is_not_taken_for_another_protocol():
    """Its length is 0x0316, as a TLS record begins; what is wrong is only that it is no Hello."""
    peer = Peer(greeting=False)
    frame = encode(Publish(2, "t", batch(b"p" * (0x0316 - 8 - 16 - 3 - 20))))
    assert frame.startswith(b"\x16\x03\0")
    async with connected(peer):
        peer.send_bytes(frame)
        assert (await peer.receive()).code == ErrorCode.HELLO_REQUIRED


# -- sending


async def test_a_request_is_answered_without_waking_a_task():
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        assert isinstance(await peer.receive(), Welcome)
        await settled()
        for number in range(3):
            peer.send(Ping(2 + number))
            assert await peer.receive() == Pong(2 + number, 0)
        await settled()
        assert not connection._alone.cancel_called


async def test_an_empty_output_is_not_sent(monkeypatch):
    peer = Peer()
    async with connected(peer):
        assert isinstance(await peer.receive(), Welcome)
        await settled()
        monkeypatch.setattr(
            peer.stream, "send_pieces_nowait", lambda _: pytest.fail("a system call for nothing")
        )
        peer.send(Publish(0, "t", batch(b"")))
        peer.send_bytes(encode(Ping(3))[:-1])
        await settled()


async def test_requests_that_arrive_together_are_answered_together():
    peer = Peer()
    async with connected(peer):
        assert isinstance(await peer.receive(), Welcome)
        await settled()
        peer.send(Ping(2), Ping(3))
        await settled()
        assert peer.stream.pieces[1:] == [encode(Pong(2, 0)) + encode(Pong(3, 0))]


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 8)), max_size=20
    ),
    max_replies=st.sampled_from([10, 100, 2**18]),
)
async def test_output_is_sent_once_and_in_order_however_little_is_accepted_at_once(
    steps, max_replies
):
    """Requests come, room is made, and another connection publishes, while others have more turns
    or fewer.
    """
    peer, other = Peer(), Peer()
    async with connected(peer, other, max_replies=max_replies) as (broker, (connection, _)):
        peer.send(Subscribe(2, "t", credit=1000))
        frames = [await peer.receive() for _ in range(2)]
        peer.stream.room = 0
        asked = published = 0
        for requests, room, turns in steps:
            for _ in range(requests):
                asked += 1
                peer.send(Ping(2 + asked, asked))
            if room % 3 == 0:
                published += 1
                other.send(Publish(0, "t", batch(b"m" * room)))
            peer.stream.room += room
            peer.stream.change()
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
        peer.read_on()
        frames += [await peer.receive() for _ in range(asked + published)]
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert not peer.stream.sent
        assert not connection._unsent
        assert [frame.id for frame in frames if isinstance(frame, Pong)] == [
            3 + number for number in range(asked)
        ]
        assert [frame.base for frame in frames if isinstance(frame, Messages)] == list(
            range(published)
        )
        assert len(broker.managers) == 2


async def test_nothing_overtakes_the_rest_of_a_partial_send():
    """Also if there is room again, and the task that waits for it was not awake in between."""
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        assert isinstance(await peer.receive(), Welcome)
        await settled()
        peer.stream.room = 5
        for number in range(2, 5):
            connection._manager.apply(Ping(number), 0)
            peer.stream.room = 2**60
        assert [await peer.receive() for _ in range(3)] == [
            Pong(number, 0) for number in range(2, 5)
        ]


async def test_what_the_socket_has_not_accepted_is_known_for_an_explanation():
    """LAG-3: nothing is left once the peer has read it, or is gone."""
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        assert isinstance(await peer.receive(), Welcome)
        pong, unsent = len(encode(Pong(2, 0))), []
        for room in (5, 2**60, 5):
            peer.stream.room = room
            peer.stream.change()
            await settled()
            peer.send(Ping(2, 0))
            await settled()
            unsent.append(connection._manager.unsent)
        assert unsent == [pong - 5, 0, pong - 5]
        peer.stream.send_failure = anyio.BrokenResourceError()
        peer.stream.change()
        await settled()
        assert connection._manager.unsent == 0


async def test_output_beyond_the_soft_limit_waits_for_the_next_turn():
    """LAG-3: the socket has taken all of a turn's, and there is more."""
    peer = Peer()
    async with connected(peer, soft_output=1000):
        peer.send(CreateTopic(0, "t", ((1, 1000),)), *[Publish(0, "t", batch(b"p" * 600))] * 9)
        assert isinstance(await peer.receive(), Welcome)
        await settled()
        peer.send(Subscribe(2, "t", start=0, credit=1000))
        assert isinstance(await peer.receive(), Subscribed)
        assert [(await peer.receive()).base for _ in range(9)] == list(range(9))


async def test_other_subscriptions_are_served_while_replies_pile_up():
    """Requests wait for room; what others publish meanwhile is sent all the same."""
    peer, other = Peer(room=1), Peer()
    async with connected(peer, other, max_replies=100):
        peer.send(Subscribe(2, "t", credit=1000), *[Ping(3)] * 50)
        await settled()
        other.send(Publish(2, "t", batch(b"")))
        assert isinstance(await other.receive(), Welcome)
        assert isinstance(await other.receive(), Published)
        peer.read_on()
        kinds = {type(await peer.receive()) for _ in range(53)}
        assert kinds == {Welcome, Subscribed, Pong, Messages}


async def test_a_turn_that_cannot_send_ends_the_connection(monkeypatch, caplog):
    """CLO-3: the requests were read, and the peer was gone before they were answered."""
    caplog.set_level(logging.INFO)
    peer = Peer()

    def broken(*_):
        raise anyio.BrokenResourceError

    async with connected(peer) as (broker, _):
        assert isinstance(await peer.receive(), Welcome)
        await settled()
        monkeypatch.setattr(peer.stream, "send_pieces_nowait", broken)
        monkeypatch.setattr(peer.stream, "send_eof", broken)
        peer.send(Subscribe(2, "t"))
        await settled()
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert_nothing_is_left(broker)
    assert reasons(caplog) == ["GONE: BrokenResourceError"]


@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_a_turn_ends_the_connection_and_leaves_nothing(monkeypatch):
    """P5: the server logs it."""
    peer = Peer()
    broker = broker_with()

    async def serve():
        async with connected_to(broker, peer):
            assert isinstance(await peer.receive(), Welcome)
            await settled()
            monkeypatch.setattr(SubscriptionManager, "next_output", lambda *_: 1 / 0)
            peer.send(Ping(2))
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as raised:
        await serve()
    assert raised.group_contains(ZeroDivisionError, depth=1)
    assert peer.stream.is_closed
    assert broker.ends == {"INTERNAL": 1}
    assert_nothing_is_left(broker)


@pytest.mark.parametrize("name", ["_read", "_send"])
@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_a_turn_does_not_end_the_turns_of_others(name, monkeypatch):
    """P5: what wakes a reader is another one's publish, and the reader's turn fails."""
    reader, writer, other = Peer(), Peer(), Peer()
    errors = []
    real = Connection.run

    async def run(connection):
        try:
            await real(connection)
        except ZeroDivisionError as error:
            errors.append(error)

    monkeypatch.setattr(Connection, "run", run)
    async with connected(reader, writer, other) as (_, connections):
        reader.send(Subscribe(2, "t", credit=9))
        other.send(Subscribe(2, "t", credit=9))
        for peer in (reader, other):
            assert [type(await peer.receive()) for _ in range(2)] == [Welcome, Subscribed]
        assert isinstance(await writer.receive(), Welcome)
        await settled()
        monkeypatch.setattr(connections[0], name, lambda *_: 1 / 0)
        writer.send(Publish(2, "t", batch(b"")))
        assert (await writer.receive()).subscribers == 2
        assert (await other.receive()).base == 0
        await reader.stream.until(lambda: reader.stream.is_closed)
        await settled()  # it leaves the topic after that
        writer.send(Publish(3, "t", batch(b"")))
        assert (await writer.receive()).subscribers == 1
    assert len(errors) == 1


# -- replies that are not known yet


def owed(connection):
    """The answer to a request that waits for the disk."""
    pending = Pending()
    connection._manager.replies.owe(Describe(2, Kind.BROKER), pending)
    return pending


async def test_requests_after_one_whose_reply_is_owed_are_carried_out_after_it():
    """DUR-2: what follows a Subscribe finds the subscription."""
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        assert isinstance(await peer.receive(), Welcome)
        peer.send(Ping(3, 3))
        assert await peer.receive() == Pong(3, 3)
        await settled()
        pending = owed(connection)
        peer.send(Ping(6, 6), Publish(7, "t", batch(b"")))
        await settled()
        assert not peer.stream.sent
        pending.settle(Pong(2, 2))
        assert [(await peer.receive()).id for _ in range(3)] == [2, 6, 7]


async def test_messages_do_not_wait_for_a_reply_that_is_owed():
    peer, other = Peer(), Peer()
    async with connected(peer, other) as (_, connections):
        peer.send(Subscribe(2, "t", credit=9))
        assert [type(await peer.receive()) for _ in range(2)] == [Welcome, Subscribed]
        await settled()
        owed(connections[0])
        other.send(Publish(3, "t", batch(b"")))
        assert (await peer.receive()).base == 0


async def test_a_close_waits_for_what_is_owed():
    """CLO-1: it may wait for a disk."""
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        assert isinstance(await peer.receive(), Welcome)
        pending = owed(connection)
        peer.send(Close(3))
        await settled()
        assert not peer.stream.is_ended
        pending.settle(Pong(2, 0))
        assert await peer.rest() == [Pong(2, 0), Closed(3)]


async def test_the_goodbye_waits_for_what_is_owed():
    """CLO-2."""
    peer = Peer()
    async with connected(peer) as (broker, connections):
        assert isinstance(await peer.receive(), Welcome)
        pending = owed(connections[0])
        stop(broker, connections)
        await settled()
        assert not peer.stream.sent
        pending.settle(Pong(2, 0))
        assert [type(frame) for frame in await peer.rest()] == [Pong, GoAway]


@pytest.mark.parametrize("end", ["reset", "end"])
async def test_an_answer_for_a_connection_that_has_ended_is_harmless(end):
    """CLO-3: its reply is known at last, and nobody is there to hear it."""
    peer, other = Peer(), Peer()
    async with connected(peer, other) as (broker, connections):
        await settled()
        pending = owed(connections[0])
        peer.stream.room = 0
        getattr(peer, end)()
        await settled()
        assert not peer.stream.is_closed  # what was asked before it is still answered (CLO-1)
        if end == "end":
            peer.read_on()
        pending.settle(Pong(2, 0))
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        other.send(Ping(3))
        assert isinstance(await other.receive(), Welcome)
        assert await other.receive() == Pong(3, 0)
        assert len(broker.managers) == 1


# -- GoAway


async def test_go_away_comes_after_the_rest_of_a_reply():
    """CLO-2: the rest of the reply comes first."""
    peer = Peer()
    async with connected(peer) as (broker, connections):
        await settled()
        peer.stream.room = 5
        peer.send(Ping(2))
        await settled()
        stop(broker, connections)
        peer.read_on()
        assert [type(frame) for frame in await peer.rest()] == [Welcome, Pong, GoAway]
        peer.end()


async def test_go_away_is_sent_after_what_was_answered():
    """CLO-2."""
    peer = Peer()
    async with connected(peer) as (broker, connections):
        peer.send(Ping(2))
        await settled()
        stop(broker, connections)
        frames = await peer.rest()
        assert [type(frame) for frame in frames] == [Welcome, Pong, GoAway]
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await settled()
        assert_nothing_is_left(broker)


async def test_a_connection_ended_by_another_is_closed_gracefully(caplog):
    """CLO-4, CLO-3: what it sends after that is read and not heard."""
    caplog.set_level(logging.INFO)
    peer, operator = Peer(), Peer()
    async with connected(peer, operator) as (broker, _):
        peer.send(Subscribe(2, "t"), Ping(3))
        await anyio.wait_all_tasks_blocked()
        operator.send(Disconnect(2, min(broker.managers)))
        await anyio.wait_all_tasks_blocked()
        peer.send(Ping(4))
        assert [type(frame) for frame in await peer.rest()] == [Welcome, Subscribed, Pong, GoAway]
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert (len(broker.managers), broker.ends) == (1, {"DISCONNECTED": 1})
        operator.send(Close(3))
        assert [type(frame) for frame in await operator.rest()] == [Welcome, Disconnected, Closed]
        operator.end()
        await operator.stream.until(lambda: operator.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)
    assert reasons(caplog) == ["DISCONNECTED", "CLOSED"]


async def test_go_away_follows_the_answers_to_requests_read_while_replies_pile_up():
    """CLO-2."""
    peer = Peer(room=1)
    async with connected(peer, max_replies=100) as (broker, connections):
        await settled()
        peer.send(*[Ping(2)] * 50)
        await settled()
        stop(broker, connections)
        peer.read_on()
        frames = await peer.rest()
        assert [type(frame) for frame in frames] == [Welcome, *[Pong] * 50, GoAway]
        peer.end()


async def test_a_peer_that_has_not_said_hello_is_told_at_once():
    """CLO-2: nobody waits for it."""
    for first in (encode(Hello(1))[:1], encode(Hello(1))[:-1]):
        peer = Peer(greeting=False)
        async with connected(peer) as (broker, connections):
            peer.send_bytes(first)
            await settled()
            stop(broker, connections)
            assert [type(frame) for frame in await peer.rest()] == [GoAway]
            peer.end()
