"""The interface of a broker and its client, kept small so that each can be used in its own best
way.

A `Peer` knows how its server is started, a `Link` is one connection to it. The methods are as
coarse as possible (a whole stream of messages, not one), so that no layer of ours lies between a
client and its idioms.

The clients are imported by name, when a link is made: none of them needs to be installed, not even
to check types.
"""

import asyncio
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.obtain import Unobtainable

CHUNK = (
    1000  # messages of one pipeline, or between two flushes: the size at which all of them are fast
)
BYTES = 256 * 1024 * 1024  # of payloads delivered in a run at most


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement of one peer, as its processes get it.

    Attributes:
        role: what a process does; a function of `benchmarks.roles`.
        peer: the name of the peer's file.
        port: of the peer's server.
        topic: a new name for each measurement, because some servers live through several.
        size: bytes of a payload.
        messages: how many are published in all.
        expected: how many of them each subscriber is given, if not all; 0: all.
        subscribers: the number of them in one process.
        publishers: the number of them in all; 0: everything was published before.
        processes: the number of processes that share the publishers.
        tasks: how many publish at a time.
        prefetch: how many messages each worker of a queue may have at a time.
        rate: messages a second, in an open loop.
        seconds: how long a measurement by time lasts.
        keys: how many zipf-distributed keys the messages have; 0: they have none.
        keep_first: whether the topic keeps only the first message of a key.
        deadline: seconds after which what has not arrived is counted as lost.
        axis: what grows, of `benchmarks.growth`, is stored, of `benchmarks.memory`, or starts, of
            `benchmarks.startup`.
        points: how far it grows.
        servers: port and process id of one server a point.
        rounds: how often the points take turns in one run, or how often a program is run.
    """

    role: str
    peer: str
    port: int
    topic: str
    size: int = 100
    messages: int = 0
    expected: int = 0
    subscribers: int = 1
    publishers: int = 1
    processes: int = 1
    tasks: int = 1
    prefetch: int = 100
    rate: int = 0
    seconds: float = 0.0
    keys: int = 0
    keep_first: bool = False
    deadline: float = 60.0
    axis: str = ""
    points: Sequence[int] = ()
    servers: Sequence[tuple[int, int]] = ()
    rounds: int = 1


class Receipt:
    """Counts what one subscriber is given: every peer's loop calls `take` once for each message.

    Attributes:
        count: messages taken so far.
        expected: how many there must be in the end.
        done: set when they are.
    """

    def __init__(self, expected: int) -> None:
        self.count = 0
        self.expected = expected
        self.done = asyncio.Event()

    def take(self, payload: bytes) -> None:
        """Count a message."""
        del payload
        self.count += 1
        if self.count == self.expected:
            self.done.set()


class Link(ABC):
    """One connection to a server; used by one task, except for `publish`."""

    @abstractmethod
    async def subscribe(self, receipt: Receipt) -> None:
        """Returns when everything published from now on will be delivered."""

    async def receive(self, receipt: Receipt) -> None:
        """Give each message to the receipt, until it is done.

        Clients that call back have nothing to do here.
        """
        await receipt.done.wait()

    @abstractmethod
    async def stream(self, payload: bytes, messages: int) -> None:
        """Publish many messages as fast as this client can, in the way that its documentation
        recommends.
        """

    async def send(self, payloads: Sequence[bytes]) -> None:
        """Publish these few now, for they are due; does not wait for the server."""
        raise NotImplementedError

    async def publish(self, payload: bytes) -> None:
        """Publish one message and wait until the server has acknowledged it.

        Many tasks call this at once.
        """
        raise NotImplementedError

    async def work(self, receipt: Receipt) -> None:
        """Be one worker of a queue, until cancelled: take messages, each for this worker alone,
        give them to the receipt, and settle each by a call of its own.
        """
        raise NotImplementedError


class Peer(ABC):
    """A broker: how it is found, started and reached.

    Attributes:
        label: its name in tables.
        keeps: how durable a message is on its server, as configured here, in a few words.
        batching: the batch sizes and linger times of its client, in words.
        program: the server's program, for those who must install it; "" if it comes with Python.
        modules: what must be importable.
        tells_version: the argument with which the program prints its version.
        share: of the messages of a scenario, so that a run of each peer lasts about as long; rates
            stay comparable.
        lasting: whether one server serves all measurements, because starting it takes seconds. It
            is paused (SIGSTOP) while others have their turn.
        warms_up: whether each cell begins with an uncounted run, for a server with a just-in-time
            compiler.
        own_role: the role of `benchmarks.roles` that measures it, if it has no link; "" if it has
            one.
        has_server: whether there is one at all.
        is_limit: whether it is not a broker, but a limit to measure brokers by.
        scenarios: those it can take part in.
    """

    label: str
    keeps: str
    batching: str
    program = ""
    modules: tuple[str, ...] = ()
    tells_version = "--version"
    share = 0.2
    lasting = False
    warms_up = False
    own_role = ""
    has_server = True
    is_limit = False
    scenarios: frozenset[str] = frozenset(
        {"throughput", "acknowledged", "roundtrip", "fanout", "fanin"}
    )

    def missing(self) -> str:
        """What must be installed before this peer can be measured; "" if nothing is missing."""
        lacks = (
            [f"the program {self.program}"] if self.program and not executable(self.program) else []
        )
        lacks += [
            f"the Python package {name}"
            for name in self.modules
            if importlib.util.find_spec(name) is None
        ]
        return " and ".join(lacks)

    def fetch(self) -> None:  # noqa: B027 - most peers have nothing to fetch
        """Fetches or compiles what is missing.

        Raises:
            Unobtainable: that failed.
        """

    def obtain(self) -> str:
        """Fetches or compiles what is missing; returns "", or the reason why that failed."""
        try:
            self.fetch()
        except Unobtainable as error:
            return str(error)
        return ""

    def server_version(self) -> str:
        """Returns name and version of the server's program; "" if it comes with Python."""
        if not (path := executable(self.program) if self.program else None):
            return ""
        printed = subprocess.run(
            [path, self.tells_version], capture_output=True, text=True, check=False
        ).stdout
        found = re.search(r"\d+(\.\d+)+", printed)
        return f"{self.program} {found[0] if found else 'of unknown version'}"

    def versions(self) -> str:
        """Returns names and versions of the server's program and the client's packages."""
        packages = importlib.metadata.packages_distributions()
        found = (packages.get(module.partition(".")[0], []) for module in self.modules)
        names = dict.fromkeys(names[0] for names in found if names)
        clients = [f"{name} {importlib.metadata.version(name)}" for name in names]
        return ", ".join(filter(None, [self.server_version(), *clients]))

    def messages(self, job: Job) -> int:
        """How many of a job's messages this peer is given; none of them so many that a run has no
        end.
        """
        return max(1, min(int(job.messages * self.share), BYTES // job.size // job.subscribers))

    def environment(self, directory: Path, port: int) -> dict[str, str]:
        """Variables the server needs beside those that are there."""
        del directory, port
        return {}

    def client_environment(self) -> dict[str, str]:
        """Returns variables that its clients need beside those that are there."""
        return {}

    @abstractmethod
    def commands(self, directory: Path, port: int) -> list[list[str]]:
        """The processes to start, with the server, which listens at the port, as the last one.

        Args:
            directory: private and empty; a configuration may be written into it.
            port: of the loopback interface.
        """

    @abstractmethod
    def link(self, job: Job) -> AbstractAsyncContextManager[Link]:
        """A connection as long as the block lasts."""

    def caller(self, job: Job) -> AbstractContextManager[Callable[[bytes], object]]:
        """The client for programs without an event loop, as long as the block lasts.

        What it returns publishes one message, and returns when the server has acknowledged it.
        Several threads may call it at once.
        """
        raise NotImplementedError

    def script(self, job: Job) -> str:
        """Returns a program that connects, publishes one acknowledged message, and ends.

        It is as short as the client's documentation has it.
        """
        raise NotImplementedError


def executable(program: str) -> str | None:
    """Where a program is; Debian keeps servers in directories that are not on everybody's path."""
    return shutil.which(
        program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    )
