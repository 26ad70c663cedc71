"""Tickets: a number for each delivery of a shared name, which is never given twice (SHR-3).

    saved ──────────────────────── given ──▶ next ─────────▶ limit
      │                                                        │
      └──────────── a start after a crash begins here ─────────┘

After a crash nobody knows which tickets were given since the last one was saved, so a start begins
a block beyond it, and until another one is saved no ticket beyond that block is given. This is how
databases hand out sequences: a block is reserved by one write.
"""

from zaichik_protocol import FOREVER

BLOCK = 1 << 20  # more than are given between two saves, which are a second apart


class Tickets:
    """The tickets of one broker.

    Args:
        now_us: the clock's reading: where they begin if nothing, or little, was saved.
        saved: `next` as an earlier run of the broker saved it; None if nothing was.
        is_saved: whether they are saved at all: a broker without a folder forgets what it gave
            tickets for, too.

    Attributes:
        next: the ticket that is given next.
    """

    def __init__(self, now_us: int, saved: int | None = None, *, is_saved: bool = False) -> None:
        self.next = now_us
        if saved is not None:
            self.next = max(now_us, saved + BLOCK)
        self._limit = FOREVER
        # None is given before the place where they begin was saved.
        if is_saved:
            self._limit = self.next

    @property
    def left(self) -> int:
        """How many may be given before the next save."""
        # Names that no disk has take of them as well.
        return max(self._limit - self.next, 0)

    def take(self, count: int) -> int:
        """Returns the first of so many tickets, of which there must be as many left."""
        first = self.next
        self.next += count
        return first

    def note_saved(self, saved: int) -> None:
        """Note that `next` was on the disk with that value."""
        self._limit = saved + BLOCK

    def catch_up(self, now_us: int) -> None:
        """Begin no earlier than that reading of the clock. None was given yet."""
        self.next = max(self.next, now_us)


class UnsavedTickets(Tickets):
    """The same tickets, for names that no disk has: there, none has to be saved before.

    Args:
        tickets: those of the broker.
    """

    def __init__(self, tickets: Tickets) -> None:
        super().__init__(tickets.next)
        self._tickets = tickets

    @property
    def left(self) -> int:
        """See `Tickets`."""
        return FOREVER

    def take(self, count: int) -> int:
        """See `Tickets`."""
        return self._tickets.take(count)
