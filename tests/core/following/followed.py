"""Clients that follow `$topics`, and what its records tell them."""

import json

from conversation import Conversation, batch

from zaichik.core.rights import ANYBODY, TOPICS
from zaichik_protocol import (
    TABLES,
    CreateTopic,
    Delete,
    Deleted,
    Hello,
    Messages,
    Publish,
    Setting,
    Subscribe,
    TopicCreated,
)

SECOND_US = 1_000_000
DAY = 24 * 3600


class Following(Conversation):
    """A client that may follow topics, of a user if there is one."""

    def __init__(self, broker, user=ANYBODY):
        super().__init__(broker, greeted=False)
        broker.log_in(self.manager, user, broker.scheduler.join("", lambda: False))
        self.ask(Hello(1, features=TABLES))
        self._last_id = 1

    def next_id(self):
        self._last_id += 1
        return self._last_id

    def heard(self):
        """The frames of all turns there are, also of those that come after an empty one."""
        frames = self.turn()
        while self.manager.has_output:
            frames += self.turn()
        return frames

    def follow(self, **how):
        """Subscribe to `$topics`; returns the reply, and what follows it."""
        reply, *events = self.ask(
            Subscribe(self.next_id(), TOPICS, credit=how.pop("credit", 1000), **how)
        )
        return reply, events


def create(client, name, **settings):
    pairs = tuple((Setting[key.upper()], value) for key, value in settings.items())
    (reply, *_) = client.ask(CreateTopic(client.next_id(), name, pairs))
    assert isinstance(reply, TopicCreated)
    return reply


def delete(client, name):
    (reply, *_) = client.ask(Delete(client.next_id(), name))
    assert isinstance(reply, Deleted)


def publish(client, name, *messages):
    client.ask(Publish(client.next_id(), name, batch(*messages)))


def parsed(frames):
    """What events say: (offset, name, record) of each message; other events as they are."""
    said = []
    for frame in frames:
        if not isinstance(frame, Messages):
            said.append(frame)
            continue
        offsets = frame.deltas or range(frame.batch.count)
        messages = zip(frame.batch.keys(), frame.batch.payloads(), strict=True)
        for delta, (name, payload) in zip(offsets, messages, strict=True):
            said.append((frame.base + delta, name.decode(), json.loads(payload)))
    return said


def records(frames):
    """The same in short: (offset, name, how many went before, whether it has gone)."""
    said = []
    for event in parsed(frames):
        if isinstance(event, tuple):
            offset, name, record = event
            said.append((offset, name, record["earlier"], "gone" in record))
        else:
            said.append(event)
    return said


def later(broker, seconds):
    """Move the clock, and sweep."""
    broker.clock.move_to(broker.clock.now_us() + int(seconds * SECOND_US))
    broker.sweep()
