"""One client's socket: what is read, what is written, and how it ends. The sockets are in memory."""

import logging
from contextlib import asynccontextmanager

import anyio
import pytest
from conversation import batch, broker_with
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peer import GUARD, Peer

from zaichik.broker import connection as connection_module
from zaichik.broker.connection import FRAMES_AT_ONCE, TURN_US, Connection
from zaichik.broker.foreign import HTTP_ANSWER
from zaichik.broker.subscription_manager import SubscriptionManager
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import (
    HEARTBEAT,
    Close,
    Closed,
    Commit,
    CreateTopic,
    Disconnect,
    Disconnected,
    Error,
    ErrorCode,
    GoAway,
    Hello,
    Messages,
    Ping,
    Pong,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    Welcome,
    encode,
)

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(*peers, **settings):
    """A broker serving these peers; what comes out is the broker and the connections."""
    broker = broker_with(**settings)
    connections = [Connection(peer.stream, broker, f"peer {number}") for number, peer in enumerate(peers)]
    with anyio.fail_after(GUARD):
        async with BackgroundTasks() as tasks:
            for connection in connections:
                tasks.group.start_soon(connection.run)
            yield broker, connections


def assert_nothing_is_left(broker):
    """CLO-3, CMT-4: no cursor and no waiter outlives its connection."""
    assert not broker.managers
    for topic in broker.registry:
        assert not topic.readers
        assert not topic.ring._waiting


def reasons(caplog):
    return [record.getMessage().split("disconnected: ")[1] for record in caplog.records if "disc" in record.msg]


async def test_a_conversation(caplog):
    """CLO-1: Close is answered, the broker ends its side, and closes when the peer has ended its own."""
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
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)
    assert reasons(caplog) == ["CLOSED"]


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
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)


@pytest.mark.parametrize("room", [2**60, 0])
async def test_what_a_peer_sent_before_it_went_is_carried_out(room):
    """CLO-1, though its socket takes no answers any more: found by a short cut, or by the writer, in mid-send."""
    peer = Peer(room)
    async with connected(peer, max_replies=100) as (broker, _):
        await anyio.wait_all_tasks_blocked()
        if room:
            peer.stream.send_failure = anyio.BrokenResourceError()
        for number in range(1000):
            peer.send(Publish(2 + number, "t", batch(b"")))
        peer.end()
        await anyio.wait_all_tasks_blocked()  # without room, the reader waits until replies have been sent
        peer.stream.send_failure = anyio.BrokenResourceError()
        peer.stream.change()
        await peer.stream.until(lambda: peer.stream.is_closed)
        assert broker.registry.get_or_create("t", 0).ring.next_offset == 1000
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)


async def test_after_a_close_the_peer_is_read_and_not_heard():
    """Unread bytes would turn the close into a reset, which could take the last frames away."""
    peer = Peer()
    async with connected(peer):
        peer.send(Close(2))
        assert [type(frame) for frame in await peer.rest()] == [Welcome, Closed]
        peer.send(Ping(3))
        peer.send_bytes(b"\xff" * 100)
        await anyio.wait_all_tasks_blocked()
        assert not peer.stream.incoming
        assert not peer.stream.sent


async def test_a_peer_that_never_ends_its_side_is_left(monkeypatch):
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", 0.01)
    peer = Peer()
    async with connected(peer) as (broker, _):
        peer.send(Close(2))
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x07\x00\x00\x00", ErrorCode.MALFORMED),
        (b"\xff\xff\xff\xff", ErrorCode.FRAME_TOO_LARGE),
        (encode(Ping(2))[:-1] + b"\0\0", ErrorCode.MALFORMED),
    ],
)
async def test_bytes_that_are_no_frame_end_the_connection_after_what_came_before(data, code):
    peer = Peer()
    async with connected(peer):
        peer.send_bytes(encode(Publish(2, "t", batch(b""))) + (data if len(data) < 8 else malformed()))
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


async def test_before_the_hello_little_is_accepted_and_after_it_the_limit():
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


