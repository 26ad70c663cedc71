"""Looks inside the broker: what no client can see must be bounded, add up, and be gone when nobody
is there.

A look takes no time and changes nothing, so it may come between any two steps. It comes about once
a second.
"""

import json
from collections import Counter

from zaichik.apps.audit import audit
from zaichik.core.rights import ANYBODY
from zaichik.core.settings import KIB
from zaichik.core.shared_names.shared_reader import SharedReader
from zaichik.core.shared_names.shared_rows import shared_row
from zaichik.core.tables.keep_last import ROW
from zaichik.core.tables.table import TOMBSTONES_PART, Table
from zaichik_protocol import FOREVER, Describe, Kind

from .network import RECEIVE_BYTES
from .trace import Anomaly

SWEEP_US = 1_000_000
LARGEST_TOMBSTONE = KIB + ROW
LARGEST_REPLY = 4 * 1024  # a page of what the broker knows, of as many names as are asked for here


def _bounded(what, value, most):
    if value > most:
        raise Anomaly("P6", f"{what}: {value}, and {most} is the most")


class Inspector:
    """Looks whenever it is asked to, and after every sweep.

    Args:
        world: where it looks, for as long as this life lasts.
    """

    def __init__(self, world):
        self._world = world
        self._life = world.life
        self._swept_us = world.now_us()
        self._sweep = world.broker.sweep
        world.broker.sweep = self._sweep_and_look

    def _sweep_and_look(self):
        """After a sweep nothing is left that time has freed (RET-1, RET-7)."""
        self._sweep()
        now_us = self._swept_us = self._world.now_us()
        for topic in self._world.broker.registry:
            kept, ttl_ms = topic.retained, topic.settings.retention_ttl_ms
            head = kept.head_in_memory
            accepted_us = kept.accepted_us(head)
            if accepted_us is None:
                continue
            is_over = 0 < ttl_ms < FOREVER and accepted_us + ttl_ms * 1000 <= now_us
            if is_over or (not ttl_ms and head < topic.needed()):
                self._world.fail(
                    Anomaly(
                        "P4",
                        f"{topic.name}: a sweep has left {head}, which nobody can be sent",
                    )
                )

    def look(self):
        """Look at everything.

        Raises:
            Anomaly: something is not as it should be.
        """
        broker = self._world.broker
        _bounded("µs since the last sweep", self._world.now_us() - self._swept_us, SWEEP_US)
        for topic in broker.registry:
            self._look_at_topic(topic)
        _bounded("topics", len(broker.registry), broker.settings.max_topics)
        _bounded("producers", len(broker.producers), broker.settings.max_producers)
        _bounded("named subscriptions", len(broker.named_positions), broker.settings.max_sessions)
        budget = broker.registry.budget
        held = sum(topic.unreserved for topic in broker.registry)
        if budget.used != held:
            raise Anomaly("P6", f"all topics hold {held} bytes, and {budget.used} are counted")
        _bounded(
            "bytes of all topics",
            sum(topic.retained.held()[0] for topic in broker.registry),
            broker.settings.max_bytes,
        )
        _bounded(
            "connections", len(self._life.server._connections), broker.settings.max_connections
        )
        for connection in self._life.server._connections:
            self._look_at_connection(connection)

    def _look_at_topic(self, topic):
        kept, settings = topic.retained, topic.settings
        if isinstance(kept, Table):
            messages, size = kept.kept.messages, kept.kept.size
            _bounded(f"tombstones of {topic.name}", kept.kept.tombstone_bytes, _tombstones(topic))
        else:
            messages, size = kept.ring.next_offset - kept.ring.head, kept.ring.bytes
        _bounded(f"messages of {topic.name}", messages, settings.capacity)
        _bounded(f"bytes of {topic.name}", size, settings.max_bytes)
        numbers = {
            "name": topic.name,
            "published": topic.published,
            "stored": topic.end,
            "compacted": topic.compacted,
        }
        fates = ("resident", "expired", "evicted", "superseded")
        _adds_up([numbers | {fate: getattr(kept, fate) for fate in fates}])
        if topic.window is not None:
            _bounded(f"keys of {topic.name}", len(topic.window), settings.max_keys)

    def _look_at_connection(self, connection):
        settings, manager = self._world.settings, connection._manager
        book = self._world.books[int(connection._peer.rpartition(":")[2])]
        if not self._life.is_stopping:
            _bounded(
                f"bytes of replies to {book.name}",
                manager.replies.bytes,
                settings.max_replies + LARGEST_REPLY,
            )
            unsent = sum(map(len, connection._unsent))
            _bounded(f"output of {book.name}", unsent, settings.soft_output + settings.max_frame)
        _bounded(
            f"input of {book.name}",
            connection._decoder.buffered,
            settings.max_frame + 4 + RECEIVE_BYTES,
        )
        _bounded(f"subscriptions of {book.name}", len(manager.readers), settings.max_subscriptions)
        for number, subscription in manager.readers.items():
            self._look_at_subscription(book, subscription, book.subscriptions.get(number))

    def _look_at_subscription(self, book, subscription, ledger):
        if isinstance(subscription, SharedReader):
            _look_at_worker(book, subscription, ledger)
            return
        topic = subscription.topic
        delivered, skipped, ahead = subscription.delivered, subscription.skipped, subscription.ahead
        names = (
            *("start", "committed", "cursor", "delivered", "skipped", "passed", "ahead"),
            "in_flight",
        )
        numbers = {name: getattr(subscription, name) for name in names}
        whose = {
            "name": f"{book.name}, {topic.name}",
            "connection": 1,
            "next_offset": topic.end,
        }
        _adds_up([], [whose | numbers])
        # Holes are passed without a word.
        is_beyond = topic.settings.table and ledger and ledger.cursor <= subscription.cursor
        cursor = ledger.cursor if is_beyond else subscription.cursor
        if ledger and (ledger.cursor, ledger.delivered, ledger.skipped) != (
            cursor,
            delivered,
            skipped,
        ):
            told = (
                f"it was told up to {ledger.cursor}: {ledger.delivered} messages, "
                f"{ledger.skipped} lagged"
            )
            raise Anomaly(
                "P2",
                f"{book.name}, {topic.name}: {told}; not {subscription.cursor}: {delivered}, "
                f"{skipped}",
            )
        is_served = subscription.is_ready or subscription.ended or subscription.waits_for_disk
        if ahead and not subscription.in_flight and not is_served:
            raise Anomaly(
                "P5",
                f"{book.name}, {topic.name}: {ahead} are ahead, none in flight, and it was not "
                "woken",
            )
        if not subscription.ended and subscription not in topic.readers:
            raise Anomaly("P2", f"{book.name} reads {topic.name}, which does not know it")


