"""A clock that clients move is not the one that they are measured by (TIM-4)."""

from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from conversation import broker_with
from limit_probes import MemoryListener
from peer import Peer, connected_to, settled

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.server import connection
from zaichik.server.server import LAST_ANSWERS_US, Server
from zaichik_protocol import (
    HEARTBEAT,
    AdvanceClock,
    ClockAdvanced,
    ErrorCode,
    Hello,
    Ping,
    Welcome,
    encode,
)

pytestmark = pytest.mark.anyio

HOUR_US = 3_600_000_000


async def checked(broker, connections, seconds):
    """So much time of the machine passes; the connections are checked once a second, as by a
    server.
    """
    for _ in range(seconds):
        broker.connection_clock.advance(1)
        for each in connections:
            each.check_deadlines(broker.connection_clock.now_us())
        await settled()


@asynccontextmanager
async def lesson(*peers):
    """A broker with a clock for each of the two purposes, and the connections of these peers."""
    broker = broker_with(idle_timeout=20, frame_timeout=10)
    broker.connection_clock = ManualClock(5_000)
    async with connected_to(broker, *peers) as connections:
        yield broker, connections


async def test_nobody_is_disconnected_because_the_clock_is_advanced():
    silent, slow, teacher = Peer(greeting=False), Peer(), Peer()
    async with lesson(silent, slow, teacher) as (broker, connections):
        silent.send(Hello(1, features=HEARTBEAT))
        slow.send_bytes(encode(Ping(2))[:-1])
        for number in range(1, 6):
            teacher.send(AdvanceClock(number, broker.clock.now_us() + HOUR_US))
            await settled()
            await checked(broker, connections, 1)
        assert broker.clock.now_us() > 5 * HOUR_US
        assert len(broker.managers) == 3
        assert [type(await silent.receive())] == [Welcome]
        assert [await teacher.receive() for _ in range(6)][1:] == [
            ClockAdvanced(number) for number in range(1, 6)
        ]


@pytest.mark.parametrize(
    ("begun", "code"), [(b"", ErrorCode.IDLE_TIMEOUT), (b"\x0c", ErrorCode.FRAME_TIMEOUT)]
)
async def test_deadlines_pass_while_the_clock_stands_still(begun, code, monkeypatch):
    """TIM-2, TIM-3."""
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.01)
    peer = Peer(greeting=False)
    async with lesson(peer) as (broker, connections):
        peer.send(Hello(1, features=HEARTBEAT))
        if begun:
            peer.send_bytes(begun)
        await settled()
        await checked(broker, connections, 25)
        assert (await peer.rest())[-1].code == code
        assert broker.clock.now_us() == 1_000


async def test_a_server_asks_the_other_clock_about_logins_and_deadlines():
    """ACC-4: or else a login would never expire while a lesson stands still."""
    broker = Broker(clock=ManualClock(1_000))
    broker.connection_clock = ManualClock(5_000)
    server, asked = Server(broker, MemoryListener([])), []

    class Asked:
        counters: ClassVar = {}

        def recheck(self, now_us):
            asked.append(now_us)
            return False

    server.gate = Asked()
    server.sweep()
    assert (asked, server.clock) == ([5_000], broker.connection_clock)


class Hurrying:
    """A tenth of a second passes whenever somebody looks."""

    def __init__(self):
        self._now_us = 0

    def now_us(self):
        self._now_us += 100_000
        return self._now_us


async def test_a_stopping_broker_does_not_wait_for_a_clock_that_stands():
    """CLO-2: it carries out what it has read for a second of the machine's time."""
    peer = Peer()
    async with lesson(peer) as (broker, (stopping,)):
        await settled()
        broker.connection_clock = Hurrying()
        stopping._decoder.receive_data(b"".join(encode(Ping(number)) for number in range(2, 50)))
        stopping.finish_requests(LAST_ANSWERS_US)
        (manager,) = broker.managers.values()
        assert 1 < manager.requests < 12
