"""One connection of an original client: our client carries out its commands, in their order.

Flow control is the original's: one *credit* for all topics of the connection together. It is
granted by the first Subscribe and by each Commit, and each delivery uses it up. It is a flag and
not a counter: two Commits count as one. (The original also takes it away with the last Unsubscribe.
That needs no line here: the next Subscribe gives it back.)

    client                     Session                            our client
      │ Subscribe, Publish … ──▶ _converse, one after the other ──▶ create_topic, publish
      │ Commit ────────────────▶ _credit ─┐
      │ ◀── Publish ── _deliver, one at a time ◀── _read, for each topic ◀── subscribe(credit=1)

What a client that does not read can make the gateway hold is the message that is being sent to it,
and one for each topic it has subscribed to: no more are asked of the broker, whose bounded ring
holds the others.

Commands don't wait for deliveries, and those that have come are carried out even if nothing can be
delivered any more.

The original has no frame for an error. A command that the broker refuses is dropped, and logged. So
is a Subscribe to a table, because the original's clients know nothing of deletions. If a
subscription ends (its topic was deleted, or a restarted broker has lost it), nothing more is
received and the connection is closed, which every client notices.
"""

import logging
import socket
from contextlib import suppress
from typing import Literal

import anyio
from anyio.abc import SocketAttribute, TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

from zaichik import BrokerError, Client, Message, TopicExists, ZaichikError
from zaichik.apps.legacy.frames import (
    CloseConnection,
    Command,
    Commit,
    CreateTopic,
    FrameReader,
    NotAFrame,
    Publish,
    Subscribe,
    Unsubscribe,
    encode,
)
from zaichik.base.escapes import shown
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import Unencodable

logger = logging.getLogger("zaichik.legacy.session")

RECEIVE_BYTES = 64 * 1024
MAX_OVERHEAD = 1024  # of a frame's bytes, besides key and payload: a topic's name has at most 200
MAX_SUBSCRIPTIONS = 32  # of one connection; each may hold a message
# After a command that was refused. The client keeps a little about each topic it has tried to
# publish to, for five minutes; and each refusal is a line in the log. With this pause, both grow by
# a few per second and connection at most.
PAUSE_SECONDS = 0.5
GOODBYE_SECONDS = 1.0
LONGEST_MS = 100 * 365 * 86_400_000  # a duration beyond what the broker takes is "forever"
# stands for Some(""), a key in the original. No other key of its clients, which are UTF-8, has it
EMPTY_KEY = b"\xff"
NAME_LETTERS = 40  # of a name in the log

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class IsTable(Exception):
    """A client has subscribed to a table."""


