"""A recording carried out again by a broker of its own, without sockets and without waiting."""

# Not compiled: it reads recordings, which nothing waits for.

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from types import SimpleNamespace
from typing import Any

from zaichik.apps.flight.answers import Answers, BreaksOff, Different
from zaichik.apps.flight.format import (
    CALLS,
    HOLD,
    OUTPUT,
    FlightKind,
    FlightRecord,
    Recording,
    Unreadable,
    refusal,
)
from zaichik.apps.flight.replayed_logs import ReplayedLogs
from zaichik.apps.flight.tape import checked
from zaichik.base.clock import SECOND_US, ManualClock
from zaichik.base.json_text import parsed_object
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.storage.restoring import restore
from zaichik_protocol import Frame, FrameDecoder, NeedData, ProtocolError
from zaichik_protocol.frames import REQUESTS


@dataclass(slots=True)
class ReplayStep:
    """A call that was carried out again.

    Attributes:
        number: the first is 1.
        record: the call.
        output: what the broker sends, if that was asked for.
        difference: how that, or the end of a connection, differs from the recording; "" if it does
            not.
        error: the exception that was raised: a bug of the broker, or a record that makes no sense.
    """

    number: int
    record: FlightRecord
    output: list[bytes] = field(default_factory=list)
    difference: str = ""
    error: Exception | None = None

    def compare(self, what: str, found: object, before: object) -> None:
        """Note a difference, if there is one."""
        if found != before:
            self.difference = f"{what}: {found} now, {before} in the recording"


