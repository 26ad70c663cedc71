"""The subscriptions behind a connection's fetches: a fetch goes on where the one before stopped.

A consumer asks for one offset after the other. Each topic it reads has a subscription, which stands
at the offset that the consumer will ask for next. If it asks for another one, it has a new
subscription. What was received and not fetched yet waits in the subscription, whose credit bounds
it; everything else stays in the topic.

Offsets that cannot be read are of two kinds. What lies below the topic's head was evicted, or has
expired: the consumer is told that its offset is out of range, and goes by its own settings. A gap
in the middle, which a repair may leave, is passed over: a consumer that was told the same would
begin again at the head, and meet the gap again, for ever.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from zaichik import (
    Client,
    ConnectionLost,
    DeletionsMissed,
    EpochChanged,
    Lagged,
    Message,
    OffsetAhead,
    Subscription,
    SubscriptionLost,
    ZaichikError,
)
from zaichik.apps.kafka.codes import Code, code_of
from zaichik.apps.kafka.records import Row, pack
from zaichik.apps.users.shares import Shares
from zaichik.base.escapes import shown
from zaichik_protocol import Messages

logger = logging.getLogger("zaichik.kafka.readings")

# Of one topic: two of the broker's largest messages, and what waits for the next fetch.
CREDIT = 20_000
CREDIT_BYTES = 2 * 1024 * 1024
# Of one connection. The one that was used least lately is closed first.
MAX_READINGS = 32
# Of all connections together, so half a gigabyte.
MAX_ALL_READINGS = 256
MILLISECOND_US = 1000


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch of one topic has found.

    Attributes:
        code: NONE, or why there is nothing.
        records: batches in Kafka's format.
        end: the topic's next offset, as far as it is known; -1 if it is not.
        head: the oldest offset that can be read, if it was looked up; -1 if not.
        evicted: how many messages were gone before they could be fetched.
        skipped: how many offsets in the middle have no message.
        messages: how many are in the batches.
    """

    code: Code
    records: bytes = b""
    end: int = -1
    head: int = -1
    evicted: int = 0
    skipped: int = 0
    messages: int = 0


