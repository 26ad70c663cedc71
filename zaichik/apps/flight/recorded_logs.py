"""The disk of a broker that is recorded: all that the broker learns from it is kept.

It does what any other disk does. The seam is `Logs` and `Log` of `zaichik.core.log`, so a store
knows nothing of this. What the core reads of a log is an *answer*, which is in the recording after
the call that asked for it. Answers that seldom change are written only when they differ from the
last one. What a log does to the core is a *call*: something was synced or refused, the head has
moved, what was asked for has been read. A log calls between turns, never out of a call of the core.
"""

# Not compiled: a function makes its properties, which native classes cannot have.

from base64 import b64encode
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from struct import pack
from typing import Any, TypeVar, cast

from zaichik.apps.flight.answers import Callbacks
from zaichik.apps.flight.format import ENTRY, FlightKind, packed, told
from zaichik.apps.flight.tape import Tape
from zaichik.core.log import LogOwner, Write
from zaichik.core.retained import Wake
from zaichik.core.ring import Entry
from zaichik.core.tables.keep_last import KeepLast
from zaichik.core.tables.table_owner import TableOwner
from zaichik.storage.recovery import Recovered
from zaichik.storage.segment import TopicHeader
from zaichik.storage.store import Store
from zaichik_protocol import Refused

Value = TypeVar("Value")


class _Recorded:
    """The core's questions, with the last answers.

    Args:
        inner: the store or log that does the work.
        number: the log's, from 1 on; 0 for all of them.
        tape: the recording.
    """

    def __init__(self, inner: Any, number: int, tape: Tape) -> None:
        self.inner = inner
        self._number = number
        self._tape = tape
        self._last: dict[str, object] = {}

    def note(self, name: str, value: Value) -> Value:
        """Returns the value. It is recorded if it has changed."""
        if self._tape.depth and self._last.get(name) != value:
            self._last[name] = value
            self._tape.answer(FlightKind.VALUE, self._number, packed(name, value))
        return value


def _value(name: str) -> Any:
    """Returns an attribute that is noted whenever it is read."""
    return property(lambda log: log.note(name, getattr(log.inner, name)))


@dataclass(frozen=True)
class _Callback:
    """A callback in place of a function.

    Two for the same function are equal, as the function would be.
    """

    call: Callable[..., None]
    log: "RecordedLog" = field(compare=False)

    def __call__(self, *answers: object) -> None:
        self.log.answer(self.call, *answers)