class Player:
    """Carries out a recording.

    Args:
        recording: the recording.

    Attributes:
        broker: carries it out.
        about: what its header says.
        begun_us: when it was begun, by its broker's clock.
    """

    def __init__(self, recording: Recording) -> None:
        self._answers = Answers(recording.records())
        self._logs: Any = ReplayedLogs(self._answers)
        try:
            self.about = about = parsed_object(recording.about)
            self.begun_us = int(about["begun_us"])
            settings = _settings(**about["settings"])
            datetime.fromtimestamp(self.begun_us / SECOND_US, UTC)  # raises if it is not a time
            self._manual: ManualClock | None = None
            if about["is_manual"]:
                self._manual = ManualClock(self.begun_us)
            # One that no client can move (TIM-4) stands still, since all calls have readings of
            # their own.
            still: Any = SimpleNamespace(now_us=lambda: self.begun_us)
            logs = None
            if about.get("has_disk"):
                logs = self._logs
            self.broker = Broker(settings, self._manual or still, logs=logs)
            self.broker.boot, self.broker.name = about["boot"], about["broker"]
            self._most = about["checked"]
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise Unreadable(f"its header makes no sense: {error}") from error
        self.broker.resident = self._resident
        # Output until it is compared; None: there was an exception.
        self._taken: dict[int, list[bytes] | None] = {}
        # Whether the login has ended of the connection that is being rechecked.
        self._is_ended = False

    def steps(self, until_us: float = inf) -> Iterator[ReplayStep]:
        """Yields each call after it was carried out, up to a reading of the clock.

        A difference does not end them, but what follows may differ because of it.
        """
        for number, record in enumerate(self._answers.until(until_us), 1):
            step = ReplayStep(number, record)
            if self._manual is not None and record.now_us > self._manual.now_us():
                self._manual.move_to(record.now_us)
            try:
                self._carry_out(step, record, self.broker.managers.get(record.number))
            except BreaksOff:
                return
            except Different as difference:
                step.difference = str(difference)
            except Exception as error:
                # Whatever it is, the other broker may have raised it, too, and gone on. After a
                # request, or where nothing was recorded, the answers will tell.
                step.error = error
                if record.kind is not FlightKind.FRAME and record.payload:
                    step.difference = "it fails"
            yield step

    def _resident(self) -> int | None:
        resident, ends, access = self._answers.take(0, FlightKind.SHOWN).values
        self.broker.ends = Counter(ends)
        self.broker.access = Counter(access)
        if resident is None:
            return None
        return int(resident)

    def _carry_out(self, step: ReplayStep, record: FlightRecord, manager: Any) -> None:
        broker = self.broker
        match record.kind:
            case FlightKind.CONNECT:
                broker.connect_at(record.now_us, lambda: None, *record.values)
            case FlightKind.HOLD:
                (amount,) = HOLD.unpack_from(record.payload)
                client = record.payload[HOLD.size :].decode()
                broker.memory.take(client, amount)
            case FlightKind.SWEEP:
                broker.sweep_at(record.now_us)
            case FlightKind.WAIVE:
                denied = {(user, topic) for user, topic in record.values[0]}
                broker.waive(lambda user, topic: (user, topic) not in denied)
            case FlightKind.RECOVERED | FlightKind.TABLE | FlightKind.ROWS:
                self._logs.find(record)
            case FlightKind.RESTORE:
                self._logs.fill_tables()
                if record.payload:
                    self._logs.know_clock(*record.values)
                restore(broker, self._logs)
            case FlightKind.LOG:
                self._logs.call(record.number, *record.values)
            case (
                FlightKind.RIGHT
                | FlightKind.SHOWN
                | FlightKind.ENTRY
                | FlightKind.DAMAGED
                | FlightKind.VALUE
            ):
                raise Different("the broker does not ask what it asked in the recording")
            case FlightKind.END:
                pass
            case _ if manager is None:
                raise Different("there is no such connection")
            case _:
                self._converse(step, record, manager)

    def _converse(self, step: ReplayStep, record: FlightRecord, manager: Any) -> None:
        """Carry out a call about one connection."""
        match record.kind:
            case FlightKind.LOG_IN:
                turns = self.broker.scheduler.join(manager.client, lambda: False)
                self.broker.log_in(manager, self._user(record.number, *record.values), turns)
            case FlightKind.FRAME:
                manager.apply(_request(record.payload), record.now_us)
            case FlightKind.TAKE:
                self._taken[record.number] = None
                self._taken[record.number] = manager.next_output(record.now_us)
            case FlightKind.OUTPUT:
                if record.number not in self._taken:
                    self._taken[record.number] = manager.next_output(record.now_us)
                taken = self._taken.pop(record.number)
                step.output = taken or []
                found: object = "an exception"
                if taken is not None:
                    found = checked(taken, self._most)
                before: object = "an exception"
                if record.payload:
                    before = OUTPUT.unpack(record.payload)
                step.compare("checksum and bytes of the output", found, before)
            case FlightKind.REFUSE:
                code, message, at, *answered = record.values
                manager.refuse(refusal(code, message, at), *answered)
            case FlightKind.RECHECK:
                rights, self._is_ended = record.values
                manager.recheck(record.now_us, rights=rights)
            case FlightKind.CALL if record.values[0] in CALLS:
                name, *arguments = record.values
                getattr(manager, name)(*arguments)
            case FlightKind.DISCONNECT:
                reason, own = record.values
                step.compare("the reason", manager.reason, own)
                self.broker.disconnect_at(record.now_us, manager, reason)
            case _:
                raise Different("there is no such call")

    def _user(self, number: int, name: str) -> Any:
        """Returns a user who has the rights that were recorded."""

        def may(*_: object) -> Any:
            return self._answers.take(number, FlightKind.RIGHT).values[-1]

        def is_ended(_: int) -> bool:
            return self._is_ended

        def denied(*_: object) -> None:
            pass

        return SimpleNamespace(name=name, publishable=(), may=may, is_ended=is_ended, denied=denied)


def _settings(topic: dict[str, Any], **limits: Any) -> BrokerSettings:
    """Returns the broker's settings from a header.

    Raises:
        TypeError: it makes no sense.
    """
    settings = BrokerSettings(topic=TopicSettings(**topic), **limits)
    for number in (*topic.values(), *limits.values()):
        if not isinstance(number, int | float):
            raise TypeError("a limit is not a number")
    return settings


def _request(data: bytes) -> Frame:
    """Returns a request that was recorded.

    Raises:
        Different: the record is not a request.
    """
    decoder = FrameDecoder(REQUESTS, max_frame=len(data))
    decoder.receive_data(data)
    try:
        request = decoder.next_frame()
    except ProtocolError:
        raise Different("it is not a request") from None
    if isinstance(request, NeedData) or decoder.buffered:
        raise Different("it is not a request")
    return request
