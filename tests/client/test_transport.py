"""When a lost connection is made again, and when not."""

import logging
from itertools import count

import anyio
import pytest
from brokers import HANG_UP, fake_broker, fake_client, real_broker
from proxy import cutting_proxy
from trio.testing import MockClock

import zaichik
from zaichik.client import transport as transport_module
from zaichik.client.backoff import backoff
from zaichik.net.tls_engine import TlsFailed
from zaichik_protocol import Close, Error, ErrorCode, GoAway, Hello, Ping, Pong, Welcome

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)


def fatal(code):
    return Error(0, code, 0, "", 0, code.meaning, retryable=code.retryable, fatal=True)


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_waiting_doubles_up_to_a_limit_and_is_random(part):
    waits = backoff(1, 10, lambda: part)
    assert [next(waits) for _ in range(6)] == [
        span * (1 + part) / 2 for span in (1, 2, 4, 8, 10, 10)
    ]


def test_each_wait_draws_its_own_random_number():
    assert len({next(backoff(1, 10)) for _ in range(20)}) > 10


@pytest.mark.parametrize(
    "last",
    [
        [HANG_UP],
        [GoAway(0, 1, "off to bed"), HANG_UP],
        *([fatal(code)] for code in ErrorCode if code.fatal and code.retryable),
    ],
)
async def test_after_a_temporary_error_another_connection_is_opened(last, caplog):
    caplog.set_level(logging.INFO)
    answers = iter([last, None])
    async with fake_client({Ping: lambda f: next(answers) or Pong(f.id, f.value)}) as (
        broker,
        client,
    ):
        await client.ping()
        assert len(broker.of(Hello)) == 2
    lost, found = [record for record in caplog.records if record.name.startswith("zaichik.client")]
    assert (lost.levelno, found.levelno) == (logging.WARNING, logging.INFO)
    assert "was lost" in lost.getMessage()
    assert "reconnected" in found.getMessage()


@pytest.mark.parametrize(
    "last",
    [*(fatal(code) for code in ErrorCode if code.fatal and not code.retryable), b"\x00" * 12],
)
async def test_a_permanent_error_ends_the_connection_for_good(last):
    async with fake_client({Ping: lambda _: last}) as (broker, client):
        with pytest.raises(zaichik.ConnectionLost):
            await client.ping()
        with pytest.raises(zaichik.ConnectionLost):
            await client.publish("t", b"")
        assert len(broker.of(Hello)) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            lambda f: Error(
                f.id, ErrorCode.AUTH_FAILED, Hello.TYPE, "", 0, "not you again", fatal=True
            ),
            "not you again",
        ),
        (lambda f: Pong(f.id, 0), "answered Hello with Pong"),
        (lambda _: b"\x00" * 12, "not zaichik's protocol"),
    ],
)
async def test_a_broker_that_refuses_us_ends_the_connection_for_good(answer, text):
    async with fake_client({Ping: lambda _: HANG_UP}) as (broker, client):
        broker.answers[Hello] = answer
        with pytest.raises(zaichik.ConnectionLost, match=text):
            await client.ping()
        assert len(broker.of(Hello)) == 2


async def test_a_greeting_that_may_be_accepted_later_is_tried_again():
    busy = iter([True] * 5)

    def hello(frame):
        if next(busy, False):
            return [fatal(ErrorCode.TOO_MANY_CONNECTIONS), HANG_UP]
        return Welcome(frame.id, 1, 0, 7, 2**21, 8192, 2**20, 10**6, 0, "fake")

    pings = iter([HANG_UP])
    async with fake_client({Ping: lambda f: next(pings, Pong(f.id, f.value))}) as (broker, client):
        broker.answers[Hello] = hello
        await client.ping()
        assert len(broker.of(Hello)) == 7


async def test_a_greeting_that_is_not_answered_is_tried_again():
    silent = iter([True])
    pings = iter([HANG_UP])
    async with fake_client({Ping: lambda f: next(pings, Pong(f.id, f.value))}) as (broker, client):
        client._connection._transport._timeout = (
            0.2  # not before it is connected: slow is not silent
        )
        welcome = broker.answers[Hello]
        broker.answers[Hello] = lambda frame: None if next(silent, False) else welcome(frame)
        await client.ping()
        assert len(broker.of(Hello)) >= 3


