"""Topics that come and go: nothing of them is missed without being told (PAT-2)."""

import json
from collections import Counter
from contextlib import suppress

import anyio
import pytest
from brokers import real_broker

import zaichik
from zaichik import Message, TopicGone, TopicMissed
from zaichik.net.background import BackgroundTasks

pytestmark = pytest.mark.anyio

CLIENTS = 20
NAMES = 7  # several clients make, and delete, topics of the same name


async def come_and_go(port, number, rounds):
    """Make a topic by publishing to it once, and delete it, again and again."""
    async with zaichik.connect(port=port) as client:
        for turn in range(rounds):
            topic = f"t.{(number + turn) % NAMES}"
            await client.publish(topic, b"%d.%d" % (number, turn))
            with suppress(zaichik.NoSuchTopic):
                await client.delete_topic(topic)


class Told:
    """What a reader of all topics was told.

    Attributes:
        messages: how often each payload came.
        over: how many topics of each name were told as gone or missed.
        epochs: of those that were read, and have gone.
    """

    def __init__(self):
        self.messages = Counter()
        self.over = Counter()
        self.epochs = set()

    async def read(self, pattern):
        """Read until cancelled."""
        async for item in pattern:
            match item:
                case Message():
                    self.messages[item.payload] += 1
                case TopicGone():
                    assert (item.topic, item.epoch) not in self.epochs
                    self.epochs.add((item.topic, item.epoch))
                    self.over[item.topic] += 1
                case TopicMissed():
                    self.over[item.topic] += item.count


async def topics_made(client):
    """How many topics of each name there have been since `$topics` began."""
    made = Counter()
    async with client.subscribe("$topics") as records:
        for _ in range(NAMES):
            message = await anext(records)
            record = json.loads(message.payload)
            assert record["gone"]
            made[message.key.decode()] = record["earlier"] + 1
    return made


@pytest.mark.parametrize("rounds", [5, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("max_subscriptions", [1000, 4])
async def test_nothing_is_missed_without_being_told(rounds, max_subscriptions):
    """Each topic is told as gone or missed, once; and what stays is read from its first message."""
    told = Told()
    async with (
        real_broker(max_subscriptions=max_subscriptions) as broker,
        zaichik.connect(port=broker.port) as client,
        zaichik.connect(port=broker.port) as other,
        client.subscribe_pattern("t.*", events=True) as pattern,
        BackgroundTasks() as tasks,
    ):
        tasks.group.start_soon(told.read, pattern)
        async with anyio.create_task_group() as churning:
            for number in range(CLIENTS):
                churning.start_soon(come_and_go, broker.port, number, rounds)
        made = await topics_made(other)
        assert sum(made.values()) >= NAMES
        for name in made:
            await other.publish(name, name.encode())
        # What is told too often would never be equal, either.
        while told.over != made or not all(told.messages[name.encode()] for name in made):
            await other.ping()
        await other.ping()
    assert told.over == made
    assert set(told.messages.values()) == {1}
