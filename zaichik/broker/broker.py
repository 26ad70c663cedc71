"""What all connections share: the topics, the clock, the limits. No socket in sight."""

import secrets
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version

from zaichik.broker.clock import Clock, SystemClock
from zaichik.broker.producers import Producers
from zaichik.broker.scheduler import Scheduler
from zaichik.broker.session import Sessions
from zaichik.broker.settings import BrokerSettings
from zaichik.broker.subscription_manager import SubscriptionManager
from zaichik.broker.topic_registry import TopicRegistry


class Broker:
    """The state of one broker. `Server` gives it a listener, tests may drive it without one.

    Args:
        settings: limits and defaults.
        clock: what the time is.
        scheduler: decides whose turn is next (LAG-5).

    Attributes:
        boot: a random number that tells this run from every other.
        registry: the topics.
        producers: those that number their batches (PUB-4).
        sessions: the named subscriptions (CMT-3).
        scheduler: see above.
        managers: the conversations going on, by the number of their connection.
        ends: how many conversations have ended, by the reason.
    """

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        clock: Clock | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self.settings = settings or BrokerSettings()
        self.clock = clock or SystemClock()
        self.name = f"zaichik {version('zaichik')}"
        self.boot = secrets.randbits(63) + 1
        self.registry = TopicRegistry(self.settings)
        self.producers = Producers(self.settings)
        self.sessions = Sessions(self.settings)
        self.scheduler = scheduler or Scheduler()
        self.managers: dict[int, SubscriptionManager] = {}
        self.ends: Counter[str] = Counter()
        self._connections = 0

    def connect(self, on_output: Callable[[], None], peer: str = "") -> SubscriptionManager:
        """Begin a conversation with that peer; `on_output` is called whenever it may have something to send."""
        self._connections += 1
        manager = SubscriptionManager(self, self._connections, on_output, peer)
        self.managers[manager.number] = manager
        return manager

    def disconnect(self, manager: SubscriptionManager, reason: str) -> None:
        """End a conversation: nothing of it is left (CLO-3) but its reason, up to the first colon, being counted."""
        self.ends[reason.partition(":")[0]] += 1
        manager.close()
        del self.managers[manager.number]

    def delete_topic(self, name: str, epoch: int, now_us: int, *, if_empty: bool) -> None:
        """Take a topic away, with all that belongs to it (TOP-6).

        Raises:
            Refused: see `TopicRegistry.delete`.
        """
        for topic in self.registry.delete(name, epoch, now_us, if_empty=if_empty):
            self.sessions.forget_all_of(topic)

    def sweep(self) -> None:
        """Free what time has freed. A server does it once a second."""
        now_us = self.clock.now_us()
        self.scheduler.sweep()
        self.producers.sweep(now_us)
        self.sessions.sweep(now_us)
        self.registry.sweep(now_us)
