"""The records of a recording in their order.

These are calls, and after each the answers to what the broker asked meanwhile.
"""

# Not compiled: it reads recordings, which nothing waits for.

from collections.abc import Callable, Iterator
from typing import Any

from zaichik.apps.flight.format import FlightKind, FlightRecord


class BreaksOff(Exception):
    """The recording ends in the middle of a call."""


class Different(Exception):
    """The broker does something else than in the recording, or a record makes no sense.

    The message is a sentence.
    """


class Callbacks(dict[Callable[..., None], int]):
    """Callbacks for a log, numbered in the order of asking.

    So each has the same number as in the recorded broker.
    """

    last = 0

    def add(self, call: Callable[..., None]) -> None:
        """Give a callback a number, unless it has one."""
        if call not in self:
            self.last += 1
            self[call] = self.last

    def take(self, number: int) -> Callable[..., None]:
        """Remove the callback of that number, and return it.

        Raises:
            Different: there is none.
        """
        for call, given in self.items():
            if given == number:
                del self[call]
                return call
        raise Different("it answers what the broker has not asked")


class Answers:
    """The rest of a recording: calls, and after each the answers that were given meanwhile.

    A broker that does the same again takes each answer while it carries out the call, so only calls
    are left to iterate over. Inspecting the broker between two calls takes no answer: a call comes
    next.

    Args:
        records: all records.
    """

    def __init__(self, records: Iterator[FlightRecord]) -> None:
        self._records = records
        self._next: FlightRecord | None = None

    def until(self, until_us: float) -> Iterator[FlightRecord]:
        """Takes and yields calls, up to the first one later than that reading of the clock.

        That one stays.
        """
        while (record := self._peek()) is not None and record.now_us <= until_us:
            self._next = None
            yield record

    def _peek(self) -> FlightRecord | None:
        if self._next is None:
            self._next = next(self._records, None)
        return self._next

    def take(self, number: int, *kinds: FlightKind) -> FlightRecord:
        """Returns the next answer, which must be of one of these kinds.

        It must be about the connection, or the log, of that number.

        Raises:
            BreaksOff: the recording has come to its end.
            Different: something else comes next, and is left there.
        """
        record = self._peek()
        if record is None:
            raise BreaksOff
        if record.kind not in kinds or record.number != number:
            raise Different("the broker asks what it did not ask in the recording")
        self._next = None
        return record

    def value(self, number: int, name: str, last: dict[str, Any]) -> Any:
        """Returns a value of a log, or of all logs together.

        It is a new one if that comes next, or else the last one.
        """
        record = self._peek()
        if record is None or record.kind is not FlightKind.VALUE or record.number != number:
            return last.get(name)
        its_name, value = record.values
        if its_name != name:
            return last.get(name)
        self._next = None
        if type(value) is not type(last.get(name, value)):
            raise Different(f"{name} cannot be {value!r}")
        last[name] = value
        return value
