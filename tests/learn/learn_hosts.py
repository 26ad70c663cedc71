"""Brokers inside this process, for the tester to test: right ones and wrong ones."""

import re
import sys
import time
import types
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio.abc import SocketAttribute

from zaichik.broker.settings import BrokerSettings
from zaichik.learn import hose
from zaichik.learn.connected import Connected
from zaichik.learn.runner import run_check
from zaichik.learn.stages import CHECKS, s13_stuck_reader
from zaichik.learn.trial import Pace, Target
from zaichik.running import running_broker

# What must come comes at once on a quiet machine, and a wrong broker is not worth waiting for.
QUICK = Pace(scale=0.25, patience=0.3)
# Rather wait than be wrong about a broker that is right.
SURE = Pace(scale=0.25, patience=20.0)
IDLE_S = 3.0


def module(source, name="a_broker"):
    """The module that a text is."""
    made = types.ModuleType(name)
    sys.modules[name] = made  # dataclasses and the like look their module up
    exec(compile(source, name, "exec"), made.__dict__)  # noqa: S102 (that is what mutants are for)
    return made


@asynccontextmanager
async def tiny(source):
    """A tiny broker of this text, by the real clock. If it falls over, the port is closed, as a process's would be."""
    made = module(source)

    async def serve(listener):
        with suppress(Exception):
            async with listener:
                await made.serve(listener, lambda: time.time_ns() // 1000, made.Broker())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve, listener)
        yield Connected(Target("127.0.0.1", listener.extra(SocketAttribute.local_port)))
        # A connection that was accepted and not served yet would be left open by a cancellation.
        with anyio.move_on_after(1):
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def shipped():
    """The broker of this project; a heartbeat is due so often that checks can wait for it to be missed."""
    with TemporaryDirectory() as folder:
        async with running_broker(settings=BrokerSettings(idle_timeout=IDLE_S), data=Path(folder)) as broker:
            yield Connected(Target("127.0.0.1", broker.port))


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
        yield Connected(Target("127.0.0.1", listener.extra(SocketAttribute.local_port)))
        tasks.cancel_scope.cancel()


def small_buffers(monkeypatch):
    """Let the kernel keep so little of what nobody reads that S13.4 needs half of its requests."""
    monkeypatch.setattr(hose, "SEGMENT", 536)
    monkeypatch.setattr(hose, "WINDOW", 16_384)
    monkeypatch.setattr(s13_stuck_reader, "MARKS", 64)


async def run(host, name, *, seeds=(0, 1, 2), pace=QUICK):
    """The result of one check."""
    return await run_check(CHECKS[name], host, seeds, pace)


async def find(host, name, says, *, first_seed=0, patience=QUICK.patience):
    """The result of a check, with one seed after the other, more and more patiently, until one finds it and says so.

    A rare fault takes several seeds; on a busy machine a verdict comes late, and others come before it.
    """
    for number in range(6):
        pace = Pace(QUICK.scale, patience * 2**number)
        result = await run(host, name, seeds=[first_seed + number], pace=pace)
        if result.outcome == "failed" and re.search(says, f"{result.failure.summary}. {result.failure.cause}"):
            break
    return result