async def test_an_error_inside_a_field_is_answered_and_the_connection_goes_on():
    peer = Peer()
    async with connected(peer):
        bad = bytearray(encode(Publish(2, "t", batch(b""))))
        bad[30] = 0xFF  # the topic's one letter is no UTF-8 any more
        peer.send_bytes(bytes(bad) + encode(Ping(3)))
        await peer.receive()
        error = await peer.receive()
        assert (error.id, error.code, error.field) == (2, ErrorCode.INVALID_FIELD, "topic")
        assert await peer.receive() == Pong(3, 0)


# -- bugs of ours ----------------------------------------------------------------------------------------------


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
        assert (error.id, error.request_type, error.code, error.fatal) == (3, Ping.TYPE, ErrorCode.INTERNAL, True)
        other.send(Ping(5, 5))
        await other.receive()
        assert await other.receive() == Pong(5, 5)
        victim.end()
        await victim.stream.until(lambda: victim.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert len(broker.managers) == 1
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


@pytest.fixture
def turns(monkeypatch):
    """In which order connections have frames applied, once it is begun, and for how long they rest.

    Each frame takes `turns.takes` of the broker's time, and each rest, of `turns.rests`, what it is to take.
    """
    real = SubscriptionManager.apply

    class Turns(list):
        takes = 0.0

        def begin(self, broker):
            self.rests = []

            def apply(manager, request, now_us):
                self.append(manager.number)
                broker.clock.advance(self.takes)
                real(manager, request, now_us)

            async def sleep(seconds):
                self.rests.append(seconds)
                broker.clock.advance(seconds)
                await anyio.lowlevel.checkpoint()

            monkeypatch.setattr(SubscriptionManager, "apply", apply)
            monkeypatch.setattr(anyio, "sleep", sleep)

    return Turns()


@pytest.mark.parametrize(("takes", "frames"), [(0.0, FRAMES_AT_ONCE), (TURN_US / 1e6, 2)])
async def test_a_client_that_has_sent_much_at_once_lets_others_have_their_turn(turns, takes, frames):
    """LAG-5: by frames or by time."""
    busy, other = Peer(), Peer()
    turns.takes = takes
    async with connected(busy, other) as (broker, _):
        for peer in (busy, other):
            assert isinstance(await peer.receive(), Welcome)
        await anyio.wait_all_tasks_blocked()
        turns.begin(broker)
        busy.send(*[Publish(0, "t", batch(b""))] * (3 * FRAMES_AT_ONCE), Ping(2))
        other.send(Ping(3))
        assert await busy.receive() == Pong(2, 0)
        assert await other.receive() == Pong(3, 0)
        busy.end()
        other.end()
    (turn,) = (index for index, number in enumerate(turns) if turns.count(number) == 1)
    assert turn <= frames


FRAMES, TAKES = 300, 0.004  # of one test, and seconds each of them takes
MOVING, PING = Publish(0, "t", batch(b"")), Ping(0)
REFUSED, SETTLES_NOTHING = Commit(0, 77, 1), Commit(0, 2, 0)
AGAIN = Publish(0, "t", batch(b""), producer=5)
AT_ONCE = 0.5  # seconds of the broker's time


@pytest.mark.parametrize(
    ("frames", "idle"),
    [
        ([PING], FRAMES),
        ([REFUSED], FRAMES),
        ([SETTLES_NOTHING], FRAMES),
        ([AGAIN], FRAMES - 1),
        ([PING, MOVING], FRAMES / 2),
        ([MOVING], 0),
    ],
    ids=["pings", "refused", "settles nothing", "answered before", "half of it moves", "all of it moves"],
)
async def test_frames_that_move_no_message_have_a_twentieth_of_the_time(turns, frames, idle):
    """LAG-5: beyond half a second at once. Rests take time here, and everything else that is no frame takes none."""
    peer = Peer()
    turns.takes = TAKES
    async with connected(peer) as (broker, _):
        broker.clock.advance(20 * AT_ONCE)  # so much is saved up
        peer.send(Subscribe(2, "u", credit=1), Ping(3))
        await anyio.wait_all_tasks_blocked()
        turns.begin(broker)
        begin_us = broker.clock.now_us()
        for _ in range(FRAMES // len(frames)):
            peer.send(*frames)
        peer.send(Ping(4))
        while await peer.receive() != Pong(4, 0):
            pass
        took = (broker.clock.now_us() - begin_us) / 1e6
        peer.end()
    assert took == pytest.approx(max(FRAMES * TAKES, 20 * (idle * TAKES - AT_ONCE)), rel=0.05)


async def test_who_reads_answers_slowly_rests_like_others(turns):
    """LAG-5: though he is waited for already, because answers have piled up."""
    peer = Peer(room=0)
    async with connected(peer, max_replies=1) as (broker, _):
        await anyio.wait_all_tasks_blocked()
        turns.begin(broker)
        turns.takes = 1.0
        peer.send(*[Ping(2)] * 5)
        for peer.stream.room in [10] * 25:  # less than an answer, so that the writer always has a part of one left
            peer.stream.change()
            await anyio.wait_all_tasks_blocked()
        peer.end()
    assert len(turns) == 5
    assert len([seconds for seconds in turns.rests if seconds]) == 5


async def test_nobody_rests_for_time_in_which_the_broker_stood_still(turns):
    """LAG-5: not for longer than half a second, and once."""
    peer = Peer()
    async with connected(peer) as (broker, _):
        await anyio.wait_all_tasks_blocked()
        turns.begin(broker)
        for turns.takes in (60, 0.000_01):
            peer.send(Ping(2))
            await anyio.wait_all_tasks_blocked()
        peer.end()
    assert turns.rests == [pytest.approx(0.5), pytest.approx(20 * 0.000_01, rel=0.1)]


async def test_a_stop_does_not_wait_for_all_that_was_read(turns):
    """CLO-2: what takes too long is not answered."""
    peer = Peer(room=0)
    async with connected(peer, max_replies=30) as (broker, (connection,)):
        peer.send(*[Ping(2)] * 50)
        await anyio.wait_all_tasks_blocked()
        turns.begin(broker)
        turns.takes = 0.1
        connection.go_away(broker.clock.now_us() + 1_000_000)
        peer.read_on()
        frames = await peer.rest()
    assert len(turns) == 10
    assert isinstance(frames[-1], GoAway)


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
        await anyio.wait_all_tasks_blocked()
        assert len(broker.managers) == 1
        other.send(Publish(3, "t", batch(b"")))
        assert (await other.receive()).subscribers == 1
    assert "GONE: BrokenResourceError" in reasons(caplog)


async def test_a_send_that_fails_ends_the_connection():
    """CLO-3: also while messages are on their way."""
    peer = Peer(room=1)
    async with connected(peer, write_timeout=GUARD) as (broker, _):
        peer.send(Subscribe(2, "t", credit=1000), *[Publish(0, "t", batch(b"p" * 1000))] * 100)
        await anyio.wait_all_tasks_blocked()
        assert len(broker.managers) == 1
        peer.reset()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)


# -- peers that do not read ------------------------------------------------------------------------------------


async def test_a_peer_that_reads_nothing_is_cut_off(caplog):
    """LAG-3, P7: nothing moved for the write timeout, and the log has the reason."""
    caplog.set_level(logging.INFO)
    peer, other = Peer(room=0), Peer()
    async with connected(peer, other, write_timeout=0.02) as (broker, _):
        peer.send(Ping(2))
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert len(broker.managers) == 1
        other.send(Ping(3))
        assert isinstance(await other.receive(), Welcome)
        assert await other.receive() == Pong(3, 0)
    assert reasons(caplog)[0] == "SLOW_CONSUMER: it read nothing for 0.02 s"


async def test_requests_are_not_read_while_replies_pile_up():
    """LAG-3: and are, one after the other and none forgotten, when the peer reads."""
    peer = Peer(room=1)
    async with connected(peer, max_replies=100) as (broker, _):
        await anyio.wait_all_tasks_blocked()  # the Welcome took the room there was
        peer.send(*[Ping(2 + number, number) for number in range(50)])
        await anyio.wait_all_tasks_blocked()
        peer.send(Publish(0, "t", batch(b"")))
        await anyio.wait_all_tasks_blocked()
        (manager,) = broker.managers.values()
        assert manager.reply_bytes <= 2 * 120
        assert len(peer.stream.incoming) == 1
        assert len(broker.registry) == 0
        peer.read_on()
        assert isinstance(await peer.receive(), Welcome)
        assert [await peer.receive() for _ in range(50)] == [Pong(2 + number, number) for number in range(50)]
        await anyio.wait_all_tasks_blocked()
        assert len(broker.registry) == 1


async def test_the_end_comes_also_while_replies_pile_up():
    """CLO-1."""
    peer = Peer(room=1)
    async with connected(peer, max_replies=100):
        await anyio.wait_all_tasks_blocked()
        peer.send(*[Ping(2)] * 50, Close(3))
        peer.end()
        await anyio.wait_all_tasks_blocked()
        peer.read_on()
        frames = await peer.rest()
        assert len(frames) == 52
        assert frames[-1] == Closed(3)


async def test_publishing_much_to_a_topic_one_subscribes_to_and_does_not_read():
    """LAG-3: in the original both sides waited for each other for ever. 400 batches of 64 KiB; little of it waits."""
    peer = Peer(room=1)
    big = Publish(0, "t", batch(b"p" * 64 * 1024))
    async with connected(peer) as (broker, _):
        peer.send(Subscribe(2, "t", credit=1000, credit_bytes=2**30))
        for _ in range(400):
            peer.send(big)
        await anyio.wait_all_tasks_blocked()
        topic = broker.registry.get_or_create("t", 0)
        assert topic.ring.next_offset == 400
        (subscription,) = topic.readers
        assert subscription.delivered <= 6
        peer.read_on()
        frames = [await peer.receive() for _ in range(402)]
        assert [type(frame) for frame in frames[:2]] == [Welcome, Subscribed]
        assert [frame.base for frame in frames[2:]] == list(range(400))


# -- who takes too long, and who is wrong here -----------------------------------------------------------------


async def looked_at(broker, connections, seconds):
    for _ in range(seconds):
        broker.clock.advance(1)
        for connection in connections:
            connection.look(broker.clock.now_us())
        await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    ("greeting", "first", "code"),
    [
        (False, b"", ErrorCode.HANDSHAKE_TIMEOUT),
        (False, encode(Hello(1))[:-1], ErrorCode.HANDSHAKE_TIMEOUT),
        (True, encode(Ping(2))[:-1], ErrorCode.FRAME_TIMEOUT),
        (False, encode(Hello(1, features=HEARTBEAT)), ErrorCode.IDLE_TIMEOUT),
    ],
)
async def test_a_client_that_takes_too_long_is_told_and_cut_off(greeting, first, code, caplog):
    """TIM-1, TIM-2, TIM-3; the others never notice."""
    caplog.set_level(logging.INFO)
    peer, other = Peer(greeting=greeting), Peer()
    async with connected(peer, other, idle_timeout=20) as (broker, connections):
        if first:
            peer.send_bytes(first)
        await anyio.wait_all_tasks_blocked()
        await looked_at(broker, connections, 30)
        error = (await peer.rest())[-1]
        assert (error.code, error.fatal, error.retryable) == (code, True, True)
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert len(broker.managers) == 1
        assert broker.ends == {code.name: 1}
    assert reasons(caplog)[0].startswith(f"{code.name}: ")


