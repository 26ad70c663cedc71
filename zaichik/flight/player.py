"""A recording carried out again by a broker of its own, without sockets, and without waiting for its times."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from types import SimpleNamespace
from typing import Any

from zaichik.broker.broker import Broker
from zaichik.broker.clock import ManualClock
from zaichik.broker.settings import BrokerSettings, TopicSettings
from zaichik.flight.format import CALLS, HOLD, OUTPUT, Kind, Record, Recording, Unreadable
from zaichik.flight.recorder import checked
from zaichik_protocol import ErrorCode, FrameDecoder, Refused
from zaichik_protocol.frames import REQUESTS

ERRORS = {code.value: code for code in ErrorCode}


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
        recording: which.

    Attributes:
        broker: carries it out.
        about: what its header says.
        begun_us: when it was begun, by its broker's clock.
    """

    def __init__(self, recording: Recording) -> None:
        try:
            self.about = about = json.loads(recording.about)
            self.begun_us = int(about["begun_us"])
            settings = about["settings"] | {"topic": TopicSettings(**about["settings"]["topic"])}
            self._manual = ManualClock(self.begun_us) if about["is_manual"] else None
            # One that no client can move (TIM-4) stands still, since all calls have readings of their own.
            still: Any = SimpleNamespace(now_us=lambda: self.begun_us)
            self.broker = Broker(BrokerSettings(**settings), self._manual or still)
            self.broker.boot, self.broker.name = about["boot"], about["broker"]
            self._most = about["checked"]
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"its header makes no sense: {error}") from error
        self.broker.resident = self._resident
        self._decoder = FrameDecoder(REQUESTS, max_frame=2**32 - 1)
        self._records = recording.records()
        self._is_ended = False  # the login of the connection that is checked again

    def steps(self, until_us: float = inf) -> Iterator[Step]:
        """Yields each call after it was carried out, up to the first one later than that reading of the clock.

        A difference does not end them, but what follows may differ because of it.
        """
        for number, record in enumerate(self._records, 1):
            if record.now_us > until_us:
                return
            step = Step(number, record)
            is_broker_s = record.kind is not Kind.RECHECK  # whose time is that of connections, and of logins (TIM-4)
            if self._manual is not None and is_broker_s and record.now_us > self._manual.now_us():
                self._manual.move_to(record.now_us)
            try:
                self._carry_out(step, record, self.broker.managers.get(record.number))
            except Exception as error:  # whatever it is, the other broker may have raised it, too, and gone on
                step.error = error
                if record.kind is not Kind.FRAME and record.payload:  # or else the answers will tell
                    step.difference = "it fails"
            yield step

    def _answer(self, kind: Kind) -> list[Any]:
        """Returns what the broker learned when it asked."""
        if (record := next(self._records)).kind is not kind:
            raise ValueError("the broker asks what it did not ask in the recording")
        return record.values

    def _resident(self) -> int | None:
        resident, ends, access = self._answer(Kind.SHOWN)
        self.broker.ends, self.broker.access = Counter(ends), Counter(access)
        return int(resident) if resident is not None else None

    def _carry_out(self, step: Step, record: Record, manager: Any) -> None:
        broker = self.broker
        match record.kind:
            case Kind.CONNECT:
                broker.connect(lambda: None, *record.values)
            case Kind.HOLD:
                broker.memory.take(record.payload[HOLD.size :].decode(), *HOLD.unpack_from(record.payload))
            case Kind.SWEEP:
                broker.sweep_at(record.now_us)
            case Kind.WAIVE:
                denied = {(user, topic) for user, topic in record.values[0]}
                broker.waive(lambda user, topic: (user, topic) not in denied)
            case Kind.RIGHT | Kind.SHOWN:
                step.difference = "the broker does not ask what it asked in the recording"
            case _:
                self._converse(step, record, manager)

    def _converse(self, step: Step, record: Record, manager: Any) -> None:
        """Carry out what is about one connection."""
        match record.kind:
            case Kind.LOG_IN:
                turns = self.broker.scheduler.join(manager.share, lambda: False)
                self.broker.log_in(manager, self._user(*record.values), turns)
            case Kind.FRAME:
                self._decoder.receive_data(record.payload)
                request = self._decoder.next_frame()
                manager.apply(request, record.now_us)
            case Kind.OUTPUT:
                step.output = manager.next_output(record.now_us)
                before = OUTPUT.unpack(record.payload) if record.payload else "an exception"
                step.compare("checksum and bytes of the output", checked(step.output, self._most), before)
            case Kind.REFUSE:
                code, message, at, *answered = record.values
                manager.refuse(Refused(ERRORS[code], message, at), *answered)
            case Kind.RECHECK:
                rights, self._is_ended = record.values
                manager.recheck(record.now_us, rights=rights)
            case Kind.CALL if record.values[0] in CALLS:
                name, *arguments = record.values
                getattr(manager, name)(*arguments)
            case Kind.DISCONNECT:
                reason, own = record.values
                step.compare("the reason", manager.reason, own)
                self.broker.disconnect(manager, reason)

    def _user(self, name: str) -> Any:
        """Returns a user who has the rights that were found."""
        may, is_ended = (lambda *_: self._answer(Kind.RIGHT)[-1]), (lambda _: self._is_ended)
        return SimpleNamespace(name=name, publishable=(), may=may, is_ended=is_ended, denied=lambda *_: None)
