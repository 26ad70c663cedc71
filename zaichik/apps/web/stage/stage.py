"""One scene on one broker: step by step, forwards and back.

The broker is a real one, on a port of its own, and the actors are its clients. What makes it a
stage is time: the broker's clock moves only from one call to the next, and a step is over only when
nothing more follows from it. So a scene takes as long as the class needs, and is the same each
time.
"""

import json
import zlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from zaichik import Client, connect, running_broker
from zaichik.apps.watch.polling import Answer, Poller, TopicPoll
from zaichik.apps.web.stage.actors import Actor
from zaichik.apps.web.stage.faults import modelled
from zaichik.apps.web.stage.knobs import Values
from zaichik.apps.web.stage.scenes import Scene
from zaichik.apps.web.stage.script import JSON, TOPIC, Call, Script
from zaichik.base.clock import ManualClock, SystemClock
from zaichik.base.counted import counted
from zaichik_protocol import Kind

START_US = (
    946_684_800_000_000  # 2000-01-01, midnight: a time of day is the time since the scene began
)
MOST_STEPS = 2000  # of free play: all readings are kept, so that there is a way back
BOOT = 1  # a broker's own is random, but the same scene played again must be the same run


@asynccontextmanager
async def staged(scene: Scene, values: Values) -> AsyncIterator["Stage"]:
    """Returns a stage with this scene, for the length of the block.

    Its methods may be called from any task.
    """
    script = scene.script(values)
    async with (
        running_broker(clock=ManualClock(START_US)) as server,
        AsyncExitStack() as connections,
    ):
        # Time flies for messages only: nobody is disconnected because it does.
        server.broker.connection_clock = SystemClock()
        teacher = await connections.enter_async_context(
            connect(port=server.port, name="stage", reconnect=0)
        )
        await teacher.create_topic(TOPIC, **script.settings)
        actors: dict[str, Actor] = {}
        for number, name in enumerate(script.actors, start=1):
            client = await connections.enter_async_context(
                connect(port=server.port, name=name, reconnect=0)
            )
            actors[name] = Actor(client, number)
            connections.push_async_callback(actors[name].leave)
        stage = Stage(scene, values, script, teacher, actors)
        await stage.begin()
        yield stage