async def test_who_does_not_read_is_not_hurried():
    """LAG-3 is the rule for him: his requests wait, and what is begun of the next one waits with them."""
    peer = Peer(room=1)
    async with connected(peer, max_replies=100) as (broker, connections):
        await anyio.wait_all_tasks_blocked()
        peer.send(*[Ping(2 + number, number) for number in range(50)])
        peer.send_bytes(encode(Ping(99))[:-1])
        await anyio.wait_all_tasks_blocked()
        await looked_at(broker, connections, 60)
        peer.read_on()
        peer.send_bytes(encode(Ping(99))[-1:])
        peer.end()
        assert (await peer.rest())[-1] == Pong(99, 0)


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize(
    ("first", "name", "answer"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP", HTTP_ANSWER),
        (bytes.fromhex("16030100f8010000f40303"), "TLS", b""),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP", HTTP_ANSWER),
        (b"*1\r\n$4\r\nPING\r\n", "Redis", b""),
        (b"*12\r\n$4\r\nPING\r\n", "Redis", b""),
        (b"SSH-2.0-x\r\n", "SSH", b""),
        (bytes.fromhex("101600044d5154540402003c"), "MQTT", b""),
    ],
)
async def test_a_client_of_another_protocol_is_named_in_the_log_and_closed(first, name, answer, step, caplog):
    """Byte by byte, too: what comes is judged as soon as it cannot be ours."""
    caplog.set_level(logging.INFO)
    peer = Peer(greeting=False)
    async with connected(peer) as (broker, _):
        for at in range(0, len(first), step):
            peer.send_bytes(first[at : at + step])
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
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


