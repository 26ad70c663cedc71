"""One run of one check: a seed, a pace, a trace, and the connections it opened."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import Any, Protocol

import anyio

from zaichik.learn import causes
from zaichik.learn.connection import Connection, Settings
from zaichik.learn.failure import Failure, Inconclusive
from zaichik.learn.patterns import Pattern
from zaichik.learn.trace import Trace

PATTERNS = tuple(Pattern)
FIRST_STAGE_WITH_PATTERNS = 2  # before it, a broker need not know that TCP has no messages
QUIET_S = 0.08  # how long silence must last to count; any wrong event is long due by then
PATIENCE_S = 3.0  # how long something that must come may take


Task = Callable[..., Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where the broker under test listens."""

    host: str
    port: int


class Instance(Protocol):
    """A separate server for a trial."""

    target: Target

    async def terminate(self) -> str:
        """Ask it to stop (SIGTERM). Returns what went wrong, or ""."""


class Restartable(Protocol):
    """A separate server for a trial, which keeps durable topics in its own folder."""

    target: Target

    async def kill(self) -> None:
        """Kill it (SIGKILL), and wait until it is gone."""

    async def start(self) -> None:
        """Start it again, at the same port and with the same folder.

        Raises:
            Failure: it does not come back.
        """


class Starter(Protocol):
    """Something that can start servers for checks that need a separate one."""

    def start_fresh(self) -> AbstractAsyncContextManager[Instance]:
        """A server that is stopped with the block.

        Raises:
            Skipped: servers cannot be started here.
        """

    def start_restartable(self) -> AbstractAsyncContextManager[Restartable]:
        """A server with its own folder, to be killed and restarted; it is stopped with the block.

        Raises:
            Skipped: servers cannot be started here, or cannot be given a folder.
        """


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take.

    Attributes:
        scale: factor for all periods that a check waits on purpose.
        patience: seconds to wait for something that must come.
    """

    scale: float = 1.0
    patience: float = PATIENCE_S

    def doubled(self) -> "Pace":
        """The pace for a retry on a machine that was too busy for this one."""
        return Pace(self.scale * 2, self.patience * 2)


class Trial:
    """What a check gets.

    Args:
        target: the broker.
        host: starts separate servers.
        name: prefix of the trial's topic names; no two trials at one broker have the same.
        stage: its number.
        seed: decides the pattern, payloads, and every other choice.
        pace: how long things take.

    Attributes:
        rng: the only source of randomness.
        trace: the record.
    """

    def __init__(
        self, target: Target, host: Starter, *, name: str, stage: int, seed: int, pace: Pace
    ) -> None:
        self.target = target
        self.host = host
        self.seed = seed
        self.scale = pace.scale
        self.patience = pace.patience
        self.quiet = QUIET_S * pace.scale
        self.rng = Random(seed)  # noqa: S311 (repeatable randomness, not secrets)
        self.pattern = (
            PATTERNS[seed % len(PATTERNS)] if stage >= FIRST_STAGE_WITH_PATTERNS else Pattern.WHOLE
        )
        self.trace = Trace()
        self._name = name
        self._connections: list[Connection] = []
        self._numbers = itertools.count(1)
        self._began = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the trial began."""
        return time.monotonic() - self._began

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Trial"]:
        """Close all connections in the end, however it ends."""
        try:
            yield self
        finally:
            with anyio.CancelScope(shield=True):
                for connection in self._connections:
                    await connection.aclose()

    async def dial(self, target: Target | None = None) -> Connection:
        """A connection, without a Hello."""
        where = target or self.target
        number = next(self._numbers)  # before another task gets a turn
        try:
            with anyio.fail_after(self.patience):
                stream = await anyio.connect_tcp(where.host, where.port)
        except TimeoutError:
            raise Failure(f"no connection could be made within {self.patience:g} s") from None
        except OSError:
            raise Failure("no connection could be made", cause=causes.REFUSED) from None
        connection = Connection(stream, self, number)
        self._connections.append(connection)
        self.trace.happened(self.elapsed, number, "connected")
        return connection

    async def client(self, target: Target | None = None, **fields: Any) -> Connection:
        """A connection that has said Hello."""
        connection = await self.dial(target)
        await connection.hello(**fields)
        return connection

    async def make_topic(self, settings: Settings, label: str = "t") -> tuple[Connection, str]:
        """A client, and a topic that it has created with these settings."""
        client, topic = await self.client(), self.topic(label)
        await client.create(topic, settings)
        return client, topic

    async def make_reader(
        self, settings: Settings | None = None, **how: Any
    ) -> tuple[Connection, Connection, int]:
        """A reader, a writer, and a subscription to the topic, created with settings if given."""
        reader, writer = await self.client(), await self.client()
        if settings is not None:
            await writer.create(self.topic(), settings)
        return reader, writer, await reader.subscribe(self.topic(), **how)

    async def at_once(self, function: Task, many: Iterable[tuple[Any, ...]]) -> None:
        """Call a function with each of these arguments, concurrently."""
        async with anyio.create_task_group() as tasks:
            for arguments in many:
                tasks.start_soon(function, *arguments)

    async def reset_all(self, note: str) -> None:
        """Reset all connections that are left, so that none of them occupies the server's port."""
        for connection in self._connections:
            with suppress(OSError, anyio.ClosedResourceError):  # it was already broken
                await connection.reset(note)
        self._connections.clear()

    def topic(self, label: str = "t") -> str:
        """The name of a topic that no other trial uses."""
        return f"{self._name}-{label}"

    def payload(self, size: int | None = None) -> bytes:
        """A few random letters, which people can tell apart; with a size, random bytes."""
        if size is not None:
            return self.rng.randbytes(size)
        return "".join(self.rng.choices(ascii_lowercase, k=self.rng.randrange(1, 20))).encode()

    def message(self, key: bytes = b"") -> tuple[bytes, bytes]:
        """A message with a random payload."""
        return key, self.payload()

    def since(self, moment: float) -> float:
        """Unscaled seconds since `elapsed` had this value."""
        return (self.elapsed - moment) / self.scale

    async def wait(self, moment: float, seconds: float) -> None:
        """Wait until this many (scaled) seconds have passed since `elapsed` had this value."""
        await anyio.sleep(max(0.0, (seconds - self.since(moment)) * self.scale))

    def in_time(self, moment: float, seconds: float) -> None:
        """Raise Inconclusive if more than this many (scaled) seconds have passed since then."""
        if self.since(moment) > seconds:
            raise Inconclusive(
                f"{self.since(moment):.2f} s passed where {seconds:g} s were allowed"
            )
