"""What the workers of a shared name have written down, and what was done to them: does one explain
the other?

Each worker appends to a file of its own, a line for each step, which the system keeps when the
worker is killed:

    began     12.345  ticket  offset  number  kind  delivery
    said      12.346  ticket  done
    answered  12.347  ticket  counts

In the end every message was done at least once or is dead, and for each delivery but the last of a
message there is a reason why it was not the last: its worker said so, or was killed, stopped or
cut off, or the broker was killed. All times are of `time.monotonic`, which processes share.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

# Seconds after its end in which a disturbance still acts: until a client has noticed, is connected
# again, and has told what it has. On a busy machine that takes long.
ACTS_SECONDS = 5.0
# Seconds before its end of which a broker that was killed may have forgotten what it had answered
# (SHR-9): it saves once a second; five times that, on a busy machine.
FORGOTTEN_SECONDS = 5.0
# Deliveries that a start may forget to have counted (SHR-9).
FORGOTTEN_COUNTS = 2

FAILS, REJECTED, DEADLY = "fails", "rejected", "deadly"
# Kinds of jobs that must die. All others must be done.
DOOMED = frozenset({FAILS, REJECTED, DEADLY})


@dataclass(frozen=True, slots=True)
class Process:
    """One life of a worker.

    Attributes:
        slot: which worker.
        life: how many it had before.
    """

    slot: int
    life: int


@dataclass(slots=True)
class Delivery:
    """A message in the hands of a worker that has begun with it.

    Attributes:
        ticket, offset, number, kind: of the message; number and kind are its payload.
        count: which delivery the broker says that it is.
        process: who has it.
        began: when.
        verdict: what the worker said of it; "" if nothing.
        said: when; `math.inf`: never.
        answered: when it knew whether that counts; `math.inf`: never.
        counts: whether it does.
    """

    ticket: int
    offset: int
    number: int
    kind: str
    count: int
    process: Process
    began: float
    verdict: str = ""
    said: float = math.inf
    answered: float = math.inf
    counts: bool = False

    @property
    def comes_again(self) -> bool:
        """Whether its worker has given it back, and that counts."""
        return self.counts and self.verdict in ("retry", "give_back")


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Something that was done to workers or the broker.

    Attributes:
        kind: "killed", "stopped" or "cut": a worker; "crashed": the broker.
        begin, end: when.
        slot: which worker; -1: all, as it was the broker.
        life: which of its lives; -1: whichever it has.
    """

    kind: str
    begin: float
    end: float
    slot: int = -1
    life: int = -1

    @property
    def is_crash(self) -> bool:
        """Whether it was the broker that was killed."""
        return self.kind == "crashed"

    def concerns(self, process: Process) -> bool:
        """Returns whether that process may have been disturbed by it."""
        return self.slot in (-1, process.slot) and self.life in (-1, process.life)

    def acts_between(self, since: float, until: float) -> bool:
        """Returns whether it may have changed something within that time."""
        first = self.begin
        if self.is_crash:
            first -= FORGOTTEN_SECONDS
        return first <= until and since <= self.end + ACTS_SECONDS


