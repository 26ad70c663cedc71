"""A fake broker's `$topics`, so that tests say what is announced, and when."""

import json

from brokers import START_US, TABLES_GRANTED, subscribed

from zaichik.client.patterns.records import TOPICS
from zaichik_protocol import (
    Batch,
    EndCode,
    Error,
    Messages,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)


def record(topic, epoch, earlier=0, **others):
    """The key and the payload of a record."""
    return topic.encode(), json.dumps({"epoch": epoch, "earlier": earlier, **others}).encode()


class Announcing:
    """Answers to Subscribe, of a fake broker that has a `$topics`.

    Attributes:
        records: what the table has.
        epoch: its epoch.
        following: the id of the newest subscription that follows it.
        topics: what to answer for a topic, if not that it is empty and of the epoch asked for.
    """

    def __init__(self, *records):
        self.records = list(records)
        self.epoch = 5
        self.following = 0
        self.topics = {}

    @property
    def answers(self):
        """For a fake broker."""
        return TABLES_GRANTED | {Subscribe: self.answer}

    def answer(self, frame):
        """The answer to a Subscribe."""
        if frame.topic != TOPICS:
            return self.topics.get(frame.topic, subscribed)(frame)
        end = len(self.records)
        if frame.start == Start.LATEST:
            return self._subscribed(frame, end)
        if frame.start == Start.OFFSET:
            self.following = frame.id
            return self._subscribed(frame, frame.value)
        ended = SubscriptionEnded(frame.id, EndCode.UNTIL, end, "it reached its end")
        if not end:
            return [self._subscribed(frame, 0), ended]
        return [self._subscribed(frame, 0), self._messages(frame.id, 0, self.records), ended]

    def _subscribed(self, frame, start):
        end = len(self.records)
        return Subscribed(frame.id, self.epoch, start, end, start, table=True)

    def _messages(self, subscription, base, records):
        return Messages(
            id=subscription, base=base, accepted_us=START_US, batch=Batch.of(iter(records))
        )

    async def announce(self, broker, *records):
        """Add records, and send them to the follower."""
        base = len(self.records)
        self.records += records
        await broker.send(self._messages(self.following, base, records))

    async def end(self, broker, code=EndCode.DELETED):
        """End the subscription of the follower."""
        end = len(self.records)
        await broker.send(SubscriptionEnded(self.following, code, end, "it has ended"))


def refusing(code, field=""):
    """An answer to a Subscribe: this error."""
    return lambda frame: Error(frame.id, code, Subscribe.TYPE, field, 0, "not now")
