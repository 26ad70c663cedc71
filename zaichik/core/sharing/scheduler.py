"""Fair queueing of processor time: which connection has the next turn.

The broker is one thread, so its clients share one processor. They share it the way packets share a
link in start-time fair queueing (Goyal, Vin and Cheng, 1996) and tasks share a processor in Linux's
CFS. Each flow has a *virtual time*, which advances by the cost of each of its turns. The waiting
flow with the least virtual time, which is the one that has used least, is next.

    virtual time       client A, 30 connections that flood      ───────────────▶│ waits
    of the queue  ──▶│ client B, one request now and then     ─────▶│ next

Credit cannot be saved up, nor debt shed. A flow that is new, or was idle, starts at the queue's
virtual time, which is that of the last turn: being idle earns nothing, and leaving and returning
does not clear past use. While no flow waits, virtual time follows real time, so past use is
forgotten as fast as the processor is free.

There are two levels, clients and the connections of each, so thirty connections get a client no
more than one does.

Costs and times are arguments, or come from functions that are passed in; tasks and sockets are
unknown here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from zaichik.base.clock import stopwatch_us

# Of turns without a break; then the event loop polls its sockets, and a less served client may
# come.
SLICE_US = 50.0
# More than passes between the callbacks of two sockets that were found readable in the same poll.
PAUSE_US = 30.0
# Charged in advance for each connection, because this work happens outside of turns: accepting it,
# greeting it, starting its task, and ending it. Measured: 160 µs for one that is closed at once,
# 340 with a Hello; on a slower machine up to half as much again.
CONNECTION_US = 400.0
# The most that one turn is charged. Costs are measured in real time, because a thread's processor
# time takes about ten times as long to read; so a turn in which the process was preempted, or
# stopped, looks costly.
DEAREST_US = 5_000.0


class Flow:
    """A user of the processor, which can wait in a `FairQueue`.

    Attributes:
        finish: the virtual time at which its past use ends.
        is_waiting: whether it is in its queue.
    """

    def __init__(self, finish: float) -> None:
        self.finish = finish
        self.is_waiting = False


FlowType = TypeVar("FlowType", bound=Flow)


class FairQueue(Generic[FlowType]):
    """Flows that wait for a turn, the one with the least virtual time first.

    Attributes:
        waiting: the flows that wait, as a heap; others may only ask whether it is empty.
        virtual: the queue's virtual time: the start of the last turn.
        latest: the greatest finish of any flow so far.
    """

    def __init__(self) -> None:
        self.virtual = 0.0
        self.latest = 0.0
        self.waiting: list[tuple[float, int, FlowType]] = []
        # Flows with the same time are served first come, first served.
        self._order = count()

    def put(self, flow: FlowType) -> None:
        """Queue a flow, after those with less virtual time."""
        flow.is_waiting = True
        start = max(flow.finish, self.virtual)
        heappush(self.waiting, (start, next(self._order), flow))

    def take(self) -> FlowType:
        """Removes and returns the next flow."""
        self.virtual, _, flow = heappop(self.waiting)
        flow.is_waiting = False
        return flow

    def pass_by(self, flow: FlowType) -> None:
        """Serve a flow that has not waited: virtual time advances to it if no other flow waits."""
        # The flows that wait determine the virtual time, if there are any.
        if not self.waiting:
            self.virtual = max(self.virtual, flow.finish)

    def charge(self, flow: FlowType, cost_us: float) -> None:
        """Advance a flow's virtual time by the cost of its turn.

        The turn began at the queue's virtual time or later.
        """
        finish = max(flow.finish, self.virtual) + cost_us
        flow.finish = finish
        if finish > self.latest:
            self.latest = finish

    def idle(self, elapsed_us: float) -> None:
        """Advance virtual time by real time in which no flow waited, to where all past use ends."""
        self.virtual = min(self.virtual + elapsed_us, self.latest)


class Client(Flow):
    """A client of the broker: a user, or without access control, an address.

    Args:
        key: the user, or the address.
        finish: its first virtual time.

    Attributes:
        queue: its connections that wait.
        connections: how many connections it has.
    """

    def __init__(self, key: str, finish: float) -> None:
        super().__init__(finish)
        self.key = key
        self.queue: FairQueue[Turns] = FairQueue()
        self.connections = 0


class Turns(Flow):
    """The turns of one connection.

    Args:
        client: the client it belongs to.
        take: takes one turn, a bounded piece of work; returns whether there is more to do.

    Attributes:
        client, take: see above.
        poll: the poll that has last found its socket readable.
    """

    def __init__(self, client: Client, take: Callable[[], bool]) -> None:
        super().__init__(client.queue.virtual)
        self.client = client
        self.take = take
        self.poll = -1


class Scheduler:
    """Gives turns to connections.

    Args:
        time_us: returns µs since an arbitrary moment.

    Attributes:
        on_waiting: called when `run` should be called soon, after the event loop has polled all
            sockets.
    """

    def __init__(self, time_us: Callable[[], float] = stopwatch_us) -> None:
        self._time_us = time_us
        self._clients: dict[str, Client] = {}
        self._queue: FairQueue[Client] = FairQueue()
        self._current: Turns | None = None
        self._nobody = Turns(Client("", 0.0), _nothing)
        self._idle_since_us = time_us()
        self._hurried_us = 0.0  # turns of clients that were not due, since all sockets were polled
        self._poll = 0  # number of the last poll, as far as that is known
        self.on_waiting: Callable[[], None] = lambda: None

    def join(self, key: str, take: Callable[[], bool]) -> Turns:
        """Returns the turns of a new connection of that client, which is charged for it now."""
        client = self._clients.get(key)
        if client is None:
            client = Client(key, self._queue.virtual)
            self._clients[key] = client
        client.connections += 1
        self._queue.charge(client, CONNECTION_US)
        return Turns(client, take)

    def charge(self, turns: Turns, cost_us: float) -> None:
        """Charge a connection and its client for work outside of turns."""
        turns.client.queue.charge(turns, cost_us)
        self._queue.charge(turns.client, cost_us)

    def leave(self, turns: Turns) -> None:
        """Remove a connection. If it is waiting, its turn does nothing."""
        turns.take = _nothing
        turns.client.connections -= 1

    def ask(self, turns: Turns, *, is_readable: bool = False) -> None:
        """Ask for a turn.

        A client that has used no more than its share has it at once, before this returns.

        So does any other client if none waits, but only for one slice of time until the event loop
        has polled all sockets: another may belong to a client that has used less. It certainly
        has after a pause, or when it reports a socket again.

        Args:
            turns: the connection.
            is_readable: whether the event loop has just reported its socket, which it does once for
                each poll.
        """
        if is_readable:
            if turns.poll == self._poll:
                self._poll += 1
                self._hurried_us = 0.0
            turns.poll = self._poll
        # A turn that is running returns whether there is more to do.
        if turns.is_waiting or turns is self._current:
            return
        # Asked for by the turn of another connection; `run` continues after it.
        if self._current is not None:
            self._wait(turns)
            return
        queue = self._queue
        client = turns.client
        is_alone = not queue.waiting
        if is_alone and self._idle() > PAUSE_US:
            self._hurried_us = 0.0
        # A client that is queued already gets its turn from `run`.
        is_due = client.finish <= queue.virtual and not client.is_waiting
        if is_due or (is_alone and self._hurried_us < SLICE_US):
            client.queue.pass_by(turns)
            # `_idle` has just read the time, which costs something.
            before_us = self._idle_since_us
            if not is_alone:
                before_us = self._time_us()
            after_us = self._serve(turns, before_us)
            if not is_due:
                self._hurried_us += after_us - before_us
            # Give the turns that this turn has asked for.
            if is_alone and queue.waiting:
                self.run()
        else:
            self._wait(turns)
        if queue.waiting:
            self.on_waiting()

    @contextmanager
    def between_turns(self, *, gives_slice: bool = False) -> Iterator[None]:
        """Returns a context in which no turn is taken: those asked for inside wait for its end.

        Args:
            gives_slice: give them one slice of time right then, as `ask` does: if nobody waited
                before, and only once until the event loop has polled all sockets.
        """
        is_alone = not self._queue.waiting
        # Without this, clients that ask are charged for past use, however long ago it was.
        if is_alone and self._idle() > PAUSE_US:
            self._hurried_us = 0.0
        self._current = self._nobody
        try:
            yield
        finally:
            self._current = None
            if gives_slice and is_alone and self._hurried_us < SLICE_US:
                self._hurry()
            if self._queue.waiting:
                self.on_waiting()

    def _hurry(self) -> None:
        """Give turns for one slice of time, before the event loop has polled all sockets."""
        before_us = self._time_us()
        self.run()
        self._hurried_us += self._time_us() - before_us

    @property
    def is_waited_for(self) -> bool:
        """Whether any connection waits for a turn."""
        return bool(self._queue.waiting)

    def note_idle(self) -> None:
        """Note that all sockets have been polled and no connection waits."""
        self._hurried_us = 0.0

    def run(self) -> bool:
        """Gives turns for one slice of time; returns whether any connection still waits."""
        queue = self._queue
        before_us = self._time_us()
        end_us = before_us + SLICE_US
        while queue.waiting and before_us < end_us:
            client = queue.take()
            turns = client.queue.take()
            before_us = self._serve(turns, before_us)
        return bool(queue.waiting)

    def _serve(self, turns: Turns, before_us: float) -> float:
        """Gives one turn, which began at `before_us`; returns the time at its end."""
        client = turns.client
        self._current = turns
        is_more = turns.take()
        self._current = None
        after_us = self._time_us()
        self._idle_since_us = after_us
        self.charge(turns, min(after_us - before_us, DEAREST_US))
        if is_more:
            client.queue.put(turns)
        if client.queue.waiting and not client.is_waiting:
            self._queue.put(client)
        return after_us

    def sweep(self) -> None:
        """Forget clients that have no connection and no recent use. Called once a second."""
        if not self._queue.waiting:
            self._idle()
        virtual = self._queue.virtual
        for key, client in list(self._clients.items()):
            is_used = client.connections > 0 or client.is_waiting
            if not is_used and client.finish <= virtual:
                del self._clients[key]

    def _idle(self) -> float:
        """Advances virtual time by the time since the last turn or the last call.

        Returns that time, in µs.
        """
        now_us = self._time_us()
        elapsed_us = now_us - self._idle_since_us
        self._queue.idle(elapsed_us)
        self._idle_since_us = now_us
        return elapsed_us

    def _wait(self, turns: Turns) -> None:
        client = turns.client
        current = self._current
        client.queue.put(turns)
        # A client whose turn is running is queued after it was charged; or else it would be next
        # again and again.
        if not client.is_waiting and (current is None or current.client is not client):
            self._queue.put(client)


def _nothing() -> bool:
    return False
