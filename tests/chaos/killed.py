"""A broker with durable topics that is killed again and again while clients write and read, and
what they all know.

The clients are what `zaichik.connect` gives: they come back by themselves. Nobody tells them what
happens.
"""

import random
import sys
from pathlib import Path

import anyio
from durable_broker import DurableBroker
from ledger import Ledger, numbered
from served import GUARD

import zaichik
from zaichik.apps.audit import audit

WRITERS, BATCH, KEYS = 3, 10, 20
WINDOW_SECONDS = 1.0
SMALL = {"log_bytes": 1 << 30, "segment_bytes": 64 * 1024}  # so that there are many files


class Offsets:
    """What is at each offset of a topic, whoever says so: it never changes."""

    def __init__(self) -> None:
        self.known: dict[int, bytes] = {}

    def note(self, offset: int, payload: bytes) -> None:
        """Somebody knows that this is there."""
        assert self.known.setdefault(offset, payload) == payload, (
            f"offset {offset} holds something else by now"
        )


class Killed:
    """The broker, and the clients.

    Args:
        folder: of the durable topics.
        seed: of all that is random.

    Attributes:
        broker: see above.
        ledger: of what is written to the topic "all", and its reader.
        offsets: of both topics.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.broker = DurableBroker(folder)
        self.ledger = Ledger()
        self.offsets = {"all": Offsets(), "keys": Offsets()}
        self.compacted = 0
        self._random = random.Random(seed)
        self._acknowledged = 0
        self._progress = anyio.Event()
        self._is_over = False

    @property
    def port(self) -> int:
        """Where the broker is, each time."""
        return self.broker.port

    async def kill_while_starting(self) -> None:
        """Start it, and end it while it looks at what the last one has left."""
        place = ["--port", str(self.port), "--data", str(self.broker.folder), "--json"]
        process = await anyio.open_process([sys.executable, "-m", "zaichik", "serve", *place])
        async with process:
            with anyio.move_on_after(self._random.uniform(0.1, 0.6)):
                await process.wait()
            process.kill()
        self.broker.kills += 1

    # -- clients ---------------------------------------------------------------------------------

    async def write(self, number: int) -> None:
        """Publish numbered messages until it is over, a few batches at a time."""
        writer, first = f"writer-{number}", 0
        async with (
            zaichik.connect(port=self.port) as client,
            client.producer("all", max_batch=BATCH) as producer,
        ):
            while not self._is_over:
                numbers = range(first, first + 5 * BATCH)
                for it in numbers:
                    await producer.send(numbered(writer, it, size=self._random.randint(0, 500)))
                await producer.flush()
                self.ledger.acknowledge(writer, numbers)
                self._count(len(numbers))
                first = numbers.stop

    async def repeat(self) -> None:
        """Publish the same keys again and again."""
        number = 0
        async with zaichik.connect(port=self.port) as client:
            while not self._is_over:
                batch = [
                    (b"%d" % self._random.randrange(KEYS), b"%d" % (number + index))
                    for index in range(BATCH)
                ]
                result = await client.publish_batch("keys", batch)
                kept = [
                    payload
                    for index, (_, payload) in enumerate(batch)
                    if index not in result.dropped
                ]
                for offset, payload in enumerate(kept, result.first_offset):
                    self.offsets["keys"].note(offset, payload)
                self.compacted += result.compacted
                self._count(BATCH)
                number += BATCH

    def _count(self, messages: int) -> None:
        self._acknowledged += messages
        self._progress.set()

    async def read(self, name: str) -> None:
        """Read all for ever; under a name, messages may come again."""
        async with (
            zaichik.connect(port=self.port) as client,
            client.subscribe("all", name=name, events=True) as subscription,
        ):
            async for item in subscription:
                if not name:
                    self.ledger.take(item)
                    self._progress.set()
                assert isinstance(item, zaichik.Message), f"{item}: nothing was ever removed"
                self.offsets["all"].note(item.offset, item.payload)

    # -- the run ---------------------------------------------------------------------------------

    async def run(self, rounds: int) -> None:
        """Kill it so many times while everybody works, then let them finish."""
        self.broker.start()
        try:
            async with zaichik.connect(port=self.port) as client:
                await client.create_topic("all", durable=True, capacity=100, **SMALL)
                await client.create_topic(
                    "keys", durable=True, compaction_window=WINDOW_SECONDS, **SMALL
                )
            async with anyio.create_task_group() as readers:
                for name in ("", "named"):
                    readers.start_soon(self.read, name)
                async with anyio.create_task_group() as writers:
                    writers.start_soon(self.repeat)
                    for number in range(WRITERS):
                        writers.start_soon(self.write, number)
                    for number in range(rounds):
                        await self._goes_on(self._random.randint(1, 2000))
                        await anyio.to_thread.run_sync(self.broker.kill)
                        if number % 3 == 2:
                            await self.kill_while_starting()
                        await anyio.to_thread.run_sync(self.broker.start)
                    await self._goes_on(200)
                    self._is_over = True
                with anyio.fail_after(GUARD):
                    while self.ledger.missing:
                        await self._step()
                readers.cancel_scope.cancel()
            await self._check()
        finally:
            self.broker.close()

    async def _goes_on(self, messages: int) -> None:
        goal = self._acknowledged + messages
        with anyio.fail_after(GUARD):
            while self._acknowledged < goal:
                await self._step()

    async def _step(self) -> None:
        self._progress = anyio.Event()
        await self._progress.wait()

    async def _check(self) -> None:
        """Read everything once more, from its beginning to its end."""
        self.ledger.check()
        assert self.ledger.lagged == 0
        opened: dict[bytes | None, float] = {}
        async with zaichik.connect(port=self.port) as client:
            assert [
                law
                for law in audit(await client.topics(), await client.subscriptions())
                if law.difference
            ] == []
            for topic, offsets in self.offsets.items():
                (state,) = await client.topics(topic)
                assert max(offsets.known) < state["next_offset"]
                async with client.subscribe(
                    topic, start=0, until=state["next_offset"], events=True
                ) as subscription:
                    count = 0
                    async for item in subscription:
                        offsets.note(item.offset, item.payload)
                        count += 1
                        if topic == "keys":
                            since = item.timestamp - opened.get(item.key, 0.0)
                            assert since >= WINDOW_SECONDS, (
                                f"its window let {item} through after {since} s"
                            )
                            opened[item.key] = item.timestamp
                assert count == state["next_offset"] == len(offsets.known)
