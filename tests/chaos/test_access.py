"""A broker that asks who somebody is, under attack: whoever has logged in goes on, and memory stays
bounded.
"""

import signal
import ssl
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest
from attacked import ELSEWHERE, TOKEN, prepared
from pair import healthy_pair
from raw_client import HELLO, PING, frame, hello, ping
from resuming import WRITERS, run_through_cuts
from served import GUARD, MIB, eventually, served

import zaichik
from zaichik.core.settings import BrokerSettings
from zaichik.net.tls_engine import TlsEngine
from zaichik.server.access.backoff import FAILURES
from zaichik.server.access.newcomers import HANDSHAKES

pytestmark = pytest.mark.anyio

PATIENCE = 1800.0  # seconds for the longest run on a busy machine
RULES = "user ana\nallow all *\nallow all $broker\nuser boris\nallow all *\n"
EACH, SLACK = (
    64 * 1024,
    20 * MIB,
)  # bytes of memory: of a handshake that is going on; of whatever else
WRONG = {
    "token": {"auth": TOKEN, "secret": "zk_" + "A" * 43},
    "password": {"auth": 2, "user": "ana", "secret": "a wrong password"},
    "no user's": {"auth": 2, "user": "nobody", "secret": "a wrong password"},
}
HANDSHAKE_SECONDS = BrokerSettings().handshake_timeout
GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


@contextmanager
def with_access(folder, *, has_tls=True, descriptors=None):
    """A `zaichik serve --access` of these files, as long as the block lasts."""
    found = prepared(folder, RULES, has_tls=has_tls)
    with served("--access", str(folder), descriptors=descriptors) as process:
        found.port, found.process = process.port, process
        yield found


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.soak)], ids=["TLS", "plain"])
def asking(request, tmp_path):
    if not Path("/proc/self/fd").exists():
        pytest.skip("what a process holds is read from Linux's /proc")
    with with_access(tmp_path / "access", has_tls=request.param) as found:
        yield found


def threads(process):
    return sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir())


async def access_of(asking):
    """What the broker counts."""
    async with asking.client("ana") as client:
        return (await client.describe())["access"]


async def counted(asking, name):
    """Returns when the broker has counted one of these."""
    with anyio.fail_after(GUARD):
        while not (await access_of(asking)).get(name):
            pass


# -- files ---------------------------------------------------------------------------------------


async def test_without_a_descriptor_the_old_rules_stay_until_there_are_some(asking):
    """ACC-4: a reload opens files, and a broker may have none left. The next signal heals it."""
    process, log = asking.process, lambda: asking.process.log
    await eventually(
        lambda: "reload_ok" in log()
    )  # a broker looks at its users once, a second after it has begun
    async with asking.client("boris") as client:
        await client.publish("orders", b"x")
        (asking.folder / "rules").write_text("user ana\nallow all *\nallow all $broker\n")
        process.limit_descriptors(process.descriptors)
        process.signal(signal.SIGHUP)
        await eventually(lambda: "reload_failed" in log())
        await client.publish("orders", b"x")
        process.limit_descriptors(1024)
        assert "stale_since_us" in await access_of(asking)
        process.signal(signal.SIGHUP)
        await eventually(lambda: log().count("reload_ok") == 2)
        with pytest.raises(zaichik.Forbidden):
            await client.publish("orders", b"x")
    found = await access_of(asking)
    assert (found["reload_failed"], found["reload_ok"]) == (1, 2)
    assert "stale_since_us" not in found


WRECKS = {
    "readable by others": lambda folder: (folder / "users.json").chmod(0o644),
    "a folder in its place": lambda folder: (
        (folder / "rules").unlink(),
        (folder / "rules").mkdir(),
    ),
    "nothing": lambda folder: (folder / "rules").unlink(),
    "half a file": lambda folder: (folder / "users.json").write_bytes(
        (folder / "users.json").read_bytes()[:-20]
    ),
    "half a rule": lambda folder: (folder / "rules").write_text("user boris\nallow all"),
    "another key": lambda folder: (folder / "key.pem").write_bytes(
        (folder.parent / "other" / "key.pem").read_bytes()
    ),
    "no key": lambda folder: (folder / "key.pem").write_bytes(b"nonsense"),
}


@pytest.mark.parametrize("wreck", WRECKS)
async def test_files_that_cannot_be_used_change_nothing_and_open_nothing(tmp_path, wreck):
    """ACC-4: no state of the files means that everybody is in, or that nobody is."""
    prepared(tmp_path / "other")
    with with_access(tmp_path / "access") as asking:
        async with asking.client("boris") as client:
            WRECKS[wreck](asking.folder)
            asking.process.signal(signal.SIGHUP)
            await eventually(lambda: "reload_failed" in asking.process.log)
            await client.publish("orders", b"x")
            async with asking.client("ana") as other:
                await other.publish("orders", b"x")
            with pytest.raises(zaichik.AuthFailed):
                async with zaichik.connect(asking.endpoint(None), reconnect=0):
                    pass


# -- strangers -----------------------------------------------------------------------------------


async def logs_in(asking):
    """Somebody logs in from another address; again, if it took longer than the broker lets a login
    take (TIM-1).
    """
    while True:
        began = anyio.current_time()
        try:
            async with asking.raw("boris", source="127.0.0.3") as other:
                await other.ping()
        except GONE:
            if anyio.current_time() - began < HANDSHAKE_SECONDS:
                raise
        else:
            return


