"""A broker that is recorded: it does what any `Broker` does, and records every call from outside.

The seam is between serving and broker. What a server and its connections do to a broker are calls
of the `Broker`, of a `SubscriptionManager`, and of the `Quota` that counts what connections hold.
Here are subclasses of these three, so a broker without a recorder pays nothing: there is no branch
in it. Calls that the broker makes of itself are no input. `Tape.depth` tells them apart: it is not
0 while a recorded call runs, except while `on_output` does, in which the scheduler may give turns.

A call is written before it is carried out, and its output after it: the request that ends a process
is recorded.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any

from zaichik.apps.flight.format import HOLD, OUTPUT, FlightKind, packed, told
from zaichik.apps.flight.recorded_logs import RecordedLogs
from zaichik.apps.flight.tape import Call, Tape, WriteRecords, checked
from zaichik.base.build import build
from zaichik.base.clock import Clock, ManualClock
from zaichik.core.broker import Broker
from zaichik.core.rights import ANYBODY, Action, User
from zaichik.core.settings import BrokerSettings
from zaichik.core.sharing.quota import Quota
from zaichik.core.sharing.scheduler import Scheduler, Turns
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik.storage.restoring import restore
from zaichik.storage.store import Store
from zaichik_protocol import Frame, Refused

SENT, HELD = int(FlightKind.OUTPUT), int(FlightKind.HOLD)  # they come all the time


class RecordedUser:
    """A user whose rights are recorded as they are looked up.

    Args:
        user: the user.
        number: the connection's.
        tape: the recording.
    """

    publishable: Collection[str] = ()  # `may` is always asked

    def __init__(self, user: User, number: int, tape: Tape) -> None:
        self.name = user.name
        self.how = user.how
        self.denied = user.denied
        self.is_ended = user.is_ended
        self._may = user.may
        self._number = number
        self._tape = tape

    def may(self, action: Action, topic: str) -> bool:
        """See `User`."""
        answer = self._may(action, topic)
        self._tape.answer(FlightKind.RIGHT, self._number, packed(action, topic, answer))
        return answer


class RecordedQuota(Quota):
    """A quota from which connections take what they hold."""

    def __init__(self, limit: int, tape: Tape) -> None:
        super().__init__(limit)
        self._tape = tape

    def take(self, client: str, amount: int = 1) -> None:
        """See `Quota`."""
        if not self._tape.depth:
            self._tape.note(HELD, 0, HOLD.pack(amount) + client.encode())
        super().take(client, amount)


class RecordedManager(SubscriptionManager):
    """A connection whose conversation is recorded.

    Its methods are those of `SubscriptionManager`.
    """

    def __init__(
        self, broker: "RecordedBroker", number: int, on_output: Call, peer: str, client: str
    ) -> None:
        self._tape = broker.tape
        super().__init__(broker, number, broker.tape.outside(on_output), peer, client)

    def apply(self, request: Frame, now_us: int) -> None:
        """See above."""
        self._tape.frame(self.number, request, now_us)
        with self._tape:
            super().apply(request, now_us)

    def next_output(self, now_us: int) -> list[bytes]:
        """See above."""
        tape = self._tape
        found = b""
        tape.taken = self.number, now_us
        try:
            with tape:
                pieces = super().next_output(now_us)
            found = OUTPUT.pack(*checked(pieces, tape.most))
        finally:
            tape.taken = None
            tape.note(SENT, self.number, found, now_us)
        return pieces

    def refuse(self, refusal: Refused, request_id: int, request_type: int) -> None:
        """See above."""
        said = packed(*told(refusal), request_id, request_type)
        with self._tape.call(FlightKind.REFUSE, self.number, said):
            super().refuse(refusal, request_id, request_type)

    def restrict(self) -> None:
        """See above."""
        with self._tape.call(FlightKind.CALL, self.number, packed("restrict")):
            super().restrict()

    def recheck(self, now_us: int, *, rights: bool) -> None:
        """See above. It is recorded if it may change anything: it comes once a second.

        Its time is not: that is the clock of connections, which may be another one than the
        broker's (TIM-4).
        """
        is_ended = self.user.is_ended(now_us)
        if is_ended or rights:
            with self._tape.call(FlightKind.RECHECK, self.number, packed(rights, is_ended)):
                super().recheck(now_us, rights=rights)

    def drop_replies(self) -> None:
        """See above."""
        with self._tape.call(FlightKind.CALL, self.number, packed("drop_replies")):
            super().drop_replies()

    def note_unsent(self, size: int) -> None:
        """See above. It is recorded if it changes anything: it comes with every output."""
        if size != self.unsent:
            with self._tape.call(FlightKind.CALL, self.number, packed("note_unsent", size)):
                super().note_unsent(size)

    def accept_no_more(self) -> None:
        """See above."""
        with self._tape.call(FlightKind.CALL, self.number, packed("accept_no_more")):
            super().accept_no_more()

    def stop(self) -> None:
        """See above."""
        with self._tape.call(FlightKind.CALL, self.number, packed("stop")):
            super().stop()

    def give_up(self) -> None:
        """See above."""
        with self._tape.call(FlightKind.CALL, self.number, packed("give_up")):
            super().give_up()

    def end(self, reason: str) -> None:
        """See above."""
        with self._tape.call(FlightKind.CALL, self.number, packed("end", reason)):
            super().end(reason)

    def close(self) -> None:
        """See above."""
        with self._tape.call(FlightKind.CALL, self.number, packed("close")):
            super().close()


class RecordedBroker(Broker):
    """A broker that is recorded.

    Args:
        settings, clock, scheduler: see `Broker`, and so the methods.
        store: has the durable topics, which are put into the broker; None if there can be none.

    Attributes:
        tape: see `Tape`.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        scheduler: Scheduler | None = None,
        store: Store | None = None,
    ) -> None:
        self.tape = Tape()
        self._disk = None if store is None else RecordedLogs(store, self.tape)
        super().__init__(
            settings,
            clock,
            scheduler,
            self._disk,
            RecordedQuota(settings.max_client_bytes, self.tape),
        )
        if store is not None:
            found: Any = self._disk
            restore(self, found)

    def begin(self, write: WriteRecords, *, is_masked: bool = False) -> None:
        """Begin the recording, before any client connects, and before the store does any work.

        Args:
            write: takes some whole records, about once a second or more often; returns whether it
                can take more.
            is_masked: payloads are replaced by fillers of the same length, the same for the same
                payload.
        """
        about: dict[str, object] = {
            "broker": self.name,
            "build": build(),
            "boot": self.boot,
            "begun_us": self.clock.now_us(),
            "is_manual": isinstance(self.clock, ManualClock),
            "settings": asdict(self.settings),
            "has_disk": self._disk is not None,
        }
        self._measured = self.resident
        self.resident = self._shown
        self.tape.begin(write, about, is_masked=is_masked)
        if self._disk is not None:
            self._disk.begin()

    def _shown(self) -> int | None:
        found = self._measured()
        self.tape.answer(FlightKind.SHOWN, 0, packed(found, self.ends, self.access))
        return found

    def new_manager(
        self, number: int, on_output: Call, peer: str, client: str
    ) -> SubscriptionManager:
        """See above."""
        return RecordedManager(self, number, on_output, peer, client)

    def waive(self, may_read: Callable[[str, str], bool]) -> None:
        """See above."""
        denied: list[tuple[str, str]] = []

        def asked(user: str, topic: str) -> bool:
            answer = may_read(user, topic)
            if not answer:
                denied.append((user, topic))
            return answer

        super().waive(asked)
        self.tape.note(FlightKind.WAIVE, 0, packed(denied))

    def connect_at(
        self, now_us: int, on_output: Call, peer: str, client: str
    ) -> SubscriptionManager:
        """See above."""
        number = self._connections + 1
        with self.tape.call(FlightKind.CONNECT, number, packed(peer, client), now_us):
            return super().connect_at(now_us, on_output, peer, client)

    def log_in(self, manager: SubscriptionManager, user: User, turns: Turns) -> Turns:
        """See above."""
        if user is ANYBODY:
            return turns
        with self.tape.call(FlightKind.LOG_IN, manager.number, packed(user.name)):
            return super().log_in(manager, RecordedUser(user, manager.number, self.tape), turns)

    def disconnect_at(self, now_us: int, manager: SubscriptionManager, reason: str) -> None:
        """See above."""
        with self.tape.call(
            FlightKind.DISCONNECT, manager.number, packed(reason, manager.reason), now_us
        ):
            super().disconnect_at(now_us, manager, reason)

    def sweep_at(self, now_us: int) -> None:
        """See above."""
        with self.tape.call(FlightKind.SWEEP, 0, b"", now_us):
            super().sweep_at(now_us)
        self.tape.flush()
