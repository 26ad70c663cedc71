"""The broker as one connection's manager sees it. The manager needs to know neither `Broker` nor `Server`."""

from typing import Any, Protocol

from zaichik.broker.position import NamedPositions
from zaichik.broker.producers import Producers
from zaichik.broker.reader import Reader
from zaichik.broker.rights import User
from zaichik.broker.settings import BrokerSettings
from zaichik.broker.topic_registry import TopicRegistry
from zaichik.observing.directory import Directory
from zaichik.sharing.quota import Quota
from zaichik_protocol import Describe


class State(Protocol):
    """The state that all connections share. Fields are documented in `Broker`."""

    name: str
    boot: int
    settings: BrokerSettings
    registry: TopicRegistry
    named_positions: NamedPositions
    producers: Producers
    memory: Quota
    readers: Directory[tuple[Any, Reader]]

    def describe(self, request: Describe, user: User, now_us: int) -> tuple[bool, bytes]:
        """Returns whether another page follows, and this page of what the user may see as JSON."""

    def send_away(self, number: int) -> bool:
        """Returns whether there is a connection of that number; if so, it is sent a GoAway and closed."""

    def advance(self, to_us: int) -> None:
        """Move a manual clock forward to that time."""
