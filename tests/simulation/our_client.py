"""Programs that use our own client: they must not notice that its connections are cut all the time.

What the client tells them is held against the ledgers: no message twice, none lost in silence, no
batch stored twice, every result the one that the broker gave. The broker's own words are judged on
their way, as for everybody; see `overheard`.

Each has one topic, and so one subscription at a time: a client commits for several in the order of
a set, which is another one in every process.
"""

from itertools import count

import trio

import zaichik

from .client import PATIENCE
from .publisher import LONGEST_REFUSED
from .trace import Anomaly


class _Program:
    """Who uses a client.

    Args:
        world: where.
        name: its name, which also decides what it does.
        topic: the name of the one it has to do with.
    """

    def __init__(self, world, name, topic):
        self.world = world
        self.name = name
        self.random = world.random(name)
        self._topic = topic

    async def run(self):
        """Do what it came for, with one client after the other; only the first connection of each
        may fail.
        """
        while not self.is_done and not self.world.is_stopping:
            try:
                async with zaichik.connect(self.name, 1, name=self.name) as client:
                    try:
                        await self.use(client)
                    finally:
                        self._check_lost(client)
            except (zaichik.ConnectFailed, zaichik.TooManyConnections):
                await trio.sleep(1)
            except zaichik.ZaichikError as error:
                if not self.world.is_stopping and not self._may_notice(error):
                    raise Anomaly("P5", f"{self.name} is told {error!r}") from error

    @property
    def topic(self):
        """The ledger of its topic; a topic in memory is another one after a restart, with another
        ledger.
        """
        return self.world.topics[self._topic]

    def _check_lost(self, client):
        """Whether the client takes a topic for lost that is not."""
        for lost in client.lost_topics:
            if self.topic.is_durable or self.world.life.boot == 1:
                raise Anomaly("P5", f"{self.name} is told: {lost}")

    def _may_notice(self, error):
        """Whether it is the loss of a topic in memory that a program is told of."""
        return (
            isinstance(error, zaichik.EpochChanged)
            and not self.topic.is_durable
            and self.world.life.boot > 1
        )

    @property
    def is_done(self):
        """Whether there is no more to do."""
        raise NotImplementedError

    async def use(self, client):
        """Do some of it."""
        raise NotImplementedError


class OurPublisher(_Program):
    """Each message it publishes is stored once, and it is told where."""

    def __init__(self, world, name, topic):
        super().__init__(world, name, topic)
        self._left = self.random.randint(8, 24)  # times
        self._serial = 0
        self._publish = self.random.choice([self._as_batch, self._one_by_one, self._as_stream])

    @property
    def is_done(self):
        return not self._left

    async def use(self, client):
        random = self.random
        while not self.is_done and not self.world.is_stopping:
            self._left -= 1
            async with trio.open_nursery() as together:
                for _ in range(random.choice([1, 1, 5])):
                    together.start_soon(self._publish_some, client)
            await trio.sleep(random.choice([0, 0.1, 1, 10]))

    async def _publish_some(self, client):
        """Publish some messages; or give up, which must do no harm to others."""
        messages, patience, topic = self._messages(), LONGEST_REFUSED, self.topic
        if self.random.random() < 0.1:
            patience = self.random.choice([0, 0.05, 1])
        problem = None
        try:
            with trio.move_on_after(patience) as giving_up:
                told = await self._publish(client, messages)
                if topic is self.topic:  # else it is lost
                    self._check(messages, told)
            if giving_up.cancelled_caught and patience == LONGEST_REFUSED:
                problem = Anomaly(
                    "P5", f"{self.name} waits for the answer to {messages} for {patience} s"
                )
        except Anomaly as anomaly:
            problem = anomaly
        except zaichik.ZaichikError as error:
            may_be_unknown = isinstance(error, zaichik.ProducerUnknown) and topic is not self.topic
            if not self.world.is_stopping and not may_be_unknown:
                problem = Anomaly("P5", f"{self.name} cannot publish: {error!r}")
        if problem:
            self.world.fail(problem)

    def _messages(self):
        messages = []
        for _ in range(self.random.choice([1, 3, 8])):
            self._serial += 1
            payload = b"%s/%d " % (self.name.encode(), self._serial) + self.random.randbytes(20)
            messages.append((self.random.choice([b"", b"a", b"e"]), payload))
        return messages

    def _check(self, messages, told):
        """Whether the messages are where the program is told, and in its order."""
        places = [self.topic.place_told(payload) for _, payload in messages]
        if told != places:
            raise Anomaly(
                "P3", f"{self.name} is told that {messages} are at {told}, and they are at {places}"
            )
        stored = [place for place in places if place is not None]
        if stored != sorted(stored):
            raise Anomaly(
                "P1",
                f"{self.name} has published {messages} in this order, and they are at {places}",
            )

    async def _as_batch(self, client, messages):
        result = await client.publish_batch(
            self.topic.name, [(key or None, payload) for key, payload in messages]
        )
        offsets = count(result.first_offset)
        return [
            None if index in result.dropped else next(offsets) for index in range(len(messages))
        ]

    async def _one_by_one(self, client, messages):
        return [
            (await client.publish(self.topic.name, payload, key or None)).offset
            for key, payload in messages
        ]

    async def _as_stream(self, client, messages):
        async with client.producer(self.topic.name) as producer:
            topic = self.topic
            for key, payload in messages:
                await producer.send(payload, key or None)
        if topic is not self.topic:
            return []
        places = [topic.place_told(payload) for _, payload in messages]
        if (producer.stored, producer.compacted) != (
            len(places) - places.count(None),
            places.count(None),
        ):
            told = f"{producer.stored} stored and {producer.compacted} compacted"
            raise Anomaly("P3", f"{self.name} is told of {told}; the places are {places}")
        return places


