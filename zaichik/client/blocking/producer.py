"""Publishing a stream from a thread: messages gather in a queue until the event loop drains it.

The loop is woken for the first message, and takes all that have gathered by the time it runs: a
message never waits for others to come. A program that is faster than its broker waits when
`GATHERED` messages are queued.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio

from zaichik.client import client as asynchronous
from zaichik.client.blocking.interrupts import held_back
from zaichik.client.blocking.thread import LoopThread
from zaichik.client.connection import CLOSE_SECONDS
from zaichik.client.forking import unwatch, watch
from zaichik.client.messages import AckedBy, Key, Payload, check_size, key_bytes, payload_bytes
from zaichik.client.producer import Producer as AsynchronousProducer
from zaichik_protocol import Welcome

GATHERED = 1000  # messages: waking the thread costs about as much as a hundred of them


class Producer:
    """Gathers messages for a topic and sends them in batches; `Client.producer` makes one."""

    def __init__(self, thread: LoopThread, inner: AsynchronousProducer, limits: Welcome) -> None:
        self._thread = thread
        self._inner = inner
        self._limits = limits
        # Payload and key of each message; without a payload, the key is to be deleted.
        self._queue: deque[tuple[bytes | None, bytes]] = deque()
        self._draining = anyio.Lock()
        self._is_due = False  # the thread drains the queue, or will
        self._has_failed = False

    @classmethod
    @asynccontextmanager
    async def of(
        cls,
        thread: LoopThread,
        client: asynchronous.Client,
        topic: str,
        max_batch: int,
        max_bytes: int,
        acked_by: AckedBy | None,
    ) -> AsyncIterator[Self]:
        """Returns a producer, which is flushed when the block ends, unless it is cancelled."""
        async with client.producer(
            topic, max_batch=max_batch, max_bytes=max_bytes, acked_by=acked_by
        ) as inner:
            producer = cls(thread, inner, client.welcome)
            watch(producer.inherited)
            try:
                yield producer
            except Exception:
                # The block's own exception is raised, and a broker that hangs must not delay it.
                with suppress(Exception), anyio.move_on_after(CLOSE_SECONDS):
                    await producer.drain()
                raise
            finally:
                unwatch(producer.inherited)
            await producer.drain()

    def inherited(self) -> None:
        """See `forking`. The next `send` has to ask the thread, and raises its error."""
        self._has_failed = True

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

    @property
    def settled(self) -> int:
        """Messages of which that is all, and that are replicated if they are to be."""
        return self._inner.settled

    def send(self, payload: Payload | None, key: Key = None) -> None:
        """Queue a message; waits only if many are queued already.

        The broker's answer comes later: see `flush`.

        Args:
            payload: its bytes; None deletes the key from a table (TAB-5).
            key: its key, if it has one.

        Raises:
            MessageTooLarge: more bytes than `welcome.max_message`. It is not queued, and others may
                follow.
            ValueError: a key is to be deleted, and none is named.
            Exception: why an earlier batch could not be stored, in most cases a `ZaichikError`. No
                batch is sent once that is known; of those in flight, some may be stored.
        """
        name = b""
        if key is not None:
            name = key_bytes(key)
        data = payload
        if type(data) is not bytes:
            data = payload_bytes(data, name)
        size = len(name) + len(data)
        if size > self._limits.max_message:
            check_size(1, size, self._limits)
        if payload is None:
            self._queue.append((None, name))
        else:
            self._queue.append((data, name))
        if len(self._queue) >= GATHERED or self._has_failed:
            self._thread.call(self.drain)
        elif not self._is_due:
            with held_back():
                self._begin_to_drain()

    def _begin_to_drain(self) -> None:
        self._is_due = True
        try:
            self._thread.start_soon(self._drain_soon)
        except BaseException:
            # The message is refused, and the next one asks again.
            self._is_due = False
            self._queue.pop()
            raise

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
                # A message came just before that, when the thread was not to be woken.
                self._is_due = True
        except Exception:
            # The producer has failed: it raises the same in the next `send` and `flush`.
            self._has_failed = True
