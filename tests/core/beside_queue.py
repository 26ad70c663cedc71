"""Work queues and their naive model side by side: the same history, everything observable compared.

A history is a list of (word, number, number), and every list is one: numbers are taken modulo what
there is. So histories can be drawn, shortened, and lived again with a planted bug.
"""

import random
from dataclasses import dataclass, field

from model_queue import (
    SECOND,
    ModelConnection,
    ModelPatience,
    ModelQueue,
    ModelTickets,
    ModelWorker,
    TakenOver,
)

from zaichik.core.shared_names.saved_names import saved_name, take_over
from zaichik.core.shared_names.saving import WrittenName
from zaichik.core.work_queue import saved as saving
from zaichik.core.work_queue.message import Place
from zaichik.core.work_queue.patience import Patience
from zaichik.core.work_queue.tickets import BLOCK, Tickets
from zaichik.core.work_queue.work_queue import QueueSettings, WorkQueue
from zaichik.core.work_queue.worker import Hand, Worker
from zaichik_protocol import Outcome, Refused

CONNECTIONS = 3
MOST_WORKERS = 6
START = 1_700_000_000 * SECOND
OUTCOMES = {
    "done": Outcome.DONE,
    "retry": Outcome.RETRY,
    "reject": Outcome.REJECT,
    "release": Outcome.RELEASE,
    "give back": Outcome.GIVE_BACK,
    "lose": Outcome.LOSE,
    "extend": Outcome.EXTEND,
}
PLACES = {
    Place.HELD: "held",
    Place.READY: "ready",
    Place.DELAYED: "delayed",
    Place.BLOCKED: "blocked",
    Place.ABSENT: "absent",
}
USUAL = ["turn"] * 12 + ["settle"] * 4 + ["publish"] * 3 + ["back"] * 2 + ["join", "sweep", "sweep"]
UNUSUAL = [
    *("fail", "late", "time", "lose", "leave", "evict", "hole"),
    *("revive", "forget", "stop", "crash", "agree", "stuck", "extend"),
]
WORDS = USUAL + UNUSUAL


@dataclass(frozen=True)
class Shape:
    """Two names, one of them with keys in order perhaps."""

    by_key: tuple[bool, bool] = (False, True)
    max_deliveries: int = 2
    max_open: int = 4
    max_dead: int = 2
    timeouts: tuple[int, ...] = (0, 2 * SECOND, 3 * SECOND)
    credits: tuple[int, ...] = (1, 1, 2, 3)


SHAPES = [
    Shape(),
    Shape(by_key=(False, False), max_deliveries=1, max_open=10, max_dead=5),
    Shape(by_key=(True, True), max_open=10, max_dead=5),
    Shape(max_deliveries=3, max_open=1, max_dead=50),
    Shape(max_deliveries=0, credits=(1,), max_open=10),
]


@dataclass
class Topic:
    messages: list = field(default_factory=list)  # key and size of each
    head: int = 0
    holes: set = field(default_factory=set)

    @property
    def end(self):
        return len(self.messages)


def _all_of(queue):
    return saving.save_queue(queue, queue.ledger.unsettled)


class NameLog:
    """Follows the changes of a queue, as the log of a topic does."""

    def __init__(self, queue):
        self.queue = queue
        self.names = {}
        self.written = WrittenName(queue, [], queue.ledger.unsettled)
        self.written.know(queue.ledger.unsettled)

    def compare(self):
        """All that has changed since was noted."""
        change = self.written.take_change()
        if change is not None:
            take_over(self.names, {"n": change})
        assert self.names["n"] == saved_name(self.queue, self.queue.ledger.unsettled)


@dataclass(eq=False)
class Pair:
    """A worker, and its model."""

    name: int
    connection: int
    real: Worker
    model: ModelWorker
    calls: int = 0
    asks: bool = False  # it was called, or was given something: it asks again

    def on_call(self):
        self.calls += 1
        self.asks = True


