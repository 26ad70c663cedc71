"""A work queue for tests, with a topic whose messages are all there and have one byte each."""

from zaichik.core.work_queue.patience import Patience
from zaichik.core.work_queue.tickets import Tickets
from zaichik.core.work_queue.work_queue import QueueSettings, WorkQueue
from zaichik.core.work_queue.worker import Hand, Worker
from zaichik_protocol import Outcome

SECOND = 1_000_000
START = 1_000 * SECOND


class Bench:
    """One name, and a clock that the test moves; the machine's clock goes with it.

    Attributes:
        calls: how often each worker was called.
        keys: of messages, by offset, if keys are in order.
    """

    def __init__(self, *, end=0, keys=(), **settings):
        self.now = START
        self.end = end or len(keys)
        self.keys = keys
        self.calls = {}
        self.patience = Patience(self.now)
        self.tickets = Tickets(self.now)
        chosen = QueueSettings(by_key=bool(keys), **settings)
        self.queue = WorkQueue(0, chosen, self.tickets, self.patience)

    def worker(
        self, hand=None, *, credit=1, credit_bytes=1000, timeout=60, owner=0, attempt=1, tickets=()
    ):
        """A worker that has joined, on a connection of its own if no hand is named."""
        worker = Worker(
            self.queue,
            hand or Hand(),
            credit=credit,
            credit_bytes=credit_bytes,
            timeout_us=timeout * SECOND,
            on_call=lambda: self.calls.update({worker: self.calls.get(worker, 0) + 1}),
            owner=owner,
            attempt=attempt,
        )
        self.queue.join(worker, tickets, self.now)
        return worker

    def publish(self, count=1):
        self.end += count
        self.queue.published(self.end)

    def take(self, worker):
        """What one turn of a worker brings: the offsets that it is given."""
        offer = self.queue.offer(worker, self.end)
        if offer is None:
            return []
        before = set(worker.held)
        if not offer.is_new:
            self.queue.hand_out(worker, offer.first, 1, self.now)
        else:
            offsets = range(offer.first, offer.first + offer.most)
            key = self.keys[offer.first] if self.keys else b""
            sizes = [1] * offer.most
            if self.queue.hand_out_next(worker, offsets, sizes, self.now, key) is None:
                return self.take(worker)
        return [worker.held[ticket].offset for ticket in worker.held if ticket not in before]

    def take_all(self, worker):
        """What a worker is given until there is nothing for it."""
        offsets = []
        while taken := self.take(worker):
            offsets += taken
        return offsets

    def settle(self, worker, *offsets, outcome=Outcome.DONE, delay=None, reason=""):
        """Settle what the worker has of these offsets; all, if none is named."""
        tickets = [
            ticket
            for ticket, message in worker.held.items()
            if not offsets or message.offset in offsets
        ]
        delay_us = None if delay is None else int(delay * SECOND)
        return self.queue.settle(worker, tickets, outcome, self.now, delay_us, reason)

    def lose(self, *workers):
        for worker in workers:
            self.queue.lose(worker, self.now, self.now)

    def seconds(self, count=1):
        for _ in range(count):
            self.now += SECOND
            self.patience.sweep(self.now)
            self.queue.sweep(self.now, self.now)

    @property
    def dead(self):
        return self.queue.ledger.dead.page(0, 100)

    @property
    def suspects(self):
        return list(self.queue.ledger.suspects)

    @property
    def ready(self):
        return list(self.queue.ledger.ready)
