"""A naive model of shared names (SHR): every rule as directly as can be, and slow.

A queue keeps every offset since its start for ever, with its place. Whatever can be counted or
found by looking at all of them is: there is no count to be wrong, no index to be stale.

    new  held  ready  delayed  blocked  absent   │   done  skipped  passed  dead  forgotten

`beside_queue` lets it live the same history as the real one.
"""

from dataclasses import dataclass, field, replace

SECOND = 1_000_000
# The last one is on its way from a worker to where it waits next.
OPEN = ("held", "ready", "delayed", "blocked", "absent", "on its way")


class TakenOver(Exception):
    """Its owner has made a later attempt."""


@dataclass(eq=False)
class ModelMessage:
    offset: int
    key: bytes = b""
    place: str = "held"
    count: int = 0
    again: bool = False
    suspect: bool = False
    backs: int = 0
    due: int = 0  # if delayed, or held by a worker with a time-out
    ticket: int = 0
    size: int = 0
    worker: object = None
    ready_since: int = 0
    reason: str = ""
    died: int = 0


@dataclass(eq=False)
class ModelConnection:
    workers: list = field(default_factory=list)
    drains_for: object = None
    lost_with: int | None = None  # how much it had in its hand then
    watched: int = 0

    @property
    def hand(self):
        """What its workers have: messages, and tickets that have timed out."""
        return [item for worker in self.workers for item in [*worker.held, *worker.overdue]]

    @property
    def suspects(self):
        return [m for worker in self.workers for m in worker.held if m.suspect]

    @property
    def overdue(self):
        return [ticket for worker in self.workers for ticket in worker.overdue]


@dataclass(eq=False)
class ModelWorker:
    queue: object
    connection: ModelConnection
    credit: int
    credit_bytes: int
    timeout: int
    owner: int
    attempt: int
    overdue: dict = field(default_factory=dict)  # ticket → bytes
    waits_since: int | None = None  # its number in the line
    called: int | None = None  # the sweep before its call
    called_since: int = 0
    watches: int = 0  # its hand, since when
    calls: int = 0

    @property
    def held(self):
        found = [m for m in self.queue.messages.values() if m.place == "held" and m.worker is self]
        return sorted(found, key=lambda m: m.ticket)

    @property
    def in_flight(self):
        return len(self.held) + len(self.overdue)

    @property
    def has_credit(self):
        size = sum(m.size for m in self.held) + sum(self.overdue.values())
        return self.in_flight == 0 or (self.in_flight < self.credit and size < self.credit_bytes)


class ModelPatience:
    def __init__(self, now):
        self.swept, self.counted = now, 0

    def at(self, now):
        return self.counted + min(now - self.swept, 2 * SECOND)

    def sweep(self, now):
        self.counted, self.swept = self.at(now), now


class ModelTickets:
    def __init__(self, first):
        self.next = first


