"""What nodes agree through: a tree of small records, which ZooKeeper keeps.

Six calls are all that is asked of it: `create`, `get`, `set`, `children`, `watch` and `state`. So
another service (etcd, Consul, a database) is a file beside `zookeeper`.

What happens there arrives as events, in the order in which it is noticed. An event only says where
to look: whoever gets one reads again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol


class State(Enum):
    """Whether the service can be asked."""

    AWAY = auto()
    CONNECTED = auto()


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The service can be asked from now on; or it cannot, and all watches are gone."""

    state: State


@dataclass(frozen=True, slots=True)
class Changed:
    """The record at a path was created, changed or deleted since it was watched."""

    path: str


Event = StateChanged | Changed
Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept at a path.

    Attributes:
        data: its bytes.
        version: 0 when it is created, one more with each change.
    """

    data: bytes
    version: int


class Away(Exception):
    """The service did not answer; whether it did what it was asked is not known."""


class Stale(Exception):
    """The record has another version by now, or is gone: read it again."""


class Denied(Exception):
    """The service refuses the call, whenever it is made. The text says what to do."""


class Engine(Protocol):
    """The six calls. Each may raise `Away` or `Denied`."""

    @property
    def state(self) -> State:
        """Whether it can be asked now."""

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> bool:
        """Returns whether the record was created; False: there is one at that path already.

        Args:
            path: where; what is above it is created, too.
            data: its bytes.
            ephemeral: whether it is deleted when this session ends.
        """

    async def get(self, path: str) -> Record | None:
        """Returns the record at a path; None if there is none."""

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Returns the new version of a record that has this one.

        Raises:
            Stale: it has another one.
        """

    async def children(self, path: str) -> list[str]:
        """Returns the names of the records below a path, sorted; none if there is no such path."""

    async def watch(self, path: str) -> None:
        """Have the next change at a path sent as one `Changed`, whether or not something is there.

        Watch first, then read: a change in between would be missed the other way round.
        """
