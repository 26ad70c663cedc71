"""Whether the broker is there: TIM-3, and a broker that stands still."""

import math
import struct
from itertools import pairwise

import anyio
import pytest
import trio
from brokers import fake_client, messages
from trio.testing import MockClock

import zaichik
from zaichik.client import transport as transport_module
from zaichik.client.heartbeat import Action, Heartbeat
from zaichik_protocol import HEARTBEAT, Hello, Ping, Pong, Publish, Published, Welcome, encode

IDLE, SILENCE = 90.0, 30.0


class Peer:
    """A heartbeat, checked as often as it asks to be, and what it is told."""

    def __init__(self, idle=IDLE, silence=SILENCE):
        self.now = 1000.0
        self.sent = self.received = 0
        self.is_waiting = False
        self.heartbeat = Heartbeat(idle, silence, self.now)

    def check(self, seconds=None):
        self.now += self.heartbeat.interval_s if seconds is None else seconds
        return self.heartbeat.check(self.now, self.sent, self.received, is_waiting=self.is_waiting)

    def check_until(self, verdict):
        """Returns the seconds until that verdict; pings are sent, and not answered."""
        began = self.now
        while (found := self.check()) != verdict:
            assert self.now - began < 1000
            self.sent += found == Action.PING
        return self.now - began


# -- the rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", [90.0, 9.0, 1000.0])
def test_a_silent_client_pings_in_time_for_its_promise(idle):
    """TIM-3: something every third of the time."""
    peer = Peer(idle=idle)
    for _ in range(3):
        assert idle / 6 <= peer.check_until(Action.PING) <= idle / 3
        peer.sent += 1


def test_a_client_that_sends_anyway_does_not_ping():
    peer = Peer()
    for _ in range(100):
        peer.sent += 1
        peer.received += 1
        assert peer.check() == Action.NONE


def test_a_stalled_client_pings_at_once():
    peer = Peer()
    peer.check()
    assert peer.check(60) == Action.PING


def test_without_a_promise_there_are_no_pings():
    peer = Peer(idle=0)
    assert {peer.check() for _ in range(100)} == {Action.NONE}


def test_a_silent_broker_that_owes_a_reply_is_lost():
    peer = Peer(idle=0)
    peer.check()
    peer.is_waiting = True
    assert SILENCE <= peer.check_until(Action.LOST) <= 2 * SILENCE


def test_a_broker_that_owes_nothing_may_be_silent():
    peer = Peer(idle=0)
    for _ in range(100):
        assert peer.check() == Action.NONE
    peer.is_waiting = True
    assert peer.check() == Action.NONE, "it has had no time to answer"
    assert peer.check_until(Action.LOST) >= SILENCE - 1


def test_a_broker_that_sends_anything_is_alive():
    peer = Peer(idle=0)
    peer.is_waiting = True
    for _ in range(100):
        peer.received += 1
        assert peer.check(SILENCE / 2) == Action.NONE


@pytest.mark.parametrize("before", range(8))
def test_a_stalled_client_first_reads_its_input(before):
    peer = Peer(idle=0)
    peer.is_waiting = True
    for _ in range(before):
        if peer.check() == Action.LOST:
            return
    if peer.check(3600) == Action.LOST:
        assert before * peer.heartbeat.interval_s >= SILENCE, "it was overdue before"
        return
    peer.received += 1
    assert peer.check() == Action.NONE


def test_silence_may_be_allowed_for_ever():
    assert Peer(idle=0, silence=math.inf).heartbeat.interval_s == math.inf
    assert Peer(idle=90, silence=math.inf).heartbeat.interval_s < 30


# -- the client ----------------------------------------------------------------------------------


def by_a_clock_for_tests(test):
    """Trio's, which jumps when everybody waits; nothing else is due in the meantime."""
    clock = MockClock(autojump_threshold=0.01)
    test = pytest.mark.parametrize("anyio_backend", [("trio", {"clock": clock})], ids=["trio"])(
        test
    )
    return pytest.mark.anyio(pytest.mark.usefixtures("no_other_times")(test))


@pytest.fixture
def no_other_times(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)


def with_heartbeat(frame):
    return Welcome(
        frame.id,
        1,
        frame.features & HEARTBEAT,
        7,
        2**21,
        8192,
        2**20,
        10**6,
        round(IDLE * 1000),
        "fake",
    )


def silent(_frame):
    return None


@pytest.fixture
def no_guard(monkeypatch):
    monkeypatch.setattr("brokers.GUARD", 3600)


