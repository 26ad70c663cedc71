"""Brokers inside this process, for the tester to test: right ones and wrong ones."""

import os
import re
import subprocess
import sys
import time
import types
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio.abc import SocketAttribute

from zaichik.base.clock import ManualClock, SystemClock
from zaichik.core.settings import BrokerSettings
from zaichik.learn import hose
from zaichik.learn.external import ExternalBroker
from zaichik.learn.runner import run_check
from zaichik.learn.server import free_port
from zaichik.learn.stages import CHECKS, s13_stuck_reader
from zaichik.learn.trial import Pace, Target
from zaichik.server.running import running_broker

# What must come comes at once on a quiet machine, and a wrong broker is not worth waiting for.
QUICK = Pace(scale=0.25, patience=0.3)
# Rather wait than be wrong about a broker that is right.
SURE = Pace(scale=0.25, patience=60.0)
IDLE_S = 3.0
STEP_US = 500  # a request and two others beside it are some of them
BY_HAND = [
    name for name, check in CHECKS.items() if check.function.__module__.endswith(".s16_clock")
]
KILLING = [name for name, check in CHECKS.items() if check.function.__module__.endswith("_killed")]


def module(source, name="a_broker"):
    """The module that a text is."""
    made = types.ModuleType(name)
    sys.modules[name] = made  # dataclasses and the like look their module up
    exec(compile(source, name, "exec"), made.__dict__)  # noqa: S102 (that is what mutants are for)
    return made


def system_us():
    """The real time, in microseconds."""
    return time.time_ns() // 1000


def stepping_us():
    """Returns a clock that goes on by half a millisecond each time it is read, and stands still
    meanwhile.

    A broker with such a clock cannot be late: what is wrong for 20 ms is wrong for some of its
    requests, however long these take.
    """
    return partial(next, count(system_us(), STEP_US))


@asynccontextmanager
async def tiny(source, now_us=system_us):
    """A tiny broker of this text, by this clock.

    If it falls over, the port is closed, as a process's would be.
    """
    made = module(source)

    async def serve(listener):
        with suppress(Exception):
            async with listener:
                await made.serve(listener, now_us, made.Broker())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, listener)
        yield ExternalBroker(Target("127.0.0.1", listener.extra(SocketAttribute.local_port)))
        # A connection that was accepted and not served yet would be left open by a cancellation.
        with anyio.move_on_after(1):
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def shipped(*, clock="system"):
    """The broker of this project; a heartbeat is due so often that checks can wait for it to be
    missed.

    Checks let a reader's messages pile up, and judge no reset of one that has read nothing for
    long. Eight at once on busy cores may need longer than the usual ten seconds before they read,
    or have written a frame byte by byte, so it waits for a minute. In the end it waits a second,
    and not ten, for what a mutant never answers. With a manual clock, it has no disk.
    """
    patient = {"handshake_timeout": 60, "frame_timeout": 60, "write_timeout": 60}
    settings = BrokerSettings(idle_timeout=IDLE_S, drain_timeout=1, **patient)
    with TemporaryDirectory() as folder:
        how = (
            {"data": Path(folder)}
            if clock == "system"
            else {"clock": ManualClock(SystemClock().now_us())}
        )
        async with running_broker(settings=settings, **how) as broker:
            yield ExternalBroker(Target("127.0.0.1", broker.port))


class Killable:
    """A host of brokers of this project that can be killed, and started again.

    Attributes:
        connected: another one, which cannot.
    """

    def __init__(self, forks, mutant=""):
        self.connected = ExternalBroker(Target("127.0.0.1", 1))
        self.ready, self.post_mortem = self.connected.ready, self.connected.post_mortem
        self._forks = forks
        self._mutant = mutant

    @asynccontextmanager
    async def start_restartable(self):
        with TemporaryDirectory() as folder:
            broker = Forked(self._forks, self._mutant, folder)
            await broker.start()
            try:
                yield broker
            finally:
                await broker.kill()


class Forked:
    """A broker in a process of its own."""

    def __init__(self, forks, mutant, folder):
        self.target = Target("127.0.0.1", free_port())
        self._forks = forks
        self._mutant = mutant
        self._folder = folder
        self._pid = ""

    async def kill(self):
        if self._pid:
            assert self._ask(f"kill {self._pid}") == "gone"
            self._pid = ""

    async def start(self):
        self._pid = self._ask(f"start {self.target.port} {self._folder} {self._mutant}")
        with anyio.fail_after(60):
            while True:
                with suppress(OSError):
                    await (await anyio.connect_tcp(self.target.host, self.target.port)).aclose()
                    return
                await anyio.sleep(0.01)

    def _ask(self, line):
        print(line, file=self._forks.stdin, flush=True)
        return self._forks.stdout.readline().strip()


@contextmanager
def killable():
    """Makes hosts, of right brokers or of a mutant, whose checks may kill the broker; see
    `forks.py`.
    """
    program = [sys.executable, str(Path(__file__).with_name("forks.py"))]
    tests = str(Path(__file__).parents[1])  # its mutants are planted by `planting`, which is there
    path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    ) as forks:
        yield partial(Killable, forks)


@asynccontextmanager
async def answering(handler):
    """A server whose every connection is given to a function."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)

    async def handle(stream):
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            async with stream:
                await handler(stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield ExternalBroker(Target("127.0.0.1", listener.extra(SocketAttribute.local_port)))
        tasks.cancel_scope.cancel()


def small_buffers(monkeypatch):
    """Let the kernel keep so little of what nobody reads that S13.4 needs fewer requests."""
    monkeypatch.setattr(hose, "SEGMENT", 536)
    monkeypatch.setattr(hose, "WINDOW", 16_384)
    monkeypatch.setattr(s13_stuck_reader, "MOST_UNREAD", 2 * 2**20)


async def run(host, name, *, seeds=(0, 1, 2), pace=SURE):
    """The result of one check."""
    return await run_check(CHECKS[name], host, seeds, pace)


async def find(host, name, says, *, first_seed=0, patience=QUICK.patience):
    """The result of a check, with one seed after the other, more and more patiently, until one
    finds it and says so.

    A fault may show with some patterns of writing only. On a busy machine a verdict comes late, and
    others come before it; or what a check gives a broker to do within a time is little, and what is
    to come in a time comes after it.
    """
    pace = Pace(QUICK.scale, patience)
    for seed in range(first_seed, first_seed + 6):
        result = await run(host, name, seeds=[seed], pace=pace)
        if result.outcome == "failed" and re.search(
            says, f"{result.failure.summary}. {result.failure.cause}"
        ):
            break
        pace = pace.doubled()
    return result
