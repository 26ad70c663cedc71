"""Bugs for the simulation to find: each a slip in the real broker, with the promise whose breach
must be noticed.

A bug is a function that takes pytest's `monkeypatch` and plants it. Where a method is given as a
whole, the line that differs from the real one has a comment.
"""

import math
from dataclasses import replace
from heapq import heapify
from itertools import count
from operator import itemgetter
from unittest.mock import patch

import anyio

from zaichik.core.broker import Broker
from zaichik.core.compaction import CompactionWindow
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.in_memory import InMemory
from zaichik.core.phase import Phase
from zaichik.core.position import NamedPositions
from zaichik.core.producers import Producers
from zaichik.core.reader import Reader
from zaichik.core.ring import BroadcastRing
from zaichik.core.sharing.scheduler import FairQueue, Scheduler
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik.core.topic_controller import TopicController
from zaichik.server import connection as connection_module
from zaichik.server.connection import GONE, Connection
from zaichik.server.deadlines import Deadlines
from zaichik.server.phase import ConnectionPhase
from zaichik.server.server import Server
from zaichik_protocol import Unsubscribe

BUGS = {}


def bug(*promises, table=BUGS):
    """Breaks these promises, one of which must be named."""

    def register(plant):
        table[plant.__name__] = plant, promises
        return plant

    return register


def around(monkeypatch, cls, name, make):
    """Replace a method by what `make` makes of the real one."""
    monkeypatch.setattr(cls, name, make(getattr(cls, name)))


# -- topics --------------------------------------------------------------------------------------


@bug("P4")
def a_message_lives_a_moment_too_long(monkeypatch):
    around(
        monkeypatch,
        TopicController,
        "expire",
        lambda real: lambda self, now_us: real(self, now_us - 1),
    )


@bug("P2")
def what_is_evicted_is_counted_twice(monkeypatch):
    def evict(real):
        def counting(self, *cause):
            before = self.evicted
            real(self, *cause)
            self.evicted += self.evicted - before

        return counting

    around(monkeypatch, BroadcastRing, "evict_oldest", evict)


@bug("P4")
def what_expired_is_not_freed(monkeypatch):
    monkeypatch.setattr(TopicController, "sweep", lambda self, now_us: None)


@bug("P3")
def the_head_is_one_too_far_after_an_eviction(monkeypatch):
    def make(real):
        def evict(self):
            before = self.head
            real(self)
            if self.head > before:
                self.evicted += 1
                self._drop_below(self.head + 1)

        return evict

    around(monkeypatch, BroadcastRing, "_evict", make)


@bug("P6")
def the_ring_holds_one_message_too_many(monkeypatch):
    def make(real):
        def evict(self):
            self.capacity += 1
            real(self)
            self.capacity -= 1

        return evict

    around(monkeypatch, BroadcastRing, "_evict", make)


@bug("P5")
def a_wake_up_is_lost(monkeypatch):
    def make(real):
        def append(self, batch, accepted_us):
            if len(self._waiting) > 1:
                self._waiting.popitem()
            return real(self, batch, accepted_us)

        return append

    around(monkeypatch, BroadcastRing, "append", make)


@bug("COM-2")
def a_window_closes_a_moment_late(monkeypatch):
    around(
        monkeypatch,
        CompactionWindow,
        "close",
        lambda real: lambda self, now_us: real(self, now_us - 1),
    )


@bug("COM-2", "P3")
def a_window_closes_at_every_sweep(monkeypatch):
    def make(real):
        def sweep(self, now_us):
            real(self, now_us)
            if self.window is not None:
                self.window._opened_us.clear()

        return sweep

    around(monkeypatch, TopicController, "sweep", make)


# -- subscriptions -------------------------------------------------------------------------------


@bug("P2")
def lag_is_swallowed(monkeypatch):
    def make(real):
        def skip(self, to_offset):
            real(self, to_offset)
            return self._next_frame()

        return skip

    around(monkeypatch, Reader, "_skip", make)