class Reading:
    """One topic's subscription.

    Attributes:
        user: whose it is.
        topic: its name.
        next: the offset that the consumer will ask for.
    """

    def __init__(self, client: Client, user: str, topic: str, start: int) -> None:
        self.user = user
        self.topic = topic
        self.next = start
        self._client = client
        self._subscription: Subscription[Message | Lagged | DeletionsMissed]
        self._stack = AsyncExitStack()
        # Received, and not fetched yet.
        self._received: list[Messages | Lagged | DeletionsMissed] = []

    async def open(self, epoch: int) -> None:
        """Subscribe.

        Raises:
            OffsetAhead, EpochChanged, NoSuchTopic, BrokerError: as `Client.subscribe` does.
        """
        self._subscription = await self._stack.enter_async_context(
            self._client.subscribe(
                self.topic,
                start=self.next,
                epoch=epoch,
                credit=CREDIT,
                credit_bytes=CREDIT_BYTES,
                events=True,
            )
        )

    async def close(self) -> None:
        """Unsubscribe."""
        await self._stack.aclose()

    @property
    def end(self) -> int:
        """The topic's next offset, as far as it is known."""
        return max(self.next, self._subscription.live)

    @property
    def is_behind(self) -> bool:
        """Whether there are messages that are on their way from the broker."""
        return bool(self._received) or self.next < self._subscription.live

    @property
    def has_received(self) -> bool:
        """Whether there is something to fetch."""
        return bool(self._received)

    async def wait(self, timeout: float) -> None:
        """Wait until there is something to fetch, for so many seconds at most.

        Raises:
            SubscriptionLost, EpochChanged, BrokerError, ConnectionLost: as the subscription does.
        """
        if not self._received:
            self._received = await self._subscription.fetch(timeout)

    async def taken(self, max_bytes: int) -> Fetched:
        """Returns what has been received, up to about that many bytes; at least one batch."""
        out = bytearray()
        skipped = 0
        messages = 0
        while self._received and len(out) < max_bytes:
            item = self._received[0]
            if isinstance(item, Lagged):
                state = await self._client.topic(self.topic)
                if state is None or state["head"] > item.start:
                    if out:  # it is told by the next fetch
                        break
                    return _evicted(item, state)
                skipped += item.count
                logger.warning(
                    "%s: offsets %d to %d have no messages, and were passed over",
                    shown(self.topic),
                    item.start,
                    item.end - 1,
                )
            elif isinstance(item, Messages):
                if out and len(out) + item.batch.size > max_bytes:
                    break
                out += self._packed(item)
                messages += len(item.deltas) if item.holes else item.batch.count
            self._received.pop(0)
        return Fetched(Code.NONE, bytes(out), self.end, skipped=skipped, messages=messages)

    def _packed(self, frame: Messages) -> bytes:
        """Returns a frame as a batch of Kafka's."""
        deltas: Sequence[int] = range(frame.batch.count)
        if frame.holes:
            deltas = frame.deltas
        self.next = frame.base + deltas[-1] + 1
        return pack(frame.base, deltas, frame.accepted_us // MILLISECOND_US, self._rows(frame))

    def _rows(self, frame: Messages) -> Iterable[Row]:
        keys: Iterable[bytes] = repeat(b"")
        if frame.batch.key_size:
            keys = frame.batch.keys()
        is_table = self._subscription.table
        for key, payload in zip(keys, frame.batch.each_payload(), strict=False):
            if is_table and key and not payload:
                yield key, None  # a tombstone
            else:
                yield key or None, payload


def _evicted(lagged: Lagged, state: dict[str, Any] | None) -> Fetched:
    if state is None:
        return Fetched(Code.UNKNOWN_TOPIC_OR_PARTITION)
    return Fetched(
        Code.OFFSET_OUT_OF_RANGE,
        end=state["next_offset"],
        head=state["head"],
        evicted=lagged.count,
    )


class Readings:
    """The readings of one connection.

    Args:
        shares: of the subscriptions of all connections.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._open: OrderedDict[str, Reading] = OrderedDict()
        self._turn = 0

    def in_turn(self, topics: list[str]) -> list[str]:
        """Returns the topics that are read for this request: others have their turn with the next.

        A consumer of many topics asks for all of them at once.
        """
        if len(topics) <= MAX_READINGS:
            return topics
        start = self._turn % len(topics)
        self._turn = start + MAX_READINGS
        return (topics[start:] + topics[:start])[:MAX_READINGS]

    async def at(self, client: Client, user: str, topic: str, offset: int) -> Reading | Fetched:
        """Returns the reading of a topic that stands at that offset.

        If there cannot be one, returns what the consumer is told.

        Args:
            client: the broker's client that reads.
            user: whose share of subscriptions counts.
            topic: its name.
            offset: where the reading stands.
        """
        reading = self._open.get(topic)
        if reading is not None and reading.next == offset:
            self._open.move_to_end(topic)
            return reading
        await self.drop(topic)
        state = await client.topic(topic)
        if state is None:
            return Fetched(Code.UNKNOWN_TOPIC_OR_PARTITION)
        head, end = int(state["head"]), int(state["next_offset"])
        if not head <= offset <= end:
            evicted = max(head - max(offset, 0), 0)
            return Fetched(Code.OFFSET_OUT_OF_RANGE, end=end, head=head, evicted=evicted)
        while len(self._open) >= MAX_READINGS:
            await self.drop(next(iter(self._open)))
        if not self._has_room(user, topic):
            return Fetched(Code.OFFSET_NOT_AVAILABLE, end=end, head=head)
        return await self._opened(Reading(client, user, topic, offset), int(state["epoch"]))

    def _has_room(self, user: str, topic: str) -> bool:
        """Returns whether a user may have another subscription; if not, the log says why."""
        shares = self._shares
        if shares.may_take(user):
            return True
        if not shares.free:
            logger.warning(
                "%s cannot be fetched now: there are %d subscriptions, which is the limit",
                shown(topic),
                shares.taken,
            )
        else:
            logger.warning(
                "%s cannot be fetched now: user %s has %d subscriptions, and others may need the "
                "%d that are left",
                shown(topic),
                shown(user),
                shares.of(user),
                shares.free,
            )
        return False

    async def _opened(self, reading: Reading, epoch: int) -> Reading | Fetched:
        self._shares.take(reading.user)
        is_open = False
        try:
            await reading.open(epoch)
            is_open = True
        except OffsetAhead:
            return Fetched(Code.OFFSET_OUT_OF_RANGE)
        except ZaichikError as error:
            return Fetched(_code_of(error))
        finally:
            if not is_open:
                self._shares.give_back(reading.user)
        self._open[reading.topic] = reading
        return reading

    async def drop(self, topic: str) -> None:
        """Close the reading of a topic, if there is one."""
        reading = self._open.pop(topic, None)
        if reading is not None:
            self._shares.give_back(reading.user)
            await reading.close()

    async def close(self) -> None:
        """Close all of them."""
        for topic in list(self._open):
            await self.drop(topic)


# What consumers expect as the answer to a fetch; Java's gives up at others.
_EXPECTED = (
    Code.OFFSET_OUT_OF_RANGE,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.TOPIC_AUTHORIZATION_FAILED,
)


def _code_of(error: ZaichikError) -> Code:
    code = code_of(error)
    if code in _EXPECTED:
        return code
    return Code.UNKNOWN_SERVER_ERROR


def lost(error: ZaichikError) -> Fetched:
    """Returns what the consumer is told of a subscription that has ended."""
    if isinstance(error, EpochChanged | SubscriptionLost):
        # The topic was deleted. If there is another one of its name, the next fetch finds it, and
        # its offsets mean something else.
        return Fetched(Code.OFFSET_OUT_OF_RANGE)
    if isinstance(error, ConnectionLost):
        # The next request finds that out, too, and ends the connection.
        return Fetched(Code.UNKNOWN_SERVER_ERROR)
    return Fetched(_code_of(error))
