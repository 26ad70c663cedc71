"""What the shared names of one broker have in common: tickets, and the time that counts.

Times come with calls, as everywhere in the core. Only how long a lost connection may stay away goes
by the machine's clock (SHR-4a), which nobody can move. Here it is counted in sweeps, of which a
server does one a second, so that a recording needs no second clock. While the broker is stalled,
there are none, and nobody's time runs out.
"""

from zaichik.base.clock import SECOND_US
from zaichik.base.relative_time import in_words
from zaichik.core.settings import BrokerSettings
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.sharing.quota import Quota
from zaichik.core.topic_controller import TopicController
from zaichik.core.work_queue.patience import Patience
from zaichik.core.work_queue.saved import SavedQueue, restore_queue
from zaichik.core.work_queue.tickets import Tickets, UnsavedTickets
from zaichik.core.work_queue.work_queue import QueueSettings, WorkQueue
from zaichik_protocol import Subscribe


class SharedNames:
    """The shared names of one broker.

    Args:
        settings: `max_open` and `max_dead` are used.
        memory: the bytes that clients may make the broker hold.
        is_saved: whether topics may be durable, and tickets are saved with them.

    Attributes:
        settings, memory: see above.
        positions: all shared names, in the order in which they came.
        now_us: the latest time that anything was done.
    """

    def __init__(self, settings: BrokerSettings, memory: Quota, *, is_saved: bool) -> None:
        self.settings = settings
        self.memory = memory
        # A set that keeps order, so that everything is repeatable.
        self.positions: dict[SharedPosition, None] = {}
        self.now_us = 0
        self._sweeps = 0
        self._is_saved = is_saved
        # The greatest that an earlier run has saved; None if none has.
        self._saved_ticket: int | None = None
        # From the first name on: what begins with a time must not begin before there is one.
        self._tickets: Tickets | None = None
        self._patience: Patience | None = None

    @property
    def tickets(self) -> Tickets:
        """The tickets of the broker."""
        if self._tickets is None:
            saved = self._saved_ticket
            self._tickets = Tickets(self.now_us, saved, is_saved=self._is_saved)
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
        # Names that a start has restored were made before there was a time.
        if not self.now_us and self._tickets is not None:
            self._tickets.catch_up(now_us)
        self.now_us = max(self.now_us, now_us)

    def new(
        self, topic: TopicController, request: Subscribe, key: str, start: int, client: str
    ) -> SharedPosition:
        """Returns a new name, as its first Subscribe asks for it (SHR-1)."""
        limits = self.settings
        agreed = QueueSettings(
            request.max_deliveries, request.by_key, limits.max_open, limits.max_dead
        )
        tickets = self.tickets
        # A name in memory waits for no disk.
        if not topic.settings.durable:
            tickets = UnsavedTickets(tickets)
        queue = WorkQueue(start, agreed, tickets, self.patience)
        return SharedPosition(self, topic, queue, key, client)

    def longest_unread(self, user: str) -> str:
        """Returns which of the user's names has been without workers for longest.

        It is a sentence after others; "" if there is none, or a sweep has yet to find it. Names are
        not forgotten by time (SHR-9), so one that nobody needs any more may be among them.
        """
        longest: SharedPosition | None = None
        longest_us = -1
        for position in self.positions:
            left_us = position.left_us
            if left_us is None or position.user != user:
                continue
            away_us = self.now_us - left_us
            if away_us > longest_us:
                longest = position
                longest_us = away_us
        if longest is None:
            return ""
        return (
            f" Shared names stay until they are forgotten; {longest.name!r} of topic "
            f"{longest.topic.name!r} has been without workers for longest, {in_words(longest_us)}."
        )

    def know_ticket(self, saved: int) -> None:
        """Note a ticket that a log has saved."""
        self._saved_ticket = max(saved, self._saved_ticket or 0)

    def restore(self, topic: TopicController, key: str, saved: SavedQueue) -> SharedPosition:
        """Returns a name as a log has it. Owners have time to come back (SHR-4a)."""
        limits = self.settings
        settings = QueueSettings(max_open=limits.max_open, max_dead=limits.max_dead)
        queue = restore_queue(
            saved, settings, self.tickets, self.patience, topic.end, self.machine_us
        )
        position = SharedPosition(self, topic, queue, key, "")
        self.positions[position] = None
        position.know_needed(queue.ledger.needed)
        position.changed()
        return position

    def note_saved(self, ticket: int) -> None:
        """Note that the next ticket was on a disk with that number: names may go on."""
        tickets = self.tickets
        had_none = not tickets.left
        # What one topic has written earlier may be on its disk later than what another one has.
        self.know_ticket(ticket)
        tickets.note_saved(max(ticket, self._saved_ticket or 0))
        if had_none and tickets.left:
            for position in self.positions:
                position.changed()

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
