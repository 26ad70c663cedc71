"""A client that is nothing but frames, over a real socket."""

from types import SimpleNamespace

import anyio
from anyio.abc import SocketAttribute
from peer import GUARD

from zaichik_protocol import FrameDecoder, Lagged, Messages, NeedData, SubscriptionEnded, encode

SENT = Messages, Lagged, SubscriptionEnded  # to a subscription, with its id


class Client:
    """Sends frames, and receives them."""

    def __init__(self, stream):
        self.stream = stream
        self._decoder = FrameDecoder.for_client()

    async def send(self, *frames):
        await self.stream.send(b"".join(map(encode, frames)))

    async def receive(self):
        """The next frame; None at the end of the stream."""
        with anyio.fail_after(GUARD):
            while isinstance(frame := self._decoder.next_frame(), NeedData):
                try:
                    self._decoder.receive_data(await self.stream.receive())
                except anyio.EndOfStream:
                    return None
            return frame

    async def ask(self, *requests):
        """As many frames as there are requests."""
        await self.send(*requests)
        return [await self.receive() for _ in requests]

    async def rest(self):
        frames = []
        while (frame := await self.receive()) is not None:
            frames.append(frame)
        return frames


class Keeper(Client):
    """One that keeps all it has received.

    Attributes:
        name: its address.
        received: see above.
    """

    def __init__(self, stream):
        super().__init__(stream)
        self.name = "{}:{}".format(*stream.extra(SocketAttribute.local_address))
        self.received = b""
        self._socket = stream
        self.stream = SimpleNamespace(send=stream.send, receive=self._kept)

    async def _kept(self):
        data = await self._socket.receive()
        self.received += data
        return data

    async def until(self, kind):
        """The first frame of that kind."""
        while not isinstance(frame := await self.receive(), kind):
            assert frame is not None
        return frame

    async def until_answered(self, request):
        """The reply to a request; what subscriptions are sent before it is passed over."""
        await self.send(request)
        while getattr(reply := await self.receive(), "id", None) != request.id or isinstance(
            reply, SENT
        ):
            assert reply is not None
        return reply
