"""How long the first answer may take."""

import anyio
import brokers
import pytest
from brokers import fake_broker
from trio.testing import MockClock

import zaichik
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
    [("", 5, 5), (f"{TOKEN}@", 5, 5), ("ana@", 5, 5), ("ana:password@", 5, 30), ("ana:password@", 40, 40)],
)
async def test_a_password_may_wait_for_its_turn_longer_than_the_timeout(login, timeout, seconds):
    async with fake_broker({Hello: silent}) as broker:
        began = anyio.current_time()
        with pytest.raises(zaichik.ConnectFailed, match="took too long"):
            async with zaichik.connect(f"zaichik://{login}127.0.0.1:{broker.port}", timeout=timeout):
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
