"""How long the first answer may take."""

import anyio
import brokers
import pytest
from brokers import fake_broker
from trio.testing import MockClock

import zaichik
from zaichik.client.dialer import Dialer
from zaichik.client.endpoint import endpoint
from zaichik.client.opening import open_further_connection
from zaichik_protocol import Hello, Welcome

TOKEN = "zk_" + "a" * 43

by_a_clock_for_tests = pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0.05)})], ids=["trio"]
)
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_guard(monkeypatch):
    monkeypatch.setattr(brokers, "GUARD", float("inf"))


def silent(_):
    return None


@by_a_clock_for_tests
@pytest.mark.parametrize(
    ("login", "timeout", "seconds"),
    [
        ("", 5, 5),
        (f"{TOKEN}@", 5, 5),
        ("ana@", 5, 5),
        ("ana:password@", 5, 30),
        ("ana:password@", 40, 40),
    ],
)
async def test_a_password_may_wait_for_its_turn_longer_than_the_timeout(login, timeout, seconds):
    async with fake_broker({Hello: silent}) as broker:
        began = anyio.current_time()
        with pytest.raises(zaichik.ConnectFailed, match="took too long"):
            async with zaichik.connect(
                f"zaichik://{login}127.0.0.1:{broker.port}", timeout=timeout
            ):
                pass
        assert anyio.current_time() - began == pytest.approx(seconds, abs=0.5)


@by_a_clock_for_tests
async def test_an_answer_that_takes_twenty_seconds_is_one():
    async with fake_broker({Hello: silent}) as broker, anyio.create_task_group() as tasks:

        async def answer():
            hello = await broker.has_received(Hello)
            await anyio.sleep(20)
            await broker.send(Welcome(hello.id, 1, 0, 7, 2**21, 8192, 2**20, 10**6, 0, "slow"))

        tasks.start_soon(answer)
        async with zaichik.connect(f"zaichik://ana:password@127.0.0.1:{broker.port}") as client:
            assert client.welcome.broker == "slow"


async def test_a_further_connection_of_a_full_broker_is_not_that_of_an_operator():
    """CLO-5: the one beyond its limit is welcomed, and served nothing but what operators need."""
    settings = zaichik.BrokerSettings(max_connections=1)
    async with zaichik.running_broker(settings=settings) as broker:
        dialer = Dialer(endpoint(f"127.0.0.1:{broker.port}"))
        async with open_further_connection(dialer, "", 5.0, 60.0, 30.0) as first:
            assert first.reconnects
            with pytest.raises(zaichik.TooManyConnections):
                async with open_further_connection(dialer, "", 5.0, 60.0, 30.0):
                    pass
