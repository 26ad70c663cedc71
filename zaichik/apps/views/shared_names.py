"""Shared names: what is open, what waits, what is dead, and what their workers are busy with."""

from dataclasses import dataclass

from zaichik.apps.views.printable import printable
from zaichik.apps.views.sentence import age
from zaichik.apps.views.topic_state import JSON, TopicState, lag
from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted

LABEL_CELLS = 40
WORDS_CELLS = 200


@dataclass(frozen=True, slots=True)
class Worker:
    """A reader of a shared name.

    Attributes:
        label: its client's name, printable, and its number.
        has: messages that it was handed out and has not settled.
        overdue: of these, those for which it took too long.
        seconds: since the oldest of these was handed out; None if it has none, or nobody knows.
        waiting_for: what it waits for, in words.
    """

    label: str
    has: int
    overdue: int
    seconds: float | None
    waiting_for: str

    @property
    def words(self) -> str:
        """What it has, and for how long."""
        if not self.has:
            return "nothing"
        words = f"{self.has:,}"
        if self.seconds is not None:
            words += f" for {age(self.seconds)}"
        if self.overdue:
            words += f", {self.overdue:,} overdue"
        return words


@dataclass(frozen=True, slots=True)
class SharedName:
    """A shared name.

    Attributes:
        name: the `name` of its row.
        label: what people call it, printable.
        open: messages that are not settled, those that wait included.
        with_workers: of these, those that workers have.
        workers: how many there are.
        waiting: open messages that no worker has.
        due_s: until the next of those that wait for their time; None if none do.
        dead: messages that failed too often, or were rejected.
        to_hand_out: messages that were never handed out.
        oldest_s: since the oldest message was handed out that a worker has; None as for `Worker`.
        waiting_for: why nothing is handed out now, in words.
        busiest: workers that have had something for longest, not always all.
    """

    name: str
    label: str
    open: int
    with_workers: int
    workers: int
    waiting: int
    due_s: float | None
    dead: int
    to_hand_out: int
    oldest_s: float | None
    waiting_for: str
    busiest: tuple[Worker, ...]

    @property
    def words(self) -> list[str]:
        """What became of its messages, in pieces."""
        return [
            f"{self.with_workers:,} with {counted(self.workers, 'worker')}",
            self.waiting_words,
            f"{self.dead:,} dead",
            f"{self.to_hand_out:,} to hand out",
        ]

    @property
    def held_words(self) -> str:
        """What its workers have, and for how long."""
        words = self.words[0]
        if self.oldest_s is not None:
            words += f", the oldest for {age(self.oldest_s)}"
        return words

    @property
    def waiting_words(self) -> str:
        """What no worker has, and when the next of it comes again."""
        words = f"{self.waiting:,} waiting"
        if self.due_s is not None:
            words += f" (next in {age(self.due_s)})"
        return words


def shared_names(state: TopicState) -> list[SharedName]:
    """Returns the shared names of a reading."""
    return [_name(row, state) for row in state.readers if "shared" in row]


def of_row(row: JSON, state: TopicState) -> SharedName | None:
    """Returns the shared name of that row; None if it is an ordinary reader's."""
    if "shared" not in row:
        return None
    return _name(row, state)


def _name(row: JSON, state: TopicState) -> SharedName:
    shared = row["shared"]
    due_s = None
    if shared["due_us"] is not None:
        due_s = max(0, shared["due_us"] - state.now_us) / SECOND_US
    workers = [_worker(it, state) for it in state.workers if _whose(it) == _whose(row)]
    return SharedName(
        row["name"],
        _label(row),
        shared["open"],
        shared["with_workers"],
        shared["workers"],
        shared["open"] - shared["with_workers"],
        due_s,
        shared["dead"],
        lag(row),
        _seconds(shared["oldest_us"], state),
        printable(row["waiting_for"], WORDS_CELLS),
        tuple(workers),
    )


def _label(row: JSON) -> str:
    label = printable(row["session"], LABEL_CELLS)
    if row["user"]:
        label += f" of {printable(row['user'], LABEL_CELLS)}"
    return label


def _whose(row: JSON) -> tuple[str, str]:
    """Returns what workers and their name have in common: two users may choose the same name."""
    return row["user"], row["session"]


def _worker(row: JSON, state: TopicState) -> Worker:
    worker = row["worker"]
    client = printable(row["client"], LABEL_CELLS)
    return Worker(
        f"{row['connection']}.{row['id']} {client}".strip(),
        worker["has"] + worker["overdue"],
        worker["overdue"],
        _seconds(worker["since_us"], state),
        printable(row["waiting_for"], WORDS_CELLS),
    )


def _seconds(since_us: int | None, state: TopicState) -> float | None:
    if since_us is None:
        return None
    return max(0, state.now_us - since_us) / SECOND_US
