"""A client that speaks raw frames: requests out, replies and events in, nothing decided.

It shares no code with `zaichik.client`, so a mistake that client and broker have in common would
still be seen.
"""

from collections import deque
from contextlib import asynccontextmanager

import anyio
import trio

from zaichik.net.background import BackgroundTasks
from zaichik_protocol import EVENTS, TABLES, Batch, Close, Hello, Publish, encode

from .connection_ledger import ConnectionLedger
from .encrypted import encrypted
from .network import RECEIVE_BYTES, Weather
from .topic_ledger import SentBatch
from .trace import Anomaly

PATIENCE = 90  # simulated seconds in which a good client must be answered, whatever others do
GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Lost(Exception):
    """The connection is gone; its argument is what the broker said of it."""


class Client:
    """One connection of it.

    Attributes:
        socket: its end of the connection.
        book: the `ConnectionLedger`.
        events: that came and were not looked at.
        gulp, pause: how it reads: so many bytes at once, and so many seconds between.
    """

    def __init__(self, world, book, socket):
        self.world = world
        self.book = book
        self.socket = socket
        self.events = deque()
        self.gulp, self.pause = RECEIVE_BYTES, 0
        self._ids = 0
        self._replies = {}
        self._is_lost = False
        self._news = trio.Event()
        self._sending = trio.Lock()
        self._reads_at = 0.0

    # -- asking ----------------------------------------------------------------------------------

    async def send(self, kind, *fields, expects=(), batch=None, silent=False, **more):
        """Send a request; its number, which is 0 if no answer is wanted."""
        async with self._sending:
            self._ids += 1
            request = kind(0 if silent else self._ids, *fields, **more)
            self.book.ask(request, expects=expects, batch=batch)
            await self.send_bytes(encode(request))
        return request.id

    async def send_together(self, kind, arguments):
        """Send requests of one kind in one piece; their numbers."""
        async with self._sending:
            requests = [
                kind(self._ids + at, *fields) for at, fields in enumerate(arguments, start=1)
            ]
            self._ids += len(requests)
            for request in requests:
                self.book.ask(request)
            await self.send_bytes(b"".join(map(encode, requests)))
        return [request.id for request in requests]

    async def send_bytes(self, data):
        try:
            await self.socket.send(data)
        except GONE:
            raise Lost(self.book.told) from None

    async def ask(self, kind, *fields, **more):
        """Send a request; its reply."""
        return await self.answer(await self.send(kind, *fields, **more))

    async def answer(self, request_id):
        """The reply to a request."""
        with trio.move_on_after(PATIENCE):
            while request_id not in self._replies:
                if self._is_lost:
                    raise Lost(self.book.told)
                await self._news.wait()
            return self._replies.pop(request_id)
        raise Anomaly(
            "P5", f"{self.book.name} waits for the answer to {request_id} for {PATIENCE} s"
        )

    async def hello(self, features=0):
        """Returns the Welcome."""
        return await self.ask(Hello, features=features | TABLES, client=self.book.name)

    async def publish(self, topic, messages, *, batch=None, **more):
        """Send a batch, or one that was sent before; the request's number."""
        data = Batch.of(messages)
        batch = batch or SentBatch(messages, len(data.data), self.book, self._ids)
        return await self.send(Publish, topic, data, batch=batch, **more)

    async def close(self):
        """Leave in order."""
        await self.ask(Close)

    # -- listening -------------------------------------------------------------------------------

    async def listen(self):
        """Hear all that comes, until there is nothing more."""
        try:
            await self._listen()
        except Anomaly as anomaly:
            self.world.fail(anomaly)

    async def _listen(self):
        try:
            while True:
                if self._reads_at > trio.current_time():
                    await trio.sleep_until(self._reads_at)
                for frame in self.book.hear(await self.socket.receive(self.gulp)):
                    if isinstance(frame, EVENTS):
                        self.events.append(frame)
                    else:
                        self._replies[frame.id] = frame
                self._wake()
                if self.pause:
                    await trio.sleep(self.pause)
        except GONE as error:
            self.world.trace.add(
                self.world.time(), self.book.name, "hears no more:", type(error).__name__
            )
            self._is_lost = True
            self._wake()
            if isinstance(error, anyio.EndOfStream):
                self.book.hear_the_end()

    def _wake(self):
        self._news.set()
        self._news = trio.Event()

    def stop_reading(self, seconds):
        """Leave what comes in the socket for so long."""
        self._reads_at = trio.current_time() + seconds

    async def news(self, seconds):
        """Wait until something came, or for so long.

        Raises:
            Lost: nothing more will come.
        """
        if self._is_lost and not self.events:
            raise Lost(self.book.told)
        with trio.move_on_after(seconds):
            while not self.events and not self._is_lost:
                await self._news.wait()

    async def gone(self, seconds):
        """Wait until the connection is gone; whether that took no longer than so many seconds."""
        with trio.move_on_after(seconds):
            while not self._is_lost:
                await self._news.wait()
        return self._is_lost


@asynccontextmanager
async def connected(world, name, random, weather=None, *, is_good=True, is_first=False):
    """A client on a connection of its own, which is closed at the end.

    Raises:
        Lost: the broker takes no more connections, or none yet; `is_first` comes before all others.
    """
    book = ConnectionLedger(world, name, is_good=is_good)
    try:
        socket = world.connect(random, weather or Weather(), book, is_first=is_first)
    except ConnectionRefusedError:
        raise Lost("STOPPED") from None
    if world.is_encrypted:
        try:
            socket = await encrypted(socket)
        except GONE:
            raise Lost(book.told) from None
    client = Client(world, book, socket)
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(client.listen)
        try:
            yield client
        finally:
            with trio.CancelScope(shield=True):
                await socket.aclose()
