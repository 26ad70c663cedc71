"""A bounded memory of decisions, to explain later why a message did not arrive (EXP-1).

Most of what becomes of a message shows in what the topic holds anyway: offsets, times, cursors.
Three things leave no trace: why the head moved, that a message was kept out by compaction, and that
a batch was refused or came twice. They are remembered here, and the oldest are forgotten first. In
the usual case, a batch that was stored whole and evicted nothing, there is nothing to remember.

What is written here changes nothing in the broker: only `report` reads it.
"""

from collections.abc import Callable

from zaichik.core.sharing import prices
from zaichik_protocol import Batch, ErrorCode, Published, Refused

MOVES = 16  # points at which the cause of the head's moves changed, for each topic: 2.5 KiB
REMEMBERED_BATCHES = 64  # batches, for each topic
REMEMBERED_BYTES = 64 * 1024  # the same in bytes, which count as the topic's (RET-10)
# They are charged at once only when this many more or fewer are remembered, or else at the next
# chance.
STEP_BYTES = 1024
# A batch up to this size is remembered whole: leaving its payloads out would cost more time.
WHOLE_BYTES = 1024
KEYS_BYTES = 16 * 1024  # if its keys take more than this, they are not remembered

# Why the head moves: a limit of the ring, of the memory of all topics together, or of the disk; or
# because messages have expired.
CAPACITY = 1
BYTES = 2
MEMORY = 3  # at a publish to this topic
OTHERS = 4  # the same memory, at a publish to another topic
EXPIRED = 5  # without retention: every reader has passed them
DISK = 6  # the limit of the topic's own log
ALL_LOGS = 7  # that of all logs together
# Any client can be refused with these, as often as it likes. So of those that follow each other
# only the last is remembered: a user without any right to a topic must not fill its memory, which
# evicts what others have stored.
WITHOUT_ANY_RIGHT = (ErrorCode.FORBIDDEN, ErrorCode.TOO_MANY_CONNECTIONS)
# What became of a batch, in place of the code of a refusal.
COMPACTED = 0
DUPLICATE = -1

# Where the cause of a head's moves changed: the head, the acceptance time of the latest message by
# then (0: not known), and the cause from there on.
Move = tuple[int, int, int]

# The values of a `Decided` of `report.remembered`, which says what each is, in their order. A plain
# tuple, because the garbage collector stops visiting those.
Decision = tuple[int, int, int, str, str, int, bytes, bytes]


def note(moves: list[Move], head: int, at_us: int, cause: int) -> None:
    """Remember why the head moves on, if the cause is another one than before."""
    if not moves or moves[-1][2] != cause:
        moves.append((head, at_us, cause))
        del moves[:-MOVES]


class Decisions:
    """The batches of one topic of which something was not stored.

    Args:
        on_growth: called when they take more or fewer bytes than before, in steps of `STEP_BYTES`.

    Attributes:
        known: the decisions, the oldest first. A list, because most topics have none, and an empty
            deque is large.
        forgotten_us: the time of the latest one that is no longer known; 0 if all are.
        bytes: what they take.
    """

    def __init__(self, on_growth: Callable[[], None]) -> None:
        self.known: list[Decision] = []
        self.forgotten_us = 0
        self.bytes = 0
        self._on_growth = on_growth

    def remember(
        self,
        now_us: int,
        batch: Batch,
        fate: int,
        offset: int,
        dropped: bytes = b"",
        why: str = "",
        user: str = "",
        connection: int = 0,
    ) -> None:
        """Remember what became of a batch: see `Decision`.

        Where compaction drops most batches this is called for most of them, so all of it is in one
        function.
        """
        known = self.known
        data = batch.data
        grown = len(data)
        if grown > WHOLE_BYTES:
            data = _keys_of(batch)
            grown = len(data)
            # Without keys the bitmap is of no use, and it may be large then.
            if not data:
                dropped = b""
        if len(known) < REMEMBERED_BATCHES:
            grown += prices.DECISION
        else:
            oldest = known.pop(0)
            self.forgotten_us = max(self.forgotten_us, oldest[0])
            grown -= len(oldest[6])
        known.append((now_us, fate, offset, why, user, connection, data, dropped))
        if grown:
            before = self.bytes
            self.bytes += grown
            while self.bytes > REMEMBERED_BYTES:
                self.forget()
            if self.bytes // STEP_BYTES != before // STEP_BYTES:
                self._on_growth()

    def answered(
        self,
        now_us: int,
        batch: Batch,
        answer: Published | Refused,
        user: str = "",
        connection: int = 0,
    ) -> None:
        """Remember the answer to a batch of which something was not stored.

        It was refused, was a duplicate, or lost messages to compaction.
        """
        if isinstance(answer, Refused):
            code = answer.code
            if code in WITHOUT_ANY_RIGHT and self.known:
                last_fate = self.known[-1][1]
                if last_fate in WITHOUT_ANY_RIGHT:
                    self.forget(-1)
            self.remember(now_us, batch, int(code), 0, b"", answer.message, user, connection)
        elif answer.duplicate:
            self.remember(now_us, batch, DUPLICATE, answer.first_offset, b"", "", user, connection)
        elif answer.compacted:
            self.remember(now_us, batch, COMPACTED, answer.first_offset, answer.dropped)

    def forget(self, index: int = 0) -> None:
        """Forget the oldest one, or the one at the index."""
        decision = self.known.pop(index)
        self.forgotten_us = max(self.forgotten_us, decision[0])
        self.bytes -= prices.DECISION + len(decision[6])


def _keys_of(batch: Batch) -> bytes:
    data = batch.up_to_payloads()
    if len(data) > KEYS_BYTES:
        return b""
    return data
