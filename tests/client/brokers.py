"""The two brokers the client is tested against: a real one, and one that a test scripts."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
from anyio.abc import SocketAttribute, SocketStream

import zaichik
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import (
    NEED_DATA,
    OWNER,
    SHARED,
    TABLES,
    Batch,
    Close,
    Closed,
    Commit,
    Committed,
    Frame,
    FrameDecoder,
    Hello,
    Messages,
    Ping,
    Pong,
    Publish,
    Published,
    Settle,
    Settled,
    Start,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
    encode,
)

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass
START_US = 1_000_000_000  # where the real broker's clock stands

HANG_UP = object()  # an answer that ends the broker's side of the connection

Answer = Frame | bytes | list | None


@asynccontextmanager
async def real_broker(**settings) -> AsyncIterator[zaichik.Server]:
    """A real one whose clock stands still."""
    clock = zaichik.ManualClock(START_US)
    with anyio.fail_after(GUARD):
        async with zaichik.running_broker(
            clock=clock, settings=zaichik.BrokerSettings(**settings)
        ) as broker:
            yield broker


@asynccontextmanager
async def real_client(**settings) -> AsyncIterator[zaichik.Client]:
    """A client of a real one."""
    async with real_broker(**settings) as broker, zaichik.connect(port=broker.port) as client:
        yield client


def granting(features: int) -> Callable[[Hello], Welcome]:
    """An answer to Hello: of a broker that has these."""
    return lambda frame: Welcome(
        frame.id, 1, frame.features & features, 7, 2**21, 8192, 2**20, 10**6, 0, "fake"
    )


TABLES_GRANTED = {Hello: granting(TABLES)}
SHARED_GRANTED = {Hello: granting(SHARED | OWNER)}


class FakeBroker:
    """Answers as told, writes down what it receives, and sends what no real broker would.

    Attributes:
        port: where it listens.
        received: every frame so far.
        answers: what to answer to a type of frame: a frame, bytes, several of those, `HANG_UP`, or
            None: silence.
    """

    def __init__(self, port: int, answers: dict[type[Frame], Callable[..., Answer]]) -> None:
        self.port = port
        self.received: list[Frame] = []
        self.answers: dict[type[Frame], Callable[..., Answer]] = {
            Hello: lambda frame: Welcome(frame.id, 1, 0, 7, 2**21, 8192, 2**20, 10**6, 0, "fake"),
            Ping: lambda frame: Pong(frame.id, frame.value),
            Publish: lambda frame: Published(frame.id, 0, frame.batch.count, 0, 0),
            Subscribe: subscribed,
            Settle: lambda frame: Settled(frame.id),
            Commit: lambda frame: Committed(frame.id, frame.next) if frame.id else None,
            Unsubscribe: lambda frame: Unsubscribed(frame.id) if frame.id else None,
            Close: lambda frame: Closed(frame.id),
            **answers,
        }
        self._news = anyio.Event()
        self._sending = anyio.Lock()
        self._stream: SocketStream | None = None
        self._hung_up: SocketStream | None = None

    async def send(self, *frames: Frame | bytes) -> None:
        """Send these, in one piece, unless it has hung up."""
        await self._send(self._stream, *frames)

    async def _send(self, stream: SocketStream | None, *frames: Frame | bytes) -> None:
        """Send these to that client, unless it has come back over another connection."""
        async with self._sending:
            if stream is self._stream is not self._hung_up:
                data = (frame if isinstance(frame, bytes) else encode(frame) for frame in frames)
                await stream.send(b"".join(data))

    async def messages(self, base: int, *payloads: bytes, subscription: int = 1) -> None:
        """Deliver a frame of messages; the first subscription has the id 1."""
        await self.send(messages(base, *payloads, subscription=subscription))

    async def hand_out(self, ticket: int, *payloads: bytes, base: int = 0, **said) -> None:
        """Hand out messages of a shared name."""
        await self.send(handed_out(ticket, *payloads, base=base, **said))

    async def hang_up(self) -> None:
        """Send no more; a client that comes back finds it as before."""
        self._hung_up = self._stream
        await self._stream.send_eof()

    def of(self, kind: type[Frame]) -> list:
        """What it has received of one type."""
        return [frame for frame in self.received if isinstance(frame, kind)]

    @property
    def commits(self) -> list[int]:
        """Up to where the client has committed, each time it did."""
        return [frame.next for frame in self.of(Commit)]

    async def has_received(self, kind: type[Frame], count: int = 1) -> Frame:
        """The last of that many frames of a type, when they have come."""
        while len(self.of(kind)) < count:
            self._news = anyio.Event()
            await self._news.wait()
        return self.of(kind)[count - 1]

    async def serve(self, stream: SocketStream) -> None:
        """One client."""
        self._stream = stream
        decoder = FrameDecoder.for_broker()
        async with stream:
            try:
                while True:
                    decoder.receive_data(await stream.receive())
                    while (frame := decoder.next_frame()) is not NEED_DATA:
                        decoder.greeted(2**21)
                        self.received.append(frame)
                        self._news.set()
                        answer = self.answers.get(type(frame), lambda _: None)(frame)
                        for part in answer if isinstance(answer, list) else [answer]:
                            if part is HANG_UP:
                                await self.hang_up()
                            elif part is not None:
                                await self._send(stream, part)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass


def subscribed(frame: Subscribe) -> Subscribed:
    """The answer of a broker whose topics are empty, of the epoch that is asked for."""
    start = 0
    if frame.start == Start.OFFSET:
        start = frame.value
    return Subscribed(frame.id, frame.epoch or 1, start, start, start)


def messages(base: int, *payloads: bytes, subscription: int = 1) -> Messages:
    """A frame of messages without keys."""
    return Messages(
        id=subscription, base=base, accepted_us=START_US, batch=Batch.of((b"", p) for p in payloads)
    )


def handed_out(
    ticket: int,
    *payloads: bytes,
    base: int = 0,
    number: int = 1,
    again: bool = False,
    subscription: int = 1,
) -> Messages:
    """A frame of messages of a shared name."""
    return replace(
        messages(base, *payloads, subscription=subscription),
        ticket=ticket,
        number=number,
        redelivered=again,
        tickets=True,
    )


@asynccontextmanager
async def fake_broker(
    answers: dict[type[Frame], Callable[..., Answer]] | None = None,
) -> AsyncIterator[FakeBroker]:
    """A fake one, ready for a client."""
    with anyio.fail_after(GUARD):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            BackgroundTasks() as tasks,
        ):
            broker = FakeBroker(listener.extra(SocketAttribute.local_port), answers or {})
            tasks.group.start_soon(listener.serve, broker.serve)
            yield broker


@asynccontextmanager
async def fake_client(answers: dict[type[Frame], Callable[..., Answer]] | None = None, **options):
    """A fake broker and a client of it."""
    async with (
        fake_broker(answers) as broker,
        zaichik.connect(port=broker.port, **options) as client,
    ):
        yield broker, client
