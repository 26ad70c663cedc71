"""A reader of `$topics` for a user, which is sent only what the user may know of (PAT-5).

The table has a record of every topic, and is there once. Rights are looked up when a record is
read, so nothing has to be kept for each user. A record of a topic that the user may not subscribe
to is a hole for this reader: it costs no credit, and is passed.

There may be thousands of them side by side, and looking up rights takes time. So a reader examines
so many records, and then others have their turns (LAG-4).
"""

from collections.abc import Callable

from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.following.topics_table import TopicsTable
from zaichik.core.reader import Reader
from zaichik.core.retained import Piece
from zaichik.core.rights import ANYBODY, User
from zaichik.core.subscriber import Subscriber
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import Frame, Subscribe

EXAMINED = 32  # records for each frame, each of which takes two microseconds


def new_reader(
    user: User,
    request: Subscribe,
    topic: TopicController,
    position: ExclusivePosition,
    on_ready: Callable[[Subscriber], None],
    description: str,
    connection: int,
) -> Reader:
    """Returns a reader for that user. See `Reader` for the other arguments."""
    table = topic.retained
    if user is ANYBODY or not isinstance(table, TopicsTable):
        return Reader(request, topic, position, on_ready, description, connection)
    return FilteredReader(user, table, request, topic, position, on_ready, description, connection)


class FilteredReader(Reader):
    """A reader of `$topics` for a user.

    Args:
        user: the user.
        table: what `$topics` retains.
        request, topic, position, on_ready, description, connection: see `Reader`.
    """

    def __init__(
        self,
        user: User,
        table: TopicsTable,
        request: Subscribe,
        topic: TopicController,
        position: ExclusivePosition,
        on_ready: Callable[[Subscriber], None],
        description: str,
        connection: int,
    ) -> None:
        super().__init__(request, topic, position, on_ready, description, connection)
        self._user = user
        self._table = table
        # How many records it may still examine in this turn.
        self._left = EXAMINED

    def take(self, now_us: int) -> Frame | None:
        """See `Reader`. None may also mean that there is more to examine: then it stays ready."""
        self._left = EXAMINED
        frame = super().take(now_us)
        if not self._left and not self.ended:
            self.is_ready = True
        return frame

    def _next_frame(self) -> Frame | None:
        if not self._left:
            return None
        return super()._next_frame()

    def _readable_from(self, offset: int) -> int:
        """See `Reader`. If it may examine no more, the offset from which it has to go on."""
        table = self._table
        offset = table.readable_from(offset)
        while offset < table.end and self._left:
            self._left -= 1
            if not self.is_hidden(offset):
                break
            offset = table.readable_from(offset + 1)
        return offset

    def _read(
        self, offset: int, before: int, messages: int, max_bytes: int, at_least: int
    ) -> Piece | None:
        """See `Reader`. At that offset is a record that the user may be sent."""
        found = super()._read(offset, before, min(messages, EXAMINED), max_bytes, at_least)
        if found is None:
            return None
        accepted_us, batch, deltas = found
        distances = deltas or tuple(range(batch.count))
        shown: list[int] = []
        for index, name in enumerate(batch.keys()):
            if self._user.may("subscribe", name.decode()):
                shown.append(index)
        if len(shown) == batch.count:
            return found
        distances = tuple([distances[index] for index in shown])
        # The others may all have been at the end.
        if distances[-1] == len(shown) - 1:
            distances = ()
        return accepted_us, batch.select(shown), distances

    def is_hidden(self, offset: int) -> bool:
        """See `Reader`."""
        return not self._user.may("subscribe", self._table.name_at(offset))