class RecordedLog(_Recorded):
    """A log that is recorded.

    To the core it is a `Log`, and to the log that does the work it is the owner.

    Attributes:
        owner, head, end, size, bound, damage: see `Log`.
    """

    owner: LogOwner
    head = _value("head")
    end = _value("end")
    size = _value("size")
    bound = _value("bound")
    damage = _value("damage")

    def __init__(self, inner: Any, number: int, tape: Tape) -> None:
        super().__init__(inner, number, tape)
        inner.owner = self
        self.write = inner.write
        self.drop_below = inner.drop_below
        self.save = inner.save
        self._asked = Callbacks()
        self._found: dict[Wake, int] = {}  # the offset of what was found for each last

    def begin(self, topic: TopicHeader, found: Recovered) -> None:
        """Record what was found at the start."""
        head, end = self.inner.head, self.inner.end
        self._last = {"head": head, "end": end}
        state = b64encode(found.state.checkpoint(topic.epoch, 0, 0, 0)).decode()
        said = packed(topic.name, head, end, topic.epoch, topic.settings, topic.lost, state)
        self._tape.note(FlightKind.RECOVERED, self._number, said)
        if found.kept is not None:
            self._note_table(found.kept)

    def _note_table(self, kept: KeepLast) -> None:
        """Record what is in a table."""
        numbers = packed(kept.head, kept.deleted_below, kept.expired, kept.superseded)
        self._tape.note(FlightKind.TABLE, self._number, numbers)
        offset = kept.readable_from(0)
        while offset < kept.next_offset:
            some = kept.together(offset)
            count = some.batch.count
            offsets = pack(f"<I{count}q", count, *some.offsets)
            data = self._tape.masked(some.batch).data
            self._tape.note(FlightKind.ROWS, self._number, offsets, some.accepted_us, data)
            offset = kept.readable_from(some.offsets[-1] + 1)

    # -- what the core asks; see `Log` -------------------------------------------------------------

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """See above."""
        try:
            found: Entry | None = self.inner.entry(offset, _Callback(wake, self))
        except Refused as refusal:
            self._tape.answer(FlightKind.DAMAGED, self._number, packed(*told(refusal)))
            raise
        if found is None:
            self._asked.add(wake)
            self._tape.answer(FlightKind.ENTRY, self._number)
        elif self._found.get(wake) == found.base:
            # A reader with little credit asks for the same batch again and again.
            self._tape.answer(FlightKind.ENTRY, self._number, ENTRY.pack(found.base, 0))
        else:
            self._found[wake] = found.base
            batch = self._tape.masked(found.batch)
            place = ENTRY.pack(found.base, batch.count)
            self._tape.answer(FlightKind.ENTRY, self._number, place, found.accepted_us, batch.data)
        return found

    def is_reading(self, wake: Wake) -> bool:
        """See above. It is not written down: it follows from what was answered."""
        return bool(self.inner.is_reading(_Callback(wake, self)))

    def release(self, wake: Wake) -> None:
        """See above."""
        self._asked.pop(wake, None)
        self._found.pop(wake, None)
        self.inner.release(_Callback(wake, self))

    def first_since(self, time_us: int, found: Callable[[int | None], None]) -> None:
        """See above."""
        self._asked.add(found)
        self.inner.first_since(time_us, _Callback(found, self))

    def expired_until(self, time_us: int) -> int:
        """See above."""
        return int(self.note("expired_until", self.inner.expired_until(time_us)))

    def size_from(self, offset: int) -> int:
        """See above."""
        return int(self.note("size_from", self.inner.size_from(offset)))

    def clean(self) -> None:
        """See above. It is not written down: nobody can tell."""
        self.inner.clean()

    def delete(self, gone: Callable[[], None]) -> None:
        """See above."""
        self._asked.add(gone)
        self.inner.delete(_Callback(gone, self))

    # -- what the log asks and does; see `LogOwner` -----------------------------------------------

    @property
    def waiting(self) -> deque[Write]:
        """See above."""
        return self.owner.waiting

    @property
    def needed(self) -> int:
        """See above."""
        return self.owner.needed

    @property
    def kept(self) -> KeepLast:
        """See `TableOwner`."""
        return cast("TableOwner", self.owner).kept

    def on_synced(self, count: int) -> None:
        """See above.

        It is recorded if it changes anything, and so is the next one: they come with every group.
        """
        if count:
            size = self.inner.size
            self._last["size"] = size
            with self._called("synced", count, size):
                self.owner.on_synced(count)

    def on_refused(self, refusal: Refused) -> None:
        """See above."""
        with self._called("refused", *told(refusal)):
            self.owner.on_refused(refusal)

    def on_head_moved(self, head: int, own: int) -> None:
        """See above."""
        if head > self.owner.head:
            with self._called("head_moved", head, own):
                self.owner.on_head_moved(head, own)

    def answer(self, call: Callable[..., None], *answers: object) -> None:
        """Call back with what was asked for."""
        with self._called("answer", self._asked.pop(call), *answers):
            call(*answers)

    def _called(self, *said: object) -> AbstractContextManager[None]:
        return self._tape.call(FlightKind.LOG, self._number, packed(*said))


class RecordedLogs(_Recorded):
    """The logs of a store, recorded: to the core they are `Logs`.

    Args:
        store: the store that has them.
        tape: the recording.

    Attributes:
        used: see `Logs`.
        recovered: as the store's, with logs that are recorded.
        jumps, ahead_us: the store's.
    """

    used = _value("used")

    def __init__(self, store: Store, tape: Tape) -> None:
        super().__init__(store, 0, tape)
        self._logs = 0
        self.jumps = store.jumps
        self.ahead_us = store.ahead_us
        self.recovered = []
        for topic, found, log in store.recovered:
            self.recovered.append((topic, found, self._recorded(log)))

    def _recorded(self, log: Any) -> RecordedLog:
        self._logs += 1
        return RecordedLog(log, self._logs, self._tape)

    def begin(self) -> None:
        """Record what was found at the start."""
        for topic, found, log in self.recovered:
            log.begin(topic, found)
        of_clock = b""
        if self.jumps or self.ahead_us:
            of_clock = packed(list(self.jumps), self.ahead_us)
        self._tape.note(FlightKind.RESTORE, 0, of_clock)

    def sync_p99_us(self) -> int | None:
        """See `Logs`."""
        found: int | None = self.note("sync_p99_us", self.inner.sync_p99_us())
        return found

    def check(self, name: str) -> None:
        """See `Logs`."""
        try:
            self.inner.check(name)
        except Refused as refusal:
            self.note("check", [*told(refusal)])
            raise
        self.note("check", [])

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> RecordedLog:
        """See `Logs`."""
        return self._recorded(self.inner.create(name, epoch, settings))