async def test_a_failure_that_no_retry_changes_is_told_without_a_time():
    """Such as another certificate: nobody waited for as long as `reconnect`."""

    async def dial():
        raise TlsFailed("PIN", "another certificate", is_hopeless=True)

    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port) as client,
    ):
        client._connection._dialer.dial = dial
        proxy.cut()
        with pytest.raises(zaichik.ConnectionLost, match="; not replaced: another certificate"):
            await client.ping()


async def test_giving_up_fails_every_call_with_the_reason():
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port, reconnect=0.05) as client,
        client.subscribe("t") as subscription,
    ):
        proxy.target = 1  # nobody listens there
        proxy.cut()
        for call in (client.ping, lambda: client.publish("t", b""), subscription.__anext__):
            with pytest.raises(zaichik.ConnectionLost, match=r"not replaced within 0\.05 s"):
                await call()


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0.05)})], ids=["trio"]
)
async def test_it_gives_up_after_the_time_it_was_given(monkeypatch):
    """By trio's clock for tests, which jumps when everybody waits."""
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.05)
    async with fake_client({Ping: lambda _: HANG_UP}, reconnect=7) as (broker, client):
        broker.answers[Hello] = lambda _: HANG_UP
        began = anyio.current_time()
        with pytest.raises(zaichik.ConnectionLost, match="not replaced within 7 s"):
            await client.ping()
        assert anyio.current_time() - began == pytest.approx(7, abs=0.5)
        assert 5 < len(broker.of(Hello)) < 20, "longer and longer waits"


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0.05)})], ids=["trio"]
)
@pytest.mark.parametrize("losses", [1, 4])
async def test_waiting_gets_longer_until_a_broker_has_answered_and_stayed(monkeypatch, losses):
    """One that greets, and is lost again, each time, is not asked again as fast as can be."""
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.05)
    pings = count(1)
    seconds = []
    async with fake_client(
        {Ping: lambda f: HANG_UP if next(pings) % (losses + 1) else Pong(f.id, f.value)}
    ) as (_, me):
        for _ in range(3):
            began = anyio.current_time()
            await me.ping()
            seconds.append(anyio.current_time() - began)
            await anyio.sleep(1)
    longest = sum(0.05 * 2**loss for loss in range(losses))
    assert all(longest / 2 <= second <= longest + 0.05 for second in seconds), seconds


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0.05)})], ids=["trio"]
)
async def test_the_timeout_is_for_the_greeting_alone():
    async with fake_broker() as broker, zaichik.connect(port=broker.port, timeout=1) as client:
        await anyio.sleep(
            2
        )  # each commit that may be due, ten a second, is a jump of the clock, and takes a moment
        await client.ping()
        assert len(broker.of(Hello)) == 1


async def test_leaving_while_there_is_no_connection_does_not_wait_for_one():
    async with real_broker() as broker, cutting_proxy(broker.port) as proxy:
        async with zaichik.connect(port=proxy.port) as client:
            proxy.target = 1
            proxy.cut()
            while client._connection._transport.is_open:
                await anyio.lowlevel.checkpoint()
        with pytest.raises(zaichik.ConnectionLost, match="this client has closed it"):
            await client.ping()


async def test_a_loss_while_leaving_is_not_followed_by_another_connection():
    async with fake_broker({Close: lambda _: HANG_UP}) as broker:
        async with zaichik.connect(port=broker.port):
            pass
        assert len(broker.of(Hello)) == 1


@pytest.mark.parametrize("seconds", [-1, 300.5, float("nan")])
async def test_reconnecting_is_limited_to_what_a_broker_remembers(seconds):
    """PUB-4."""
    with pytest.raises(ValueError, match="forgotten"):
        async with zaichik.connect(port=1, reconnect=seconds):
            pass
