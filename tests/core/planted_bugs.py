"""Bugs for the model to find: each a wrong line in the real core, as small as the slip that would
cause it.

Those in topics and what they hold; `planted_reading` and `planted_promises` have more, in the same
table.

A bug is a function that takes pytest's `monkeypatch` and plants it. Where a method is given as a
whole, the line that differs from the real one has a comment.
"""

from bisect import bisect_right
from unittest.mock import patch

from zaichik.core import compaction, reader, ring, topic_controller, topic_registry

BroadcastRing = ring.BroadcastRing
CompactionWindow = compaction.CompactionWindow
Reader = reader.Reader
TopicController = topic_controller.TopicController
TopicRegistry = topic_registry.TopicRegistry

BUGS = {}


def bug(plant):
    BUGS[plant.__name__] = plant
    return plant


# -- the compaction window -----------------------------------------------------------------------


@bug
def window_is_closed_at_both_ends(monkeypatch):
    real = CompactionWindow.close

    def close(self, now_us):
        real(self, now_us - 1)  # now <= t0 + window

    monkeypatch.setattr(CompactionWindow, "close", close)


@bug
def repeats_prolong_the_window(monkeypatch):
    real = CompactionWindow.admit

    def admit(self, keys, now_us):
        kept = real(self, keys, now_us)
        for index, key in enumerate(keys):
            if key and index not in kept and key in self._opened_us:
                del self._opened_us[key]
                self._opened_us[key] = now_us
        return kept

    monkeypatch.setattr(CompactionWindow, "admit", admit)


@bug
def messages_without_a_key_are_compacted(monkeypatch):
    real = CompactionWindow.admit

    def admit(self, keys, now_us):
        return real(self, [key or b"none" for key in keys], now_us)

    monkeypatch.setattr(CompactionWindow, "admit", admit)


@bug
def newest_window_is_forgotten_first(monkeypatch):
    real = CompactionWindow.admit

    def admit(self, keys, now_us):
        max_keys, self._max_keys = self._max_keys, 2**63
        kept = real(self, keys, now_us)
        self._max_keys = max_keys
        while len(self._opened_us) > max_keys:
            self._opened_us.popitem()
            self.forgotten += 1
        return kept

    monkeypatch.setattr(CompactionWindow, "admit", admit)


@bug
def dropped_bits_are_highest_first(monkeypatch):
    def bitmap(count, kept):
        bits = bytearray((count + 7) // 8)
        for index in set(range(count)).difference(kept):
            bits[index >> 3] |= 0x80 >> (index & 7)
        return bytes(bits)

    monkeypatch.setattr(topic_controller, "bitmap", bitmap)


# -- the ring ------------------------------------------------------------------------------------


def _evict_with(monkeypatch, more):
    real = BroadcastRing._evict

    def evict(self):
        self.capacity -= more
        real(self)
        self.capacity += more

    monkeypatch.setattr(BroadcastRing, "_evict", evict)


@bug
def one_message_too_many_is_evicted(monkeypatch):
    _evict_with(monkeypatch, 1)


@bug
def one_message_too_few_is_evicted(monkeypatch):
    _evict_with(monkeypatch, -1)


@bug
def bytes_are_not_bounded(monkeypatch):
    def evict(self):
        before = self.head
        self._drop_below(max(self.head, self.next_offset - self.capacity))
        self.evicted += self.head - before

    monkeypatch.setattr(BroadcastRing, "_evict", evict)


@bug
def expired_messages_count_as_evicted(monkeypatch):
    def expire_below(self, offset):
        if offset > self.head:
            self.evicted += offset - self.head
            self._drop_below(offset)

    monkeypatch.setattr(BroadcastRing, "expire_below", expire_below)


@bug
def a_wake_is_lost(monkeypatch):
    real = BroadcastRing.append

    def append(self, batch, accepted_us):
        if self._waiting:
            self._waiting.popitem()
        return real(self, batch, accepted_us)

    monkeypatch.setattr(BroadcastRing, "append", append)


@bug
def a_time_start_is_exclusive(monkeypatch):
    real = BroadcastRing.first_accepted_since
    monkeypatch.setattr(
        BroadcastRing, "first_accepted_since", lambda self, time_us: real(self, time_us + 1)
    )


@bug
def a_time_start_forgets_the_head(monkeypatch):
    def first_accepted_since(self, time_us):
        return self._bases[
            bisect_right(self._accepted_us, time_us - 1, lo=self._first)
        ]  # the head may be inside it

    monkeypatch.setattr(BroadcastRing, "first_accepted_since", first_accepted_since)


# -- retention -----------------------------------------------------------------------------------


def _expire_at(monkeypatch, offset_us):
    real = TopicController.expire
    monkeypatch.setattr(
        TopicController, "expire", lambda self, now_us: real(self, now_us + offset_us)
    )


@bug
def a_message_lives_a_microsecond_too_long(monkeypatch):
    _expire_at(monkeypatch, -1)


@bug
def a_message_lives_a_microsecond_too_short(monkeypatch):
    _expire_at(monkeypatch, 1)


@bug
def expired_messages_are_delivered_until_the_next_sweep(monkeypatch):
    def take(self, now_us):
        with patch.object(self.topic, "expire", lambda now_us: None):
            return real(self, now_us)

    real = Reader.take
    monkeypatch.setattr(Reader, "take", take)


@bug
def the_sweep_without_retention_ignores_cursors(monkeypatch):
    real = TopicController.sweep

    def sweep(self, now_us):
        with patch.object(self, "needed", lambda: self.end):
            real(self, now_us)

    monkeypatch.setattr(TopicController, "sweep", sweep)


@bug
def earliest_replays_what_the_sweep_has_not_reached(monkeypatch):
    real = TopicController.position

    def position(self, start, value, now_us):
        return (
            self.retained.ring.head if start == 0 else real(self, start, value, now_us)
        )  # also where ttl is 0

    monkeypatch.setattr(TopicController, "position", position)


# -- topics --------------------------------------------------------------------------------------


@bug
def the_second_creator_replaces_the_topic(monkeypatch):
    def create(self, name, pairs, now_us, client=""):
        if name in self._topics:
            self.directory.remove(name)
        return self._add(name, pairs, now_us, client, explicit=True), True

    monkeypatch.setattr(TopicRegistry, "create", create)


@bug
def an_explicit_create_changes_a_topic_in_use(monkeypatch):
    real = TopicController.create_again

    def create_again(self, pairs):
        if not self.explicit:
            self._apply(self.settings.merged(pairs), explicit=True)
        real(self, pairs)

    monkeypatch.setattr(TopicController, "create_again", create_again)


@bug
def settings_not_named_are_compared_too(monkeypatch):
    real = TopicController.create_again

    def create_again(self, pairs):
        defaults = dict(type(self.settings)().pairs())
        real(self, tuple({**defaults, **dict(pairs)}.items()))

    monkeypatch.setattr(TopicController, "create_again", create_again)


@bug
def an_unsubscribed_reader_stays_at_the_topic(monkeypatch):
    monkeypatch.setattr(
        TopicController, "detach", lambda self, reader: self.retained.stop_waiting(reader)
    )


@bug
def an_unsubscribed_reader_stays_in_the_waiting_list(monkeypatch):
    monkeypatch.setattr(
        TopicController, "detach", lambda self, reader: self.readers.pop(reader, None)
    )
