"""The stand-in for the disk of a broker that is replayed.

It gives the answers, and makes the calls, of a recording.
"""

# Not compiled: it reads recordings, which nothing waits for.

from array import array
from base64 import b64decode
from collections.abc import Callable
from struct import Struct, unpack_from
from typing import Any

from zaichik.apps.flight.answers import Answers, Callbacks, Different
from zaichik.apps.flight.format import ENTRY, FlightKind, FlightRecord, refusal
from zaichik.core.log import LogOwner
from zaichik.core.retained import Wake
from zaichik.core.ring import Entry
from zaichik.core.tables.keep_last import KeepLast, Rows
from zaichik.core.tables.key_index import KeyIndex
from zaichik.storage.recovery import Recovered, new_state
from zaichik.storage.segment import TopicHeader
from zaichik.storage.state import read_checkpoint
from zaichik_protocol import Batch

# Of a log that nobody has asked yet; a replay is asked by `--explain` what the recorded broker may
# never have been.
UNKNOWN = {
    "head": 0,
    "end": 0,
    "size": 0,
    "bound": 0,
    "damage": "",
    "expired_until": 0,
    "size_from": 0,
}


class _Replayed:
    """What the core asks, and what was answered last; see `_Recorded`."""

    def __init__(self, answers: Answers, number: int, last: dict[str, Any]) -> None:
        self._answers = answers
        self._number = number
        self._last = last

    def value(self, name: str) -> Any:
        """Returns a value as it was then."""
        return self._answers.value(self._number, name, self._last)


def _value(name: str) -> Any:
    return property(lambda log: log.value(name))


def _nothing(*_: object) -> None:
    """Does nothing: the recording has the outcome of what a log is to do."""


class ReplayedLog(_Replayed):
    """A log of which only answers are known; see `Log`, and `RecordedLog`."""

    owner: LogOwner
    head = _value("head")
    end = _value("end")
    size = _value("size")
    bound = _value("bound")
    damage = _value("damage")

    def __init__(self, answers: Answers, number: int, last: dict[str, Any]) -> None:
        super().__init__(answers, number, last)
        self.write = _nothing
        self.drop_below = _nothing
        self.save = _nothing
        self._asked = Callbacks()
        self._found: dict[Wake, Entry] = {}  # what was found for each last

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """See `Log`."""
        record = self._answers.take(self._number, FlightKind.ENTRY, FlightKind.DAMAGED)
        if record.kind is FlightKind.DAMAGED:
            raise refusal(*record.values)
        if not record.payload:
            self._asked.add(wake)
            return None
        base, count = ENTRY.unpack_from(record.payload)
        if count:
            batch = Batch(record.payload[ENTRY.size :], count)
            self._found[wake] = Entry(base, record.now_us, batch)
        return self._found[wake]

    def is_reading(self, wake: Wake) -> bool:
        """See `Log`."""
        return wake in self._asked

    def release(self, wake: Wake) -> None:
        """See `Log`."""
        self._asked.pop(wake, None)
        self._found.pop(wake, None)

    def first_since(self, time_us: int, found: Callable[[int | None], None]) -> None:
        """See `Log`."""
        self._asked.add(found)

    def expired_until(self, time_us: int) -> int:
        """See `Log`."""
        return int(self.value("expired_until"))

    def size_from(self, offset: int) -> int:
        """See `Log`."""
        return int(self.value("size_from"))

    def clean(self) -> None:
        """See `Log`: nobody can tell."""

    def delete(self, gone: Callable[[], None]) -> None:
        """See `Log`."""
        self._asked.add(gone)

    def call(self, name: str, *arguments: Any) -> None:
        """Make the call that the log made to the core."""
        match name:
            case "synced":
                count, self._last["size"] = arguments
                self.owner.on_synced(count)
            case "refused":
                self.owner.on_refused(refusal(*arguments))
            case "head_moved":
                self.owner.on_head_moved(*arguments)
            case "answer":
                number, *answers = arguments
                self._asked.take(number)(*answers)
            case _:
                raise Different("there is no such call of a log")


