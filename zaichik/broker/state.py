"""What all conversations of a broker share, as one of them sees it: it needs to know neither broker nor server."""

from typing import Any, Protocol

from zaichik.broker.producers import Producers
from zaichik.broker.session import Sessions
from zaichik.broker.settings import BrokerSettings
from zaichik.broker.subscription import Subscription
from zaichik.broker.topic_registry import TopicRegistry
from zaichik.observing.directory import Directory
from zaichik.sharing.quota import Quota
from zaichik_protocol import Describe


class State(Protocol):
    """A broker, as a conversation sees it: what all of them share."""

    name: str
    boot: int
    settings: BrokerSettings
    registry: TopicRegistry
    sessions: Sessions
    producers: Producers
    memory: Quota
    readers: Directory[tuple[Any, Subscription]]

    def describe(self, request: Describe, now_us: int) -> tuple[bool, bytes]:
        """Returns whether another page follows, and a page."""

    def send_away(self, number: int) -> bool:
        """End the connection of that number in order; returns whether there is one."""
