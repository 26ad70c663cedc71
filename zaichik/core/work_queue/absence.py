"""Workers that are away: their connection is lost, and their owner may come back (SHR-4a).

A network that blinks must not do a job of ten minutes twice, nor count against it. So what a lost
worker had waits a moment for the same owner, on another connection. After a start of the broker,
what workers had waits for their owners in the same way.
"""

from dataclasses import dataclass

from zaichik.base.clock import SECOND_US
from zaichik.core.work_queue.message import OpenMessage

AFTER_LOSS_US = 2 * SECOND_US  # by the machine's clock, as deadlines of connections are
AFTER_START_US = 10 * SECOND_US  # all clients of the broker connect again, at the same time


@dataclass(slots=True, eq=False)
class Absence:
    """A worker that is away.

    Attributes:
        held: what it had, by ticket.
        until_us: how long its owner may take, by the machine's clock.
        attempt: see `ExclusivePosition.claim`; -1 if it is not known.
        was_alone: whether what it had was alone in the hand of its connection.
        is_lost: whether what it had is lost then; else it is released: the broker had ended.
    """

    held: dict[int, OpenMessage]
    until_us: int
    attempt: int = -1
    was_alone: bool = False
    is_lost: bool = True


class Absences:
    """Those of one name, by owner. Each has something that it had, so they are bounded as well."""

    def __init__(self) -> None:
        self._by_owner: dict[int, Absence] = {}

    def __len__(self) -> int:
        """Returns how many are away."""
        return len(self._by_owner)

    @property
    def messages(self) -> int:
        """How many messages wait for their owners."""
        return sum(len(absence.held) for absence in self._by_owner.values())

    def add(self, owner: int, absence: Absence) -> None:
        """Have a worker of that owner be away."""
        self._by_owner[owner] = absence

    def get(self, owner: int) -> Absence | None:
        """Returns the absence of that owner; None if it is not away."""
        return self._by_owner.get(owner)

    def take(self, owner: int) -> Absence | None:
        """Removes and returns the absence of that owner, who is back; None if it was not away."""
        return self._by_owner.pop(owner, None)

    def take_ended(self, machine_us: int) -> list[Absence]:
        """Removes and returns those whose owners have not come in time."""
        ended = [
            owner for owner, absence in self._by_owner.items() if absence.until_us <= machine_us
        ]
        return [self._by_owner.pop(owner) for owner in ended]

    def owners(self) -> dict[int, int]:
        """Returns the owner of each ticket that waits for one."""
        owners = {}
        for owner, absence in self._by_owner.items():
            for ticket in absence.held:
                owners[ticket] = owner
        return owners
