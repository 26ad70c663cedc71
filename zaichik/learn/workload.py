"""Some seconds of publishing, reading and disconnecting, random but repeatable, and their history.

Every payload is unique, so that a history can be checked without knowing the broker. Publishers
send batches, sometimes several without waiting, and sometimes disconnect with replies outstanding.
Readers come and go: they start at different offsets, with different credits, commit late, pause,
reset their connections, and leave half frames behind. At the end all is quiet, and everything that
was kept is read once more from the beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import anyio

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure
from zaichik.learn.history import (
    Delivered,
    Drained,
    Event,
    Lagged,
    Published,
    Subscribed,
    TopicMade,
)
from zaichik.learn.layouts import CAPACITY, EARLIEST, FOREVER, LATEST, OFFSET, TTL, WINDOW
from zaichik.learn.trace import Entry
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

SECONDS = 5.0
PUBLISHERS, READERS = 3, 4
CAPACITIES = {"all": 1_000_000, "ring": 40, "brief": 1_000_000, "keys": 1_000_000}
BRIEF_S = 0.3
KEYS = 40  # few enough that repeats are common
# How often a publisher disconnects; how long a client pauses at most.
BREAK_OFF, PAUSE_S = 0.04, 0.03
SESSION_STEPS = 40


@dataclass(slots=True)
class Workload:
    """One run.

    Args:
        trial: gives it connections and randomness.

    Attributes:
        events: the history.
    """

    trial: Trial
    events: list[Event] = field(default_factory=list)
    # Connection and id of its request.
    _asked: dict[Event, tuple[int, int]] = field(default_factory=dict)
    _came: dict[Event, Frame] = field(default_factory=dict)
    _sessions: int = 0
    _ends: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        """Do everything, and record it."""
        await self._make_topics()
        over = self.trial.elapsed + SECONDS * self.trial.scale
        async with anyio.create_task_group() as tasks:
            for number in range(PUBLISHERS):
                tasks.start_soon(self._publish, f"publisher {number + 1}", self._chance(), over)
            for _ in range(READERS):
                tasks.start_soon(self._read, self._chance(), over)
        await self._read_all()

    def frames(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """The frames of these events, in order."""
        asked = {self._asked[event] for event in events if event in self._asked}
        came = {id(self._came[event]) for event in events if event in self._came}
        return tuple(
            entry
            for entry in self.trial.trace.entries
            if (frame := entry.frame) is not None
            and (
                id(frame) in came or ((entry.connection, frame.id) in asked and not frame.is_event)
            )
        )

    def record(
        self, event: Event, *, asked: tuple[int, int] | None = None, came: Frame | None = None
    ) -> None:
        """Record an event, with connection and id of its request, or with its frame."""
        self.events.append(event)
        if asked is not None:
            self._asked[event] = asked
        if came is not None:
            self._came[event] = came

    def _chance(self) -> Random:
        """A generator per client, so that its choices don't depend on those of others."""
        return Random(self.trial.rng.random())  # noqa: S311 (repeatable; nothing here is secret)

    async def _make_topics(self) -> None:
        client = await self.trial.client()
        brief = round(BRIEF_S * 1000 * self.trial.scale)
        for label, capacity in CAPACITIES.items():
            settings = {TTL: brief if label == "brief" else FOREVER, CAPACITY: capacity}
            if label == "keys":
                settings[WINDOW] = FOREVER
            reply = await client.ask(
                "CreateTopic", topic=self.trial.topic(label), settings=settings
            )
            if reply.name == "Error":  # not every broker allows so large a ring
                settings[CAPACITY] = 10_000
                reply = await client.create(self.trial.topic(label), settings)
            ttl = brief / 1000 if label == "brief" else None
            self.events.append(
                TopicMade(self.trial.elapsed, label, ttl, dict(reply["settings"])[CAPACITY])
            )
        await client.aclose()

    # -- publishers ------------------------------------------------------------------------------

    async def _publish(self, name: str, rng: Random, over: float) -> None:
        number, client = 0, await self.trial.client()
        while self.trial.elapsed < over:
            outstanding = []
            for _ in range(rng.randint(1, 3)):
                label = rng.choice(tuple(CAPACITIES))
                payloads = tuple(
                    f"{name[-1]}.{number + index}".encode() for index in range(rng.randint(1, 6))
                )
                number += len(payloads)
                keys = [b"%d" % rng.randrange(KEYS) if label == "keys" else b"" for _ in payloads]
                batch = list(zip(keys, payloads, strict=True))
                sent = self.trial.elapsed
                request = await client.send("Publish", topic=self.trial.topic(label), batch=batch)
                outstanding.append((request, Published(sent, sent, name, label, payloads, None)))
            await client.flush()
            is_broken = rng.random() < BREAK_OFF
            if is_broken:
                await client.reset()
            for request, asked in outstanding:
                reply = None if is_broken else await client.reply(request)
                self._published(asked, reply, client, request)
            if is_broken:
                client = await self.trial.client()
            await anyio.sleep(rng.random() * PAUSE_S * self.trial.scale)
        await client.aclose()

    def _published(
        self, asked: Published, reply: Frame | None, client: Connection, request: int
    ) -> None:
        event = replace(asked, at=self.trial.elapsed)
        if reply is not None:
            client.must_be(reply, "Published")
            bits = int.from_bytes(reply["dropped"], "little")
            dropped = frozenset(place for place in range(len(asked.payloads)) if bits >> place & 1)
            event = replace(event, first=reply["first_offset"], dropped=dropped)
        self.record(event, asked=(client.number, request))

    # -- readers ---------------------------------------------------------------------------------

    async def _read(self, rng: Random, over: float) -> None:
        """One session after another."""
        while self.trial.elapsed < over:
            client = await self.trial.client()
            label = rng.choice(tuple(CAPACITIES))
            credit = rng.choice((1, 2, 10, 1000))
            start = rng.choice((EARLIEST, LATEST, OFFSET))
            session = await self._subscribe(client, label, start=start, credit=credit)
            for _ in range(rng.randrange(SESSION_STEPS)):
                if self.trial.elapsed > over:
                    break
                await session.step(PAUSE_S * self.trial.scale)
                if rng.random() < 0.2:
                    await anyio.sleep(rng.random() * PAUSE_S * self.trial.scale)
                if rng.random() < 0.7:
                    await session.commit(rng)
            await self._leave(client, session, rng)

    async def _leave(self, client: Connection, session: "Session", rng: Random) -> None:
        """Leave in one of four ways, three of them rude."""
        manner = rng.randrange(4)
        if manner == 0:
            await client.reset()
        elif manner == 1:
            await client.send_bytes(
                wire.encode("Ping", frame_id=0)[: rng.randrange(1, 20)], "half a frame"
            )
        elif manner == 2:
            await client.ok("Unsubscribe", subscription=session.subscription)
            session.take_all()
        await client.aclose()

    async def _subscribe(self, client: Connection, label: str, **how: Any) -> "Session":
        self._sessions += 1
        name = f"reader {self._sessions}"  # before another task gets a turn
        sent = self.trial.elapsed
        reply = await client.ok("Subscribe", topic=self.trial.topic(label), value=0, **how)
        event = Subscribed(self.trial.elapsed, sent, name, label, reply["start"])
        self.record(event, asked=(client.number, reply.id))
        self._ends[label] = max(self._ends.get(label, 0), reply["live"])
        return Session(self, client, name, reply.id, reply["start"], sent)

    async def _read_all(self) -> None:
        """Read each topic once more, from offset 0 to its end, with nothing else going on."""
        client = await self.trial.client()
        for label in CAPACITIES:
            session = await self._subscribe(client, label, start=OFFSET, credit=1000)
            while session.cursor < self._ends[label]:
                if not await session.step(self.trial.patience):
                    break
                await session.commit(None)
            self.events.append(Drained(self.trial.elapsed, session.name, self._ends[label]))
        await client.aclose()