class Stage:
    """A scene that is being played; `staged` makes one.

    Attributes:
        scene: what is played.
        values: its knobs.
        words: the texts of the scene, with the question.
        position: the step that is shown; at 0, only the topic was created.
    """

    def __init__(
        self,
        scene: Scene,
        values: Values,
        script: Script,
        teacher: Client,
        actors: dict[str, Actor],
    ) -> None:
        self.scene, self.values, self.words = scene, values, script.words
        self.position = 0
        self._calls, self._teacher, self._actors = script.calls(), teacher, actors
        self._next = next(self._calls, None)
        self._done: list[Call] = []
        self._now_s = 0.0
        self._kept: list[bytes] = []  # the readings, packed
        self._turn = anyio.Lock()

    async def begin(self) -> None:
        """Keep the first reading."""
        self._keep(await self._read(), [])

    @property
    def is_over(self) -> bool:
        """Whether nothing comes after the step that is shown."""
        return self.position == len(self._done) and (
            self._next is None or len(self._done) == MOST_STEPS
        )

    async def step(self) -> None:
        """Do the next call, and wait until it has no more consequences.

        Does nothing if the scene is over.

        After `back`, it shows what is kept: played again, it would be the same.
        """
        async with self._turn:
            if self._next and self.position == len(self._done) < MOST_STEPS:
                # Without it, a call could be carried out and not recorded.
                with anyio.CancelScope(shield=True):
                    await self._perform(self._next)
                self._next = next(self._calls, None)
            self.position = min(self.position + 1, len(self._done))

    def back(self) -> None:
        """Show the step before. Does nothing at the first."""
        self.position = max(0, self.position - 1)

    async def run(self, speed: float = 1.0) -> None:
        """Take all steps that are left, `speed` seconds of the scene in a second.

        Free play runs until cancelled.
        """
        while not self.is_over:
            times = [0.0, *(call.at for call in [*self._done, self._next] if call)]
            await anyio.sleep((times[self.position + 1] - times[self.position]) / speed)
            await self.step()

    def reading(self) -> JSON:
        """Returns what the broker said after the step that is shown, and what had happened in it.

        Beside the fields of `zaichik.apps.views.topic_state.TopicState`, it has `events`, each with
        `at_us`, `actor` ("" is the broker) and `text`; `step`; `elapsed_s`, since the scene began;
        and whether it `is_over`, or `is_past`.
        """
        state = {
            "step": self.position,
            "is_over": self.is_over,
            "is_past": self.position < len(self._done),
        }
        return self._unpacked(self.position) | state

    def history(self, most: int = 64) -> list[JSON]:
        """Returns the reading that is shown, and as many before it, the oldest first."""
        return [
            *map(self._unpacked, range(max(0, self.position + 1 - most), self.position)),
            self.reading(),
        ]

    def models(self, most: int = 16) -> list[JSON]:
        """Returns the same as a model of 2020 would show it; nothing if the scene has no model."""
        if (model := self.scene.model) is None:
            return []
        readings, ends = self.history(self.position + 1), range(1, self.position + 2)
        return [modelled(model, self._done[: end - 1], readings[:end]) for end in ends[-most:]]

    def _unpacked(self, position: int) -> JSON:
        return dict(json.loads(zlib.decompress(self._kept[position])))

    # -- one step --------------------------------------------------------------------------------

    async def _perform(self, call: Call) -> None:
        if call.at > self._now_s:
            await self._teacher.advance_clock(call.at - self._now_s)
            self._now_s = call.at
            await self._quiet()
        actor = self._actors[call.actor]
        told = await getattr(actor, call.verb)(**call.arguments)
        await actor.settle()
        self._done.append(call)
        self._keep(await self._read(), [(call.actor, text) for text in told])

    async def _quiet(self) -> None:
        """Wait until the broker has sent each reader all that it may, and all have received it."""
        while any(
            row["waiting_for_code"] == "connection"
            for row in await self._teacher.subscriptions(TOPIC)
        ):
            pass

    async def _read(self) -> JSON:
        await self._quiet()
        reading = await TopicPoll(_AtOnce(self._teacher), TOPIC).reading() or {}
        drops = sum((actor.drops for actor in self._actors.values()), Counter[str]())
        # Nothing is missing, because this broker is not an old one.
        return reading | {"drops": drops, "missing": [], "boot": BOOT, "elapsed_s": self._now_s}

    def _keep(self, reading: JSON, told: list[tuple[str, str]]) -> None:
        """Keep a reading, with what has happened since the one before."""
        before = self._unpacked(-1) if self._kept else reading
        fates = {"expired": "expired", "evicted": "evicted, to make room"}
        gone = {fate: reading["topic"][fate] - before["topic"][fate] for fate in fates}
        expired, evicted = (
            [("", f"{counted(gone[fate], 'message')} {why}")] if gone[fate] else []
            for fate, why in fates.items()
        )
        events = [*expired, *told, *evicted, *_shut(before["readers"], reading["readers"])]
        reading["events"] = [
            {"at_us": reading["now_us"], "actor": actor, "text": text} for actor, text in events
        ]
        self._kept.append(zlib.compress(json.dumps(reading).encode()))


def _shut(before: list[JSON], now: list[JSON]) -> list[tuple[str, str]]:
    """Returns the readers that have just run out of credit."""
    had = {reader["name"] for reader in before if reader["waiting_for_code"] != "commit"}
    shut = [
        reader for reader in now if reader["waiting_for_code"] == "commit" and reader["name"] in had
    ]
    return [
        (reader["client"], f"is out of credit: {counted(reader['in_flight'], 'message')} in flight")
        for reader in shut
    ]


class _AtOnce(Poller):
    """A poller without pauses, because nothing else uses this broker.

    It shows ended readers, too.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.unknown = {Kind.FURTHEST}

    async def ask(
        self, question: Callable[[], Awaitable[Answer]], trips: deque[float] | None = None
    ) -> Answer:
        return await question()