@bug("CMT-1")
def every_commit_leaks_credit(monkeypatch):
    def make(real):
        def commit(self, next_offset):
            self.credit += next_offset > self.committed
            return real(self, next_offset)

        return commit

    around(monkeypatch, Reader, "commit", make)


@bug("P5")
def a_commit_wakes_nobody(monkeypatch):
    def make(real):
        def commit(self, next_offset):
            with patch.object(self, "make_ready", lambda: None):
                return real(self, next_offset)

        return commit

    around(monkeypatch, Reader, "commit", make)


@bug("P2", "CLO-3")
def a_message_follows_unsubscribed(monkeypatch):
    def make(real):
        def apply(self, request, now_us):
            leaving = (
                self.readers.get(request.subscription) if isinstance(request, Unsubscribe) else None
            )
            real(self, request, now_us)
            if leaving and leaving.id not in self.readers and (late := leaving.take(now_us)):
                self.replies.add(late)

        return apply

    around(monkeypatch, SubscriptionManager, "apply", make)


@bug("CLO-3", "P4", "P5")
def a_reader_that_has_left_stays_at_its_topic(monkeypatch):
    monkeypatch.setattr(
        TopicController, "detach", lambda self, reader: self.retained.stop_waiting(reader)
    )


@bug("P3", "P2")
def a_name_goes_on_after_what_it_was_sent(monkeypatch):
    """At most once, where at least once was promised."""

    def make(real):
        def claim(self, owner, attempt):
            real(self, owner, attempt)
            self.committed = self.delivered

        return claim

    around(monkeypatch, ExclusivePosition, "claim", make)


@bug("P2")
def what_comes_again_is_not_marked(monkeypatch):
    def make(real):
        def deliver(self):
            frame = real(self)
            return frame and replace(frame, redelivered=False)

        return deliver

    around(monkeypatch, Reader, "_deliver", make)


@bug("P3", "P2")
def a_position_is_forgotten_with_its_connection(monkeypatch):
    def make(real):
        def sweep(self, now_us):
            for _, (topic, session) in list(self.directory.after("", "")):
                if isinstance(session, ExclusivePosition) and session.reader is None:
                    self.forget(topic, session)

        return sweep

    around(monkeypatch, NamedPositions, "sweep", make)


# -- publishing ----------------------------------------------------------------------------------


@bug("P1", "P3")
def a_retry_is_stored_again(monkeypatch):
    def make(real):
        def answered(self, request, scope, *arguments, **options):
            if known := self._known.get((scope, request.producer)):
                known.next = request.sequence
            return real(self, request, scope, *arguments, **options)

        return answered

    around(monkeypatch, Producers, "answered", make)


@bug("P3")
def a_topic_that_may_lose_nothing_forgets_who_is_away(monkeypatch):
    def make(real):
        def needed(self):
            return min(
                (reader.cursor for reader in self.readers), default=self.retained.ring.next_offset
            )

        return needed

    around(monkeypatch, TopicController, "needed", make)


@bug("P3")
def a_full_topic_evicts(monkeypatch):
    monkeypatch.setattr(InMemory, "check_room", lambda self, batch: None)


# -- connections ---------------------------------------------------------------------------------


@bug("P2", "P5", "ERR")
def what_the_socket_did_not_take_is_forgotten(monkeypatch):
    def make(real):
        def send(self, now_us):
            real(self, now_us)
            self._unsent, self._is_full = [], False

        return send

    around(monkeypatch, Connection, "_send", make)


@bug("P2", "P5", "ERR")
def a_send_that_is_interrupted_starts_again(monkeypatch):
    def send(self, now_us):
        if not self._is_full and self._phase is not ConnectionPhase.GONE:
            self._unsent = self._unsent or [*self._manager.next_output(now_us)]
            if self._unsent:
                try:
                    left = self._stream.send_pieces_nowait(self._unsent)
                except GONE as error:
                    self._lose(error)
                    return
                self._sends += 1
                self._unsent, self._is_full = (
                    self._unsent if left else [],
                    bool(left),
                )  # not what is left

    monkeypatch.setattr(Connection, "_send", send)


