"""What is remembered so that somebody can ask later why a message did not arrive: a little, and never more (EXP-1).

Most of what becomes of a message shows in what the topic holds anyway: offsets, times, cursors. Three things leave no
trace: why the head moved, that a message was kept out by compaction, and that a batch was refused or came twice. They
are remembered here, and the oldest are forgotten first. Nothing is remembered of a batch that was stored whole while
nothing had to go for it, which is the usual case.

The core writes it and never reads it.
"""

from zaichik.sharing import prices
from zaichik_protocol import Batch, Published, Refused

MOVES = 16  # points at which the cause of the head's moves changed, for each topic: 2.5 KiB
REMEMBERED = 64  # batches, for each topic
REMEMBERED_BYTES = 64 * 1024  # the same in bytes, which count as the topic's (RET-10)
WHOLE_BYTES = 1024  # a batch of this size is remembered as it is: to leave its payloads out would cost more time
KEYS_BYTES = 16 * 1024  # if its keys take more than this, they are not remembered

# Why the head moves: the ring's capacity, its bytes, the memory of all topics together (at a publish to this topic, at
# one to another), retention (without it, that every reader had passed), and the files of a log.
CAPACITY, BYTES, MEMORY, OTHERS, EXPIRED, DISK = range(1, 7)
COMPACTED, DUPLICATE = 0, -1  # what became of a batch, in place of the code of a refusal

# Where the cause of a head's moves changed: the head, the acceptance time of the latest message by then (0: not known),
# and the cause from there on.
Move = tuple[int, int, int]

# When, what became of it, the first offset that it had, why in words, the user, the connection (0: none), the batch
# without its payloads or b"", and the bitmap of what was dropped. A tuple, which the garbage collector stops visiting.
Decision = tuple[int, int, int, str, str, int, bytes, bytes]


def note(moves: list[Move], head: int, at_us: int, cause: int) -> None:
    """Remember the cause for which the head moves on, if that is another one than before."""
    if not moves or moves[-1][2] != cause:
        moves.append((head, at_us, cause))
        del moves[:-MOVES]


class Decisions:
    """The batches of one topic of which something was not stored.

    Attributes:
        known: the decisions, the oldest first. A list, because most topics have none, and an empty deque is large.
        forgotten_us: the time of the latest one that is no longer known; 0 if all are.
        bytes: what they take.
    """

    __slots__ = ("bytes", "forgotten_us", "known")

    def __init__(self) -> None:
        self.known: list[Decision] = []
        self.forgotten_us = self.bytes = 0

    def add(self, now_us: int, batch: Batch, outcome: Published | Refused, user: str = "", connection: int = 0) -> None:
        """Remember what became of a batch, unless it was simply stored."""
        if isinstance(outcome, Refused):
            fate, offset, why, dropped = int(outcome.code), 0, outcome.message, b""
        elif outcome.duplicate or outcome.compacted:
            fate = DUPLICATE if outcome.duplicate else COMPACTED
            offset, why, dropped = outcome.first_offset, "", outcome.dropped
        else:
            return
        data = batch.data
        if len(data) > WHOLE_BYTES:
            data = batch.without_payloads().data
            data = data if len(data) <= KEYS_BYTES else b""
        self.known.append((now_us, fate, offset, why, user, connection, data, dropped))
        self.bytes += prices.DECISION + len(data)
        while len(self.known) > REMEMBERED or self.bytes > REMEMBERED_BYTES:
            self.forget()

    def forget(self) -> None:
        """Forget the oldest one."""
        self.forgotten_us, _, _, _, _, _, data, _ = self.known.pop(0)
        self.bytes -= prices.DECISION + len(data)
