"""Wrong explanations for the model to find: each as small as the slip that would cause it."""

from zaichik.core import decisions
from zaichik.core.decisions import Decisions
from zaichik.core.report import answer, delivery, keys, remembered, stored
from zaichik.core.ring import BroadcastRing
from zaichik.core.ringed import Ringed

WRONG = {}


def wrong(plant):
    WRONG[plant.__name__] = plant
    return plant


def replaced(monkeypatch, module, name, change):
    """A function whose verdict is changed."""
    real = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: change(real(*args), *args))


@wrong
def what_was_evicted_for_bytes_is_told_as_capacity(monkeypatch):
    real = stored._evicted
    monkeypatch.setattr(
        stored,
        "_evicted",
        lambda broker, topic, offset, _, evidence: real(
            broker, topic, offset, decisions.CAPACITY, evidence
        ),
    )


@wrong
def a_change_of_cause_is_overlooked(monkeypatch):
    real = BroadcastRing._drop_below

    def drop_below(self, offset, cause=decisions.EXPIRED):
        known = len(self.moves)
        real(self, offset, cause)
        if len(self.moves) > max(known, 1):
            self.moves.pop()

    monkeypatch.setattr(BroadcastRing, "_drop_below", drop_below)


@wrong
def an_offset_that_is_the_head_is_gone(monkeypatch):
    real = stored.message_at
    monkeypatch.setattr(
        answer, "message_at", lambda broker, topic, offset, now: stored._expired(topic, {})
        if offset == topic.head < topic.end else real(broker, topic, offset, now)
    )  # fmt: skip


@wrong
def the_cause_of_a_run_is_that_of_the_one_before(monkeypatch):
    def gone(broker, topic, offset):
        moves = [
            move for move in topic.retained.ring.moves if move[0] < offset
        ] or topic.retained.ring.moves  # not <=
        return (
            stored._evicted(broker, topic, offset, moves[-1][2], {})
            if moves[-1][2] != decisions.EXPIRED
            else (stored._expired(topic, {}))
        )

    monkeypatch.setattr(stored, "_gone", gone)


@wrong
def what_was_skipped_was_delivered(monkeypatch):
    def passed(reader, offset):
        return delivery._in_flight(reader, offset)._replace(
            fate="settled" if offset < reader.committed else "in_flight"
        )

    monkeypatch.setattr(delivery, "_below_cursor", passed)


@wrong
def what_is_committed_is_still_in_flight(monkeypatch):
    change = lambda verdict, reader, offset: (  # noqa: E731
        verdict._replace(fate="in_flight") if offset == reader.committed - 1 else verdict
    )
    replaced(monkeypatch, delivery, "_below_cursor", change)


@wrong
def the_window_is_the_winner_s_own_and_one_more(monkeypatch):
    def change(verdict, *_):
        if "until_us" in verdict.evidence:
            verdict.evidence["until_us"] += 1
        return verdict

    replaced(monkeypatch, remembered, "kept_out", change)


@wrong
def the_oldest_message_there_is_is_the_newest(monkeypatch):
    real = Ringed.nearest

    def nearest(self, key, at_us):
        ring = self.ring
        found = real(self, key, at_us)
        first = next(
            (it for it in range(ring.head, ring.next_offset) if real(self, key, at_us).before), 0
        )
        return found._replace(before=(found.before[0], first)) if found.before else found

    monkeypatch.setattr(Ringed, "nearest", nearest)


@wrong
def what_is_forgotten_was_never_there(monkeypatch):
    monkeypatch.setattr(keys, "_not_searched", lambda *_: [])


@wrong
def a_refused_batch_is_not_remembered(monkeypatch):
    real = Decisions.answered

    def answered(self, now_us, batch, answer, *who):
        if not hasattr(answer, "code"):
            real(self, now_us, batch, answer, *who)

    monkeypatch.setattr(Decisions, "answered", answered)


@wrong
def all_of_a_batch_was_kept_out(monkeypatch):
    real = remembered.Decided.concerns
    monkeypatch.setattr(
        remembered.Decided, "concerns", lambda self, key: real(self._replace(fate=-1), key)
    )
