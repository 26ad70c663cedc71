"""Which connection has the next turn: fair queueing by the processor time that each has had.

The broker is one thread, so its clients share one processor. They share it the way packets share a link in start-time
fair queueing (Goyal, Vin and Cheng, 1996) and tasks share a processor in Linux's CFS. Everything that is served has a
*virtual time*, which a turn moves on by what the turn has cost. Of all that wait, the one whose time is least is next:
the one that has had least.

    virtual time       client A, 30 connections that flood      ───────────────▶│ waits
    of the queue  ──▶│ client B, one request now and then     ─────▶│ next

There is nothing to save and nothing to owe. Whoever comes, or comes back, starts at the queue's virtual time, which is
that of the last turn: no credit for having been away, and no way to be rid of what was used by coming back. Where
nobody waits, virtual time follows real time, so what was used is forgotten as fast as it is given to nobody.

There are two levels, clients and the connections of each, so thirty connections get a client no more than one does.

Costs and times are arguments, or come from functions that are passed in; nothing here knows a task or a socket.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from zaichik.broker.clock import stopwatch_us

SLICE_US = 100.0  # of turns in one go; then the event loop sees to its sockets, and who has had less comes first
# Between two calls that the event loop makes for sockets it has looked at together, less time passes than this, and
# more if it has looked at them again in between.
PAUSE_US = 30.0
# Paid in advance for each connection, because these things happen outside of turns: to accept it, greet it, start its
# tasks, and end it (measured: `python benchmarks/cpu.py`).
CONNECTION_US = 400.0
# What one turn is charged at most. Costs are measured in real time, because to read the processor time of a thread
# costs as much as half a turn on some systems; so a turn in which the process was interrupted, or stopped, looks dear.
DEAREST_US = 5_000.0


class Flow:
    """What can wait in a `FairQueue`.

    Attributes:
        finish: the virtual time at which what it has had so far ends.
        is_waiting: whether it is in its queue.
    """

    def __init__(self, finish: float) -> None:
        self.finish = finish
        self.is_waiting = False


FlowType = TypeVar("FlowType", bound=Flow)


class FairQueue(Generic[FlowType]):
    """Flows that wait for a turn, the one with the least virtual time first.

    Attributes:
        waiting: the flows that wait, as a heap; to be looked at only, for whether there are any.
        virtual: the queue's virtual time: where the flow began that had the last turn.
        latest: the greatest finish of any flow so far.
    """

    def __init__(self) -> None:
        self.virtual = self.latest = 0.0
        self.waiting: list[tuple[float, int, FlowType]] = []
        self._order = count()  # of two flows with the same time, the one that came first is first

    def put(self, flow: FlowType) -> None:
        """Have a flow wait, behind those with less virtual time."""
        flow.is_waiting = True
        heappush(self.waiting, (max(flow.finish, self.virtual), next(self._order), flow))

    def take(self) -> FlowType:
        """Returns the flow that is next. It waits no more."""
        self.virtual, _, flow = heappop(self.waiting)
        flow.is_waiting = False
        return flow

    def pass_by(self, flow: FlowType) -> None:
        """A flow is next without having waited."""
        if not self.waiting:  # or else it is those that wait who tell what the time is
            self.virtual = max(self.virtual, flow.finish)

    def charge(self, flow: FlowType, cost_us: float) -> None:
        """Move a flow's virtual time on by what it has had. It had it now, so it began at the queue's at the least."""
        finish = flow.finish = max(flow.finish, self.virtual) + cost_us
        if finish > self.latest:
            self.latest = finish

    def idle(self, elapsed_us: float) -> None:
        """Nobody has waited for so long: virtual time follows, up to where everything used so far ends."""
        self.virtual = min(self.virtual + elapsed_us, self.latest)


class Client(Flow):
    """Who shares the broker: a user, or as long as nobody logs in, an address.

    Args:
        key: the user, or the address.

    Attributes:
        queue: its connections.
        connections: how many it has.
    """

    def __init__(self, key: str, finish: float) -> None:
        super().__init__(finish)
        self.key = key
        self.queue: FairQueue[Turns] = FairQueue()
        self.connections = 0


class Turns(Flow):
    """The turns of one connection.

    Args:
        client: whose connection it is.
        take: takes one turn, a bounded piece of work; returns whether more of it is at hand.

    Attributes:
        client: see above.
    """

    def __init__(self, client: Client, take: Callable[[], bool]) -> None:
        super().__init__(client.queue.virtual)
        self.client = client
        self.take = take


class Scheduler:
    """Gives turns.

    Args:
        time_us: tells the time that has passed since some moment, in µs.

    Attributes:
        on_waiting: called when `run` should be called soon, after the event loop has looked at all sockets.
    """

    def __init__(self, time_us: Callable[[], float] = stopwatch_us) -> None:
        self._time_us = time_us
        self._clients: dict[str, Client] = {}
        self._queue: FairQueue[Client] = FairQueue()
        self._current: Turns | None = None
        self._nobody = Turns(Client("", 0.0), _nothing)
        self._idle_since_us = time_us()
        self._may_hurry = True
        self.on_waiting: Callable[[], None] = lambda: None

    def join(self, key: str, take: Callable[[], bool]) -> Turns:
        """Returns the turns of a new connection of that client, who pays for it now."""
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = Client(key, self._queue.virtual)
        client.connections += 1
        turns = Turns(client, take)
        self._queue.charge(client, CONNECTION_US)
        return turns

    def leave(self, turns: Turns) -> None:
        """The connection has ended; a turn that it waits for is taken and costs nothing."""
        turns.take = _nothing
        turns.client.connections -= 1

    def ask(self, turns: Turns) -> None:
        """Ask for a turn. It is had at once, before this returns, by a client that has had no more than its share.

        So it is by any other if nobody waits, but only once until the event loop has looked at all sockets: one of them
        may be that of a client that has had less. After a pause it has looked at them for certain.
        """
        if turns.is_waiting or turns is self._current:  # a turn tells at its end whether there is more to do
            return
        queue, client = self._queue, turns.client
        if self._current is not None:  # this is the doing of another one's turn, and `run` goes on after it
            self._wait(turns)
            return
        is_alone = not queue.waiting
        if is_alone and self._idle() > PAUSE_US:
            self._may_hurry = True
        is_due = client.finish <= queue.virtual
        if is_due or (is_alone and self._may_hurry):
            self._may_hurry = is_due and self._may_hurry
            client.queue.pass_by(turns)
            self._serve(turns, self._idle_since_us if is_alone else self._time_us())
            if is_alone and queue.waiting:  # for what this turn has brought about
                self.run()
        else:
            self._wait(turns)
        if queue.waiting:
            self.on_waiting()

    @contextmanager
    def between_turns(self) -> Iterator[None]:
        """What is done in the block is no turn, and the turns that it brings about come after it."""
        self._current = self._nobody
        try:
            yield
        finally:
            self._current = None
            if self._queue.waiting:
                self.on_waiting()

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits."""
        return bool(self._queue.waiting)

    def rest(self) -> None:
        """All sockets were looked at, and nobody waits."""
        self._may_hurry = True

    def run(self) -> bool:
        """Give turns for a slice of time; returns whether somebody still waits."""
        queue = self._queue
        before_us = self._time_us()
        end_us = before_us + SLICE_US
        while queue.waiting and before_us < end_us:
            client = queue.take()
            turns = client.queue.take()
            before_us = self._serve(turns, before_us)
        return bool(queue.waiting)

    def _serve(self, turns: Turns, before_us: float) -> float:
        """Give one turn, which begins now; returns when it has ended."""
        client = turns.client
        self._current = turns
        is_more = turns.take()
        self._current = None
        after_us = self._idle_since_us = self._time_us()
        cost_us = min(after_us - before_us, DEAREST_US)
        client.queue.charge(turns, cost_us)
        self._queue.charge(client, cost_us)
        if is_more:
            client.queue.put(turns)
        if client.queue.waiting and not client.is_waiting:
            self._queue.put(client)
        return after_us

    def sweep(self) -> None:
        """Forget clients that have no connection and have used nothing lately. Called once a second."""
        if not self._queue.waiting:
            self._idle()
        for key, client in list(self._clients.items()):
            if not client.connections and not client.is_waiting and client.finish <= self._queue.virtual:
                del self._clients[key]

    def _idle(self) -> float:
        """Nobody has waited since the last turn, or since this was called last; returns for how long, in µs."""
        now_us = self._time_us()
        elapsed_us = now_us - self._idle_since_us
        self._queue.idle(elapsed_us)
        self._idle_since_us = now_us
        return elapsed_us

    def _wait(self, turns: Turns) -> None:
        client, current = turns.client, self._current
        client.queue.put(turns)
        # One that is having a turn just now waits when that is paid for; or else it would be next again and again.
        if not client.is_waiting and (current is None or current.client is not client):
            self._queue.put(client)


def _nothing() -> bool:
    return False