def _look_at_worker(book, worker, ledger):
    """A worker that is there, and its name, of which `audit` knows the sum."""
    topic = worker.topic
    if ledger and (ledger.delivered, ledger.skipped) != (worker.delivered, worker.skipped):
        told = f"it was told {ledger.delivered} messages, {ledger.skipped} lagged"
        raise Anomaly(
            "P2", f"{book.name}, {topic.name}: {told}; not {worker.delivered}, {worker.skipped}"
        )
    _adds_up([], [shared_row(worker.position, 0)])
    if not worker.ended and worker not in topic.readers:
        raise Anomaly("P2", f"{book.name} reads {topic.name}, which does not know it")


def _tombstones(topic):
    """The most bytes that a table's tombstones may take: one more, if it is the newest message."""
    return topic.settings.max_bytes // TOMBSTONES_PART + LARGEST_TOMBSTONE


def _adds_up(topics, subscriptions=()):
    for each in audit(topics, subscriptions):
        if each.difference:
            raise Anomaly("P2", f"{each.name}: {each}")


def check_audit(world):
    """What the broker tells of itself adds up: that is all that `zaichik audit` knows."""
    _adds_up(list(_described(world, Kind.TOPICS)), list(_described(world, Kind.SUBSCRIPTIONS)))


def _described(world, kind):
    after, more = "", True
    while more:
        more, page = world.broker.describe(Describe(1, kind, after=after), ANYBODY, world.now_us())
        rows = next(iter(json.loads(page).values()))
        yield from rows
        after = rows[-1]["name"] if rows else ""


def check_nothing_left(world):
    """Nobody is there any more: so nothing of them may be (CLO-3)."""
    broker = world.broker
    left = {
        "conversations": len(broker.managers),
        "connections": len(world.life.server._connections),
    }
    for topic in broker.registry:
        left[f"readers of {topic.name}"] = len(topic.readers)
        left[f"readers of names in {topic.name}"] = sum(
            name.has_reader for name in topic.names.values()
        )
        kept = topic.retained
        rows = kept.kept if isinstance(kept, Table) else kept.ring
        left[f"who waits for {topic.name}"] = len(rows._waiting)
    if any(left.values()):
        raise Anomaly(
            "CLO-3", ", ".join(f"{count} {what}" for what, count in left.items() if count)
        )


def check_reasons(world):
    """Every connection that was accepted has ended for a reason that fits what was said, and was
    counted (P7).
    """
    life = world.life
    ends, words = (
        life.broker.ends,
        {number: reason.partition(":")[0] for number, reason in life.reasons.items()},
    )
    if Counter(words.values()) != ends:
        raise Anomaly(
            "P7", f"the log tells of {dict(Counter(words.values()))}, and counted are {dict(ends)}"
        )
    accepted = life.broker._connections + ends["TURNED_AWAY"]
    if len(words) != accepted:
        raise Anomaly("P7", f"{accepted} connections were accepted, and {len(words)} have a reason")
    for number, word in words.items():
        book = world.books[number]
        allowed = {"GONE", "STOPPED" if life.is_stopping else "GONE"}
        allowed |= {book.told} if book.told else {"CLOSED", "TURNED_AWAY"}
        if not book.is_good:
            allowed |= {"SLOW_CONSUMER"} | ({"NOT_ZAICHIK"} if not book.told else set())
        if word not in allowed:
            raise Anomaly(
                "P7", f"{book.name} was told {book.told or 'nothing'}, and has ended with {word}"
            )
