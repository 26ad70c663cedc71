"""Publishing in batches: while one batch is on its way, the next one gathers.

There is no timer to set. A lone message leaves at once; under load batches grow by themselves until they are
full. One batch at a time is on its way, so that order is kept whatever happens to it.
"""

from typing import TYPE_CHECKING

import anyio

from zaichik.client.errors import BatchTooLarge
from zaichik.client.messages import BatchResult, Key, key_bytes, payload_bytes
from zaichik_protocol import Batch

if TYPE_CHECKING:
    from zaichik.client.client import Client


class Producer:
    """A queue of at most one batch, and the task that sends it; `Client.producer` makes one.

    Attributes:
        topic: where to.
        stored, compacted: messages the broker has kept, and dropped by compaction, so far.
    """

    def __init__(self, client: "Client", topic: str, max_batch: int, max_bytes: int) -> None:
        self.topic = topic
        self.stored = 0
        self.compacted = 0
        self._client = client
        self._max_batch = max_batch
        self._max_bytes = max_bytes
        self._keys: list[bytes] = []
        self._payloads: list[bytes] = []
        self._bytes = 0
        self._queued = 0  # messages, ever
        self._failure: Exception | None = None
        self._work = anyio.Event()
        self._progress = anyio.Event()

    async def send(self, payload: bytes, key: Key = None) -> None:
        """Queue a message; waits only if the queue is full.

        The broker's word on it comes later: see `flush`.

        Raises:
            Exception: why an earlier batch could not be stored, in most cases a `ZaichikError`; nothing more will
                be sent.
        """
        name, payload = key_bytes(key), payload_bytes(payload)
        size = len(name) + len(payload)
        while self._payloads and (len(self._payloads) >= self._max_batch or self._bytes + size > self._max_bytes):
            await self._wait_for_progress()
        if self._failure is not None:
            raise self._failure
        self._keys.append(name)
        self._payloads.append(payload)
        self._bytes += size
        self._queued += 1
        self._work.set()

    async def flush(self) -> None:
        """Wait until everything queued so far is stored.

        Raises:
            Exception: why it could not be, in most cases a `ZaichikError`.
        """
        goal = self._queued
        while self.stored + self.compacted < goal:
            await self._wait_for_progress()

    async def _wait_for_progress(self) -> None:
        if self._failure is not None:
            raise self._failure
        await self._progress.wait()

    def _made_progress(self) -> None:
        """There is room again, or an outcome: whoever waits now is woken, the next wait is for the next time."""
        self._progress.set()
        self._progress = anyio.Event()

    async def run(self) -> None:
        """Send what is queued, for ever, or until it fails."""
        while self._failure is None:
            if not self._payloads:
                self._work = anyio.Event()
                await self._work.wait()
            keys, payloads = self._keys, self._payloads
            self._keys, self._payloads, self._bytes = [], [], 0
            self._made_progress()
            try:
                await self._publish(Batch.of_columns(keys, payloads))
            except Exception as error:  # raised again where somebody waits for the outcome
                self._failure = error
            self._made_progress()

    async def _publish(self, batch: Batch) -> None:
        """Store a batch, in halves if the topic's ring is too small for it."""
        try:
            result: BatchResult = await self._client.publish_batch(self.topic, batch)
        except BatchTooLarge:
            if batch.count == 1:
                raise
            half = batch.count // 2
            self._max_batch = min(self._max_batch, half)
            await self._publish(batch.cut(0, half))
            await self._publish(batch.cut(half, batch.count))
        else:
            self.stored += result.stored
            self.compacted += result.compacted
