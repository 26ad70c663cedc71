"""Publishing a stream from a thread: messages gather in a queue until the event loop drains it.

The loop is woken for the first message, and takes all that have gathered by the time it runs: a message never waits for
others to come. A program that is faster than its broker waits when `GATHERED` messages are queued.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio

from zaichik.blocking.thread import LoopThread
from zaichik.client import client as asynchronous
from zaichik.client.connection import CLOSE_SECONDS
from zaichik.client.messages import Key, Payload, check_size, key_bytes, payload_bytes
from zaichik.client.producer import Producer as AsynchronousProducer
from zaichik_protocol import Welcome

GATHERED = 1000  # messages: waking the thread costs about as much as a hundred of them


class Producer:
    """Gathers messages for a topic and sends them in batches; `Client.producer` makes one."""

    def __init__(self, thread: LoopThread, inner: AsynchronousProducer, limits: Welcome) -> None:
        self._thread = thread
        self._inner = inner
        self._limits = limits
        self._queue: deque[tuple[bytes, bytes]] = deque()  # payload and key of each message
        self._draining = anyio.Lock()
        self._is_due = False  # the thread drains the queue, or will
        self._has_failed = False

    @classmethod
    @asynccontextmanager
    async def of(
        cls, thread: LoopThread, client: asynchronous.Client, topic: str, max_batch: int, max_bytes: int
    ) -> AsyncIterator[Self]:
        """Returns a producer, which is flushed when the block ends, unless it is cancelled."""
        async with client.producer(topic, max_batch=max_batch, max_bytes=max_bytes) as inner:
            producer = cls(thread, inner, client.welcome)
            try:
                yield producer
            except Exception:
                # The block's own exception is raised, and a broker that hangs must not delay it.
                with suppress(Exception), anyio.move_on_after(CLOSE_SECONDS):
                    await producer.drain()
                raise
            await producer.drain()

    @property
    def topic(self) -> str:
        """The topic it publishes to."""
        return self._inner.topic

    @property
    def stored(self) -> int:
        """Messages stored so far."""
        return self._inner.stored

    @property
    def compacted(self) -> int:
        """Messages dropped by compaction so far."""
        return self._inner.compacted

    def send(self, payload: Payload, key: Key = None) -> None:
        """Queue a message; waits only if many are queued already. The broker's answer comes later: see `flush`.

        Raises:
            MessageTooLarge: more bytes than `welcome.max_message`. It is not queued, and others may follow.
            Exception: why an earlier batch could not be stored, in most cases a `ZaichikError`. No batch is sent once
                that is known; of those in flight, some may be stored.
        """
        name = b"" if key is None else key_bytes(key)
        if type(payload) is not bytes:
            payload = payload_bytes(payload)
        size = len(name) + len(payload)
        if size > self._limits.max_message:
            check_size(1, size, self._limits)
        self._queue.append((payload, name))
        if len(self._queue) >= GATHERED or self._has_failed:
            self._thread.call(self.drain)
        elif not self._is_due:
            self._is_due = True
            self._thread.start(self._drain_soon)

    def flush(self) -> None:
        """Wait until everything queued so far is stored.

        Raises:
            Exception: why it could not be, in most cases a `ZaichikError`.
        """
        self._thread.call(self._flush)

    async def _flush(self) -> None:
        await self.drain()
        await self._inner.flush()

    async def drain(self) -> None:
        """Pass on everything that has gathered."""
        queue, inner = self._queue, self._inner
        async with self._draining:
            while queue:
                payload, name = queue[0]
                await inner.send(payload, name or None)
                queue.popleft()  # only now: if waiting was cancelled, the message is still here

    async def _drain_soon(self) -> None:
        try:
            while True:
                await self.drain()
                self._is_due = False
                if not self._queue:
                    return
                self._is_due = True  # a message came just before the line above, when nobody was to be woken
        except Exception:
            # The producer has failed: it raises the same in the next `send` and `flush`.
            self._has_failed = True
