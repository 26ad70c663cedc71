"""A client that is nothing but frames, over a real socket."""

import anyio
from peer import GUARD

from zaichik_protocol import FrameDecoder, NeedData, encode


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
