"""Writes the shared names of a durable topic down: what has changed, at one moment (SHR-9).

Once a second, like positions, and at the cost of what has changed in that second: 10,000 messages
may be open, and ten times as many wait for their time. So each name notes the offsets of what
changes. A start knows names as they were written last: what was settled since
then comes again, and counts that have grown since then are less. Two things wait for the disk: no
ticket is given before there is a note of where they are (SHR-3), and the log keeps what a name has
needed when it was written.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zaichik.core.position import Position
from zaichik.core.shared_names.saved_names import Row, SavedName, saved_name
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.work_queue.work_queue import WorkQueue

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController


@dataclass(slots=True)
class NamesWrite:
    """What is written about the names of a topic at one moment.

    Attributes:
        changes: by their keys; see `saved_names`.
        ticket: the next one that will be given.
        needed: what each name needed.
        forgotten: what the log has had of those that are gone, by their keys.
    """

    changes: dict[str, SavedName | None]
    ticket: int
    needed: dict[SharedPosition, int]
    forgotten: dict[str, "WrittenName"]

    def note_synced(self) -> None:
        """Let what has waited for this go on: it is on the disk."""
        for position, needed in self.needed.items():
            position.note_saved(needed, self.ticket)


class WrittenName:
    """One name as the log has it, or will have it when all that waits is written.

    Args:
        queue: what the name has. Its changes are noted from now on.
        numbers: those that were written; none, if it never was.
        offsets: see below.

    Attributes:
        queue: see above.
        offsets: of the messages that the log knows as open or dead; or more than these.
        changed: of the messages that have changed since they were written.
    """

    def __init__(self, queue: WorkQueue, numbers: Row, offsets: Iterable[int]) -> None:
        self.queue = queue
        self.offsets = set(offsets)
        self.changed: set[int] = set()
        self._numbers = numbers
        queue.ledger.on_change = self.changed.add

    def take_change(self) -> SavedName | None:
        """Returns what has changed, which counts as written then; None if nothing has."""
        change = saved_name(self.queue, self.changed)
        rows = change["rows"]
        for offset in self.changed:
            if str(offset) in rows:
                self.offsets.add(offset)
            elif offset in self.offsets:
                self.offsets.remove(offset)
                rows[str(offset)] = None
        # The set itself is known to the ledger.
        self.changed.clear()
        if not rows and change["numbers"] == self._numbers:
            return None
        self._numbers = change["numbers"]
        return change

    def undo(self, change: SavedName) -> None:
        """Note that a change was not written."""
        self.know(map(int, change["rows"]))
        # They differ from any.
        self._numbers = []

    def know(self, offsets: Iterable[int]) -> None:
        """Note that the log may know messages at these offsets, which is to be written again."""
        for offset in offsets:
            self.offsets.add(offset)
            self.changed.add(offset)


class NameSaver:
    """The shared names of one topic, as its log has them.

    Args:
        topic: the topic.
    """

    def __init__(self, topic: "TopicController") -> None:
        self._topic = topic
        self._written: dict[str, WrittenName] = {}

    def know(self, key: str, name: SavedName) -> None:
        """Note what a start has found of a name, and has restored."""
        (position,) = _shared([self._topic.names[key]])
        offsets = map(int, name["rows"])
        self._written[key] = WrittenName(position.queue, name["numbers"], offsets)

    def write(self) -> NamesWrite | None:
        """Returns what is to be written; None if nothing is.

        It counts as written; see `undo`.
        """
        positions = _shared(self._topic.names.values())
        changes: dict[str, SavedName | None] = {}
        forgotten: dict[str, WrittenName] = {}
        needed: dict[SharedPosition, int] = {}
        ticket = 0
        must_write = False
        for position in positions:
            ticket = position.next_ticket
            must_write = must_write or position.needs_save
            needed[position] = position.queue.ledger.needed
            change = self._written_name(position).take_change()
            if change is not None:
                changes[position.key] = change
        keys = {position.key for position in positions}
        for key in [*self._written]:
            if key not in keys:
                forgotten[key] = self._written.pop(key)
                changes[key] = None
        if not changes and not must_write:
            return None
        return NamesWrite(changes, ticket, needed, forgotten)

    def _written_name(self, position: SharedPosition) -> WrittenName:
        written = self._written.get(position.key)
        if written is not None and written.queue is position.queue:
            return written
        new = WrittenName(position.queue, [], ())
        new.changed.update(position.queue.ledger.unsettled)
        # It was forgotten, and made again.
        if written is not None:
            new.know(written.offsets)
        self._written[position.key] = new
        return new

    def undo(self, write: NamesWrite) -> None:
        """Note that it was not written: there was no room. The newest is undone first."""
        for key, change in write.changes.items():
            written = self._written.get(key)
            if change is not None and written is not None:
                written.undo(change)
        for key, gone in write.forgotten.items():
            made_again = self._written.get(key)
            if made_again is None:
                self._written[key] = gone
            else:
                made_again.know(gone.offsets)


def _shared(positions: Iterable[Position]) -> list[SharedPosition]:
    return [position for position in positions if isinstance(position, SharedPosition)]