class ReplayedLogs(_Replayed):
    """The logs of all durable topics; see `Logs`.

    Args:
        answers: the recording.

    Attributes:
        used: see `Logs`.
        recovered: see `Store`.
        logs: all logs, by their numbers.
        jumps, ahead_us: see `Store`.
    """

    used = _value("used")

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers, 0, {"used": 0})
        self.recovered: list[tuple[TopicHeader, Recovered, ReplayedLog]] = []
        self.logs: dict[int, ReplayedLog] = {}
        self._rows: dict[int, list[Rows]] = {}  # of tables, by their places among the topics
        self.jumps: list[tuple[int, int]] = []
        self.ahead_us = 0

    def _opened(self, **last: int) -> ReplayedLog:
        number = len(self.logs) + 1
        log = ReplayedLog(self._answers, number, UNKNOWN | last)
        self.logs[number] = log
        return log

    def call(self, number: int, name: str, *arguments: Any) -> None:
        """See `ReplayedLog.call`."""
        if number not in self.logs:
            raise Different("there is no such log")
        self.logs[number].call(name, *arguments)

    def find(self, record: FlightRecord) -> None:
        """Find what a start has found: a topic, that it is a table, or some of what is in it."""
        match record.kind:
            case FlightKind.RECOVERED:
                self._recover(*record.values)
            case FlightKind.TABLE:
                self._begin_table(*record.values)
            case _:
                self._add_rows(record.payload, record.now_us)

    def _recover(
        self,
        name: str,
        head: int,
        end: int,
        epoch: int,
        settings: dict[str, int],
        lost: list[Any],
        state: str,
    ) -> None:
        """Find what a start has found; see `RecordedLog.begin`."""
        ranges = tuple((begin, after) for begin, after in lost)
        topic = TopicHeader(name, epoch, settings, ranges)
        found = Recovered(topic, new_state(topic))
        known = read_checkpoint(b64decode(state))
        if known is None:
            raise ValueError("the state of a topic is damaged")
        found.state.restore(*known)
        log = self._opened(head=int(head), end=int(end))
        self.recovered.append((topic, found, log))

    def _begin_table(self, *numbers: int) -> None:
        """Find that the last topic is a table; see `FlightKind.TABLE`."""
        kept = KeepLast()
        kept.head, kept.deleted_below, kept.expired, kept.superseded = numbers
        _, found, _ = self.recovered[-1]
        found.kept = kept

    def _add_rows(self, data: bytes, accepted_us: int) -> None:
        """Find some messages of that table; see `FlightKind.ROWS`."""
        (count,) = unpack_from("<I", data)
        columns = Struct(f"<I{count}q")
        _, *offsets = columns.unpack_from(data)
        times = array("q", [accepted_us]) * count
        rows = Rows(array("q", offsets), times, Batch(data[columns.size :], count))
        self._rows.setdefault(len(self.recovered) - 1, []).append(rows)

    def fill_tables(self) -> None:
        """Put what was found into the tables."""
        for number, (_, found, _) in enumerate(self.recovered):
            if found.kept is None:
                continue
            rows = self._rows.pop(number, [])
            index = KeyIndex()
            for some in rows:
                newest = dict(zip(some.batch.keys(), some.offsets, strict=True))
                newest.pop(b"", None)
                index.update(newest, 0)
            found.kept.restore(index, rows, found.state.end)

    def know_clock(self, jumps: list[Any], ahead_us: int) -> None:
        """Know what a start has found out about the machine's clock."""
        self.jumps = [(int(at_us), int(by_us)) for at_us, by_us in jumps]
        self.ahead_us = int(ahead_us)
        for _, found, _ in self.recovered:
            found.state.jumps = self.jumps

    def sync_p99_us(self) -> int | None:
        """See `Logs`."""
        found: int | None = self.value("sync_p99_us")
        return found

    def check(self, name: str) -> None:
        """See `Logs`."""
        if refused := self.value("check"):
            raise refusal(*refused)

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> ReplayedLog:
        """See `Logs`."""
        return self._opened()
