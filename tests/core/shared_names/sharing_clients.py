"""Clients that share names, without sockets."""

import json
from types import SimpleNamespace

from conversation import Conversation, batch, broker_with

from zaichik.core.rights import ANYBODY
from zaichik_protocol import (
    FOREVER,
    OWNER,
    SHARED,
    CreateTopic,
    Dead,
    DeadPage,
    Describe,
    Explain,
    Hello,
    Kind,
    Messages,
    Outcome,
    Publish,
    Setting,
    Settle,
    Subscribe,
    Subscribed,
)

SECOND_US = 1_000_000


class Sharing(Conversation):
    """A client that may share names, of a user if there is one.

    Attributes:
        tickets: those of the messages that came, by offset; of each the latest.
    """

    def __init__(self, broker, user=ANYBODY, features=SHARED | OWNER):
        super().__init__(broker, greeted=False)
        broker.log_in(self.manager, user, broker.scheduler.join("", lambda: False))
        self.ask(Hello(1, features=features))
        self._last_id = 1
        self.tickets = {}

    def next_id(self):
        self._last_id += 1
        return self._last_id

    def turn(self):
        frames = super().turn()
        for frame in frames:
            if isinstance(frame, Messages) and frame.tickets:
                deltas = frame.deltas or range(frame.batch.count)
                for number, delta in enumerate(deltas):
                    self.tickets[frame.base + delta] = frame.ticket + number
        return frames

    def heard(self):
        """The frames of all turns there are, also of those that come after an empty one."""
        frames = self.turn()
        while self.manager.has_output:
            frames += self.turn()
        return frames

    def share(self, topic="t", name="n", *, timeout_ms=60_000, max_deliveries=5, **how):
        """Subscribe; returns the id, and the events that came."""
        request_id = self.next_id()
        if "owner" in how:
            how = {"owned": True, "attempt": 1} | how
        request = Subscribe(
            request_id,
            topic,
            name,
            timeout_ms=timeout_ms,
            max_deliveries=max_deliveries,
            shared=True,
            **how,
        )
        reply, *events = self.ask(request)
        assert isinstance(reply, Subscribed), reply
        return request_id, events

    def settle(self, subscription, outcome, *offsets, delay_s=None, reason=""):
        """Settle what came of these offsets; returns the answer, and the events."""
        how = {}
        if delay_s is not None:
            how = {"delayed": True, "delay_ms": round(delay_s * 1000)}
        tickets = tuple(self.tickets[offset] for offset in offsets)
        request = Settle(
            self.next_id(), subscription, outcome, reason=reason, tickets=tickets, **how
        )
        return self.ask(request)

    def done(self, subscription, *offsets):
        return self.settle(subscription, Outcome.DONE, *offsets)

    def publish(self, *messages, topic="t"):
        return self.ask(Publish(self.next_id(), topic, batch(*messages)))

    def dead(self, topic="t", name="n", **how):
        reply, *_ = self.ask(Dead(self.next_id(), topic, name, **how))
        if not isinstance(reply, DeadPage):
            return reply
        return json.loads(reply.json)["dead"] if reply.json else reply

    def rows(self):
        """The rows of subscriptions, that of the name last."""
        (reply,) = self.ask(Describe(self.next_id(), Kind.SUBSCRIPTIONS))
        return json.loads(reply.json)["subscriptions"]

    def explained(self, offset, subscription="n"):
        """What became of a message at the name."""
        (reply,) = self.ask(Explain(self.next_id(), "t", subscription, offset))
        verdicts = json.loads(reply.json)["verdicts"]
        assert len(verdicts) == 2
        return verdicts[1]


def offsets(events):
    """Those of all messages in these events, in order."""
    found = []
    for event in events:
        if isinstance(event, Messages):
            found += [event.base + delta for delta in event.deltas or range(event.batch.count)]
    return found


def user_who(name, *allowed):
    """A user who may do just that."""
    return SimpleNamespace(
        name=name,
        publishable=(),
        may=lambda action, topic: (action, topic) in allowed,
        is_ended=lambda _: False,
        denied=lambda *_: None,
    )


def work(count=0, **limits):
    """A broker with a topic `t` that keeps messages, and a client; so many are there."""
    broker = broker_with(**limits)
    client = Sharing(broker)
    client.ask(CreateTopic(client.next_id(), "t", ((Setting.RETENTION_TTL_MS, FOREVER),)))
    if count:
        client.publish(*[b"%d" % number for number in range(count)])
    return broker, client


def seconds(broker, count=1):
    """Sweep once a second, while the clock moves."""
    for _ in range(count):
        broker.clock.advance(1)
        broker.sweep()