@bug("P2")
def the_last_words_are_not_waited_for(monkeypatch):
    def is_over(self):
        if self._phase is ConnectionPhase.GONE or self._phase is ConnectionPhase.SECURING:
            return self._is_at_end
        return self._manager.is_finished  # and not self._unsent

    monkeypatch.setattr(Connection, "_is_over", property(is_over))


@bug("P5", "CLO-3")
def input_that_waited_for_room_is_not_watched_again(monkeypatch):
    def make(real):
        def turn(self):
            self._watch_again = anyio.Event()  # nobody waits for this one
            return real(self)

        return turn

    around(monkeypatch, Connection, "_turn", make)


@bug("P5", "CLO-3")
def a_peer_that_has_gone_keeps_its_replies(monkeypatch):
    def make(real):
        def lose(self, error):
            with patch.object(self._manager.replies, "clear", lambda: None):
                real(self, error)

        return lose

    around(monkeypatch, Connection, "_lose", make)


@bug("P6")
def requests_are_read_however_many_replies_wait(monkeypatch):
    monkeypatch.setattr(Connection, "_wants_input", property(lambda self: not self._is_at_end))


@bug("P5")
def a_turn_ends_when_all_is_applied(monkeypatch):
    monkeypatch.setattr(connection_module, "REQUESTS_A_TURN", 2**60)


@bug("P6")
def nobody_looks_at_the_clock(monkeypatch):
    monkeypatch.setattr(Deadlines, "check", lambda self, *_, **__: None)


@bug("P6")
def nobody_notices_that_nothing_is_read(monkeypatch):
    monkeypatch.setattr(Deadlines, "is_stuck", lambda self, *_, **__: False)


@bug("P5")
def a_full_socket_is_stuck_at_once(monkeypatch):
    def is_stuck(self, sends, unacknowledged, *, is_full):
        return is_full

    monkeypatch.setattr(Deadlines, "is_stuck", is_stuck)


# -- turns ---------------------------------------------------------------------------------------


@bug("P5")
def the_last_to_wait_is_the_first_to_be_served(monkeypatch):
    def take(self):
        last = max(self.waiting, key=itemgetter(1))
        self.waiting.remove(last)
        heapify(self.waiting)
        self.virtual, _, flow = last
        flow.is_waiting = False
        return flow

    monkeypatch.setattr(FairQueue, "take", take)


@bug("P5")
def a_connection_pays_for_itself_and_not_for_its_client(monkeypatch):
    numbers = count()
    around(
        monkeypatch,
        Scheduler,
        "join",
        lambda real: lambda self, key, take: real(self, f"{key} {next(numbers)}", take),
    )


@bug("P7")
def an_end_is_not_counted(monkeypatch):
    def make(real):
        def disconnect(self, manager, reason):
            real(self, manager, reason)
            self.ends.pop("GONE", None)

        return disconnect

    around(monkeypatch, Broker, "disconnect", make)


@bug("P5")
def a_stopping_broker_waits_for_its_clients(monkeypatch):
    def make(real):
        async def serve_connections(self):
            self.broker.settings = replace(self.broker.settings, drain_timeout=math.inf)
            await real(self)

        return serve_connections

    around(monkeypatch, Server, "_serve_connections", make)


@bug("P3")
def a_stop_says_goodbye_before_what_was_acknowledged_is_delivered(monkeypatch):
    def make(real):
        def next_output(self, now_us):
            if self.phase is Phase.STOPPING:
                self.ready.clear()
            return real(self, now_us)

        return next_output

    around(monkeypatch, SubscriptionManager, "next_output", make)
