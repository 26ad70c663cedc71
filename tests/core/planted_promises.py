"""Bugs for the model to find in safe retries (PUB-4), lossless topics (RET-9) and named
subscriptions (CMT-3).
"""

from dataclasses import replace
from functools import partial

from planted_reading import BUGS, bug

from zaichik.core import (
    exclusive_position,
    in_memory,
    position,
    producers,
    reader,
    ring,
    subscription_manager,
    topic_controller,
)
from zaichik_protocol import ErrorCode, Refused

__all__ = ["BUGS"]

BroadcastRing = ring.BroadcastRing
Producers = producers.Producers
ExclusivePosition = exclusive_position.ExclusivePosition
NamedPositions = position.NamedPositions
Reader = reader.Reader
SubscriptionManager = subscription_manager.SubscriptionManager
TopicController = topic_controller.TopicController
InMemory = in_memory.InMemory


# -- producers -----------------------------------------------------------------------------------


def _instead_of_once(monkeypatch, do):
    real = SubscriptionManager._store_once

    def once(self, request, now_us):
        return do(partial(real, self), self, self._broker.producers, request, now_us)

    monkeypatch.setattr(SubscriptionManager, "_store_once", once)


@bug
def a_retry_is_stored_twice(monkeypatch):
    def once(real, manager, producers, request, now_us):
        answer = real(request, now_us)
        return manager._store(request, now_us) if answer.duplicate else answer

    _instead_of_once(monkeypatch, once)


@bug
def a_refused_batch_is_not_remembered(monkeypatch):
    def once(real, manager, producers, request, now_us):
        before = (
            producers._known["", request.producer].next
            if ("", request.producer) in producers._known
            else 0
        )
        try:
            return real(request, now_us)
        except Refused:
            known = producers._known.get(("", request.producer))
            if known and known.next > before:
                known.next -= 1
                known.answers.pop()
            raise

    _instead_of_once(monkeypatch, once)


@bug
def a_refusal_that_may_pass_uses_the_number_up(monkeypatch):
    def once(real, manager, producers, request, now_us):
        try:
            return real(request, now_us)
        except Refused as refusal:
            if refusal.code == ErrorCode.TOPIC_FULL:
                producers._known["", request.producer].next += 1
                producers._known["", request.producer].answers.append(refusal)
            raise

    _instead_of_once(monkeypatch, once)


@bug
def a_batch_after_a_gap_is_stored(monkeypatch):
    def once(real, manager, producers, request, now_us):
        known = producers._known.get(("", request.producer))
        if known and request.sequence > known.next:
            request = replace(request, sequence=known.next)
        return real(request, now_us)

    _instead_of_once(monkeypatch, once)


@bug
def an_unknown_producer_begins_anywhere(monkeypatch):
    def once(real, manager, producers, request, now_us):
        first = ("", request.producer) not in producers._known
        return real(replace(request, sequence=0) if first else request, now_us)

    _instead_of_once(monkeypatch, once)


@bug
def a_duplicate_is_not_marked(monkeypatch):
    def once(real, manager, producers, *arguments):
        return replace(real(*arguments), duplicate=False)

    _instead_of_once(monkeypatch, once)


@bug
def a_duplicate_is_answered_with_the_first_ones_id(monkeypatch):
    first_ids = {}

    def once(real, manager, producers, request, *arguments):
        answer = real(request, *arguments)
        answer.id = first_ids.setdefault((request.producer, request.sequence), answer.id)
        return answer

    _instead_of_once(monkeypatch, once)


def _sweep_at(monkeypatch, cls, offset_us):
    real = cls.sweep
    monkeypatch.setattr(cls, "sweep", lambda self, now_us: real(self, now_us + offset_us))


@bug
def a_producer_is_remembered_a_microsecond_too_long(monkeypatch):
    _sweep_at(monkeypatch, Producers, -1)


@bug
def a_producer_that_goes_on_is_forgotten(monkeypatch):
    def once(real, manager, producers, request, now_us):
        known = producers._known.get(("", request.producer))
        used_us = now_us if known is None else known.used_us
        try:
            return real(request, now_us)
        finally:
            if ("", request.producer) in producers._known:
                producers._known["", request.producer].used_us = used_us

    _instead_of_once(monkeypatch, once)


# -- topics that may lose nothing ----------------------------------------------------------------


@bug
def bytes_are_evicted_from_a_lossless_topic(monkeypatch):
    real = BroadcastRing.head_after

    def head_after(self, batch):
        max_bytes, self.max_bytes = self.max_bytes, 2**63
        head = real(self, batch)
        self.max_bytes = max_bytes
        return head

    monkeypatch.setattr(BroadcastRing, "head_after", head_after)


@bug
def a_batch_that_just_fits_is_refused(monkeypatch):
    real = BroadcastRing.head_after
    monkeypatch.setattr(BroadcastRing, "head_after", lambda self, batch: real(self, batch) + 1)


