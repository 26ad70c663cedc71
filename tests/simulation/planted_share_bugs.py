"""Bugs for crews to find: slips of a broker in what workers are handed, and in what is kept of it.

See `planted_bugs`.
"""

from dataclasses import replace

from zaichik.core.shared_names.shared_reader import SharedReader
from zaichik.core.work_queue.ledger import Ledger
from zaichik.core.work_queue.retries import Retries
from zaichik.core.work_queue.tickets import Tickets
from zaichik.core.work_queue.work_queue import WorkQueue

from .planted_bugs import around
from .planted_bugs import bug as any_bug

BUGS = {}


def bug(*promises):
    return any_bug(*promises, table=BUGS)


@bug("SHR-7", "SHR-2")
def what_is_done_comes_again(monkeypatch):
    def make(real):
        def close_done(self, message):
            real(self, message)
            self._unsettled[message.offset] = message
            self.done -= 1
            self.wait(message, 0, 0)

        return close_done

    around(monkeypatch, Ledger, "close_done", make)


@bug("SHR-2")
def what_a_worker_has_goes_to_another_as_well(monkeypatch):
    def make(real):
        def settle(self, worker, *how):
            late = real(self, worker, *how)
            for other in self.workers:
                for message in list(other.held.values())[:1]:
                    if other is not worker:
                        self._take_back(message, other)
                        self.ledger.wait(message, 0, 0)
            return late

        return settle

    around(monkeypatch, WorkQueue, "settle", make)


@bug("SHR-3")
def a_ticket_is_given_twice(monkeypatch):
    def make(real):
        def take(self, count):
            first = real(self, count)
            if count > 2:
                self.next -= 1
            return first

        return take

    around(monkeypatch, Tickets, "take", make)


@bug("SHR-7", "P2", "P5")
def what_a_lost_worker_had_is_dropped(monkeypatch):
    def make(real):
        def lose(self, message, reason, now_us, *, is_alone):
            self._ledger.done += 1
            self._ledger._close(message)

        return lose

    around(monkeypatch, Retries, "lose", make)


@bug("SHR-5", "SHR-7")
def who_fails_too_often_goes_on(monkeypatch):
    def make(real):
        def fail(self, message, reason, due_us, now_us):
            self._ledger.wait(message, due_us, now_us)

        return fail

    around(monkeypatch, Retries, "_fail", make)


@bug("SHR-4c")
def what_comes_again_to_a_worker_is_not_marked(monkeypatch):
    def make(real):
        def hand_out(self, offer, piece, now_us):
            frame = real(self, offer, piece, now_us)
            return frame and replace(frame, redelivered=False)

        return hand_out

    around(monkeypatch, SharedReader, "_hand_out", make)