# -- the short cut ---------------------------------------------------------------------------------------------


async def test_an_idle_connection_answers_without_its_writer():
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        assert isinstance(await peer.receive(), Welcome)
        await anyio.wait_all_tasks_blocked()
        output = connection._output
        for number in range(3):
            peer.send(Ping(2 + number))
            assert await peer.receive() == Pong(2 + number, 0)
        await anyio.wait_all_tasks_blocked()
        assert connection._output is output
        assert not output.is_set()


async def test_nothing_to_say_is_not_sent(monkeypatch):
    peer = Peer()
    async with connected(peer):
        assert isinstance(await peer.receive(), Welcome)
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(peer.stream, "send_nowait", lambda _: pytest.fail("a system call for nothing"))
        peer.send(Publish(0, "t", batch(b"")))
        peer.send_bytes(encode(Ping(3))[:-1])
        await anyio.wait_all_tasks_blocked()


async def test_what_came_together_is_answered_in_one_piece():
    peer = Peer()
    async with connected(peer):
        assert isinstance(await peer.receive(), Welcome)
        await anyio.wait_all_tasks_blocked()
        peer.send(Ping(2), Ping(3))
        await anyio.wait_all_tasks_blocked()
        assert peer.stream.pieces[1:] == [encode(Pong(2, 0)) + encode(Pong(3, 0))]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 8)), max_size=20),
    max_replies=st.sampled_from([10, 100, 2**18]),
)
async def test_however_little_is_taken_at_once_all_is_sent_once_and_in_order(steps, max_replies):
    """Requests come, room is made, and another connection publishes, while others have more turns or fewer."""
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
        assert [frame.id for frame in frames if isinstance(frame, Pong)] == [3 + number for number in range(asked)]
        assert [frame.base for frame in frames if isinstance(frame, Messages)] == list(range(published))
        assert len(broker.managers) == 2


