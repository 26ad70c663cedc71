"""A recording carried out again by a broker of its own, without sockets, and without waiting for its times."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from types import SimpleNamespace
from typing import Any

from zaichik.broker.broker import Broker
from zaichik.broker.clock import MICROSECONDS, ManualClock
from zaichik.broker.settings import BrokerSettings, TopicSettings
from zaichik.flight.answers import Answers, BreaksOff, Different
from zaichik.flight.format import CALLS, HOLD, OUTPUT, Kind, Record, Recording, Unreadable, refusal
from zaichik.flight.replayed_disk import ReplayedLogs
from zaichik.flight.tape import checked
from zaichik.log.restoring import restore
from zaichik_protocol import Frame, FrameDecoder, NeedData, ProtocolError
from zaichik_protocol.frames import REQUESTS


@dataclass(slots=True)
class Step:
    """A call that was carried out again.

    Attributes:
        number: the first is 1.
        record: the call.
        output: what the broker sends, if that was asked for.
        difference: how that, or the end of a connection, differs from the recording; "" if it does not.
        error: the exception that was raised: a bug of the broker, or a record that makes no sense.
    """

    number: int
    record: Record
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
            self.about = about = json.loads(recording.about)
            self.begun_us = int(about["begun_us"])
            settings = _settings(**about["settings"])
            datetime.fromtimestamp(self.begun_us / MICROSECONDS, UTC)  # raises if it is not a time
            self._manual = ManualClock(self.begun_us) if about["is_manual"] else None
            # One that no client can move (TIM-4) stands still, since all calls have readings of their own.
            still: Any = SimpleNamespace(now_us=lambda: self.begun_us)
            logs = self._logs if about.get("has_disk") else None
            self.broker = Broker(settings, self._manual or still, logs=logs)
            self.broker.boot, self.broker.name = about["boot"], about["broker"]
            self._most = about["checked"]
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise Unreadable(f"its header makes no sense: {error}") from error
        self.broker.resident = self._resident
        self._taken: dict[int, list[bytes] | None] = {}  # until it is compared; None: there was an exception
        self._is_ended = False  # whether the login has ended of the connection that is being rechecked

    def steps(self, until_us: float = inf) -> Iterator[Step]:
        """Yields each call after it was carried out, up to the first one later than that reading of the clock.

        A difference does not end them, but what follows may differ because of it.
        """
        for number, record in enumerate(self._answers.until(until_us), 1):
            step = Step(number, record)
            if self._manual is not None and record.now_us > self._manual.now_us():
                self._manual.move_to(record.now_us)
            try:
                self._carry_out(step, record, self.broker.managers.get(record.number))
            except BreaksOff:
                return
            except Different as difference:
                step.difference = str(difference)
            except Exception as error:  # whatever it is, the other broker may have raised it, too, and gone on
                step.error = error
                if record.kind is not Kind.FRAME and record.payload:  # or else the answers will tell
                    step.difference = "it fails"
            yield step

    def _resident(self) -> int | None:
        resident, ends, access = self._answers.take(0, Kind.SHOWN).values
        self.broker.ends, self.broker.access = Counter(ends), Counter(access)
        return int(resident) if resident is not None else None

    def _carry_out(self, step: Step, record: Record, manager: Any) -> None:
        broker = self.broker
        match record.kind:
            case Kind.CONNECT:
                broker.connect_at(record.now_us, lambda: None, *record.values)
            case Kind.HOLD:
                broker.memory.take(record.payload[HOLD.size :].decode(), *HOLD.unpack_from(record.payload))
            case Kind.SWEEP:
                broker.sweep_at(record.now_us)
            case Kind.WAIVE:
                denied = {(user, topic) for user, topic in record.values[0]}
                broker.waive(lambda user, topic: (user, topic) not in denied)
            case Kind.RECOVERED:
                self._logs.recover(*record.values)
            case Kind.RESTORE:
                restore(broker, self._logs)
            case Kind.LOG:
                self._logs.call(record.number, *record.values)
            case Kind.RIGHT | Kind.SHOWN | Kind.ENTRY | Kind.DAMAGED | Kind.VALUE:
                raise Different("the broker does not ask what it asked in the recording")
            case Kind.END:
                pass
            case _ if manager is None:
                raise Different("there is no such connection")
            case _:
                self._converse(step, record, manager)

    def _converse(self, step: Step, record: Record, manager: Any) -> None:
        """Carry out a call about one connection."""
        match record.kind:
            case Kind.LOG_IN:
                turns = self.broker.scheduler.join(manager.share, lambda: False)
                self.broker.log_in(manager, self._user(record.number, *record.values), turns)
            case Kind.FRAME:
                manager.apply(_request(record.payload), record.now_us)
            case Kind.TAKE:
                self._taken[record.number] = None
                self._taken[record.number] = manager.next_output(record.now_us)
            case Kind.OUTPUT:
                if record.number not in self._taken:
                    self._taken[record.number] = manager.next_output(record.now_us)
                taken = self._taken.pop(record.number)
                step.output = taken or []
                found = "an exception" if taken is None else checked(taken, self._most)
                before = OUTPUT.unpack(record.payload) if record.payload else "an exception"
                step.compare("checksum and bytes of the output", found, before)
            case Kind.REFUSE:
                code, message, at, *answered = record.values
                manager.refuse(refusal(code, message, at), *answered)
            case Kind.RECHECK:
                rights, self._is_ended = record.values
                manager.recheck(record.now_us, rights=rights)
            case Kind.CALL if record.values[0] in CALLS:
                name, *arguments = record.values
                getattr(manager, name)(*arguments)
            case Kind.DISCONNECT:
                reason, own = record.values
                step.compare("the reason", manager.reason, own)
                self.broker.disconnect_at(record.now_us, manager, reason)
            case _:
                raise Different("there is no such call")

    def _user(self, number: int, name: str) -> Any:
        """Returns a user who has the rights that were recorded."""
        may, is_ended = (lambda *_: self._answers.take(number, Kind.RIGHT).values[-1]), (lambda _: self._is_ended)
        return SimpleNamespace(name=name, publishable=(), may=may, is_ended=is_ended, denied=lambda *_: None)


def _settings(topic: dict[str, Any], **limits: Any) -> BrokerSettings:
    """Returns the broker's settings from a header.

    Raises:
        TypeError: it makes no sense.
    """
    settings = BrokerSettings(topic=TopicSettings(**topic), **limits)
    if not all(isinstance(number, int | float) for number in (*topic.values(), *limits.values())):
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
        if not isinstance(request := decoder.next_frame(), NeedData) and not decoder.buffered:
            return request
    except ProtocolError:
        pass
    raise Different("it is not a request")