@bug
def only_readers_that_are_there_are_waited_for(monkeypatch):
    """The watermark ignores a position whose reader is away."""

    def needed(self):
        there = [position for position in self.positions() if position.reader is not None]
        return min((position.needed for position in there), default=self.end)

    monkeypatch.setattr(TopicController, "needed", needed)


@bug
def what_a_named_reader_was_sent_counts_as_settled(monkeypatch):
    def needed(self):
        return (
            self.reader.cursor
            if self.reader and not self.name
            else max(self.committed, self.delivered)
        )

    monkeypatch.setattr(ExclusivePosition, "needed", property(needed))


@bug
def a_refused_batch_opens_windows(monkeypatch):
    real = InMemory.check_room

    def check_room(self, batch):
        try:
            real(self, batch)
        except Refused:
            window, ring = self._topic.window, self.ring
            if window is not None:
                window.admit(batch.keys(), ring._accepted_us[ring._first])
            raise

    monkeypatch.setattr(InMemory, "check_room", check_room)


# -- named subscriptions -------------------------------------------------------------------------


@bug
def a_commit_does_not_move_the_position(monkeypatch):
    real = Reader.commit

    def commit(self, next_offset):
        position, before = self.position, self.position.committed
        answer = real(self, next_offset)
        if position.name:
            position.committed = before
        return answer

    monkeypatch.setattr(Reader, "commit", commit)


@bug
def a_takeover_leaves_the_old_one_reading(monkeypatch):
    monkeypatch.setattr(Reader, "cut_off", lambda self, code: None)


@bug
def the_old_reader_still_moves_the_position(monkeypatch):
    real = Reader.cut_off

    def cut_off(self, code):
        position = self.position
        real(self, code)
        self.position = position

    monkeypatch.setattr(Reader, "cut_off", cut_off)


@bug
def the_old_reader_is_not_told(monkeypatch):
    real = Reader.cut_off

    def cut_off(self, code):
        real(self, code)
        self.ended = True

    monkeypatch.setattr(Reader, "cut_off", cut_off)


@bug
def what_comes_again_is_not_marked(monkeypatch):
    real = Reader._deliver

    def deliver(self):
        frame = real(self)
        return frame and replace(frame, redelivered=False)

    monkeypatch.setattr(Reader, "_deliver", deliver)


@bug
def what_is_new_is_marked_with_what_comes_again(monkeypatch):
    """Where both are of one batch."""
    real = Reader._deliver

    def deliver(self):
        position, self.position = self.position, ExclusivePosition(self.cursor)
        again = position.delivered > self.cursor
        frame = real(self)
        self.position = position
        position.delivered = max(position.delivered, self.cursor)
        return frame and replace(frame, redelivered=again)

    monkeypatch.setattr(Reader, "_deliver", deliver)


@bug
def who_comes_back_goes_on_after_what_was_sent(monkeypatch):
    real = Reader.__init__

    def init(self, request, topic, position, *others):
        position.committed = max(position.committed, position.delivered)
        real(self, request, topic, position, *others)

    monkeypatch.setattr(Reader, "__init__", init)


@bug
def an_unsubscribe_forgets_the_position(monkeypatch):
    real = SubscriptionManager._unsubscribe

    def unsubscribe(self, request):
        real(self, replace(request, forget=True))

    monkeypatch.setattr(SubscriptionManager, "_unsubscribe", unsubscribe)


@bug
def nothing_is_forgotten_on_request(monkeypatch):
    real = SubscriptionManager._unsubscribe

    def unsubscribe(self, request):
        real(self, replace(request, forget=False))

    monkeypatch.setattr(SubscriptionManager, "_unsubscribe", unsubscribe)


@bug
def a_position_outlives_its_time_by_a_microsecond(monkeypatch):
    real = NamedPositions.sweep

    def sweep(self, now_us):
        there = [known for _, (_, known) in self.directory.after("", "")]
        for known in there:
            if known.left_us is not None:
                known.left_us += 1
        real(self, now_us)
        for known in there:
            if known.left_us is not None and known.left_us != now_us:
                known.left_us -= 1

    monkeypatch.setattr(NamedPositions, "sweep", sweep)


@bug
def who_was_away_twice_was_away_all_the_time(monkeypatch):
    real = Reader.join

    def join(self):
        left_us = self.position.left_us
        real(self)
        self.position.left_us = left_us

    monkeypatch.setattr(Reader, "join", join)


@bug
def one_name_means_one_position_in_all_topics(monkeypatch):
    real = TopicController.__init__

    def init(self, *args, **options):
        real(self, *args, **options)
        self.names = vars(self.budget).setdefault("names", {})

    monkeypatch.setattr(TopicController, "__init__", init)
