"""The state that all connections share: topics, positions, producers, the clock, the limits.

It knows no sockets.
"""

import secrets
from collections import Counter, deque
from collections.abc import Callable, Sequence

from zaichik.base.build import VERSION
from zaichik.base.clock import LAST_US, Clock, ManualClock, SystemClock
from zaichik.base.process import resident_bytes
from zaichik.base.relative_time import from_now
from zaichik.core.directory import Directory
from zaichik.core.jumps import Jump
from zaichik.core.log import Logs
from zaichik.core.position import NamedPositions
from zaichik.core.producers import Producers
from zaichik.core.report.describe import describe
from zaichik.core.rights import ANYBODY, User
from zaichik.core.settings import BrokerSettings, out_of_range
from zaichik.core.shared_names.shared_names import SharedNames
from zaichik.core.sharing import prices
from zaichik.core.sharing.quota import Quota
from zaichik.core.sharing.scheduler import Scheduler, Turns
from zaichik.core.subscriber import Subscriber
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik.core.topic_controller import TopicController
from zaichik.core.topic_registry import TopicRegistry
from zaichik_protocol import Describe, ErrorCode, GoAwayCode, Refused

REMEMBERED_ENDS = 64  # connections that have ended, for `describe`
MAX_REASON = 200  # characters of the reason why one ended
TURNED_AWAY = "TURNED_AWAY"  # the reason of one that the broker has not served

# When it ended, its number, its client's name, its peer's address, and the reason in full.
End = tuple[int, int, str, str, str]


