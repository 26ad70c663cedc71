"""Bugs for random histories to find in work queues: each a wrong line, as small as a slip.

Those of `MODEL` are found beside the naive model, those of `WORLD` in worlds of programs that fail.
How their place and their code are written: see `planting`. The method that has the bug replaces the
real one, so no program has to be started for each.
"""

import sys
from dataclasses import dataclass

from planting import find, planted


@dataclass(frozen=True)
class QueueBug:
    """A wrong line in a method.

    Attributes:
        name: what is wrong.
        where: the method, as Class.method; it may be a property.
        right: what stands there, an expression or statements; `wrong` stands there instead.
    """

    name: str
    where: str
    right: str
    wrong: str

    def planted(self):
        """The file that has the bug, and its text with it."""
        return planted(self.where, self.right, self.wrong)

    def plant(self, monkeypatch):
        """Have the class use the method with the bug."""
        _, text = self.planted()
        module = sys.modules[find(self.where).module]
        namespace = {"__name__": module.__name__}
        exec(compile(text, self.name, "exec"), namespace)  # noqa: S102 (it is ours, nearly)
        owner, _, method = self.where.rpartition(":")[2].rpartition(".")
        monkeypatch.setattr(getattr(module, owner), method, namespace[owner].__dict__[method])


MODEL = [
    # -- handing out -----------------------------------------------------------------------------
    QueueBug(
        "credit is not looked at",
        "worker:Worker.has_credit",
        "in_flight < self.credit and self.in_flight_bytes < self.credit_bytes",
        "self.in_flight_bytes < self.credit_bytes",
    ),
    QueueBug(
        "a frame is larger than the credit that is left",
        "WorkQueue._most_new",
        "worker.credit - worker.in_flight",
        "worker.credit",
    ),
    QueueBug(
        "max_open is not looked at",
        "WorkQueue.new",
        "max(min(self.end - ledger.next, max_open - ledger.active), 0)",
        "max(self.end - ledger.next, 0)",
    ),
    QueueBug(
        "what waits for its time counts as open",
        "Ledger.active",
        "self.open - len(self.delayed)",
        "self.open",
    ),
    QueueBug(
        "the dead do not stop the name",
        "WorkQueue.is_stopped",
        "len(self.ledger.dead) >= self.settings.max_dead or not self._tickets.left",
        "not self._tickets.left",
    ),
    QueueBug(
        "one message too many is dead before the name stops",
        "WorkQueue.is_stopped",
        "len(self.ledger.dead) >= self.settings.max_dead",
        "len(self.ledger.dead) > self.settings.max_dead",
    ),
    QueueBug(
        "what is new comes before what comes again",
        "WorkQueue._offer_in_turn",
        "available and ledger.ready",
        "available and ledger.ready and not self.new",
    ),
    QueueBug(
        "holes in a batch are not counted",
        "Ledger.pass_to",
        "self.passed += offset - self.next",
        "pass",
    ),
    QueueBug(
        "what is gone is passed in silence",
        "Ledger.close_skipped",
        "self.skipped += 1",
        "self.passed += 1",
    ),
    QueueBug(
        "the mark of what came again is lost",
        "WorkQueue._give",
        "message.is_again = True",
        "pass",
    ),
    QueueBug(
        "what may have been delivered before a crash is not marked",
        "WorkQueue.hand_out_next",
        "offsets[0] < self._delivered",
        "False",
    ),
    QueueBug(
        "a frame is new and redelivered",
        "WorkQueue._most_new",
        "first < self._delivered",
        "first > self._delivered",
    ),
    # -- the line --------------------------------------------------------------------------------
    QueueBug(
        "a message calls nobody",
        "WorkQueue.published",
        "self.wake()",
        "pass",
    ),
    QueueBug(
        "a worker that settles does not wait again",
        "WorkQueue.line_up",
        "self._line.join(worker)",
        "pass",
    ),
    QueueBug(
        "everybody is called for one message",
        "Line.call",
        "self._idle and len(self._called) < count",
        "self._idle and count",
    ),
    QueueBug(
        "the worker that came last is called first",
        "Line.call",
        "next(iter(self._idle))",
        "next(reversed(self._idle))",
    ),
    QueueBug(
        "a worker that asks again loses its place",
        "Line.join",
        "worker not in self._called and worker not in self._idle",
        "worker not in self._called",
    ),
    QueueBug(
        "a worker that found nothing goes to the end",
        "Line.put_back",
        "self._idle.move_to_end(worker, last=False)",
        "pass",
    ),
    QueueBug(
        "workers push in",
        "WorkQueue._offer_in_turn",
        "not is_called and self._line.called >= available",
        "not available",
    ),
    QueueBug(
        "a call that is not answered is never taken back",
        "Line.sweep",
        "self._sweeps - called_at < SWEEPS",
        "True",
    ),
    QueueBug(
        "a call that cannot be answered is lost",
        "WorkQueue._stand_aside",
        "if was_called:\n    self.wake()",
        "pass",
    ),
    # -- time ------------------------------------------------------------------------------------
    QueueBug(
        "a stall takes work away",
        "Patience.at",
        "self._counted_us + min(max(now_us - self._swept_us, 0), MOST_US)",
        "self._counted_us + now_us - self._swept_us",
    ),
    QueueBug(
        "what times out frees the credit",
        "WorkQueue._time_out",
        "worker.overdue[message.ticket] = message.size",
        "worker.in_flight_bytes -= message.size",
    ),
    QueueBug(
        "what is settled late goes on using credit",
        "WorkQueue._settle_late",
        "worker.overdue.pop(ticket, None)",
        "None",
    ),
    QueueBug(
        "extending settles what timed out",
        "WorkQueue.settle",
        "if outcome != Outcome.EXTEND:\n    self._settle_late(worker, ticket)",
        "self._settle_late(worker, ticket)",
    ),
    QueueBug(
        "a time-out outlives the delivery",
        "WorkQueue._take_back",
        "if message.due_us:\n    worker.timeouts.remove(message)\n    message.due_us = 0",
        "pass",
    ),
    QueueBug(
        "what is due at this moment is not due",
        "Calendar.take_due",
        "message.due_us <= now_us",
        "message.due_us < now_us",
    ),
    QueueBug(
        "the last second is not looked at",
        "Calendar._seconds_until",
        "range(self._first_s, now_s + 1)",
        "range(self._first_s, now_s)",
    ),
    QueueBug(
        "a retry doubles from the first time on",
        "Retries.retry",
        "backoff_us(message.count)",
        "backoff_us(message.count + 1)",
    ),
    QueueBug(
        "a retry at once waits",
        "Retries.retry",
        "delay_us is None",
        "not delay_us",
    ),
    QueueBug(
        "an owner may come a moment too late",
        "Absences.take_ended",
        "absence.until_us <= machine_us",
        "absence.until_us < machine_us",
    ),
    # -- settling --------------------------------------------------------------------------------
    QueueBug(
        "anybody's ticket settles",
        "WorkQueue.settle",
        "message = worker.held.get(ticket)",
        """
        message = None
        for other in self.workers:
            if ticket in other.held:
                worker = other
                message = worker.held[ticket]
        """,
    ),
    QueueBug(
        "a release counts",
        "Retries.release",
        "message.count -= 1",
        "pass",
    ),
    QueueBug(
        "a release ends suspicion",
        "Retries.release",
        "message.count -= 1",
        "message.count -= 1\nmessage.is_suspect = False",
    ),
    QueueBug(
        "a retry leaves suspicion",
        "Retries.retry",
        "message.is_suspect = False",
        "pass",
    ),
    QueueBug(
        "a retry does not end the row of give-backs",
        "Retries.retry",
        "message.given_back = 0",
        "pass",
    ),
    QueueBug(
        "it is dead one delivery too late",
        "Retries._fail",
        "0 < self.max_deliveries <= message.count",
        "0 < self.max_deliveries < message.count",
    ),
    QueueBug(
        "company is looked for after the first is taken out of the hand",
        "WorkQueue.settle",
        "self._settle_one(message, outcome, now_us, delay_us, reason, is_alone=is_alone)",
        """
        is_alone = not worker.hand.size
        self._settle_one(message, outcome, now_us, delay_us, reason, is_alone=is_alone)
        """,
    ),
    QueueBug(
        "the last worker of a lost connection had nobody beside it",
        "Hand.lose",
        "not self.is_lost",
        "True",
    ),
    QueueBug(
        "a lost worker's job is not suspect",
        "Retries.lose",
        "message.is_suspect = True",
        "pass",
    ),
    QueueBug(
        "what an owner does not name is lost",
        "WorkQueue._return",
        "self._retries.release(message, now_us)",
        "self._retries.lose(message, LOST, now_us, is_alone=True)",
    ),
    QueueBug(
        "an owner that is back loses all",
        "WorkQueue.join",
        "known = absence.held",
        "named = frozenset()",
    ),
    QueueBug(
        "a program that hangs is fed again when it comes back",
        "WorkQueue.join",
        "worker.overdue[ticket] = 0\nworker.hand.add_overdue()",
        "pass",
    ),
    QueueBug(
        "an old request takes the place of a new one",
        "WorkQueue._claim",
        "worker.attempt <= attempt",
        "worker.attempt < attempt",
    ),
    # -- hands -----------------------------------------------------------------------------------
    QueueBug(
        "the hand of a suspect gets more",
        "Hand.takes_more",
        "if self.suspects:\n    return False",
        "pass",
    ),
    QueueBug(
        "a hand that drains gets more",
        "Hand.takes_more",
        "self.drains_for is worker and not self.size",
        "self.drains_for is worker",
    ),
    QueueBug(
        "a hand drains for ever",
        "Isolation.note_handed_out",
        "self.stop_draining(worker)",
        "pass",
    ),
    QueueBug(
        "all hands drain for one suspect",
        "Isolation._most_draining",
        "len(self._ledger.suspects) + self._sweeps_in_vain",
        "len(self._ledger.suspects) + 99",
    ),
    QueueBug(
        "a hand drains although another is empty",
        "Isolation.drain",
        "all(other.hand.size for other in self._line)",
        "True",
    ),
    QueueBug(
        "a hand that can never be empty drains",
        "Hand.time_out",
        "drains_for.queue.stop_draining(drains_for)",
        "pass",
    ),
    QueueBug(
        "nobody is told that a hand is empty",
        "Hand.remove",
        "self._tell()",
        "pass",
    ),
    QueueBug(
        "nobody is told that what timed out has left the hand",
        "Hand.remove_overdue",
        "self._tell()",
        "pass",
    ),
    QueueBug(
        "a suspect that finds no empty hand is not passed on",
        "WorkQueue._offer_in_turn",
        "if self._isolation.is_needed:\n    self.wake()",
        "pass",
    ),
    QueueBug(
        "nobody is called when a called worker is replaced",
        "WorkQueue.line_up",
        "self.wake()",
        "if worker in self.workers and worker.has_credit:\n    self.wake()",
    ),
    QueueBug(
        "nobody is told that a hand can drain again",
        "Hand.remove_overdue",
        "not self.overdue",
        "not self.size",
    ),
    QueueBug(
        "a worker that leaves has a hand drain for it",
        "WorkQueue._part_with",
        "self._isolation.stop_draining(worker)",
        "pass",
    ),
    QueueBug(
        "hands drain when the name is stopped",
        "Isolation.is_needed",
        "bool(self._ledger.suspects) and not self._is_stopped()",
        "bool(self._ledger.suspects)",
    ),
    # -- keys ------------------------------------------------------------------------------------
    QueueBug(
        "two of a key are out at a time",
        "KeyOrder.enter",
        "heappush(behind, (message.offset, message))\nself._waiting += 1\nreturn False",
        "return True",
    ),
    QueueBug(
        "the next of the key is not let go",
        "Ledger._let_next_of_key_go",
        "self._make_ready(following)",
        "pass",
    ),
    QueueBug(
        "the dead keep their key",
        "Ledger.bury",
        "self._let_next_of_key_go(message.key)",
        "pass",
    ),
    QueueBug(
        "what is revived overtakes its key",
        "Ledger.revive",
        "message.key and not self.keys.enter(message)",
        "message.key and self.keys.enter(message) is None",
    ),
    # -- the dead --------------------------------------------------------------------------------
    QueueBug(
        "the dead are not kept from being removed",
        "Ledger.bury",
        "self._unsettled[message.offset] = None",
        "del self._unsettled[message.offset]",
    ),
    QueueBug(
        "more are revived than may be open",
        "WorkQueue.revive",
        "self.ledger.active >= self.settings.max_open",
        "False",
    ),
    QueueBug(
        "what is forgotten is not counted",
        "Ledger.forget",
        "self.forgotten += 1",
        "pass",
    ),
    # -- a start ---------------------------------------------------------------------------------
    QueueBug(
        "tickets begin again after a crash",
        "Tickets.__init__",
        "max(now_us, saved + BLOCK)",
        "now_us",
    ),
    QueueBug(
        "a start takes what its owner has",
        "WorkQueue._end_absence",
        "absence.is_lost",
        "True",
    ),
]

