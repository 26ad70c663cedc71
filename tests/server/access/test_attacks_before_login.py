"""What strangers try at a broker that asks who they are: they get in nowhere, learn nothing, and
cost little.
"""

import contextlib

import anyio
import pytest
from attacked import ELSEWHERE, GUARD, attacked_broker
from raw_client import (
    DESCRIBE,
    ERROR,
    FRAME_TOO_LARGE,
    GO_AWAY,
    HELLO,
    PING,
    PUBLISH,
    UNSUPPORTED,
    describe,
    frame,
    hello,
    ping,
    publish,
)

import zaichik
from zaichik.base.clock import SECOND_US, ManualClock
from zaichik.cli.serve_access import tls_in
from zaichik.server.access import backoff
from zaichik.server.access.newcomers import HANDSHAKES, MOST_SILENT_OF_ONE
from zaichik.server.places import Place
from zaichik_protocol import ErrorCode

pytestmark = pytest.mark.anyio

NOW_S = 1_800_000_000
WRONG = "zk_" + "A" * 43
AUTH_FAILED = ErrorCode.AUTH_FAILED


@pytest.fixture
async def broker(tmp_path):
    async with attacked_broker(tmp_path / "access") as running:
        yield running


@contextlib.asynccontextmanager
async def settled(broker, number=0):
    """Wait, at the end of the block, until the broker has so many connections."""
    yield
    with anyio.fail_after(GUARD):
        while len(broker.server.broker.managers) > number:
            await anyio.lowlevel.checkpoint()


def login(secret, **fields):
    return frame(HELLO, 1, hello(auth=1, secret=secret, **fields))


# -- who is let in


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"user": "ana"},
        {"auth": 1, "secret": WRONG},
        {"auth": 1, "user": "ana", "secret": WRONG},
        {"auth": 1, "secret": ""},
        {"auth": 2, "user": "ana", "secret": "correct horse battery"},
        {"auth": 2, "user": "nobody", "secret": "correct horse battery"},
        {"auth": 3, "secret": WRONG},
        {"auth": 255, "user": "ana"},
    ],
    ids=[
        "nobody",
        "a name",
        "unknown",
        "not hers",
        "none",
        "no password",
        "no user",
        "a later kind",
        "no kind",
    ],
)
async def test_who_proves_nothing_gets_the_same_bytes_and_nothing_is_carried_out(broker, fields):
    """ACC-1: whatever came with the Hello."""
    async with broker.encrypted() as client:
        glued = frame(PUBLISH, 2, publish("public", [b"x"])), frame(DESCRIBE, 3, describe())
        await client.send(frame(HELLO, 1, hello(**fields)), *glued)
        refusal = await client.read()
        await client.ends()
    expected = (ERROR, AUTH_FAILED, HELLO, "", AUTH_FAILED.meaning)
    assert (
        refusal.kind,
        refusal.code,
        refusal.request_type,
        refusal.field,
        refusal.message,
    ) == expected
    assert len(broker.server.broker.registry) == 0


async def test_the_login_is_asked_for_on_every_address(tmp_path):
    """Mosquitto's CVE-2018-20145: rules that one of two listening sockets did not have."""
    async with attacked_broker(tmp_path / "access", host="localhost") as broker:
        if len(broker.server._listener._sockets) < 2:
            pytest.skip("localhost has one address here")
        for host in ("127.0.0.1", "::1"):
            with pytest.raises(zaichik.AuthFailed):
                async with zaichik.connect(broker.endpoint(None, host=host), reconnect=0):
                    pass
            async with zaichik.connect(broker.endpoint("boris", host=host), reconnect=0) as client:
                with pytest.raises(zaichik.Forbidden):
                    await client.publish("secret", b"x")


async def test_the_token_of_another_one_says_who_it_is_whatever_the_hello_claims(broker):
    async with broker.encrypted() as client:
        await client.refused_for_good(AUTH_FAILED, login(broker.tokens["boris"], user="ana"))


async def test_a_second_hello_changes_nobody(broker):
    async with broker.raw("boris") as client:
        await client.request(HELLO, hello(auth=1, secret=broker.tokens["ana"]))
        assert client.log[-1].code == UNSUPPORTED
        (manager,) = broker.server.broker.managers.values()
        assert manager.user.name == "boris"


async def test_an_expired_token_ends_at_login_and_a_login_that_expires_ends(tmp_path):
    """ACC-4."""
    clock = ManualClock(NOW_S * SECOND_US)
    async with attacked_broker(tmp_path / "access", clock=clock, expires=NOW_S + 100) as broker:
        async with broker.raw("ana") as client:
            await client.ping()
            clock.advance(100)
            broker.server.sweep()
            assert (await client.read()).kind == GO_AWAY
        async with broker.encrypted() as client:
            await client.refused_for_good(AUTH_FAILED, login(broker.tokens["ana"]))


# -- what it costs


async def test_before_a_login_a_frame_has_4_kib(broker):
    async with broker.encrypted() as client:
        await client.refused_for_good(FRAME_TOO_LARGE, b"\x01\x10\x00\x00" + bytes(4093))
    async with (
        broker.encrypted() as client
    ):  # in one that is as long as may be, nothing is overlooked
        await client.refused_for_good(AUTH_FAILED, login(WRONG, client="x" * 3900))