class Broker:
    """The state of one broker. `Server` gives it a listener; tests drive it without one.

    Args:
        settings: limits and defaults.
        clock: the source of `now_us`.
        scheduler: decides which connection has the next turn (LAG-5).
        logs: where durable topics are; None if there can be none.
        memory: counts the bytes that clients make the broker hold besides topics (LAG-6).

    Attributes:
        connection_clock: the source of time for deadlines of connections, and for logins: the same
            clock, or, where clients move that one (TIM-4), another that replaces it before the
            first connection.
        boot: a random number that distinguishes this run from every other.
        registry: the topics.
        producers: the producers that number their batches (PUB-4).
        named_positions: the named positions (CMT-3); `max_sessions` limits them.
        shared_names: what the shared ones of these have in common (SHR).
        memory, scheduler: see above.
        managers: the open connections, by their number.
        managers_by_name: the same, by the names that `describe` gives them, in order.
        readers: all subscriptions, with their connections, by the names that `describe` gives them.
        ends: how many connections have ended, by reason.
        recent_ends: the latest served connections that ended, the oldest first: see `End`.
        access: counters of what happened to logins and rights; empty without access control.
        resident: returns the resident memory of the process, in bytes.
        jumps: those of the clock, as far as they are known (DUR-8).
        clock_ahead_us: by how much the clock was ahead of the machine's at the start, because of
            what was stored before.
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
        self.clock = clock or SystemClock()
        self.connection_clock = self.clock
        self.name = f"zaichik {VERSION}"
        self.boot = secrets.randbits(63) + 1
        self.registry = TopicRegistry(self.settings, logs)
        self.memory = memory or Quota(self.settings.max_client_bytes)
        self.producers = Producers(self.settings, self.memory)
        self.shared_names = SharedNames(self.settings, self.memory, is_saved=logs is not None)
        self.named_positions = NamedPositions(
            self.settings, self.memory, self.shared_names.longest_unread
        )
        self.registry.on_delete = self._forget
        self.scheduler = scheduler or Scheduler()
        self.managers: dict[int, SubscriptionManager] = {}
        self.managers_by_name: Directory[SubscriptionManager] = Directory()
        self.readers: Directory[tuple[SubscriptionManager, Subscriber]] = Directory()
        self.ends: Counter[str] = Counter()
        self.recent_ends: deque[End] = deque(maxlen=REMEMBERED_ENDS)
        self.access: Counter[str] = Counter()
        self.resident: Callable[[], int | None] = resident_bytes
        self.jumps: Sequence[Jump] = ()
        self.clock_ahead_us = 0
        self._connections = 0

    def _forget(self, topic: TopicController) -> None:
        self.named_positions.forget_all_of(topic)
        scope = topic.retained.scope
        if scope:
            self.producers.forget_all_of(scope)

    def connect(
        self, on_output: Callable[[], None], peer: str = "", client: str = ""
    ) -> SubscriptionManager:
        """Returns the state of a new connection.

        Args:
            on_output: called whenever it may have something to send.
            peer: the peer's address, for `describe`.
            client: the client that the connection's memory and turns are charged to.
        """
        now_us = self.clock.now_us()
        return self.connect_at(now_us, on_output, peer, client)

    def connect_at(
        self, now_us: int, on_output: Callable[[], None], peer: str, client: str
    ) -> SubscriptionManager:
        """Does what `connect` does, at that reading of the clock."""
        self._connections += 1
        manager = self.new_manager(self._connections, on_output, peer, client)
        manager.since_us = now_us
        self.managers[manager.number] = manager
        self.managers_by_name.add(f"{manager.number:08}", manager)
        self.memory.take(client, prices.CONNECTION)
        return manager

    def new_manager(
        self, number: int, on_output: Callable[[], None], peer: str, client: str
    ) -> SubscriptionManager:
        """Returns the state of a new connection that is not registered yet.

        A recording overrides this.
        """
        return SubscriptionManager(self, number, on_output, peer, client)

    def log_in(self, manager: SubscriptionManager, user: User, turns: Turns) -> Turns:
        """Make a connection belong to a user, whatever its address, and charge it to them.

        Rules: LAG-5, LAG-6.

        Args:
            manager: the connection's state, which has no subscriptions yet.
            user: the user who has logged in.
            turns: the connection's turns until now.

        Returns its turns from now on.
        """
        if user is ANYBODY:
            return turns
        manager.user = user
        address = manager.client
        client = f"user:{user.name}"  # no address begins like this
        manager.client = client
        self.memory.take(address, -prices.CONNECTION)
        self.memory.take(client, prices.CONNECTION)
        # Leaving replaces `take`: a turn that was asked for does nothing then.
        take = turns.take
        self.scheduler.leave(turns)
        return self.scheduler.join(client, take)

    def disconnect(self, manager: SubscriptionManager, reason: str) -> None:
        """Remove a connection (CLO-3), and count the reason why it ended.

        What is counted is the part before the first colon.
        """
        now_us = self.clock.now_us()
        self.disconnect_at(now_us, manager, reason)

    def disconnect_at(self, now_us: int, manager: SubscriptionManager, reason: str) -> None:
        """Does what `disconnect` does, at that reading of the clock."""
        number = manager.number
        word, _, _ = reason.partition(":")
        self.ends[word] += 1
        # Those that are turned away may be hundreds a second, and would leave nothing else.
        if word != TURNED_AWAY:
            shown = reason[:MAX_REASON]
            self.recent_ends.append((now_us, number, manager.client_name, manager.peer, shown))
        manager.close()
        self.memory.take(manager.client, -prices.CONNECTION)
        self.managers_by_name.remove(f"{number:08}")
        del self.managers[number]

    def waive(self, may_read: Callable[[str, str], bool]) -> None:
        """Have what is no connection's follow rights that may have changed.

        See `NamedPositions.waive`. Readers of `$topics` begin again (PAT-5).
        """
        self.registry.stop_following()
        self.named_positions.waive(may_read)

    def send_away(self, number: int) -> bool:
        """Returns whether there is a connection of that number.

        If so, it is sent a GoAway and closed (CLO-4).
        """
        manager = self.managers.get(number)
        if manager is None:
            return False
        manager.go_away(GoAwayCode.DISCONNECTED, "DISCONNECTED")
        return True

    def describe(self, request: Describe, user: User, now_us: int) -> tuple[bool, bytes]:
        """Returns whether another page follows, and a page of the state as JSON.

        It has only what the user may see.

        Raises:
            Refused: see `describe.describe`.
        """
        return describe(self, request, user, now_us)

    def advance(self, to_us: int) -> None:
        """Move the clock forward to that time, and expire whatever is due then (TIM-4).

        Raises:
            Refused: `UNSUPPORTED`, if the clock moves by itself, or topics may be durable;
                `INVALID_FIELD`, for a time in the past, or beyond the last date.
        """
        clock = self.clock
        if not isinstance(clock, ManualClock) or self.registry.on_disk():
            problem = "the clock moves by itself; see zaichik serve --clock manual"
            raise Refused(ErrorCode.UNSUPPORTED, problem, "type")
        now_us = clock.now_us()
        if not now_us <= to_us <= LAST_US:
            wanted = from_now(to_us, now_us)
            allowed = "now (it never goes back) to the year 9799"
            raise out_of_range("time", wanted, allowed, "to_us")
        # A reader that has left since the last sweep has left before this.
        self._expire(now_us)
        clock.move_to(to_us)
        self.shared_names.advance(to_us)
        self._expire(to_us)

    def sweep(self) -> None:
        """Expire whatever is due. A server calls this once a second."""
        self.sweep_at(self.clock.now_us())

    def sweep_at(self, now_us: int) -> None:
        """Expire whatever is due at that reading of the clock."""
        self.scheduler.sweep()
        self.shared_names.count_sweep()
        self._expire(now_us)

    def _expire(self, now_us: int) -> None:
        self.producers.sweep(now_us)
        self.named_positions.sweep(now_us)
        self.registry.sweep(now_us)
        self.shared_names.sweep(now_us)