async def wrong_login(asking, fields, done):
    """One, with requests behind it."""
    with suppress(*GONE):
        async with asking.encrypted(ELSEWHERE) as client:
            await client.send(frame(HELLO, 1, hello(**fields)), frame(PING, 2, ping()) * 10)
            await client.rest()
    done.append(1)


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.soak)])
async def test_200_wrong_logins_a_second_beside_a_healthy_pair(asking, kind, seconds):
    """ACC-1: those who are in go on; another address logs in at once; threads and memory stay as
    they are.
    """
    process, done = asking.process, []
    async with healthy_pair(asking.endpoint("ana")) as pair:
        start = time.monotonic()
        for _ in range(FAILURES):
            await wrong_login(asking, WRONG["token"], [])
        memory, before = process.resident, threads(process)
        async with anyio.create_task_group() as tasks:
            began = anyio.current_time()
            for number in range(200 * seconds):
                tasks.start_soon(wrong_login, asking, WRONG[kind], done)
                await anyio.sleep(max(0.0, began + number / 200 - anyio.current_time()))
                if number % 100 == 99:
                    await pair.goes_on(20)
            asked = time.monotonic()
            await logs_in(asking)
            took = time.monotonic() - asked
            assert threads(process) <= before + 1  # which tries passwords
            await counted(asking, "login_failed")
            tasks.cancel_scope.cancel()
        if seconds > 1:
            assert took < 1
            assert process.peak - memory < SLACK
    passed = time.monotonic() - start
    found = await access_of(asking)
    if kind != "token":
        assert found.get("throttled", 0) > 0 or len(done) < 50
    # In plain, a wrong token costs a lookup, and each is refused. Once a second one is within the
    # allowance, and so are those that come before it has failed.
    elif asking.pin:
        together = 20 * passed
        assert found["login_failed"] <= FAILURES + HANDSHAKES * (1 + passed) + together


def client_hello():
    """The first bytes of a handshake."""
    engine = TlsEngine(ssl.create_default_context(), "localhost")
    engine.do_handshake()
    return engine.output()


async def stall(asking, data, here):
    """A handshake that comes byte by byte; again, when the broker has had enough of it."""
    while True:
        with suppress(*GONE):
            async with asking.plain(ELSEWHERE) as stream:
                here.append(1)
                for byte in data:
                    await stream.send(bytes([byte]))
                    await anyio.sleep(1)


@pytest.mark.parametrize("number", [100, pytest.param(1000, marks=pytest.mark.soak)])
async def test_handshakes_that_stall_cost_64_kib_each_and_nobody_else(tmp_path, number):
    """TIM-1: they are ended after five seconds, and after that few begin at once."""
    with with_access(tmp_path / "access", descriptors=4096) as asking:
        process, here = asking.process, []
        async with healthy_pair(asking.endpoint("ana")) as pair:
            memory = process.resident
            async with anyio.create_task_group() as tasks:
                for _ in range(number):
                    tasks.start_soon(stall, asking, client_hello(), here)
                await eventually(lambda: len(here) >= number)
                for _ in range(5 if number == 100 else 60):
                    await pair.goes_on(100)
                assert process.peak - memory < number * EACH + SLACK
                await logs_in(asking)
                tasks.cancel_scope.cancel()
        if number > 100:
            assert (await access_of(asking))["tls_failed"] > 0


@pytest.mark.parametrize("seconds", [1, pytest.param(30, marks=pytest.mark.soak)])
async def test_a_flood_of_handshakes_that_lead_to_nothing(tmp_path, seconds):
    """Each costs the broker most of what a login costs; after a few, an address is turned away
    unread.
    """
    with with_access(tmp_path / "access") as asking:

        async def knock():
            while True:
                with suppress(*GONE):
                    async with asking.encrypted(ELSEWHERE):
                        pass

        async with healthy_pair(asking.endpoint("ana")) as pair, anyio.create_task_group() as tasks:
            memory = asking.process.resident
            for _ in range(50):
                tasks.start_soon(knock)
            until = anyio.current_time() + seconds
            while anyio.current_time() < until:
                await pair.goes_on(20)
            await logs_in(asking)
            await counted(asking, "throttled")
            tasks.cancel_scope.cancel()
            assert asking.process.peak - memory < SLACK


# -- what chaos does to clients with TLS ---------------------------------------------------------


@pytest.mark.parametrize("messages", [10_002, pytest.param(100_002, marks=pytest.mark.soak)])
async def test_over_tls_a_client_that_reconnects_loses_nothing_and_stores_nothing_twice(
    tmp_path, messages
):
    """PUB-4: a cut in the middle of a record or of a handshake is a cut like any other."""

    def where(port):
        return asking.endpoint("ana", port=port)

    with with_access(tmp_path / "access") as asking, anyio.fail_after(PATIENCE):
        outcome = await run_through_cuts(
            asking.port, messages // WRITERS, lasting=True, seed=3, at_most=100_000, where=where
        )
    outcome.ledger.check()
    assert outcome.cuts > messages // 10_000
    assert outcome.ledger.lagged == 0
    assert outcome.ledger.acknowledged == outcome.ledger.came == outcome.stored == messages
