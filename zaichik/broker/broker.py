"""The state that all connections share: topics, positions, producers, the clock, the limits. It knows no sockets."""

import secrets
from collections import Counter, deque
from collections.abc import Callable

from zaichik.broker.clock import LAST_US, Clock, ManualClock, SystemClock
from zaichik.broker.durable import Logs
from zaichik.broker.position import NamedPositions
from zaichik.broker.producers import Producers
from zaichik.broker.reader import Reader
from zaichik.broker.rights import ANYBODY, User
from zaichik.broker.settings import BrokerSettings, out_of_range
from zaichik.broker.subscription_manager import SubscriptionManager
from zaichik.broker.topic_controller import TopicController
from zaichik.broker.topic_registry import TopicRegistry
from zaichik.build import VERSION
from zaichik.explain.spans import from_now
from zaichik.observing.describe import describe, resident_bytes
from zaichik.observing.directory import Directory
from zaichik.sharing import prices
from zaichik.sharing.quota import Quota
from zaichik.sharing.scheduler import Scheduler, Turns
from zaichik_protocol import Describe, ErrorCode, GoAwayCode, Refused

REMEMBERED_ENDS, MAX_REASON = 64, 200  # connections that have ended, for `describe`, and characters of the reason


class Broker:
    """The state of one broker. `Server` gives it a listener; tests drive it without one.

    Args:
        settings: limits and defaults.
        clock: the source of `now_us`.
        scheduler: decides which connection has the next turn (LAG-5).
        logs: where durable topics are; None if there can be none.
        memory: counts the bytes that clients make the broker hold besides topics (LAG-6).

    Attributes:
        connection_clock: the source of time for deadlines of connections, and for logins: the same clock, or, where
            clients move that one (TIM-4), another that replaces it before the first connection.
        boot: a random number that distinguishes this run from every other.
        registry: the topics.
        producers: the producers that number their batches (PUB-4).
        named_positions: the named positions (CMT-3); `max_sessions` limits them.
        memory, scheduler: see above.
        managers: the open connections, by their number.
        conversations: the same, in the order in which `describe` lists them.
        readers: all subscriptions, with their connections, by the names that `describe` gives them.
        ends: how many connections have ended, by reason.
        recent_ends: the latest served connections that ended, the oldest first: when each ended, its number, its
            client's name, its peer's address, and the reason in full.
        access: counters of what happened to logins and rights; empty without access control.
        resident: returns the resident memory of the process, in bytes.
    """

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        clock: Clock | None = None,
        scheduler: Scheduler | None = None,
        logs: Logs | None = None,
        memory: Quota | None = None,
    ) -> None:
        self.settings = settings or BrokerSettings()
        self.clock = self.connection_clock = clock or SystemClock()
        self.name = f"zaichik {VERSION}"
        self.boot = secrets.randbits(63) + 1
        self.registry = TopicRegistry(self.settings, logs)
        self.memory = memory or Quota(self.settings.max_client_bytes)
        self.producers = Producers(self.settings, self.memory)
        self.named_positions = NamedPositions(self.settings, self.memory)
        self.registry.on_delete = self._forget
        self.scheduler = scheduler or Scheduler()
        self.managers: dict[int, SubscriptionManager] = {}
        self.conversations: Directory[SubscriptionManager] = Directory()
        self.readers: Directory[tuple[SubscriptionManager, Reader]] = Directory()
        self.ends: Counter[str] = Counter()
        self.recent_ends: deque[tuple[int, int, str, str, str]] = deque(maxlen=REMEMBERED_ENDS)
        self.access: Counter[str] = Counter()
        self.resident: Callable[[], int | None] = resident_bytes
        self._connections = 0

    def _forget(self, topic: TopicController) -> None:
        self.named_positions.forget_all_of(topic)
        if topic.durable is not None:
            self.producers.forget_all_of(topic.name)

    def connect(self, on_output: Callable[[], None], peer: str = "", share: str = "") -> SubscriptionManager:
        """Returns the state of a new connection; `on_output` is called whenever it may have something to send.

        Args:
            on_output: see above.
            peer: the peer's address, for `describe`.
            share: the client that the connection's memory and turns are charged to.
        """
        return self.connect_at(self.clock.now_us(), on_output, peer, share)

    def connect_at(self, now_us: int, on_output: Callable[[], None], peer: str, share: str) -> SubscriptionManager:
        """Does what `connect` does, at that reading of the clock."""
        self._connections += 1
        manager = self.new_manager(self._connections, on_output, peer, share)
        manager.since_us = now_us
        self.managers[manager.number] = manager
        self.conversations.add(f"{manager.number:08}", manager)
        self.memory.take(share, prices.CONNECTION)
        return manager

    def new_manager(self, number: int, on_output: Callable[[], None], peer: str, share: str) -> SubscriptionManager:
        """Returns the state of a new connection that is not registered yet. A recording overrides this."""
        return SubscriptionManager(self, number, on_output, peer, share)

    def log_in(self, manager: SubscriptionManager, user: User, turns: Turns) -> Turns:
        """Make a connection belong to a user, and charge it to them, whatever its address (LAG-5, LAG-6).

        Args:
            manager: the connection's state, which has no subscriptions yet.
            user: the user who has logged in.
            turns: the connection's turns until now.

        Returns its turns from now on.
        """
        if user is ANYBODY:
            return turns
        manager.user, take = user, turns.take
        self.memory.take(manager.share, -prices.CONNECTION)
        manager.share = f"user:{user.name}"  # no address begins like this
        self.memory.take(manager.share, prices.CONNECTION)
        self.scheduler.leave(turns)
        return self.scheduler.join(manager.share, take)

    def disconnect(self, manager: SubscriptionManager, reason: str) -> None:
        """Remove a connection (CLO-3), and count the reason why it ended: the part before the first colon."""
        self.disconnect_at(self.clock.now_us(), manager, reason)

    def disconnect_at(self, now_us: int, manager: SubscriptionManager, reason: str) -> None:
        """Does what `disconnect` does, at that reading of the clock."""
        self.ends[reason.partition(":")[0]] += 1
        self.recent_ends.append((now_us, manager.number, manager.client, manager.peer, reason[:MAX_REASON]))
        manager.close()
        self.memory.take(manager.share, -prices.CONNECTION)
        self.conversations.remove(f"{manager.number:08}")
        del self.managers[manager.number]

    def waive(self, may_read: Callable[[str, str], bool]) -> None:
        """See `NamedPositions.waive`."""
        self.named_positions.waive(may_read)

    def send_away(self, number: int) -> bool:
        """Returns whether there is a connection of that number; if so, it is sent a GoAway and closed (CLO-4)."""
        manager = self.managers.get(number)
        if manager is not None:
            manager.go_away(GoAwayCode.DISCONNECTED, "DISCONNECTED")
        return manager is not None

    def describe(self, request: Describe, user: User, now_us: int) -> tuple[bool, bytes]:
        """Returns whether another page follows, and a page of what the user may see of the state as JSON.

        Raises:
            Refused: see `describe.describe`.
        """
        return describe(self, request, user, now_us)

    def advance(self, to_us: int) -> None:
        """Move the clock forward to that time, and expire whatever is due then (TIM-4).

        Raises:
            Refused: `UNSUPPORTED`, if the clock moves by itself, or topics may be durable; `INVALID_FIELD`, for a time
                in the past, or beyond the last date.
        """
        if not isinstance(self.clock, ManualClock) or self.registry.on_disk():
            raise Refused(ErrorCode.UNSUPPORTED, "the clock moves by itself; see zaichik serve --clock manual", "type")
        now_us = self.clock.now_us()
        if not now_us <= to_us <= LAST_US:
            raise out_of_range("time", from_now(to_us, now_us), "now (it never goes back) to the year 9799", "to_us")
        self._expire(now_us)  # a reader that has left since the last sweep has left before this
        self.clock.move_to(to_us)
        self._expire(to_us)

    def sweep(self) -> None:
        """Expire whatever is due. A server calls this once a second."""
        self.sweep_at(self.clock.now_us())

    def sweep_at(self, now_us: int) -> None:
        """Expire whatever is due at that reading of the clock."""
        self.scheduler.sweep()
        self._expire(now_us)

    def _expire(self, now_us: int) -> None:
        self.producers.sweep(now_us)
        self.named_positions.sweep(now_us)
        self.registry.sweep(now_us)
