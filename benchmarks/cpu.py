"""Where the time goes: processor time per message, in each of the three processes that it passes
through.

    python -m benchmarks.cpu                              # a producer and an `async for`, 100 B
    python -m benchmarks.cpu --size 1024
    python -m benchmarks.cpu --awaited                    # one awaited publish after the other
    python -m benchmarks.cpu --loop uvloop --awaited      # or trio
    python -m benchmarks.cpu --profile subscriber         # with a profile of one process

With as many cores as processes the slowest one sets the rate; with fewer, their sum does.
"""

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

import zaichik

CREDIT = 10_000
WARM_UP = 300  # awaited publishes before the first that is measured

Report = dict[str, Any]


def processor_seconds() -> float:
    """Returns the processor time that this process has used so far, in user and kernel mode."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def told() -> None:
    """Wait for a line on standard input."""
    await anyio.to_thread.run_sync(sys.stdin.readline)


async def broker(options: argparse.Namespace) -> Report:
    """An embedded broker with room for all messages, until it is told to end."""
    topic = zaichik.TopicSettings(
        capacity=options.messages, max_bytes=2**34, retention_ttl_ms=10**9
    )
    async with zaichik.running_broker(settings=zaichik.BrokerSettings(topic=topic)) as server:
        print(server.port, flush=True)
        seconds = processor_seconds()
        await told()
        return {"seconds": processor_seconds() - seconds}


async def publisher(options: argparse.Namespace) -> Report:
    """Publishes all messages as one stream, or each by itself."""
    payload = b"x" * options.size
    async with zaichik.connect(port=options.port) as client:
        if options.awaited:
            for _ in range(WARM_UP):
                await client.publish("warm-up", payload)
        print("ready", flush=True)
        await told()
        begin, seconds = time.monotonic(), processor_seconds()
        if options.awaited:
            for _ in range(options.messages):
                await client.publish("t", payload)
        else:
            async with client.producer("t") as producer:
                for _ in range(options.messages):
                    await producer.send(payload)
        return {"seconds": processor_seconds() - seconds, "wall": time.monotonic() - begin}


async def subscriber(options: argparse.Namespace) -> Report:
    """Counts all messages."""
    count = 0
    async with (
        zaichik.connect(port=options.port) as client,
        client.subscribe("t", until=options.messages, credit=CREDIT) as subscription,
    ):
        print("ready", flush=True)
        begin, seconds = time.monotonic(), processor_seconds()
        async for _ in subscription:
            count += 1
    if count != options.messages:
        raise RuntimeError(f"{count} of {options.messages} messages came")
    return {"seconds": processor_seconds() - seconds, "wall": time.monotonic() - begin}


ROLES: dict[str, Callable[[argparse.Namespace], Awaitable[Report]]] = {
    "broker": broker,
    "publisher": publisher,
    "subscriber": subscriber,
}


def play(options: argparse.Namespace) -> None:
    """Be one of the processes."""
    backend = "trio" if options.loop == "trio" else "asyncio"
    extra = {"use_uvloop": True} if options.loop == "uvloop" else {}
    profile = cProfile.Profile()
    if options.profile == options.role:
        profile.enable()
    report = anyio.run(ROLES[options.role], options, backend=backend, backend_options=extra)
    if options.profile == options.role:
        profile.disable()
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    print(json.dumps(report), flush=True)


def start(arguments: list[str], role: str, port: str = "0") -> subprocess.Popen[str]:
    """One of the processes, with the same options."""
    command = [sys.executable, "-m", "benchmarks.cpu", *arguments, "--role", role, "--port", port]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str], *, after_telling: bool = False) -> str:
    """The next line it prints."""
    assert process.stdin is not None
    assert process.stdout is not None
    if after_telling:
        process.stdin.write("\n")
        process.stdin.flush()
    return process.stdout.readline()


def measure(options: argparse.Namespace, arguments: list[str]) -> None:
    """Run the processes and print what each has used."""
    running = {"broker": start(arguments, "broker")}
    try:
        port = line(running["broker"]).strip()
        if not options.awaited:
            running["subscriber"] = start(arguments, "subscriber", port)
            line(running["subscriber"])
        running["publisher"] = start(arguments, "publisher", port)
        line(running["publisher"])
        reports = {"publisher": json.loads(line(running["publisher"], after_telling=True))}
        if not options.awaited:
            reports["subscriber"] = json.loads(line(running["subscriber"]))
        reports["broker"] = json.loads(line(running["broker"], after_telling=True))
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    wall = max(report.get("wall", 0.0) for report in reports.values())
    print(
        f"{options.messages / wall:,.0f} messages/s, {wall / options.messages * 1e6:.2f} µs each; "
        "processor time:"
    )
    for role, report in reports.items():
        print(f"  {role:10s} {report['seconds'] / options.messages * 1e6:8.2f} µs a message")


def main() -> None:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, help="default 1,000,000; with --awaited 5,000")
    parser.add_argument("--size", type=int, default=100, help="bytes of a payload (default 100)")
    parser.add_argument(
        "--awaited", action="store_true", help="no subscriber; each publish waits for its result"
    )
    parser.add_argument("--loop", choices=["asyncio", "uvloop", "trio"], default="asyncio")
    parser.add_argument(
        "--profile", choices=list(ROLES), help="print where one process spends its time"
    )
    parser.add_argument("--role", choices=list(ROLES), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.messages = options.messages or (5_000 if options.awaited else 1_000_000)
    if options.role:
        play(options)
    else:
        measure(options, sys.argv[1:])


if __name__ == "__main__":
    main()