async def test_short_cuts_do_not_overtake_what_is_left_of_one():
    """Also if the writer was not awake in between."""
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        assert isinstance(await peer.receive(), Welcome)
        await anyio.wait_all_tasks_blocked()
        peer.stream.room = 5
        for number in range(2, 5):
            connection._manager.apply(Ping(number), 0)
            connection._send_now()
            peer.stream.room = 2**60
        assert [await peer.receive() for _ in range(3)] == [Pong(number, 0) for number in range(2, 5)]


async def test_what_is_more_than_one_short_cut_takes_is_the_writers():
    """The soft mark is reached, and the socket has taken it all."""
    peer = Peer()
    async with connected(peer, soft_output=1000):
        peer.send(CreateTopic(0, "t", ((1, 1000),)), *[Publish(0, "t", batch(b"p" * 600))] * 9)
        assert isinstance(await peer.receive(), Welcome)
        await anyio.wait_all_tasks_blocked()
        peer.send(Subscribe(2, "t", start=0, credit=1000))
        assert isinstance(await peer.receive(), Subscribed)
        assert [(await peer.receive()).base for _ in range(9)] == list(range(9))


async def test_messages_of_others_come_also_while_replies_pile_up():
    """The reader waits for room; what others publish meanwhile is the writer's to send."""
    peer, other = Peer(room=1), Peer()
    async with connected(peer, other, max_replies=100):
        peer.send(Subscribe(2, "t", credit=1000), *[Ping(3)] * 50)
        await anyio.wait_all_tasks_blocked()
        other.send(Publish(2, "t", batch(b"")))
        assert isinstance(await other.receive(), Welcome)
        assert isinstance(await other.receive(), Published)
        peer.read_on()
        kinds = {type(await peer.receive()) for _ in range(53)}
        assert kinds == {Welcome, Subscribed, Pong, Messages}