@pytest.mark.usefixtures("no_guard")
@by_a_clock_for_tests
async def test_an_idle_client_keeps_its_promise_and_its_connection():
    times = []

    def pong(frame):
        times.append(anyio.current_time())
        return Pong(frame.id, frame.value)

    async with fake_client({Hello: with_heartbeat, Ping: pong}) as (broker, client):
        times.append(anyio.current_time())
        await anyio.sleep(600)
        times.append(anyio.current_time())
        assert all(later - earlier <= IDLE / 3 for earlier, later in pairwise(times))
        assert len(times) < 600 / (IDLE / 6)
        assert len(broker.of(Hello)) == 1
        await client.ping()


@pytest.mark.usefixtures("no_guard")
@by_a_clock_for_tests
async def test_the_connection_to_a_frozen_broker_is_replaced():
    async with fake_client({Publish: silent}, silence_timeout=7) as (broker, client):
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"a")
            await broker.has_received(Hello, 2)
            assert 7 <= anyio.current_time() - began <= 14
            await broker.has_received(Publish, 2)
            await broker.send(Published(broker.of(Publish)[1].id, 0, 1, 0, 0))
        assert broker.of(Publish)[0] == broker.of(Publish)[1]


@pytest.mark.usefixtures("no_guard")
@by_a_clock_for_tests
async def test_a_waiting_reader_notices_a_frozen_broker_by_its_pings():
    async with (
        fake_client({Hello: with_heartbeat, Ping: silent}, silence_timeout=20) as (broker, client),
        client.subscribe("t"),
    ):
        began = anyio.current_time()
        await broker.has_received(Hello, 2)
        assert anyio.current_time() - began <= IDLE / 3 + 2 * 20


@pytest.mark.usefixtures("no_guard")
@by_a_clock_for_tests
async def test_without_reconnecting_waiting_calls_fail():
    async with fake_client({Ping: silent}, reconnect=0) as (_, client):
        with pytest.raises(zaichik.ConnectionLost, match="silent for 30 s"):
            await client.ping()


@pytest.mark.usefixtures("no_guard")
@by_a_clock_for_tests
async def test_a_stalled_client_does_not_blame_the_broker():
    async with fake_client({Ping: silent}) as (broker, client), anyio.create_task_group() as tasks:
        tasks.start_soon(client.ping)
        ping = await broker.has_received(Ping)
        await anyio.sleep(SILENCE / 2)
        trio.lowlevel.current_clock().jump(1000)
        await broker.send(Pong(ping.id, 0))
    assert len(broker.of(Hello)) == 1


@pytest.mark.usefixtures("no_guard")
@by_a_clock_for_tests
@pytest.mark.parametrize("length", [2**20, 2**31])
async def test_replies_that_a_wrong_length_swallows_are_no_sign_of_life(length):
    """A frame that is never complete: each byte of it comes in time."""
    async with (
        fake_client({Ping: silent}, reconnect=0) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(trickle, broker, struct.pack("<I", length))
        with pytest.raises(zaichik.ConnectionLost, match="silent for 30 s"):
            await client.ping()
        tasks.cancel_scope.cancel()


async def trickle(broker, begin):
    """Begin a frame, and send a byte of it every second."""
    await broker.send(begin)
    while True:
        await anyio.sleep(1)
        await broker.send(b"x")


@pytest.mark.usefixtures("no_guard")
@by_a_clock_for_tests
async def test_a_large_frame_may_take_its_time():
    """As long as there is enough of it now and then."""
    payload = bytes(20 * transport_module.SIGN_OF_LIFE)
    async with (
        fake_client({Ping: silent}, reconnect=0) as (broker, client),
        client.subscribe("t") as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.ping)
        ping = await broker.has_received(Ping)
        data = encode(messages(0, payload))
        for at in range(0, len(data), transport_module.SIGN_OF_LIFE):
            await anyio.sleep(SILENCE / 2)
            await broker.send(data[at : at + transport_module.SIGN_OF_LIFE])
        assert (await anext(subscription)).payload == payload
        await broker.send(Pong(ping.id, 0))


@pytest.mark.anyio
async def test_it_is_so_on_every_backend(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    async with fake_client({Ping: silent}, silence_timeout=1) as (broker, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.ping)
            await broker.has_received(Ping, 2)
            await broker.send(Pong(broker.of(Ping)[1].id, 0))
        assert len(broker.of(Hello)) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
async def test_a_silence_must_be_allowed_to_take_some_time(seconds):
    with pytest.raises(ValueError, match="silence_timeout"):
        async with zaichik.connect(port=1, silence_timeout=seconds):
            pass
