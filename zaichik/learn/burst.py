"""A burst of publishes that ends when the broker is killed, and what must be there afterwards.

Publishers don't wait for replies, so at any moment some batches are acknowledged, some are being
written and some are on their way. Any of those without a reply may be there, but only as they were
sent.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure, Missing
from zaichik.learn.layouts import OFFSET
from zaichik.learn.trial import Restartable, Trial
from zaichik.learn.wire import Frame

PUBLISHERS = 2
MOST = 200  # batches per publisher and round
KILLED_AFTER = range(10, 100)  # replies


@dataclass
class Burst:
    """What was sent to a topic in all rounds, and what was known of it before each kill.

    Attributes:
        sent: the batches of each publisher.
        answered: the offsets of acknowledged batches, by publisher and number.
        seen: what a reader was sent, by its offset.
    """

    trial: Trial
    topic: str
    sent: list[list[list[bytes]]] = field(default_factory=lambda: [[] for _ in range(PUBLISHERS)])
    answered: dict[tuple[int, int], int] = field(default_factory=dict)
    seen: dict[int, bytes] = field(default_factory=dict)
    answer: anyio.Event = field(default_factory=anyio.Event)

    async def until_killed(self, server: Restartable, begins: int) -> None:
        """Publish without waiting for replies, read, and kill the server after some replies."""
        clients = [await self.trial.client(server.target) for _ in range(PUBLISHERS + 1)]
        reader = clients.pop()
        await reader.subscribe(self.topic, start=OFFSET, value=begins)
        enough = len(self.answered) + self.trial.rng.choice(KILLED_AFTER)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, reader, begins)
            for number, client in enumerate(clients):
                ids: dict[int, int] = {}
                tasks.start_soon(self._publish, client, number, ids)
                tasks.start_soon(self._hear, client, number, ids)
            while len(self.answered) < enough:
                self.answer = anyio.Event()
                with anyio.move_on_after(self.trial.patience) as waiting:
                    await self.answer.wait()
                if waiting.cancelled_caught:
                    problem = f"no reply to publishes came within {self.trial.patience:g} s"
                    raise Failure(problem, expected="Published", came="nothing")
            await server.kill()

    async def _publish(self, client: Connection, publisher: int, ids: dict[int, int]) -> None:
        with suppress(Failure):  # the connection breaks: it was killed
            for _ in range(MOST):
                number = len(self.sent[publisher])
                batch = [
                    b"%d.%d.%d" % (publisher, number, place)
                    for place in range(self.trial.rng.randrange(1, 4))
                ]
                self.sent[publisher].append(batch)
                following = next(client.ids)
                ids[following] = number
                pairs = [(b"", payload) for payload in batch]
                await client.send("Publish", frame_id=following, topic=self.topic, batch=pairs)
                if not number % 4:
                    await client.flush()
            await client.flush()

    async def _hear(self, client: Connection, publisher: int, ids: dict[int, int]) -> None:
        while frame := await _next(client):
            number = ids.get(frame.id, -1)
            client.must_be(
                frame, "Published", stored=len(self.sent[publisher][number]) if number >= 0 else 0
            )
            self.answered[publisher, number] = frame["first_offset"]
            self.answer.set()

    async def _watch(self, reader: Connection, following: int) -> None:
        while frame := await _next(reader):
            reader.must_be(frame, "Messages", base=following)
            following += len(frame.messages)
            self.seen.update((message.offset, message.payload) for message in frame.messages)

    def check(self, kept: Sequence[bytes]) -> None:
        """Fail unless the topic has only batches that were sent: whole, once, and in order."""
        known = {batch[0]: (publisher, number) for publisher, batches in enumerate(self.sent)
                 for number, batch in enumerate(batches)}  # fmt: skip
        there: dict[tuple[int, int], int] = {}
        last = [-1] * PUBLISHERS
        offset = 0
        while offset < len(kept):
            publisher, number = known.get(kept[offset], (-1, -1))
            if publisher < 0:
                self._wrong(
                    f"offset {offset} is not the start of a batch that was sent", kept, offset
                )
            batch = self.sent[publisher][number]
            if list(kept[offset : offset + len(batch)]) != batch:
                self._wrong(f"the batch at offset {offset} is incomplete", kept, offset)
            if number <= last[publisher]:
                self._wrong(
                    f"the batch at offset {offset} is there twice, or after a later one",
                    kept,
                    offset,
                )
            last[publisher], there[publisher, number] = number, offset
            offset += len(batch)
        for batch_id, first in self.answered.items():
            if there.get(batch_id) != first:
                is_ = f"is at {there[batch_id]}" if batch_id in there else "is missing"
                self._wrong(f"a batch that was acknowledged with offset {first} {is_}", kept, first)
        for offset, payload in self.seen.items():
            if offset >= len(kept) or kept[offset] != payload:
                self._wrong(f"the message delivered with offset {offset} is missing", kept, offset)

    def _wrong(self, problem: str, kept: Sequence[bytes], offset: int) -> None:
        """Fail, and show what is there around an offset."""
        first = max(0, offset - 3)
        around = [
            f"{place:>8}  {payload!r}"
            for place, payload in enumerate(kept[first : offset + 4], first)
        ]
        count = sum(map(len, self.sent))
        around.append(f"(payloads are publisher.batch.index; {count} batches were sent)")
        due = "every acknowledged batch, whole, once and in order, and only batches that were sent"
        raise Failure(
            f"after kill -9, {problem}",
            expected=due,
            came=f"{len(kept)} messages",
            excerpt=tuple(around),
        )


async def _next(client: Connection) -> Frame | None:
    """The next frame, while another task writes; None if none comes in time or at the end."""
    try:
        return await client.read(flush=False)
    except Missing:
        return None
