"""A good reader: it follows topics to their end, commits in its own way, and goes on after a cut
where it stood.
"""

import math
from dataclasses import dataclass

import trio

from zaichik_protocol import (
    FOREVER,
    Commit,
    Error,
    ErrorCode,
    Lagged,
    Messages,
    Start,
    Subscribe,
    SubscriptionEnded,
    Unsubscribe,
)

from .client import PATIENCE, Lost, connected
from .topic_ledger import offsets_of
from .trace import Anomaly


@dataclass
class Place:
    """Where it stands in a topic.

    Attributes:
        topic: its name.
        number: of the subscription.
        cursor: the next offset to come.
        committed: the last commit.
        due: when it means to commit, if it puts it off; simulated seconds.
        is_ended: the broker has ended it.
    """

    topic: str
    number: int
    cursor: int
    committed: int
    due: float | None = None
    is_ended: bool = False


class Reader:
    """One of them.

    Args:
        world: where it reads.
        name: its name, which also decides what it does.
        topics: what it reads.
        is_auditor: it reads everything, as fast as it comes, and nothing ever happens to it.
    """

    def __init__(self, world, name, topics, *, is_auditor=False):
        self.world = world
        self.name = name
        self.random = world.random(name)
        self._cursors = dict.fromkeys(topics)  # where to go on; None: it was not there yet
        self._epochs = dict.fromkeys(topics, 0)  # of which topic; 0: any
        self._is_auditor = is_auditor
        self._is_done = False
        self._session = (
            name if self.random.random() < 0.4 and not is_auditor else ""
        )  # the name to subscribe under
        self._manner = (
            "at once"
            if is_auditor
            else self.random.choice(["at once", "lazily", "late", "at the edge"])
        )

    async def run(self):
        """Read until all that was published is read, on as many connections as it takes."""
        random, world = self.random, self.world
        if not self._is_auditor:
            await trio.sleep(random.choice([0, 0, 5, 30]))
        while not self._is_done:
            weather, cut_after = world.weather(random), world.cut_after(random)
            if self._is_auditor:
                weather, cut_after = None, math.inf
            try:
                async with connected(world, self.name, random, weather) as client:
                    with trio.move_on_after(cut_after) as cut:
                        await client.hello()
                        await self._read(client)
                        await client.close()
                    if cut.cancelled_caught:
                        client.socket.cut()
            except Lost:
                if world.is_stopping:
                    return
                await trio.sleep(random.choice([0, 0.5, 3]))

    async def _read(self, client):
        places = {}
        for topic in self._cursors:
            await self._subscribe(client, topic, places)
        patience = None
        while not self._is_done:
            if not self._is_auditor:
                await self._have_a_whim(client, places)
            await client.news(self._nap(places))
            if client.events:
                patience = None
            while client.events:
                self._take(client.events.popleft(), places)
            await self._commit(client, places)
            await self._leave_what_has_ended(client, places)
            if self.world.is_published:
                patience = patience or trio.current_time() + PATIENCE
                self._is_done = not (
                    behind := [place for place in places.values() if self._is_behind(place)]
                )
                if behind and trio.current_time() > patience:
                    raise Anomaly(
                        "P5",
                        f"{self.name} was told nothing for {PATIENCE} s, and {behind[0]} is behind",
                    )

    async def _have_a_whim(self, client, places):
        """Now and then, leave a topic and come back, or do not read for a while."""
        random = self.random
        if places and random.random() < 0.02:
            number = random.choice(list(places))
            await client.ask(Unsubscribe, number, forget=random.random() < 0.5)
            await self._subscribe(client, places.pop(number).topic, places)
        if random.random() < 0.02:
            client.stop_reading(
                random.choice([1, 4, 8])
            )  # less than what a slow reader is cut off for

    async def _leave_what_has_ended(self, client, places):
        """A name that has ended and is settled still holds its place, until its reader leaves
        (CMT-3).
        """
        for place in [
            place for place in places.values() if place.is_ended and place.committed == place.cursor
        ]:
            await client.ask(Unsubscribe, place.number)
            del places[place.number]

    def _nap(self, places):
        """Seconds to wait for something to happen: not beyond the next commit."""
        dues = [
            place.due - trio.current_time() for place in places.values() if place.due is not None
        ]
        return max(0, min([self.random.choice([0.1, 1, 10]), *dues]))

    async def _subscribe(self, client, topic, places):
        random, cursor = self.random, self._cursors[topic]
        start, value, until = Start.EARLIEST, 0, FOREVER
        if cursor is not None:
            start, value = Start.OFFSET, cursor
        elif random.random() < 0.5 and not self._is_auditor:
            start = random.choice([Start.LATEST, Start.TIME, Start.OFFSET])
            if start is Start.TIME:
                value = max(0, self.world.now_us() - random.choice([0, 500_000, 5_000_000]))
        if start is Start.OFFSET and random.random() < 0.2:
            until = value + random.randint(0, 60)
        credit, credit_bytes = random.choice([1, 2, 7, 50]), random.choice([1, 100, 700, 100_000])
        if self._is_auditor:
            credit, credit_bytes = 1000, 100_000
        epoch, expects = self._epochs[topic], set()
        if not self.world.topics[topic].is_durable and client.book.life.boot > 1:
            expects = {ErrorCode.EPOCH_CHANGED}
        reply = await client.ask(
            Subscribe,
            topic,
            self._session,
            start,
            value,
            epoch,
            until,
            credit,
            credit_bytes,
            expects=expects,
        )
        if isinstance(reply, Error):  # what was there is gone
            self._cursors[topic], self._epochs[topic] = None, 0
            await self._subscribe(client, topic, places)
            return
        if self.world.machine:
            self._epochs[topic] = reply.epoch
        places[reply.id] = Place(topic, reply.id, reply.start, reply.start)

    def _take(self, event, places):
        place = places.get(event.id)
        if place is None:  # it came before we unsubscribed
            return
        match event:
            case Messages():
                place.cursor = offsets_of(event)[-1] + 1
                if place.due is None:
                    place.due = self._when(place.topic, event)
            case Lagged():
                place.cursor = event.to_offset
            case SubscriptionEnded():
                place.is_ended = True
        self._cursors[place.topic] = place.cursor

    def _when(self, topic, event):
        """When to commit: now, or later, or at the very moment the next message expires."""
        now = trio.current_time()
        ttl_ms = self.world.topics[topic].settings.retention_ttl_ms
        match self._manner:
            case "late":
                return now + self.random.choice([0.1, 0.7, 3])
            case "at the edge" if 0 < ttl_ms < FOREVER:
                return max(now, self.world.clock.seconds(event.accepted_us + ttl_ms * 1000))
            case _:
                return now

    async def _commit(self, client, places):
        random = self.random
        for place in places.values():
            if place.due is None or place.due > trio.current_time():
                continue
            place.due = None
            upto = place.cursor
            if self._manner == "lazily" and random.random() < 0.5:
                upto = random.randint(
                    place.committed, place.cursor
                )  # some now, the rest with the next
                place.due = trio.current_time()
            place.committed = upto
            await client.send(Commit, place.number, upto, silent=random.random() < 0.3)

    def _is_behind(self, place):
        return not place.is_ended and place.cursor < self.world.topics[place.topic].acked_end
