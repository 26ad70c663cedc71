"""One life of the broker, from its start to its end: a stop, which it can prepare for, or a power
cut, which it cannot.

A world without a machine has one life. Otherwise there are several, one after the other, each with
a boot of its own; what one leaves to the next is what is on the disk.
"""

import trio

from zaichik.apps.flight.recorder import RecordedBroker
from zaichik.core.broker import Broker
from zaichik.core.sharing.scheduler import Scheduler
from zaichik.server.gate import OPEN
from zaichik.server.server import Server
from zaichik.storage import restoring

from .encrypted import Gate
from .network import SimulatedListener
from .trace import Anomaly
from .turn_ledger import TurnLedger

READING_US = 70  # so that a slice is a few turns
RESIDENT = (
    40_000_000  # bytes, says the broker: the memory of this process depends on what it did before
)
MICROSECONDS = 1_000_000


class Stopwatch:
    """The scheduler's time: trio's, and a little more whenever it is read, so that turns cost
    something.
    """

    def __init__(self):
        self._read = 0

    def __call__(self):
        self._read += 1
        return trio.current_time() * MICROSECONDS + self._read * READING_US


class Life:
    """See above.

    Args:
        world: where.
        boot: which of its lives.
        store: what it finds on the disk; None if there is none.

    Attributes:
        broker, server, listener: of this life.
        turns: the book of turns.
        reasons: why connections ended, by their number.
        is_open: whether anybody may connect.
        is_stopping: the broker was told to stop.
        is_dead: the power was cut.
        stopped: it has ended.
    """

    def __init__(self, world, boot, store=None):
        before = world.life.listener.connections if world.life else 0
        self._world = world
        self.boot = boot
        self.listener = SimulatedListener(before)
        self.broker = self._new_broker(world.settings, world.clock, Scheduler(Stopwatch()), store)
        self.broker.boot, self.broker.name = (
            boot,
            "simulated",
        )  # what differs from run to run and version to version
        self.broker.resident = lambda: RESIDENT
        if world.record is not None:
            self.broker.begin(world.record(boot))
        self.server = Server(
            self.broker, self.listener, store, Gate() if world.is_encrypted else OPEN
        )
        self.turns = TurnLedger(world, self.broker.scheduler)
        self.reasons = {}
        self.is_open = self.is_stopping = self.is_dead = False
        self.stopped = trio.Event()
        self._power = trio.CancelScope()

    def _new_broker(self, settings, clock, scheduler, store):
        if self._world.record is not None:
            return RecordedBroker(settings, clock, scheduler, store)
        broker = Broker(settings, clock, scheduler, store)
        if store is not None:
            restoring.restore(broker, store)
        return broker

    async def run(self):
        """Live."""
        try:
            with self._power:
                await self.server.run()
        except Exception as error:
            self._world.fail(Anomaly("BUG", f"the broker has ended with {error!r}"))
        finally:
            if self._world.record is not None:
                self.broker.tape.end()
            self.stopped.set()

    @property
    def is_dying(self):
        """Whether what happens in it now would not happen to a broker without power."""
        return self.is_dead and not self.stopped.is_set()

    def stop(self):
        """Tell the broker to stop."""
        self.is_open, self.is_stopping = False, True
        self.server.stop()

    async def end(self, random):
        """Cut the power: nothing is done in order any more, and nobody is told."""
        if self.stopped.is_set():
            return  # it has stopped in the meantime
        self.is_open, self.is_dead = False, True
        self.listener.close()
        for socket in self.listener.sockets:
            (socket.pull if random.random() < 0.5 else socket.cut)()
        _unshield(self._power)
        self._power.cancel()
        await self.stopped.wait()

    def is_forgotten(self):
        """Those who still wait for an answer learn from the next life that there will be none."""
        for socket in self.listener.sockets:
            socket.cut()


def _unshield(scope):
    """Have a cancellation reach everything below: a broker shields its stop, but not from this."""
    waiting = [scope._cancel_status]
    while waiting:
        status = waiting.pop()
        status._scope.shield = False
        waiting += status._children
