"""A client as the original's are: it sends frames, and gets one message at a time.

And the gateway to talk to.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from brokers import GUARD, START_US

import zaichik
from zaichik.apps.legacy.frames import Command, Commit, FrameReader, Publish, Subscribe, encode
from zaichik.apps.legacy.gateway import Gateway
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream

TOKEN = f"zk_{'a' * 43}"


class Original:
    """One connection to a gateway."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._frames = FrameReader(2**31)

    async def send(self, *items: Command | bytes) -> None:
        """Send these, in one piece."""
        await self._stream.send(
            b"".join(item if isinstance(item, bytes) else encode(item) for item in items)
        )

    async def send_eof(self) -> None:
        """Send no more."""
        await self._stream.send_eof()

    async def receive(self, size: int) -> bytes:
        """So many bytes."""
        data = b""
        while len(data) < size:
            data += await self._stream.receive(size - len(data))
        return data

    async def read(self) -> Publish:
        """The next message."""
        while (frame := self._frames.next_frame()) is None:
            self._frames.receive_data(await self._stream.receive())
        return frame

    async def read_payloads(self, count: int) -> list[bytes]:
        """Of so many messages; each is committed."""
        payloads = []
        for _ in range(count):
            payloads.append((await self.read()).payload)
            await self.send(Commit())
        return payloads

    async def ended(self) -> bool:
        """True, when the gateway has closed the connection in an orderly way."""
        try:
            await self._stream.receive()
        except anyio.EndOfStream:
            return True
        return False

    def has_nothing(self) -> bool:
        """Whether nothing has come that was not read."""
        with suppress(anyio.EndOfStream):
            self._frames.receive_data(self._stream.receive_nowait())
        return self._frames.is_between_frames


class Running:
    """A gateway, its broker, whose clock stands still, and the client between them.

    Attributes:
        broker, client, port: see above; the gateway's port.
    """

    def __init__(self, broker: zaichik.Server, client: zaichik.Client, port: int) -> None:
        self.broker, self.client, self.port = broker, client, port
        self._settled = 0

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Original]:
        """One of the original's clients."""
        async with await SocketStream.connect("127.0.0.1", self.port) as stream:
            yield Original(stream)

    async def settle(self) -> None:
        """Returns when what was sent before has had its effects: others have had messages there and
        back since.
        """
        self._settled += 1
        topic = f"settle {self._settled}"
        async with self.connected() as other:
            await other.send(Subscribe(topic))
            for _ in range(3):
                await other.send(Publish(topic, None, b""))
                await other.read_payloads(1)


@asynccontextmanager
async def gateway(rules: str = "", **settings) -> AsyncIterator[Running]:
    """One that runs; the settings are the broker's. With rules, the gateway logs in as ana."""
    options = {
        "clock": zaichik.ManualClock(START_US),
        "settings": zaichik.BrokerSettings(**settings),
    }
    login = ""
    if rules:
        options |= {"users": {"ana": TOKEN}, "rules": f"user ana\n{rules}\n"}
        login = f"zaichik://{TOKEN}@"
    with anyio.fail_after(GUARD):
        async with (
            zaichik.running_broker(**options) as broker,
            zaichik.connect(zaichik.endpoint(f"{login}127.0.0.1:{broker.port}")) as client,
            BackgroundTasks() as tasks,
        ):
            found = await Gateway.listening(client, 0)
            tasks.group.start_soon(found.run)
            yield Running(broker, client, found.port)