async def test_a_short_cut_that_fails_ends_the_connection(monkeypatch, caplog):
    """CLO-3: the requests were read, and the peer was gone before they were answered."""
    caplog.set_level(logging.INFO)
    peer = Peer()

    def broken(*_):
        raise anyio.BrokenResourceError

    async with connected(peer) as (broker, _):
        assert isinstance(await peer.receive(), Welcome)
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(peer.stream, "send_pieces_nowait", broken)
        monkeypatch.setattr(peer.stream, "send_eof", broken)
        peer.send(Subscribe(2, "t"))
        await anyio.wait_all_tasks_blocked()
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)
    assert reasons(caplog) == ["GONE: BrokenResourceError"]


async def test_a_bug_in_the_short_cut_ends_the_connection_and_leaves_nothing(monkeypatch):
    """P5: the server logs it."""
    peer = Peer()
    broker = broker_with()
    connection = Connection(peer.stream, broker, "peer")
    errors = []

    async def run():
        try:
            await connection.run()
        except ExceptionGroup as error:
            errors.append(error)

    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            assert isinstance(await peer.receive(), Welcome)
            await anyio.wait_all_tasks_blocked()
            monkeypatch.setattr(SubscriptionManager, "next_output", lambda *_: 1 / 0)
            peer.send(Ping(2))
    assert errors[0].subgroup(ZeroDivisionError)
    assert peer.stream.is_closed
    assert_nothing_is_left(broker)


async def test_go_away_after_a_partial_short_cut():
    """CLO-2: the rest of the reply comes first."""
    peer = Peer()
    async with connected(peer) as (_, (connection,)):
        await anyio.wait_all_tasks_blocked()
        peer.stream.room = 5
        peer.send(Ping(2))
        await anyio.wait_all_tasks_blocked()
        connection.go_away(2**62)
        peer.read_on()
        assert [type(frame) for frame in await peer.rest()] == [Welcome, Pong, GoAway]
        peer.end()


# -- GoAway ----------------------------------------------------------------------------------------------------


async def test_go_away_is_sent_after_what_was_answered():
    """CLO-2."""
    peer = Peer()
    async with connected(peer) as (broker, (connection,)):
        peer.send(Ping(2))
        await anyio.wait_all_tasks_blocked()
        connection.go_away(2**62)
        frames = await peer.rest()
        assert [type(frame) for frame in frames] == [Welcome, Pong, GoAway]
        peer.end()
        await peer.stream.until(lambda: peer.stream.is_closed)
        await anyio.wait_all_tasks_blocked()
        assert_nothing_is_left(broker)


async def test_a_connection_that_another_one_ends_is_closed_in_order(caplog):
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


async def test_go_away_answers_what_was_read_also_while_replies_pile_up():
    """CLO-2."""
    peer = Peer(room=1)
    async with connected(peer, max_replies=100) as (_, (connection,)):
        await anyio.wait_all_tasks_blocked()
        peer.send(*[Ping(2)] * 50)
        await anyio.wait_all_tasks_blocked()
        connection.go_away(2**62)
        peer.read_on()
        frames = await peer.rest()
        assert [type(frame) for frame in frames] == [Welcome, *[Pong] * 50, GoAway]
        peer.end()