class Session:
    """A conversation with one client.

    Args:
        stream: the connection to it, which is closed when `run` returns.
        peer: its address, for the log.
        client: carries out its commands.
        quick_ack: whether TCP acknowledges what comes at once: see `_acknowledge`.
    """

    def __init__(
        self, stream: SocketStream, peer: str, client: Client, *, quick_ack: bool = True
    ) -> None:
        self._stream = stream
        self._peer = peer
        self._client = client
        self._quick_ack = quick_ack
        self._frames = FrameReader(client.welcome.max_message + MAX_OVERHEAD)
        self._receiving: anyio.CancelScope
        self._failure = ""  # why a subscription has ended
        self._readings: dict[str, _Reading] = {}  # by topic
        self._credit = anyio.Event()  # set: the next message may be delivered
        # Topics with a message take turns.
        self._offer, self._offers = anyio.create_memory_object_stream[Message]()
        # Held while a frame is sent: half of one would be the end of the connection.
        self._sending = anyio.Lock()
        self._tasks: TaskGroup

    async def run(self) -> str:
        """Converse until either side ends it; returns the reason, for the log."""
        async with self._stream, self._offer, self._offers, BackgroundTasks() as tasks:
            self._tasks = tasks.group
            self._tasks.start_soon(self._deliver)
            reason = await self._converse()
            await self._say_goodbye()
        return reason

    async def _say_goodbye(self) -> None:
        """Send no more but the rest of a delivery, and wait a moment for the client to do the same.

        Closing a socket with unread bytes resets the connection, and the client may lose what it
        has not read yet.
        """
        with suppress(*GONE), anyio.move_on_after(GOODBYE_SECONDS):
            async with self._sending:
                await self._stream.send_eof()
            while True:
                await self._stream.receive(RECEIVE_BYTES)

    # -- commands --------------------------------------------------------------------------------

    async def _converse(self) -> str:
        try:
            while not self._failure:
                with anyio.CancelScope() as self._receiving:
                    self._frames.receive_data(await self._stream.receive(RECEIVE_BYTES))
                    self._acknowledge()
                while (command := self._frames.next_frame()) is not None:
                    if isinstance(command, CloseConnection):
                        return "as it asked"
                    await self._carry_out(command)
        except NotAFrame as error:
            return f"it sent {error}"
        except ZaichikError as error:
            return str(error)
        except GONE:
            return "it has left" + (
                "" if self._frames.is_between_frames else " in the middle of a frame"
            )
        return self._failure

    def _acknowledge(self) -> None:
        """Have TCP acknowledge at once what was received, on Linux.

        The original's clients leave Nagle's algorithm on: of two small writes, they send the second
        only when the first is acknowledged, and a system that has nothing to send puts that off for
        some 40 ms. So Commit, Publish, Commit, Publish would make 25 messages a second at best. The
        system forgets the option again, so it is set each time.
        """
        if self._quick_ack and hasattr(socket, "TCP_QUICKACK"):
            self._stream.extra(SocketAttribute.raw_socket).setsockopt(
                socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1
            )

    async def _carry_out(self, command: Command) -> None:
        try:
            match command:
                case Publish():
                    await self._client.publish(command.topic, command.payload, _to_key(command.key))
                case Commit():
                    self._credit.set()
                    # Thousands of them fit into one receive, and others want their turn.
                    await checkpoint()
                case CreateTopic():
                    await self._create(command)
                case Subscribe():
                    await self._subscribe(command.topic)
                case Unsubscribe():
                    await self._unsubscribe(command.topic)
        except (BrokerError, IsTable, Unencodable) as error:
            await self._drop(command, str(error))

    async def _drop(self, command: Command, reason: str) -> None:
        topic = shown(getattr(command, "topic", "")[:NAME_LETTERS])
        logger.warning(
            "%s: %s to '%s' was dropped: %s", self._peer, type(command).__name__, topic, reason
        )
        await anyio.sleep(PAUSE_SECONDS)

    async def _create(self, command: CreateTopic) -> None:
        retention, window = _duration(command.retention_ttl), _duration(command.compaction_window)
        try:
            await self._client.create_topic(
                command.topic, retention_ttl=retention, compaction_window=window
            )
        except TopicExists:  # as in the original, the first settings stay
            logger.debug("%s: %s has other settings, which stay", self._peer, shown(command.topic))

    # -- subscriptions ---------------------------------------------------------------------------

    async def _subscribe(self, topic: str) -> None:
        """Subscribe.

        The second time, start again with the oldest message that the topic has kept.
        """
        if topic not in self._readings and len(self._readings) >= MAX_SUBSCRIPTIONS:
            await self._drop(
                Subscribe(topic), f"a connection may have {MAX_SUBSCRIPTIONS} subscriptions at most"
            )
            return
        if not self._readings:
            self._credit.set()
        if (before := self._readings.pop(topic, None)) is not None:
            await before.stop()
        self._readings[topic] = await self._tasks.start(self._read, topic)

    async def _unsubscribe(self, topic: str) -> None:
        if (reading := self._readings.pop(topic, None)) is not None:
            await reading.stop()
        await checkpoint()

    async def _read(self, topic: str, *, task_status: TaskStatus["_Reading"]) -> None:
        reading = _Reading()
        try:
            with reading.scope:
                async with self._client.subscribe(topic, credit=1) as subscription:
                    if subscription.table:
                        raise IsTable("it is a table, which clients of the original cannot read")
                    task_status.started(reading)
                    try:
                        async for message in subscription:
                            await self._offer.send(message)
                    except ZaichikError as error:
                        self._failure = (
                            f"its subscription to '{shown(topic[:NAME_LETTERS])}' has "
                            f"ended: {error}"
                        )
                        # and no more: what was received is still carried out
                        self._receiving.cancel()
        finally:
            reading.ended.set()

    async def _deliver(self) -> None:
        """Send a message whenever there is credit and a topic has one, until the client leaves."""
        with suppress(*GONE):  # `_converse` finds that out too, after what had come
            while True:
                await self._credit.wait()
                message = await self._offers.receive()
                self._credit = anyio.Event()
                frame = encode(Publish(message.topic, _from_key(message.key), message.payload))
                async with self._sending:
                    await self._stream.send(frame)


class _Reading:
    """A task that reads a topic."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

    async def stop(self) -> None:
        """Returns when no more messages will be delivered; one may still be on its way."""
        self.scope.cancel()
        await self.ended.wait()


def _to_key(key: str | None) -> bytes | None:
    return None if key is None else key.encode() or EMPTY_KEY


def _from_key(key: bytes | None) -> str | None:
    """Returns the key as text, which a client of the original can read.

    Bytes that are not UTF-8 are escaped.
    """
    if key is None:
        return None
    return "" if key == EMPTY_KEY else key.decode("utf-8", "backslashreplace")


def _duration(milliseconds: int) -> float | Literal["forever"]:
    return "forever" if milliseconds > LONGEST_MS else milliseconds / 1000