class OurReader(_Program):
    """It gets every message once, or is told of it as lag; and if it leaves and comes back, it goes
    on where it was.
    """

    def __init__(self, world, name, topic):
        super().__init__(world, name, topic)
        self._session = name if self.random.random() < 0.6 else ""  # the name to subscribe under
        self._read = None  # the ledger of the topic that it reads
        self._cursor = None  # the next offset to come
        self._settled = 0  # what lies below may be settled, and nothing else

    @property
    def is_done(self):
        is_at_end = self._cursor is not None and self._cursor >= self.topic.acked_end
        return self.world.is_published and is_at_end and self._read is self.topic

    def _may_notice(self, error):
        if may_notice := super()._may_notice(error):
            self._read = self._cursor = None
        return may_notice

    async def use(self, client):
        start = "earliest" if self._cursor is None else self._cursor
        epoch = self._read.epoch if self._read and self.world.machine else None
        credit = self.random.choice([1, 10, 1000])
        async with client.subscribe(
            self.topic.name,
            start=start,
            epoch=epoch,
            credit=credit,
            name=self._session,
            events=True,
        ) as messages:
            self._begin(messages)
            await self._follow(messages)

    async def _follow(self, messages):
        """Read to the topic's end, or for some while."""
        random, patience = self.random, None
        while not self.is_done and random.random() > 0.01:
            self._settled = self._cursor  # by the step to the next one
            with trio.move_on_after(random.choice([1, 10])):
                self._take(item := await anext(messages))
                patience = None
                if isinstance(item, zaichik.Message) and random.random() < 0.05:
                    self._settled = self._cursor
                    await messages.commit(item)
            if self.world.is_published:
                patience = patience or trio.current_time() + PATIENCE
                if trio.current_time() > patience:
                    raise Anomaly(
                        "P5",
                        f"{self.name} was given nothing for {PATIENCE} s, and is at {self._cursor}",
                    )
            if random.random() < 0.1:
                await trio.sleep(random.choice([0.05, 1]))

    def _begin(self, messages):
        """Whether it may begin there: a name at what it has not settled, everything else where it
        asked to.
        """
        if self._read is None:
            self._read, self._settled = self.topic, messages.start  # it is owed nothing below
        elif self._cursor is not None:
            may_begin = (
                messages.start <= self._settled
                if messages.resumed
                else messages.start == self._cursor
            )
            if not may_begin:
                where = f"had settled {self._settled} and was given {self._cursor}"
                raise Anomaly("P2", f"{self.name} {where}, and goes on at {messages.start}")
        self._cursor = messages.start

    def _take(self, item):
        name, topic = self.name, self._read
        is_lag = isinstance(item, zaichik.Lagged)
        first, end = (item.start, item.end) if is_lag else (item.offset, item.offset + 1)
        if first != self._cursor:
            raise Anomaly("P2", f"{name}: after {self._cursor - 1} the client gives out {item}")
        self._cursor = end
        if is_lag:
            self._settled = end
            has_retention = topic.settings.retention_ttl_ms > 0
            end_of_topic, now_us = self.world.next_offset(topic.name), self.world.now_us()
            is_there = topic is self.topic
            if is_there and has_retention and not topic.may_be_gone(end - 1, end_of_topic, now_us):
                raise Anomaly(
                    "P2",
                    f"{name}: the client tells of lag, {item}, and these messages were not gone",
                )
        elif topic.message(item.offset) != (item.key or b"", item.payload):
            raise Anomaly(
                "P3",
                f"{name}: the client gives out {item}, and there is {topic.message(item.offset)}",
            )
