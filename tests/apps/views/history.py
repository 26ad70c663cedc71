"""A topic with a history: a real broker without sockets, a clock that is set, and readings as views
get them.
"""

import json
from dataclasses import replace

from conversation import Conversation, batch, broker_with

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.topic_state import TopicState
from zaichik_protocol import (
    FOREVER,
    TABLES,
    Commit,
    CreateTopic,
    Describe,
    Hello,
    Kind,
    Publish,
    Setting,
    Start,
    Subscribe,
)

TOPIC = "orders"
SECOND = 1_000_000


class History:
    """A broker with one topic; `memory` has seen every reading.

    Settings are named as on the wire.
    """

    def __init__(self, **settings):
        self.broker = broker_with()
        self.publisher = Conversation(self.broker, greeted=False)
        self.publisher.ask(Hello(1, features=TABLES))
        self.readers = {}
        self.memory = Memory()
        pairs = tuple((Setting[name.upper()], value) for name, value in settings.items())
        self.publisher.ask(CreateTopic(1, TOPIC, pairs))

    @property
    def now_us(self):
        return self.broker.clock.now_us()

    def wait(self, us):
        self.broker.advance(self.now_us + us)

    def publish(self, count=1, key=b"", payload=b"x"):
        messages = batch(*[(key, payload)] * count)
        return self.publisher.ask(Publish(2, TOPIC, messages, tombstones=not payload))

    def subscribe(self, label, session="", credit=100, until=FOREVER):
        reader = self.readers[label] = Conversation(self.broker, greeted=False)
        reader.ask(Hello(1, client=label, features=TABLES))
        reader.tell(Subscribe(2, TOPIC, session, Start.EARLIEST, credit=credit, until=until))

    def read(self, label):
        return self.readers[label].heard()

    def commit(self, label, offset):
        return self.readers[label].ask(Commit(3, 2, offset))

    def leave(self, label):
        self.broker.disconnect(self.readers.pop(label).manager, "left")

    def ask(self, kind):
        (reply,) = self.publisher.ask(Describe(4, kind, TOPIC, "", 500))
        return json.loads(reply.json)

    def reading(self, **more):
        """The state now, which the memory has seen."""
        page = self.ask(Kind.TOPICS)
        marks = self.ask(Kind.MARKS)
        state = TopicState.of(
            {
                "now_us": page["now_us"],
                "boot": page["boot"],
                "topic": page["topics"][0],
                "readers": self.ask(Kind.FURTHEST)["subscriptions"],
                "marks": marks["marks"],
                "readable": marks.get("readable", ()),
            }
        )
        state = replace(state, **more)
        self.memory.seen(state)
        return state
