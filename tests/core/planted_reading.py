"""Bugs for the model to find in what one reader is given, and in the conversation around it."""

from collections import deque
from unittest.mock import patch

from planted_bugs import BUGS, bug

from zaichik.core import reader, subscription_manager
from zaichik.core.phase import Phase
from zaichik_protocol import FOREVER, Lagged, Messages

__all__ = ["BUGS", "bug"]

Reader = reader.Reader
SubscriptionManager = subscription_manager.SubscriptionManager


# -- credit --------------------------------------------------------------------------------------


def _before_commit(monkeypatch, do):
    real = Reader.commit

    def commit(self, next_offset):
        do(self, next_offset)
        return real(self, next_offset)

    monkeypatch.setattr(Reader, "commit", commit)


@bug
def a_commit_adds_credit(monkeypatch):
    def do(self, next_offset):
        if self.committed < next_offset <= self.cursor:
            self.credit += 1

    _before_commit(monkeypatch, do)


@bug
def a_commit_of_nothing_grants_a_message(monkeypatch):
    def do(self, next_offset):
        if next_offset <= self.committed:
            self.credit += 1

    _before_commit(monkeypatch, do)


@bug
def a_commit_beyond_the_cursor_is_accepted(monkeypatch):
    real = Reader.commit
    monkeypatch.setattr(
        Reader, "commit", lambda self, next_offset: real(self, min(next_offset, self.cursor))
    )


@bug
def a_commit_moves_backwards(monkeypatch):
    real = Reader.commit

    def commit(self, next_offset):
        real(self, next_offset)
        self.position.committed = next_offset
        return next_offset

    monkeypatch.setattr(Reader, "commit", commit)


@bug
def a_commit_wakes_nobody(monkeypatch):
    real = Reader.commit

    def commit(self, next_offset):
        with patch.object(self, "make_ready", lambda: None):
            return real(self, next_offset)

    monkeypatch.setattr(Reader, "commit", commit)


@bug
def bytes_are_settled_with_the_first_message_of_a_frame(monkeypatch):
    real = Reader.commit

    def commit(self, next_offset):
        committed = real(self, next_offset)
        if self._frames and self._frames[0][0] == next_offset:
            first, end, count, size = self._frames[0]
            self.in_flight_bytes -= size
            self._frames[0] = (first, end, count, 0)
        return committed

    monkeypatch.setattr(Reader, "commit", commit)


@bug
def byte_credit_is_not_looked_at(monkeypatch):
    real = Reader._deliver

    def deliver(self):
        credit_bytes, self.credit_bytes = self.credit_bytes, 2**40
        frame = real(self)
        self.credit_bytes = credit_bytes
        return frame

    monkeypatch.setattr(Reader, "_deliver", deliver)


# -- lag, pieces, the end ------------------------------------------------------------------------


@bug
def lag_is_swallowed(monkeypatch):
    real = Reader._skip

    def skip(self, to_offset):
        real(self, to_offset)
        return self._next_frame()

    monkeypatch.setattr(Reader, "_skip", skip)


@bug
def lag_without_a_message_is_not_told(monkeypatch):
    real = Reader._next_frame

    def next_frame(self):
        ring = self.topic.retained.ring
        if self.cursor < ring.head == ring.next_offset and self.cursor < self.until:
            return None
        return real(self)

    monkeypatch.setattr(Reader, "_next_frame", next_frame)


@bug
def lag_goes_beyond_until(monkeypatch):
    real = Reader._skip
    monkeypatch.setattr(
        Reader, "_skip", lambda self, to_offset: real(self, self.topic.retained.ring.head)
    )


@bug
def skipped_offsets_are_one_off(monkeypatch):
    def skip(self, to_offset):
        lagged = Lagged(self.id, self.cursor, to_offset)
        self.skipped += to_offset - self.cursor - 1
        self.cursor = to_offset
        return lagged

    monkeypatch.setattr(Reader, "_skip", skip)


@bug
def the_base_of_a_piece_is_that_of_its_entry(monkeypatch):
    real = Reader._deliver

    def deliver(self):
        base = self.topic.retained.ring.entry(self.cursor).base
        frame = real(self)
        return frame and Messages(frame.id, base, frame.accepted_us, frame.batch)

    monkeypatch.setattr(Reader, "_deliver", deliver)


@bug
def an_entry_is_delivered_from_its_first_message(monkeypatch):
    """Also where the head stands inside it, or a part of it was delivered before."""
    real = Reader._deliver

    def deliver(self):
        frame = real(self)
        if frame is not None:
            batch = self.topic.retained.ring.entry(frame.base).batch.cut(0, frame.batch.count)
            frame = Messages(frame.id, frame.base, frame.accepted_us, batch)
        return frame

    monkeypatch.setattr(Reader, "_deliver", deliver)


@bug
def until_is_inclusive(monkeypatch):
    real = Reader.__init__

    def init(self, *args):
        real(self, *args)
        self.until += self.until < FOREVER

    monkeypatch.setattr(Reader, "__init__", init)


@bug
def the_end_waits_for_credit(monkeypatch):
    real = Reader._next_frame
    monkeypatch.setattr(Reader, "_next_frame", lambda self: real(self) if self.has_credit else None)


@bug
def an_ended_reader_stays_at_the_topic(monkeypatch):
    real = Reader._next_frame

    def next_frame(self):
        with patch.object(self.topic, "detach", lambda reader: None):
            return real(self)

    monkeypatch.setattr(Reader, "_next_frame", next_frame)


@bug
def the_end_is_told_again_after_a_commit(monkeypatch):
    def do(self, next_offset):
        self.ended = False

    _before_commit(monkeypatch, do)


# -- the conversation ----------------------------------------------------------------------------


@bug
def turns_are_not_fair(monkeypatch):
    """The reader that had a turn is the next to have one."""

    class LastFirst(deque):
        append = deque.appendleft

    monkeypatch.setattr(subscription_manager, "deque", LastFirst)


@bug
def an_error_with_id_0_is_silent(monkeypatch):
    real = SubscriptionManager.refuse

    def refuse(self, refusal, request_id, request_type):
        if request_id:
            real(self, refusal, request_id, request_type)

    monkeypatch.setattr(SubscriptionManager, "refuse", refuse)


@bug
def events_overtake_replies(monkeypatch):
    def turn(self, now_us):
        replies = self.replies.take()
        return [*real(self, now_us), *replies]

    real = SubscriptionManager.next_output
    monkeypatch.setattr(SubscriptionManager, "next_output", turn)


@bug
def the_soft_mark_is_not_looked_at(monkeypatch):
    def turn(self, now_us):
        frames = real(self, now_us)
        while more := self.ready and real(self, now_us):
            frames += more
        return frames

    real = SubscriptionManager.next_output
    monkeypatch.setattr(SubscriptionManager, "next_output", turn)


@bug
def unsubscribe_leaves_a_frame_on_its_way(monkeypatch):
    def drop(self, dropped):
        if dropped.ahead and (frame := dropped.take(self._broker.clock.now_us())):
            self.replies.add(frame)
        real(self, dropped)

    real = SubscriptionManager._remove
    monkeypatch.setattr(SubscriptionManager, "_remove", drop)


@bug
def close_forgets_the_subscriptions(monkeypatch):
    def close(self):
        self._become(Phase.CLOSING)
        self._on_output()

    monkeypatch.setattr(SubscriptionManager, "close", close)