@dataclass(slots=True)
class Session:
    """One subscription, and what is recorded of it.

    Attributes:
        cursor: the next offset expected.
        asked: when Subscribe was sent: nothing came before that.
    """

    workload: Workload
    client: Connection
    name: str
    subscription: int
    cursor: int
    asked: float

    async def step(self, seconds: float) -> bool:
        """Take the next event, if one comes within that time."""
        if not await self.client.has_event(self.subscription, seconds):
            return False
        self._take(await self.client.event(self.subscription))
        return True

    def take_all(self) -> None:
        """Take what came before the reply to an Unsubscribe."""
        for frame in self.client.events:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        now = self.workload.trial.elapsed
        match frame.name:
            case "Messages":
                for message in frame.messages:
                    event = Delivered(now, self.name, message.offset, message.payload, self.asked)
                    self.workload.record(event, came=frame)
                    self.cursor = message.offset + 1
            case "Lagged":
                lagged = Lagged(now, self.name, frame["from_offset"], frame["to_offset"])
                self.workload.record(lagged, came=frame)
                self.cursor = frame["to_offset"]
            case _:
                raise Failure(f"{frame.name} came for a subscription without an until")

    async def commit(self, rng: Random | None) -> None:
        """Settle what has come, or less, and await the reply, so that none is in flight."""
        following = self.cursor if rng is None or rng.random() < 0.8 else max(0, self.cursor - 1)
        await self.client.ok("Commit", subscription=self.subscription, next=following)