@pytest.mark.parametrize("reads", [True, False])
async def test_100_000_requests_before_a_login_are_neither_kept_nor_answered(broker, reads):
    """One Error, and the end. Who reads nothing is cut off after a second, and costs no more."""
    requests = frame(PING, 7, ping()) * 100_000
    async with settled(broker), broker.encrypted() as client:

        async def send():
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await client.stream.send(requests)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            if reads:
                with contextlib.suppress(anyio.BrokenResourceError):  # if much was still under way
                    answer = await client.read()
                    assert answer.kind == ERROR
                    await client.ends()
            while broker.server.broker.managers:
                assert broker.server.broker.memory.used <= 300_000
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert broker.server.broker.memory.used == 0
    assert sum(broker.server.broker.ends.values()) == 1


def exhaust(broker, address=ELSEWHERE):
    """Let so many connections of an address fail that it has no allowance left."""
    for _ in range(backoff.FAILURES):
        place = Place(f"{address}:1", lambda: None)
        broker.gate.arrive(place, backoff.FAILURES)
        broker.gate.left(place)
        broker.gate.depart(place)


def come(broker):
    """How many connections the broker has had."""
    return len(broker.server.broker.managers) + sum(broker.server.broker.ends.values())


async def silent(broker, here, number, source=ELSEWHERE):
    """So many connections that say nothing, one after the other, until the block ends."""
    for _ in range(number):
        before = come(broker)
        await here.enter_async_context(broker.plain(source))
        while come(broker) == before:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("has_tls", [False, True])
async def test_beside_any_number_of_silent_connections_of_its_address_a_token_gets_in(
    tmp_path, has_tls
):
    """ACC-6: they cost a few descriptors, and no time."""
    clock = ManualClock(NOW_S * SECOND_US)
    tls = tls_in if has_tls else None
    async with (
        attacked_broker(tmp_path / "access", clock=clock, tls=tls) as broker,
        contextlib.AsyncExitStack() as here,
    ):
        exhaust(broker)
        async with settled(broker, MOST_SILENT_OF_ONE):
            await silent(broker, here, 3 * MOST_SILENT_OF_ONE)
        for _ in range(3):
            async with broker.raw("boris", source=ELSEWHERE) as client:
                await client.ping()
        assert broker.gate.counters["throttled"] >= 2 * MOST_SILENT_OF_ONE
        assert broker.gate.counters["login_ok"] == 3
        async with broker.raw("boris", source="127.0.0.3") as client:
            await client.ping()


@pytest.mark.parametrize("has_tls", [False, True])
async def test_beside_any_number_of_wrong_tokens_of_its_address_a_token_gets_in(tmp_path, has_tls):
    """ACC-6: over TLS, as long as there are handshakes."""
    clock = ManualClock(NOW_S * SECOND_US)
    tls = tls_in if has_tls else None
    number = HANDSHAKES - 1 if has_tls else 2 * HANDSHAKES
    async with attacked_broker(tmp_path / "access", clock=clock, tls=tls) as broker:
        exhaust(broker)
        for _ in range(number):
            async with broker.encrypted() as client:
                await client.refused_for_good(AUTH_FAILED, login(WRONG))
        async with broker.raw("boris", source=ELSEWHERE) as client:
            await client.ping()
        assert broker.gate.counters["login_failed"] == number


async def test_who_is_closed_for_a_newer_one_is_told_a_sentence(tmp_path):
    """The broker closes what it has not answered."""
    clock = ManualClock(NOW_S * SECOND_US)  # as time stands still, so do the handshakes
    async with (
        attacked_broker(tmp_path / "access", clock=clock) as broker,
        contextlib.AsyncExitStack() as here,
    ):
        exhaust(broker, "127.0.0.1")
        for _ in range(HANDSHAKES):
            place = Place("127.0.0.1:1", lambda: None)
            await broker.gate._newcomers.handshake(place)
            broker.gate.depart(place)

        async def others():
            while not come(broker):
                await anyio.lowlevel.checkpoint()
            await silent(broker, here, MOST_SILENT_OF_ONE, "127.0.0.1")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            with pytest.raises(zaichik.ConnectFailed, match="before TLS was agreed on"):
                async with broker.client("ana"):
                    pass
        assert broker.gate.counters["throttled"] == 1


# -- a port for TLS says nothing in plain


async def test_a_full_broker_says_so_in_tls(tmp_path):
    """In plain, clients would take the port for another one, and not come again."""
    settings = zaichik.BrokerSettings(max_connections=2)
    async with (
        attacked_broker(tmp_path / "access", settings=settings) as broker,
        contextlib.AsyncExitStack() as here,
    ):
        for _ in range(3):  # the last one has the operator's place (CLO-5)
            await here.enter_async_context(broker.raw("ana"))
        with pytest.raises(zaichik.TooManyConnections):
            async with broker.client("ana"):
                pass
        assert "127.0.0.1" in broker.gate._newcomers._failures._buckets, (
            "it is a way around the back-off"
        )


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x00"], ids=["nothing", "half a record"])
async def test_a_broker_that_stops_says_nothing_to_who_has_not_agreed_on_tls(broker, sent):
    async with broker.plain() as stream:
        await stream.send(sent)
        while not broker.server.broker.managers:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        broker.server.stop()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()
