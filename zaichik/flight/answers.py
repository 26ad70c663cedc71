"""The records of a recording in their order: calls, and after each, the answers to what the broker asked meanwhile."""

from collections.abc import Callable, Iterator
from typing import Any

from zaichik.flight.format import Kind, Record


class BreaksOff(Exception):
    """The recording ends in the middle of a call."""


class Different(Exception):
    """The broker does something else than in the recording, or a record makes no sense; the message is a sentence."""


class Callbacks(dict[Callable[..., None], int]):
    """Callbacks for a log, numbered in the order of asking, so with the same numbers as in the recorded broker."""

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
    """The rest of a recording: calls, and after each the answers that were given while it was carried out.

    A broker that does the same again takes each answer while it carries out the call, so only calls are left to
    iterate over. Inspecting the broker between two calls takes no answer: a call comes next.

    Args:
        records: all records.
    """

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._next: Record | None = None

    def until(self, until_us: float) -> Iterator[Record]:
        """Takes and yields calls, up to the first one later than that reading of the clock, which stays."""
        while (record := self._peek()) is not None and record.now_us <= until_us:
            self._next = None
            yield record

    def _peek(self) -> Record | None:
        if self._next is None:
            self._next = next(self._records, None)
        return self._next

    def take(self, number: int, *kinds: Kind) -> Record:
        """Returns the next answer, which must be of one of these kinds and about that connection, or that log.

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
        """Returns a value of a log, or of all logs together: a new one if that comes next, or else the last one."""
        record = self._peek()
        if record is not None and record.kind is Kind.VALUE and record.number == number and record.values[0] == name:
            value = self.take(number, Kind.VALUE).values[1]
            if type(value) is not type(last.get(name, value)):
                raise Different(f"{name} cannot be {value!r}")
            last[name] = value
        return last.get(name)