class BesideQueue:
    """Both of them.

    Attributes:
        programs: the tickets that each owner's program has not settled, as far as it knows.
    """

    def __init__(self, shape):
        self.shape = shape
        self.now, self.machine = START, 5 * SECOND
        self.topics = [Topic(), Topic()]
        self.pairs = []
        self.programs = {}
        self.attempts = {}
        self.given = set()
        self.owners = 0
        self.tickets, self.model_tickets = Tickets(self.now), ModelTickets(self.now)
        self.patience, self.model_patience = Patience(self.now), ModelPatience(self.now)
        self.connect()
        limits = shape.max_open, shape.max_dead
        self.real, self.model, self.logs = [], [], []
        for by_key in shape.by_key:
            settings = QueueSettings(shape.max_deliveries, by_key, *limits)
            self.real.append(WorkQueue(0, settings, self.tickets, self.patience))
            self.logs.append(NameLog(self.real[-1]))
            self.model.append(
                ModelQueue(
                    0,
                    shape.max_deliveries,
                    by_key,
                    *limits,
                    self.model_tickets,
                    self.model_patience,
                )
            )
        self.save()
        for number in range(4):
            self.do_join(number, number)

    def connect(self):
        self.hands = [Hand() for _ in range(CONNECTIONS)]
        self.connections = [ModelConnection() for _ in range(CONNECTIONS)]

    def live(self, history):
        for word, a, b in history:
            getattr(self, f"do_{word}")(a, b)
            self.compare()

    def pick(self, number):
        return self.pairs[number % len(self.pairs)] if self.pairs else None

    # -- what happens in the topics --------------------------------------------------------------

    def do_publish(self, a, b):
        topic = self.topics[a % 2]
        for number in range(1 + b % 3):
            key = [b"", b"k", b"k", b"l"][(a + b + number) % 4]
            topic.messages.append((key, 1 + (a + number) % 5))
        self.real[a % 2].published(topic.end)
        self.model[a % 2].published(topic.end)

    def do_evict(self, a, b):
        topic = self.topics[a % 2]
        topic.head = min(topic.end, topic.head + 1 + b % 3)

    def do_hole(self, a, b):
        topic = self.topics[a % 2]
        if topic.end:
            topic.holes.add(b % topic.end)

    # -- what workers do -------------------------------------------------------------------------

    def do_join(self, a, b):
        if len(self.pairs) < MOST_WORKERS:
            self.owners += 1
            owner = 0 if b % 4 == 3 else self.owners
            self.join(a % 2, (a // 2) % CONNECTIONS, owner, 1, (), b)

    def join(self, name, connection, owner, attempt, tickets, b):
        credit = self.shape.credits[b % len(self.shape.credits)]
        credit_bytes = [3, 100, 100][b % 3]
        timeout = self.shape.timeouts[b % len(self.shape.timeouts)]
        pair = Pair(name, connection, None, None)
        pair.real = Worker(
            self.real[name],
            self.hands[connection],
            credit=credit,
            credit_bytes=credit_bytes,
            timeout_us=timeout,
            on_call=pair.on_call,
            owner=owner,
            attempt=attempt,
        )
        pair.model = ModelWorker(
            self.model[name],
            self.connections[connection],
            credit,
            credit_bytes,
            timeout,
            owner,
            attempt,
        )
        replaced = self.same(
            lambda: self.real[name].join(pair.real, tickets, self.now),
            lambda: self.model[name].join(pair.model, tickets, self.now),
        )
        if replaced == "refused":
            return
        self.pairs.append(pair)
        self.attempts[owner] = attempt
        for real, model in [replaced]:
            assert (real is None) == (model is None)
            for other in list(self.pairs):
                if other.real is real:
                    assert other.model is model
                    self.pairs.remove(other)

    @staticmethod
    def same(real, model):
        try:
            found = real()
        except Refused:
            found = "refused"
        try:
            wanted = model()
        except TakenOver:
            wanted = "refused"
        assert (found == "refused") == (wanted == "refused")
        return "refused" if found == "refused" else (found, wanted)

    def do_back(self, a, b):
        """An owner subscribes again, after a loss, a start, or while it is still here."""
        known = [(owner, *where) for owner, where in sorted(self.programs.items()) if owner]
        if not known:
            return
        owner, name, tickets = known[a % len(known)]
        named = [ticket for index, ticket in enumerate(sorted(tickets)) if (b >> index) & 1 == 0]
        attempt = self.attempts[owner] + (0 if b % 11 == 10 else 1)
        self.join(name, (a + b) % CONNECTIONS, owner, attempt, named, b)

    def do_turn(self, a, b):
        """A worker asks for messages; often one that was called."""
        asking = [pair for pair in self.pairs if pair.asks]
        pair = asking[a % len(asking)] if asking and b % 5 else self.pick(a)
        for _ in range(1 + b % 3):
            if pair is None or not self.take(pair, b):
                return

    def take(self, pair, b):
        """Returns whether the worker was offered something."""
        topic = self.topics[pair.name]
        real, model = self.real[pair.name], self.model[pair.name]
        offer = real.offer(pair.real, topic.end)
        wanted = model.offer(pair.model, topic.end)
        assert (None if offer is None else tuple(offer)) == wanted
        pair.asks = offer is not None
        if offer is None:
            return False
        first = offer.first
        readable = topic.head
        if first < topic.head:
            end = readable if offer.is_new else first + 1
            real.skip(first, end)
            model.skip(first, end)
            return True
        readable = next(at for at in range(first, topic.end + 1) if at not in topic.holes)
        if first < readable and (readable == topic.end or not offer.is_new):
            end = readable if offer.is_new else first + 1
            real.pass_over(first, end)
            model.pass_over(first, end)
            return True
        return self.hand_out(pair, offer, readable, b)

    def hand_out(self, pair, offer, first, b):
        topic = self.topics[pair.name]
        real, model = self.real[pair.name], self.model[pair.name]
        left = pair.real.credit_bytes - pair.real.in_flight_bytes
        if topic.messages[first][1] > left and pair.real.in_flight:
            real.decline(pair.real)
            model.stand_aside(pair.model)
            pair.asks = False
            return False
        if not offer.is_new:
            size = topic.messages[first][1]
            delivery = real.hand_out(pair.real, first, size, self.now)
            wanted = model.hand_out(pair.model, first, size, self.now)
            self.got(pair, delivery, wanted, 1)
            return True
        last = min(first + offer.most, offer.first + offer.most, first + 1 + b % 4, topic.end)
        offsets = [at for at in range(first, max(last, first + 1)) if at not in topic.holes]
        sizes = [topic.messages[at][1] for at in offsets]
        key = topic.messages[first][0] if real.settings.by_key else b""
        delivery = real.hand_out_next(pair.real, offsets, sizes, self.now, key)
        wanted = model.hand_out_next(pair.model, offsets, sizes, self.now, key)
        self.got(pair, delivery, wanted, len(offsets))
        return True

    def got(self, pair, delivery, wanted, count):
        assert (None if delivery is None else tuple(delivery)) == wanted
        if delivery is None:
            return
        assert pair.real.in_flight <= pair.real.credit
        tickets = set(range(delivery.ticket, delivery.ticket + count))
        assert not tickets & self.given, "a ticket is given twice"
        self.given |= tickets
        owner = pair.real.owner
        if owner:
            self.programs.setdefault(owner, (pair.name, set()))[1].update(tickets)

    def do_settle(self, a, b):
        self.settle(a, ["done", "done", "done", "retry", "reject", "release"][b % 6], b)

    def do_fail(self, a, b):
        # Often all that it has.
        which = b - b % 3 if a % 2 else b
        self.settle(a, ["retry", "give back", "give back", "lose"][b % 4], which)

    def do_extend(self, a, b):
        self.settle(a, "extend", b)

    def do_late(self, a, b):
        """Something that timed out is settled, or a ticket that somebody else has."""
        pair = self.pick(a)
        if pair:
            tickets = list(pair.real.overdue)[: 1 + b % 2]
            others = [ticket for other in self.pairs for ticket in other.real.held]
            if others and b % 3 == 0:
                tickets = [others[b % len(others)]]
            self.say(pair, tickets, ["done", "retry", "extend"][b % 3], 0, b)

    def settle(self, a, outcome, b):
        busy = [pair for pair in self.pairs if pair.real.held]
        if busy:
            pair = busy[a % len(busy)]
            tickets = list(pair.real.held)
            if b % 3:
                tickets = tickets[(b // 3) % len(tickets) :][:1]
            delay = [None, 0, SECOND // 2, 2 * SECOND][(a + b) % 4]
            if outcome == "extend":
                delay = [1, SECOND, 5 * SECOND][b % 3]
            self.say(pair, tickets, outcome, delay, b)

    def say(self, pair, tickets, outcome, delay, b):
        late = self.real[pair.name].settle(
            pair.real, tickets, OUTCOMES[outcome], self.now, delay, f"reason {b}"
        )
        wanted = self.model[pair.name].settle(
            pair.model, tickets, outcome, self.now, delay, f"reason {b}"
        )
        assert late == wanted
        if outcome != "extend" and pair.real.owner in self.programs:
            self.programs[pair.real.owner][1].difference_update(tickets)

    def do_leave(self, a, b):
        pair = self.pick(a)
        if pair:
            self.pairs.remove(pair)
            self.programs.pop(pair.real.owner, None)
            self.real[pair.name].leave(pair.real, self.now)
            self.model[pair.name].leave(pair.model, self.now)

    def do_lose(self, a, b):
        """A connection is lost, with all its workers."""
        used = sorted({pair.connection for pair in self.pairs})
        if not used:
            return
        connection = used[a % len(used)]
        for pair in [pair for pair in self.pairs if pair.connection == connection]:
            self.pairs.remove(pair)
            self.real[pair.name].lose(pair.real, self.now, self.machine)
            self.model[pair.name].lose(pair.model, self.now, self.machine)
        self.hands[connection] = Hand()
        self.connections[connection] = ModelConnection()

    # -- what time does, and the operator --------------------------------------------------------

    def do_time(self, a, b):
        self.now += [0, 1, SECOND // 2, SECOND, 70 * SECOND][a % 5]
        self.machine += [0, SECOND // 2, SECOND, 11 * SECOND][b % 4]

    def do_sweep(self, a, b):
        self.now += SECOND
        self.machine += SECOND
        self.patience.sweep(self.now)
        self.model_patience.sweep(self.now)
        for name in (0, 1):
            self.real[name].sweep(self.now, self.machine)
            self.model[name].sweep(self.now, self.machine)
        if a % 2:
            self.save()

    def do_stuck(self, a, b):
        """Nobody has a turn for some seconds."""
        for _ in range(3):
            self.do_sweep(0, b)

    def do_revive(self, a, b):
        self.with_dead(a, b, "revive")

    def do_forget(self, a, b):
        self.with_dead(a, b, "forget")

    def with_dead(self, a, b, what):
        name = a % 2
        offsets = [each.offset for each in self.real[name].ledger.dead.page(0, 1 + b % 3)]
        offsets = [*offsets, b]
        offsets = [at for at in offsets if at >= self.topics[name].head or what == "forget"]
        done = getattr(self.real[name], what)(offsets)
        assert done == getattr(self.model[name], what)(offsets)

    def do_agree(self, a, b):
        name, most, by_key = a % 2, 1 + b % 3, b % 2 == 1
        model = self.model[name]
        wanted = None
        opened = model.at("held", "ready", "delayed", "blocked", "absent")
        if by_key != model.by_key and (model.workers or opened):
            wanted = "by_key"
        elif most != model.max_deliveries and model.workers:
            wanted = "max_deliveries"
        try:
            self.real[name].check_agreed(most, by_key=by_key)
            self.real[name].agree(most, by_key=by_key)
            found = None
        except Refused as refusal:
            found = refusal.field
        assert found == wanted
        if not wanted:
            model.max_deliveries, model.by_key = most, by_key

    # -- the broker ends, and starts again -------------------------------------------------------

    def save(self):
        self.saved = (
            self.tickets.next,
            [_all_of(queue) for queue in self.real],
            [queue.saved() for queue in self.model],
        )

    def do_stop(self, a, b):
        self.save()
        self.start(b)

    def do_crash(self, a, b):
        self.start(b)

    def start(self, b):
        """The clock may have gone back; so tickets begin after the saved ones."""
        self.now += [SECOND, 1, 0][b % 3]
        self.machine = 5 * SECOND
        ticket, real, model = self.saved
        self.tickets = Tickets(self.now - b * SECOND, ticket)
        self.model_tickets = ModelTickets(max(self.now - b * SECOND, ticket + BLOCK))
        self.patience, self.model_patience = Patience(self.now), ModelPatience(self.now)
        limits = QueueSettings(0, False, self.shape.max_open, self.shape.max_dead)
        self.connect()
        self.pairs = []
        for name in (0, 1):
            end = self.topics[name].end
            self.real[name] = saving.restore_queue(
                real[name], limits, self.tickets, self.patience, end, self.machine
            )
            assert _all_of(self.real[name]).dead == real[name].dead
            self.logs[name] = NameLog(self.real[name])
            self.model[name] = self.model[name].restored(
                model[name], self.model_tickets, self.model_patience, end, self.machine
            )
        self.save()

    # -- what has to be so after each step -------------------------------------------------------

    def compare(self):
        for name in (0, 1):
            self.logs[name].compare()
            self.compare_offsets(self.real[name], self.model[name])
            self.compare_waiting(self.real[name], self.model[name])
        self.compare_workers()
        self.look_for_lost_calls()

    @staticmethod
    def compare_offsets(real, model):
        ledger = real.ledger
        counts = {
            "done": ledger.done,
            "skipped": ledger.skipped,
            "passed": ledger.passed,
            "forgotten": ledger.forgotten,
            "dead": len(ledger.dead),
        }
        assert counts == {place: len(model.at(place)) for place in counts}
        # SHR-7
        assert ledger.next - ledger.start == sum(counts.values()) + ledger.open
        assert (ledger.next, ledger.needed) == (model.next, model.needed)
        found = {
            m.offset: (PLACES[m.place], m.key, m.count, m.is_suspect, m.given_back, m.due_us)
            for m in ledger.open_messages()
        }
        wanted = {
            m.offset: (m.place, m.key, m.count, m.suspect, m.backs, m.due)
            for m in model.at("held", "ready", "delayed", "blocked", "absent")
        }
        assert found == wanted
        dead = ledger.dead.page(0, len(ledger.dead))
        found = [(each.offset, each.count, each.reason, each.died_us) for each in dead]
        assert found == [(m.offset, m.count, m.reason, m.died) for m in model.at("dead")]

    @staticmethod
    def compare_waiting(real, model):
        ledger = real.ledger
        assert list(ledger.ready) == [m.offset for m in model.ready]
        assert list(ledger.suspects) == [m.offset for m in model.suspects]
        assert real.available == model.available
        assert len(ledger.delayed) == len(model.at("delayed"))
        # SHR-2: nothing is remembered but what is open
        assert ledger.open <= 11 * real.settings.max_open
        assert sum(map(len, ledger.delayed._slots.values())) == len(ledger.delayed)
        for worker in real.workers:
            timed = [message for message in worker.held.values() if message.due_us]
            assert sum(map(len, worker.timeouts._slots.values())) == len(timed)
            assert all(worker.timeouts._slots.values())
        assert all(ledger.delayed._slots.values())
        opened = [m.key for m in ledger.open_messages() if m.key]
        assert ledger.keys._behind.keys() == set(opened)
        waiting = sum(len(behind) for behind in ledger.keys._behind.values())
        assert waiting == len(ledger.keys) == len(model.at("blocked"))
        due = min(
            (m.due_us for m in ledger.open_messages() if m.place == Place.DELAYED), default=None
        )
        assert ledger.delayed.first_due_us == due
        assert real.absences.messages == len(model.at("absent"))

    def compare_workers(self):
        for pair in self.pairs:
            real, model = pair.real, pair.model
            assert list(real.held) == [m.ticket for m in model.held]
            assert real.overdue == model.overdue
            assert real.in_flight_bytes == sum(m.size for m in model.held) + sum(
                model.overdue.values()
            )
            assert pair.calls == model.calls
        for name in (0, 1):
            real = {pair.real: index for index, pair in enumerate(self.pairs)}
            model = {pair.model: index for index, pair in enumerate(self.pairs)}
            line = [real[worker] for worker in self.real[name]._line]
            assert line == [model[worker] for worker in self.model[name].line]
            draining = [real[worker] for worker in self.real[name]._isolation.draining]
            assert draining == [model[worker] for worker in self.model[name].draining]
        for hand, connection in zip(self.hands, self.connections, strict=True):
            assert hand.size == len(connection.hand)
            assert hand.suspects == len(connection.suspects)
            assert hand.overdue == len(connection.overdue)

    def look_for_lost_calls(self):
        """If nobody is about to ask, then there is nothing for anybody. This is not the model's."""
        if any(pair.asks for pair in self.pairs):
            return
        for pair in self.pairs:
            queue, worker = self.real[pair.name], pair.real
            hand = worker.hand
            may_have = worker.has_credit and hand.takes_more(worker) and not self.declined(pair)
            if not may_have or queue.is_stopped:
                continue
            assert not queue.available, "a message waits, and so does a worker"
            suspects = len(queue.ledger.suspects)
            if suspects:
                assert hand.size, "a suspect waits, and so does an empty hand"
                assert not hand.can_drain or len(queue._isolation.draining) >= suspects

    def declined(self, pair):
        """Whether the worker has too few bytes left for whatever comes."""
        real = pair.real
        return real.in_flight and real.credit_bytes - real.in_flight_bytes < 5


def random_history(seed, length):
    """The same for a seed, each time.

    Each has a choice of what is unusual, and more of it (swarm testing; Groce and others, 2012).
    """
    rnd = random.Random(seed)
    words = USUAL + rnd.sample(UNUSUAL, rnd.randrange(1, len(UNUSUAL))) * 2
    return [(rnd.choice(words), rnd.randrange(48), rnd.randrange(48)) for _ in range(length)]