class ModelQueue:
    """One name. `max_deliveries`, `by_key`, `max_open`, `max_dead`: see `QueueSettings`."""

    def __init__(self, start, max_deliveries, by_key, max_open, max_dead, tickets, patience):
        self.start = self.end = start
        self.max_deliveries, self.by_key = max_deliveries, by_key
        self.max_open, self.max_dead = max_open, max_dead
        self.tickets, self.patience = tickets, patience
        self.messages = {}  # all since the start, by offset
        self.workers = []
        self.absent = {}  # owner → (tickets, until, attempt, alone, lost)
        self.draining = []
        self.delivered = 0
        self.number = self.sweeps = self.in_vain = 0

    # -- what there is ---------------------------------------------------------------------------

    def at(self, *places):
        return [m for _, m in sorted(self.messages.items()) if m.place in places]

    @property
    def next(self):
        return self.start + len(self.messages)

    @property
    def ready(self):
        found = [m for m in self.at("ready") if not m.suspect]
        return sorted(found, key=lambda m: m.ready_since)

    @property
    def suspects(self):
        return sorted((m for m in self.at("ready") if m.suspect), key=lambda m: m.ready_since)

    @property
    def needed(self):
        return min((m.offset for m in self.at(*OPEN, "dead")), default=self.next)

    @property
    def stopped(self):
        return len(self.at("dead")) >= self.max_dead

    @property
    def active(self):
        return len(self.at(*OPEN)) - len(self.at("delayed"))

    @property
    def new(self):
        if len(self.at("delayed")) >= 10 * self.max_open:
            return 0
        return max(0, min(self.end - self.next, self.max_open - self.active))

    @property
    def available(self):
        return 0 if self.stopped else len(self.ready) + self.new

    @property
    def line(self):
        """Those that wait: those that were called, in that order, then the others."""
        waiting = [w for w in self.workers if w.waits_since is not None]
        called = sorted((w for w in waiting if w.called is not None), key=lambda w: w.called_since)
        idle = sorted((w for w in waiting if w.called is None), key=lambda w: w.waits_since)
        return called + idle

    def tick(self):
        self.number += 1
        return self.number

    # -- the line --------------------------------------------------------------------------------

    def stand(self, worker):
        if worker.waits_since is None:
            worker.waits_since = self.tick()

    def go(self, worker):
        worker.waits_since = worker.called = None

    def call(self, worker):
        if worker.called is None:
            worker.called, worker.called_since = self.sweeps, self.tick()
            worker.calls += 1

    def line_up(self, worker):
        if worker in self.workers and worker.has_credit:
            self.stand(worker)
        self.wake()

    def stand_aside(self, worker):
        called = worker.called is not None
        self.go(worker)
        if called:
            self.wake()

    def published(self, end):
        self.end = end
        self.wake()

    def wake(self):
        """As many as there are messages, those that wait longest first."""
        self.trim()
        if all(worker.called is not None for worker in self.line):
            return
        if self.suspects and not self.stopped:
            self.find_hands()
        for worker in self.line:
            if len([w for w in self.line if w.called is not None]) < self.available:
                self.call(worker)

    # -- hands -----------------------------------------------------------------------------------

    def find_hands(self):
        line = self.line
        empty = []
        for worker in line:
            if not worker.connection.hand and worker.connection not in empty:
                empty.append(worker.connection)
        for connection in empty[: len(self.suspects)]:
            self.call(next(w for w in line if w.connection is connection))
        for worker in line:
            if not worker.connection.hand:
                continue
            if self.may_drain(worker):
                self.drain(worker)
            else:
                watch(worker)

    @property
    def most_draining(self):
        return len(self.suspects) + self.in_vain if self.suspects and not self.stopped else 0

    def may_drain(self, worker):
        connection = worker.connection
        if connection.suspects or connection.overdue or connection.drains_for:
            return False
        nobody_is_empty = all(w.connection.hand for w in self.line)
        return nobody_is_empty and len(self.draining) < self.most_draining

    def drain(self, worker):
        self.go(worker)
        self.draining.append(worker)
        worker.connection.drains_for = worker
        watch(worker)

    def stop_draining(self, worker):
        if worker in self.draining:
            self.draining.remove(worker)
            worker.connection.drains_for = None
            tell(worker.connection)

    def trim(self):
        excess = self.draining[self.most_draining :]
        self.draining = self.draining[: self.most_draining]
        for worker in reversed(excess):
            worker.connection.drains_for = None
            tell(worker.connection)

    # -- handing out -----------------------------------------------------------------------------

    def offer(self, worker, end):
        """(first, most, whether new), or None."""
        self.end = end
        connection = worker.connection
        hand = connection.hand
        if not worker.has_credit:
            self.stand_aside(worker)
            return None
        drains = connection.drains_for
        if connection.suspects or (drains and (drains is not worker or hand)):
            watch(worker)
            self.stand_aside(worker)
            return None
        if self.suspects and not self.stopped:
            if not hand:
                return self.suspects[0].offset, 1, False
            if self.may_drain(worker):
                self.drain(worker)
                self.wake()
                return None
            watch(worker)
        called = len([w for w in self.line if w.called is not None])
        if worker.called is None and called >= self.available:
            self.stand(worker)
            return None
        if self.available and self.ready:
            return self.ready[0].offset, 1, False
        if self.available:
            most = min(self.new, max(1, worker.credit - worker.in_flight))
            if self.next < self.delivered:
                most = min(most, self.delivered - self.next)
            return self.next, 1 if self.by_key else most, True
        worker.called = None
        self.stand(worker)
        if self.suspects and not self.stopped:
            self.wake()
        return None

    def hand_out(self, worker, offset, size, now):
        return self.give(worker, [self.messages[offset]], [size], now)

    def hand_out_next(self, worker, offsets, sizes, now, key=b""):
        fresh = []
        again = offsets[0] < self.delivered
        for offset in offsets:
            if self.next < offset:
                self.gone(self.next, offset, "passed")
            message = ModelMessage(offset, key, again=again)
            if self.first_of(key):
                message.place = "blocked"
            self.messages[offset] = message
            fresh.append(message)
        if fresh[0].place == "blocked":
            return None
        return self.give(worker, fresh, sizes, now)

    def first_of(self, key):
        """Whether one of that key is open already."""
        return bool(key) and any(m.key == key for m in self.at(*OPEN))

    def give(self, worker, messages, sizes, now):
        was_again, was_suspect = messages[0].again, messages[0].suspect
        first = self.tickets.next
        for message, size in zip(messages, sizes, strict=True):
            message.ticket, message.size = self.tickets.next, size
            self.tickets.next += 1
            message.count += 1
            message.again = True
            self.put(message, worker, now)
        self.go(worker)
        if was_suspect:
            self.in_vain = 0
            self.stop_draining(worker)
        self.wake()
        return first, messages[0].count, was_again

    def put(self, message, worker, now):
        message.place, message.worker = "held", worker
        message.due = self.patience.at(now) + worker.timeout if worker.timeout else 0

    def skip(self, first, end):
        self.gone(first, end, "skipped")
        self.wake()

    def pass_over(self, first, end):
        self.gone(first, end, "passed")
        self.wake()

    def gone(self, first, end, fate):
        if first == self.next:
            for offset in range(first, end):
                self.messages[offset] = ModelMessage(offset, place=fate)
        else:
            self.close(self.messages[first], fate)

    def close(self, message, fate):
        message.place = fate
        rest = [m for m in self.at("blocked") if m.key == message.key]
        if message.key and rest and fate != "forgotten":
            self.make_ready(rest[0])

    def make_ready(self, message):
        message.place, message.due, message.ready_since = "ready", 0, self.tick()

    def wait(self, message, due, now):
        if due > now:
            message.place, message.due = "delayed", due
        else:
            self.make_ready(message)

    # -- settling --------------------------------------------------------------------------------

    def settle(self, worker, tickets, outcome, now, delay, reason):
        late = []
        alone = len(worker.connection.hand) == 1
        for ticket in tickets:
            found = [m for m in worker.held if m.ticket == ticket]
            if not found:
                late.append(ticket)
                if outcome != "extend" and ticket in worker.overdue:
                    with Changing(worker.connection):
                        del worker.overdue[ticket]
            elif outcome == "extend":
                if worker.timeout:
                    found[0].due = self.patience.at(now) + delay
            else:
                self.take(found[0])
                self.settle_one(found[0], outcome, now, delay, reason, alone)
        if worker.has_credit:
            self.stand(worker)
        self.wake()
        return late

    def take(self, message):
        with Changing(message.worker.connection, was_suspect=message.suspect):
            message.place, message.worker, message.due = "on its way", None, 0

    def settle_one(self, message, outcome, now, delay, reason, alone):
        match outcome:
            case "done":
                self.close(message, "done")
            case "retry":
                message.suspect, message.backs = False, 0
                delay = backoff(message.count) if delay is None else delay
                self.fail(message, reason, now + delay, now)
            case "reject":
                self.die(message, reason, now)
            case "release":
                self.release(message, now)
            case "give back":
                self.give_back(message, now, alone)
            case "lose":
                self.lost(message, "its program failed with several messages open", now, alone)

    def release(self, message, now):
        message.count -= 1
        self.wait(message, now, now)

    def give_back(self, message, now, alone):
        message.backs += 1
        due = now + backoff(message.backs)
        message.suspect = message.suspect or message.backs >= 10
        if message.backs >= 10 and alone:
            self.fail(message, "it was given back again and again", due, now)
        else:
            message.count -= 1
            self.wait(message, due, now)

    def lost(self, message, reason, now, alone):
        message.suspect = True
        if alone:
            self.fail(message, reason, now, now)
        else:
            message.count -= 1
            self.wait(message, now, now)

    def fail(self, message, reason, due, now):
        if self.max_deliveries and message.count >= self.max_deliveries:
            self.die(message, reason, now)
        else:
            self.wait(message, due, now)

    def die(self, message, reason, now):
        message.reason, message.died = reason, now
        self.close(message, "dead")

    # -- workers ---------------------------------------------------------------------------------

    def join(self, worker, tickets, now):
        before = [w for w in self.workers if worker.owner and w.owner == worker.owner]
        attempts = [w.attempt for w in before]
        away = self.absent.get(worker.owner) if worker.owner else None
        if away:
            attempts.append(away[2])
        if any(worker.attempt <= attempt for attempt in attempts):
            raise TakenOver
        back = []
        if before:
            back = self.part_with(before[0])
        elif away:
            del self.absent[worker.owner]
            back = [m for m in self.at("absent") if m.ticket in away[0]]
        self.workers.append(worker)
        worker.connection.workers.append(worker)
        for message in sorted(back, key=lambda m: m.ticket):
            if message.ticket in tickets:
                self.put(message, worker, now)
            else:
                self.release(message, now)
        for ticket in sorted(set(tickets) - {m.ticket for m in back}):
            overdue = sum(len(each.overdue) for each in self.workers)
            if worker.in_flight < worker.credit and overdue < self.max_open:
                worker.overdue[ticket] = 0
        self.line_up(worker)
        return before[0] if before else None

    def part_with(self, worker):
        held = worker.held
        self.go(worker)
        self.workers.remove(worker)
        self.stop_draining(worker)
        worker.watches = 0
        for message in held:
            self.take(message)
        if worker.overdue:
            with Changing(worker.connection):
                worker.overdue.clear()
        worker.connection.workers.remove(worker)
        return held

    def leave(self, worker, now):
        for message in self.part_with(worker):
            self.release(message, now)
        self.wake()

    def lose(self, worker, now, machine):
        connection = worker.connection
        if connection.lost_with is None:
            connection.lost_with = len(connection.hand)
        alone = connection.lost_with == 1
        held = self.part_with(worker)
        for message in held:
            message.place = "absent"
        if not worker.owner:
            for message in held:
                self.lost(message, "its worker's connection was lost", now, alone)
        elif held:
            tickets = [m.ticket for m in held]
            self.absent[worker.owner] = tickets, machine + 2 * SECOND, worker.attempt, alone, True
        self.wake()

    # -- time ------------------------------------------------------------------------------------

    def sweep(self, now, machine):
        self.sweeps += 1
        for worker in self.line:
            if worker.called is not None and self.sweeps - worker.called >= 2:
                self.go(worker)
                self.stand(worker)
        self.in_vain = self.in_vain + 1 if self.suspects and not self.stopped else 0
        for owner in [o for o, away in self.absent.items() if away[1] <= machine]:
            tickets, _, _, alone, is_lost = self.absent.pop(owner)
            for ticket in tickets:
                (message,) = [m for m in self.at("absent") if m.ticket == ticket]
                if is_lost:
                    self.lost(message, "its worker's connection was lost", now, alone)
                else:
                    self.release(message, now)
        for message in sorted(self.at("delayed"), key=lambda m: (m.due, m.offset)):
            if message.due <= now:
                self.make_ready(message)
        counted = self.patience.at(now)
        for worker in list(self.workers):
            for message in sorted(worker.held, key=lambda m: (m.due, m.offset)):
                if message.due and message.due <= counted:
                    self.time_out(message, now)
        self.wake()

    def time_out(self, message, now):
        worker = message.worker
        connection = worker.connection
        alone = len(connection.hand) == 1
        worker.overdue[message.ticket] = message.size
        message.place, message.worker, message.due = "on its way", None, 0
        if connection.drains_for:
            connection.drains_for.queue.stop_draining(connection.drains_for)
        elif message.suspect:
            tell(connection)
        self.lost(message, "its worker took longer than its time-out", now, alone)

    # -- the dead --------------------------------------------------------------------------------

    def revive(self, offsets):
        revived = 0
        for offset in offsets:
            message = self.messages.get(offset)
            if self.active >= self.max_open and len(self.at("dead")) < self.max_dead:
                break
            if message and message.place == "dead":
                blocked = self.first_of(message.key)
                message.count = message.backs = 0
                message.suspect, message.again = False, True
                revived += 1
                if blocked:
                    message.place = "blocked"
                else:
                    self.make_ready(message)
        self.wake()
        return revived

    def forget(self, offsets):
        forgotten = 0
        for offset in offsets:
            message = self.messages.get(offset)
            if message and message.place == "dead":
                message.place = "forgotten"
                forgotten += 1
        self.wake()
        return forgotten

    # -- a start of the broker -------------------------------------------------------------------

    def saved(self):
        """All that is remembered, and the owner of what a worker has."""
        owners = {m.offset: m.worker.owner for m in self.at("held")}
        for owner, away in self.absent.items():
            for message in self.at("absent"):
                if message.ticket in away[0]:
                    owners[message.offset] = owner
        messages = {offset: replace(m, worker=None) for offset, m in self.messages.items()}
        return self.max_deliveries, self.by_key, messages, owners

    def restored(self, saved, tickets, patience, end, machine):
        """The same name after a start."""
        max_deliveries, by_key, messages, owners = saved
        queue = ModelQueue(
            self.start, max_deliveries, by_key, self.max_open, self.max_dead, tickets, patience
        )
        queue.delivered = end
        away = {}
        for offset, before in sorted(messages.items()):
            message = replace(before)
            queue.messages[offset] = message
            if message.place in OPEN:
                message.again = True
            if message.place in ("held", "absent"):
                message.due, message.place = 0, "absent"
                if owners[offset]:
                    away.setdefault(owners[offset], []).append(message.ticket)
                else:
                    message.count -= 1
                    message.place = "ready"
            if message.place == "ready":
                queue.make_ready(message)
        for owner, numbers in away.items():
            queue.absent[owner] = sorted(numbers), machine + 10 * SECOND, -1, False, False
        queue.published(end)
        return queue


def backoff(failures):
    return min(2 ** max(failures - 1, 0), 60) * SECOND


def watch(worker):
    connection = worker.connection
    if not worker.watches:
        connection.watched += 1
        worker.watches = connection.watched


def tell(connection):
    """Those that watch a hand ask again."""
    if connection.lost_with is None:
        watching = sorted((w for w in connection.workers if w.watches), key=lambda w: w.watches)
        for worker in watching:
            worker.watches = 0
        for worker in watching:
            worker.queue.line_up(worker)


class Changing:
    """Something leaves a hand: those that watch are told if that changes what it may have."""

    def __init__(self, connection, was_suspect=False):
        self.connection, self.was_suspect = connection, was_suspect
        self.had_overdue = bool(connection.overdue)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended_overdue = self.had_overdue and not self.connection.overdue
        if self.was_suspect or ended_overdue or not self.connection.hand:
            tell(self.connection)
