"""Along one message: which functions of the real broker it goes through."""

import sys
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import Any

import anyio
from anyio.abc import SocketStream

from zaichik.learn import wire
from zaichik.server.running import running_broker

READER, PUBLISHER = 1, 2  # connections, in the order in which they come
WHOSE = {READER: "the reader", PUBLISHER: "the publisher"}
APPLES = [(b"alice", b"two apples")]
SETTINGS = {2: 60_000}  # number 2 is compaction_window_ms: a minute

TURN = "zaichik.server.connection:Connection._turn"
# Where we stand and look, and what of: the variables of that function, or
# what it returns.
STOPS = {
    "zaichik.server.connection:Connection._receive": "data",
    "zaichik_protocol.codec:FrameDecoder.next_frame": "return",
    "zaichik.core.subscription_manager:SubscriptionManager.apply": "request",
    "zaichik.core.topic_controller:TopicController.publish": "return",
    "zaichik.core.compaction:CompactionWindow.admit": "return",
    "zaichik.core.ring:BroadcastRing.append": "self.next_offset",
    "zaichik.core.reader:Reader.make_ready": "self.cursor",
    "zaichik.core.reader:Reader.take": "return",
    "zaichik.core.reader:Reader.commit": "return",
    "zaichik.net.socket_stream:SocketStream.send_pieces_nowait": "pieces",
}
CODES = {resolve_name(name).__code__: what for name, what in STOPS.items()}
TURN_CODE = resolve_name(TURN).__code__


class Trace:
    """While the block lasts, notes who comes through those functions."""

    def __init__(self, title: str) -> None:
        self._lines = [title]
        self._open: list[int] = []  # lines of functions not left yet
        self._connection = 0  # whose turn it is

    def __enter__(self) -> None:
        sys.setprofile(self._look)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        print(*(line for line in self._lines if line), sep="\n")

    def _look(self, frame: FrameType, event: str, came: Any) -> None:
        code = frame.f_code
        if code is TURN_CODE and event == "call":
            number = value(frame.f_locals, "self._manager.number")
            if number != self._connection:
                self._lines.append(f" {WHOSE[number]}'s turn")
            self._connection = number
        elif code in CODES and event == "call":  # in the order of the calls,
            self._open.append(len(self._lines))
            self._lines.append("")
        elif code in CODES and event == "return":  # with what came of them
            here = {**frame.f_locals, "return": came}
            told = said(value(here, CODES[code]))
            file = Path(code.co_filename).name
            line = f"  {code.co_qualname:32}{file:25}{told}" if told else ""
            self._lines[self._open.pop()] = line


def value(here: Mapping[str, Any], path: str) -> Any:
    """The value of a variable, or of an attribute of it."""
    name, *attributes = path.split(".")
    found = here.get(name)
    for attribute in attributes:
        found = getattr(found, attribute)
    return found


def said(found: Any) -> str:
    """The value in a few words; none if it is nothing to speak of."""
    match found:
        case bytes():
            return f"{len(found)} bytes"
        case [bytes(), *_]:
            return f"{sum(map(len, found))} bytes"
        case int() | list():
            return str(found)
        case _ if hasattr(found, "TYPE"):
            return type(found).__name__
        case _:
            return ""


class Client:
    """Says frames, and hears them."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream, self._bytes, self._id = stream, bytearray(), 0

    async def ask(self, request: str, **fields: Any) -> None:
        """Send a request, and wait for the next frame."""
        self._id += 1
        frame = wire.encode(request, frame_id=self._id, **fields)
        await self._stream.send(frame)
        await self.hear()

    async def hear(self) -> None:
        """Wait for the next frame."""
        while not wire.take_frame(self._bytes):
            self._bytes += await self._stream.receive()


async def main() -> None:
    """Alice orders two apples, the shop reads that; and she orders again."""
    async with (
        running_broker() as broker,
        await anyio.connect_tcp(broker.host, broker.port) as one,
    ):
        reader = Client(one)
        await reader.ask("Hello")
        await reader.ask("CreateTopic", topic="orders", settings=SETTINGS)
        await reader.ask("Subscribe", topic="orders")
        async with await anyio.connect_tcp(broker.host, broker.port) as two:
            publisher = Client(two)
            await publisher.ask("Hello")
            with Trace("alice: two apples"):
                await publisher.ask("Publish", topic="orders", batch=APPLES)
                await reader.hear()
            with Trace("the shop: done"):
                await reader.ask("Commit", subscription=3, next=1)
            with Trace("alice: two apples, once more"):
                await publisher.ask("Publish", topic="orders", batch=APPLES)


anyio.run(main)
