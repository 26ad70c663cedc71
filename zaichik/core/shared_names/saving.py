"""Writes the shared names of a durable topic down: what has changed, at one moment (SHR-9).

Once a second, like positions. A start knows names as they were written last: what was settled since
then comes again, and counts that have grown since then are less. Two things wait for the disk: no
ticket is given before there is a note of where they are (SHR-3), and the log keeps what a name has
needed when it was written.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zaichik.core.position import Position
from zaichik.core.shared_names.saved_names import SavedName, changed_since, saved_name
from zaichik.core.shared_names.shared_position import SharedPosition

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController


@dataclass(slots=True)
class NamesWrite:
    """What is written about the names of a topic at one moment.

    Attributes:
        changes: by their keys; see `saved_names`.
        ticket: the next one that will be given.
        needed: what each name needed.
        known: names as they were written before.
    """

    changes: dict[str, SavedName | None]
    ticket: int
    needed: dict[SharedPosition, int]
    known: dict[str, tuple[int, SavedName]]

    def note_synced(self) -> None:
        """Let what has waited for this go on: it is on the disk."""
        for position, needed in self.needed.items():
            position.note_saved(needed, self.ticket)


class NameSaver:
    """The shared names of one topic, as its log has them.

    Args:
        topic: the topic.
    """

    def __init__(self, topic: "TopicController") -> None:
        self._topic = topic
        # By key: which version of it was written, and what that was.
        self._known: dict[str, tuple[int, SavedName]] = {}

    def know(self, key: str, name: SavedName) -> None:
        """Note what a start has found of a name. The log goes on changing what it has."""
        self._known[key] = (-1, {"numbers": name["numbers"], "rows": dict(name["rows"])})

    def write(self) -> NamesWrite | None:
        """Returns what is to be written; None if nothing is.

        It counts as written; see `undo`.
        """
        positions = _shared(self._topic.names.values())
        if not positions and not self._known:
            return None
        changes: dict[str, SavedName | None] = {}
        now: dict[str, tuple[int, SavedName]] = {}
        needed: dict[SharedPosition, int] = {}
        ticket = 0
        must_write = False
        for position in positions:
            key = position.key
            version, name = self._known.get(key, (-1, None))
            ticket = position.next_ticket
            must_write = must_write or position.needs_save
            needed[position] = position.queue.ledger.needed
            if version == position.version and name is not None:
                now[key] = version, name
                continue
            after = saved_name(position.queue)
            change = changed_since(name, after)
            now[key] = position.version, after
            if change is not None:
                changes[key] = change
        for key in self._known:
            if key not in now:
                changes[key] = None
        known = self._known
        self._known = now
        if not changes and not must_write:
            return None
        return NamesWrite(changes, ticket, needed, known)

    def undo(self, write: NamesWrite) -> None:
        """Note that it was not written: there was no room. The newest is undone first."""
        self._known = write.known


def _shared(positions: Iterable[Position]) -> list[SharedPosition]:
    return [position for position in positions if isinstance(position, SharedPosition)]