WORLD = [
    QueueBug(
        "a message is charged in company",
        "Retries.lose",
        "is_alone",
        "True",
    ),
    QueueBug(
        "a suspect goes to a hand that has something",
        "WorkQueue.offer",
        "not hand.size",
        "True",
    ),
    QueueBug(
        "what is put beside a suspect dies with it",
        "Hand.takes_more",
        "if self.suspects:\n    return False",
        "pass",
    ),
    QueueBug(
        "suspects wait for a hand that is empty by itself",
        "Isolation._most_draining",
        "len(self._ledger.suspects) + self._sweeps_in_vain",
        "0",
    ),
    QueueBug(
        "giving back never counts",
        "Retries.give_back",
        "message.given_back >= SUSPECT_GIVE_BACKS",
        "False",
    ),
    QueueBug(
        "what times out is charged although the hand has more",
        "WorkQueue._time_out",
        "worker.hand.size == 1",
        "True",
    ),
    QueueBug(
        "a program that hangs is fed one job after the other",
        "WorkQueue._time_out",
        "worker.overdue[message.ticket] = message.size",
        "worker.hand.size -= 1\nworker.hand.overdue -= 1\nworker.in_flight_bytes -= message.size",
    ),
    QueueBug(
        "a loss of several is a failure of each",
        "WorkQueue._settle_one",
        "self._retries.lose(message, LOST_BY_PROGRAM, now_us, is_alone=is_alone)",
        "self._retries.lose(message, LOST_BY_PROGRAM, now_us, is_alone=True)",
    ),
    QueueBug(
        "what an owner had before a start never comes again",
        "WorkQueue.sweep",
        "self._end_absence(absence, now_us)",
        "pass",
    ),
]