class WorkLedger:
    """All files of all workers.

    Attributes:
        deliveries: by ticket.
        disturbances: what was done.
    """

    def __init__(self) -> None:
        self.deliveries: dict[int, Delivery] = {}
        self.disturbances: list[Disturbance] = []
        self._by_offset: dict[int, list[Delivery]] = defaultdict(list)
        self._offset_of: dict[int, int] = {}
        self._answered: set[int] = set()
        self._files: dict[Process, _Tail] = {}

    # -- reading ---------------------------------------------------------------------------------

    def follow(self, process: Process, path: Path) -> None:
        """Read the file of a worker from now on."""
        self._files[process] = _Tail(path)

    def read(self) -> None:
        """Take in what was written since."""
        for process, tail in self._files.items():
            for line in tail.lines():
                self.note(process, line)

    def note(self, process: Process, line: str) -> None:
        """Take in a line that a worker has written."""
        event, at, ticket, *rest = line.split()
        match event, rest:
            case "began", [offset, number, kind, count]:
                self._begin(
                    Delivery(
                        int(ticket), int(offset), int(number), kind, int(count), process, float(at)
                    )
                )
            case "said", [verdict]:
                delivery = self.deliveries[int(ticket)]
                delivery.verdict, delivery.said = verdict, float(at)
            case "answered", [counts]:
                delivery = self.deliveries[int(ticket)]
                delivery.answered, delivery.counts = float(at), counts == "True"
                self._answered.add(delivery.offset)
            case _:
                raise AssertionError(f"{process}: {line!r}")

    def _begin(self, delivery: Delivery) -> None:
        assert delivery.ticket not in self.deliveries, f"a ticket was given twice: {delivery}"
        self.deliveries[delivery.ticket] = delivery
        self._by_offset[delivery.offset].append(delivery)
        known = self._offset_of.setdefault(delivery.number, delivery.offset)
        assert known == delivery.offset, f"{delivery.number} has two offsets: {delivery}"

    @property
    def tried(self) -> int:
        """How many messages a worker had an answer for."""
        return len(self._answered)

    def waiting(self, processes: Iterable[Process]) -> list[Delivery]:
        """Returns what these processes have begun, and have no answer for."""
        known = frozenset(processes)
        return [
            it for it in self.deliveries.values() if it.process in known and it.answered == math.inf
        ]

    def kind_at(self, offset: int) -> str:
        """Returns the kind of the message there; "" if no worker has begun with it."""
        return self._by_offset[offset][0].kind if offset in self._by_offset else ""

    # -- judging ---------------------------------------------------------------------------------

    def check(self, published: int, dead: Mapping[int, int], max_deliveries: int) -> None:
        """See whether all that has happened is explained.

        Args:
            published: how many messages there are.
            dead: the deliveries that have counted of each that is dead, by its offset.
            max_deliveries: after how many one is dead.

        Raises:
            AssertionError: something is not.
        """
        missing = set(range(published)) - self._by_offset.keys() - dead.keys()
        assert not missing, f"nobody has begun with the messages at {sorted(missing)}"
        for offset in range(published):
            deliveries = sorted(self._by_offset.get(offset, []), key=lambda it: it.ticket)
            for one, following in pairwise(deliveries):
                self._check_again(one, following)
            if offset in dead:
                self._check_dead(offset, deliveries, dead[offset], max_deliveries)
            else:
                last = deliveries[-1]
                assert last.kind not in DOOMED, f"it should be dead: {deliveries}"
                assert last.verdict == "done", f"it was lost: {deliveries}"
                assert last.counts or last.answered == math.inf, f"it was lost: {deliveries}"

    def _check_again(self, one: Delivery, following: Delivery) -> None:
        """Why was a message handed out again?"""
        if one.comes_again and one.said <= following.began:
            return
        since = one.began
        if one.counts:
            since = one.said
        until = min(one.answered, following.began)
        assert any(
            it.concerns(one.process)
            and it.begin <= following.began
            and it.acts_between(since, until)
            for it in self.disturbances
        ), f"{one} was followed by {following}, and nobody knows why"

    def _check_dead(self, offset: int, deliveries: list[Delivery], counted: int, most: int) -> None:
        """Why did it die?"""
        what = f"offset {offset}, dead after {counted} deliveries: {deliveries}"
        assert deliveries, what
        assert deliveries[0].kind in DOOMED, what
        if any(it.verdict == "reject" for it in deliveries):
            assert deliveries[0].kind == REJECTED, what
            return
        assert counted == most, what
        begin, end = deliveries[0].began, _end(deliveries[-1])
        acting = [it for it in self.disturbances if it.acts_between(begin, end)]
        if not acting:
            assert [it.comes_again for it in deliveries] == [True] * most, what
        # Some a worker was killed, stopped or cut off with, before it had begun.
        assert len(deliveries) >= most - len(acting), what
        starts = sum(it.is_crash for it in acting)
        assert sum(it.comes_again for it in deliveries) <= most + FORGOTTEN_COUNTS * starts, what


def _end(delivery: Delivery) -> float:
    """Returns when a delivery was over, as far as its worker knows."""
    for at in (delivery.answered, delivery.said):
        if at < math.inf:
            return at
    return delivery.began


@dataclass(slots=True)
class _Tail:
    """A file that grows, of which whole lines are read once."""

    path: Path
    position: int = 0
    rest: str = field(default="")

    def lines(self) -> list[str]:
        """Returns those that are new."""
        if not self.path.exists():
            return []
        with self.path.open(encoding="ascii") as file:
            file.seek(self.position)
            data = file.read()
            self.position = file.tell()
        *lines, self.rest = (self.rest + data).split("\n")
        return lines
