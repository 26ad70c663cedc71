"""What the shared names of one broker have in common: tickets, and the time that counts.

Times come with calls, as everywhere in the core. Only how long a lost connection may stay away goes
by the machine's clock (SHR-4a), which nobody can move. Here it is counted in sweeps, of which a
server does one a second, so that a recording needs no second clock. While the broker is stalled,
there are none, and nobody's time runs out.
"""

from zaichik.base.clock import SECOND_US
from zaichik.core.settings import BrokerSettings
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.sharing.quota import Quota
from zaichik.core.topic_controller import TopicController
from zaichik.core.work_queue.patience import Patience
from zaichik.core.work_queue.tickets import Tickets
from zaichik.core.work_queue.work_queue import QueueSettings, WorkQueue
from zaichik_protocol import Subscribe


class SharedNames:
    """The shared names of one broker.

    Args:
        settings: `max_open` and `max_dead` are used.
        memory: the bytes that clients may make the broker hold.

    Attributes:
        settings, memory: see above.
        positions: all shared names, in the order in which they came.
        now_us: the latest time that anything was done.
    """

    def __init__(self, settings: BrokerSettings, memory: Quota) -> None:
        self.settings = settings
        self.memory = memory
        # A set that keeps order, so that everything is repeatable.
        self.positions: dict[SharedPosition, None] = {}
        self.now_us = 0
        self._sweeps = 0
        # From the first name on: what begins with a time must not begin before there is one.
        self._tickets: Tickets | None = None
        self._patience: Patience | None = None

    @property
    def tickets(self) -> Tickets:
        """The tickets of the broker."""
        if self._tickets is None:
            self._tickets = Tickets(self.now_us)
        return self._tickets

    @property
    def patience(self) -> Patience:
        """The time that counts for time-outs."""
        if self._patience is None:
            self._patience = Patience(self.now_us)
        return self._patience

    @property
    def machine_us(self) -> int:
        """The machine's time, as far as sweeps tell: that of the next one."""
        return (self._sweeps + 1) * SECOND_US

    def note_time(self, now_us: int) -> None:
        """Note the time of something that is being done."""
        self.now_us = max(self.now_us, now_us)

    def new(
        self, topic: TopicController, request: Subscribe, key: str, start: int, client: str
    ) -> SharedPosition:
        """Returns a new name, as its first Subscribe asks for it (SHR-1)."""
        limits = self.settings
        agreed = QueueSettings(
            request.max_deliveries, request.by_key, limits.max_open, limits.max_dead
        )
        queue = WorkQueue(start, agreed, self.tickets, self.patience)
        return SharedPosition(self, topic, queue, key, client)

    # -- time ------------------------------------------------------------------------------------

    def count_sweep(self) -> None:
        """Note that a second has passed by the machine's clock."""
        self._sweeps += 1

    def sweep(self, now_us: int) -> None:
        """Do what is due. Called once a second, and when somebody advances the clock."""
        self.note_time(now_us)
        if not self.positions:
            return
        self.patience.sweep(now_us)
        machine_us = self._sweeps * SECOND_US
        for position in self.positions:
            position.sweep(now_us, machine_us)

    def advance(self, to_us: int) -> None:
        """Count all the time up to that reading: somebody advances the clock (TIM-4)."""
        self.note_time(to_us)
        if self.positions:
            self.patience.advance(to_us)
