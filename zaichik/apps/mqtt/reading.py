"""Reading a topic of the broker once, for all sessions and groups; and again for one that is late.

`follow` reads what comes: each message that some filter matches becomes an entry of the tail, and
is offered to those who want it. A reader whose place the tail does not reach back to has `catch_up`
read for it alone, as fast as it takes messages, until it has come to what the tail still has.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.abc import TaskStatus
from anyio.lowlevel import checkpoint

from zaichik import Client, DeletionsMissed, Lagged, Message
from zaichik.apps.mqtt.counters import Counters
from zaichik.apps.mqtt.filters import topic_problem
from zaichik.apps.mqtt.publications import UNKNOWN, Publications
from zaichik.apps.mqtt.spaces import Spaces
from zaichik.apps.mqtt.subscription import Reader, Subscription, Subscriptions
from zaichik.apps.mqtt.tail import Entry, Place, Tail
from zaichik.client.messages import messages_of

logger = logging.getLogger("zaichik.mqtt.reading")

# Of a reader that is late: it takes messages as fast as its client does.
LATE_CREDIT = 256
LATE_CREDIT_BYTES = 2 * 1024 * 1024


@dataclass(slots=True)
class Sources:
    """What is needed to make an entry of a message.

    Attributes:
        spaces: where MQTT's topics are.
        subscriptions: all filters.
        publications: by the broker's topic, what is known of the messages in it.
        counters: of what is passed over.
    """

    spaces: Spaces
    subscriptions: Subscriptions
    publications: dict[str, Publications]
    counters: Counters = field(default_factory=Counters)

    def entry(self, message: Message) -> Entry | None:
        """Returns the entry of a message; None if no filter matches, or it is none of MQTT's."""
        try:
            topic, properties = self.spaces.topic(message.topic, message.key)
        except UnicodeDecodeError:
            topic, properties = "", b""
        readers = self.subscriptions.matching(topic)
        if not readers:
            return None
        known = self.publications[message.topic].get(message.offset)
        # What the gateway has published itself was checked then.
        if known is UNKNOWN and topic_problem(topic) is not None:
            self.counters.unreadable += 1
            return None
        return Entry(
            space=message.topic,
            offset=message.offset,
            timestamp=message.timestamp,
            topic=topic,
            properties=properties,
            payload=message.payload,
            qos=known.qos,
            retain=known.retain,
            publisher=known.publisher,
            readers=readers,
        )


async def follow(
    client: Client,
    tail: Tail,
    sources: Sources,
    on_round: Callable[[], None],
    *,
    task_status: TaskStatus[None],
) -> None:
    """Read a topic from the tail's end on, until cancelled; started when it is subscribed to.

    Args:
        client: the gateway's own.
        tail: takes what somebody wants.
        sources: what is known besides the messages.
        on_round: called when the messages that had come together have been offered.
        task_status: see above.

    Raises:
        SubscriptionLost, EpochChanged: the topic was deleted, or is another one by now.
        ConnectionLost: the broker is gone.
    """
    space = tail.space
    async with client.subscribe(space, start=tail.end, events=True) as subscription:
        task_status.started()
        while True:
            frames = await subscription.fetch()
            await sources.publications[space].settled()
            for frame in frames:
                if isinstance(frame, Lagged):
                    sources.counters.lagged += frame.count
                    tail.end = max(tail.end, frame.end)
                    continue
                if isinstance(frame, DeletionsMissed):
                    continue
                for message in messages_of(frame, space):
                    _offer(message, tail, sources)
            on_round()
            # A fast publisher must not keep everything else from its turn.
            await checkpoint()


def _offer(message: Message, tail: Tail, sources: Sources) -> None:
    tail.end = message.offset + 1
    entry = sources.entry(message)
    if entry is None:
        return
    tail.add(entry)
    for reader, subscriptions in entry.readers.items():
        reader.offer(entry, subscriptions)


class Late(Reader, Protocol):
    """A reader with places.

    Attributes:
        places: by the broker's topic, where it goes on.
    """

    places: dict[str, Place]


class Straggler:
    """Reads a topic for one reader whose place the tail does not reach back to.

    Args:
        reader: the session or group.
        tail: of the topic.
        take: gives it a message; returns False if there is no room.
        flush: sends what was given.
    """

    def __init__(
        self,
        reader: Late,
        tail: Tail,
        take: Callable[[Entry, list[Subscription]], bool],
        flush: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._tail = tail
        self._take = take
        self._flush = flush
        self._room = anyio.Event()

    def wake(self) -> None:
        """Have it try again: there may be room now."""
        self._room.set()

    async def run(self, client: Client, sources: Sources, name: str) -> None:
        """Returns when the reader can go on from the tail, or has no place any more.

        Raises:
            ZaichikError: the topic cannot be read any more, or the broker is gone.
        """
        tail = self._tail
        place = self._reader.places[tail.space]
        async with client.subscribe(
            tail.space,
            start=min(place.offset, tail.end),
            events=True,
            credit=LATE_CREDIT,
            credit_bytes=LATE_CREDIT_BYTES,
        ) as subscription:
            while self._is_needed and place.offset < tail.offset_of_first():
                event = await anext(subscription)
                if isinstance(event, Lagged):
                    sources.counters.lagged += event.count
                    logger.warning(
                        "%s has missed %d messages: they are gone from the broker",
                        name,
                        event.count,
                    )
                    place.offset = event.end
                elif isinstance(event, Message) and event.offset < tail.offset_of_first():
                    await self._give(event, sources)
                    place.offset = event.offset + 1
                elif isinstance(event, Message):
                    break
            # Before anything else happens: what the tail evicts from now on was not given.
            place.number = tail.first

    @property
    def _is_needed(self) -> bool:
        """Whether the reader still goes on from a place: a group may have ended meanwhile."""
        return self._tail.space in self._reader.places

    async def _give(self, message: Message, sources: Sources) -> None:
        entry = sources.entry(message)
        if entry is None:
            return
        subscriptions = entry.readers.get(self._reader)
        if subscriptions is None:
            return
        while self._is_needed and not self._take(entry, subscriptions):
            self._room = anyio.Event()
            await self._room.wait()
        self._flush()
