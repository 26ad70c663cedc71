"""The replies of one connection: those that are known, in the order of their requests, and those that are owed.

A reply that waits for the disk is owed. That to a publish takes its place in the queue when it comes. Others keep their
place, as a slot: the replies after a slot wait for it, so their order holds without a task that waits. The last frame
of a connection waits for all that is owed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from zaichik.broker.pending import Pending
from zaichik_protocol import Error, ErrorCode, Frame, Publish, Published, Refused, encode

MOST_OWED = 4 * 1024 * 1024  # bytes of batches that wait for a disk: as much as is written at once
# How soon to retry: a reader may make progress at any time, but producers are forgotten by a sweep, once a second.
RETRY_AFTER_MS = {ErrorCode.TOPIC_FULL: 50, ErrorCode.NO_MEMORY: 1000, ErrorCode.STORAGE_FULL: 1000}


class Slot:
    """A placeholder for a reply that is not known yet."""

    def __init__(self, replies: "Replies") -> None:
        self._replies = replies

    def fill(self, reply: Frame) -> None:
        """Replace the slot by its reply, which is sent after those before it. Does nothing after `Replies.clear`."""
        self._replies.fill(self, reply)


class Replies:
    """The queue of replies to send.

    Args:
        on_output: called whenever `take` may return something.

    Attributes:
        bytes: size of the replies in the queue; slots count as nothing.
        waiting: replies and slots.
        owed: replies that wait for the disk.
        tells_durable: whether the client knows the flag (DUR-1).
    """

    def __init__(self, on_output: Callable[[], None]) -> None:
        self._on_output = on_output
        self.bytes = 0
        self.waiting: deque[bytes | Slot] = deque()
        self.owed = 0
        self.tells_durable = False
        self._owed_bytes = 0  # of the batches whose replies are owed
        self._last: Frame | None = None  # waits for all that is owed

    def add(self, reply: Frame) -> None:
        """Queue a reply after all others."""
        data = encode(reply)
        self.waiting.append(data)
        self.bytes += len(data)
        self._on_output()

    def add_last(self, frame: Frame) -> None:
        """Queue the last frame of the connection, after what is owed."""
        if not self.owed:
            self.add(frame)
        elif self._last is None:
            self._last = frame

    def owe(self, request: Frame, pending: Pending) -> None:
        """Reply to a request when the answer comes: to a publish out of order, to others in their place (DUR-2)."""
        is_publish = isinstance(request, Publish)
        size = len(request.batch.data) if isinstance(request, Publish) else 0
        self.owed += 1
        self._owed_bytes += size
        slot = self.reserve() if request.id and not is_publish else None
        pending.then(partial(self._pay, request, slot, size))

    def _pay(self, request: Frame, slot: Slot | None, size: int, answer: Frame | Refused) -> None:
        self.owed -= 1
        self._owed_bytes -= size
        match answer:
            case Refused():
                reply: Frame = error(answer, request.id, request.TYPE, fatal=False)
            case Published():
                reply = replace(answer, id=request.id, durable=self.tells_durable)
            case _:
                reply = answer
        if slot is not None:
            slot.fill(reply)
        elif request.id or isinstance(answer, Refused):
            self.add(reply)
        if self._last is not None and not self.owed:
            self.add(self._last)
        self._on_output()  # more requests may be read, or the connection is finished

    def write_off(self, last: Frame) -> None:
        """Wait no more for what is owed, for it will never be known. That frame is the last one."""
        self.owed, self._last = 0, None
        self.waiting = deque(reply for reply in self.waiting if not isinstance(reply, Slot))
        self.add(last)

    def reserve(self) -> Slot:
        """Returns a new slot, queued after all others."""
        slot = Slot(self)
        self.waiting.append(slot)
        return slot

    def fill(self, slot: Slot, reply: Frame) -> None:
        """Put a reply in its slot, if the slot is still queued."""
        if slot in self.waiting:
            data = encode(reply)
            self.waiting[self.waiting.index(slot)] = data
            self.bytes += len(data)
            self._on_output()

    def is_behind(self, most: int) -> bool:
        """Returns whether so much is unsent, or owed, that no more requests should be read (LAG-3)."""
        return self.bytes > most or self._owed_bytes > MOST_OWED

    @property
    def is_blocked(self) -> bool:
        """Whether the queue begins with a slot."""
        return bool(self.waiting) and isinstance(self.waiting[0], Slot)

    def take(self) -> list[bytes]:
        """Removes and returns the replies before the first slot."""
        taken: list[bytes] = []
        while self.waiting and not isinstance(reply := self.waiting[0], Slot):
            taken.append(reply)
            self.waiting.popleft()
        self.bytes -= sum(map(len, taken))
        return taken

    def clear(self) -> None:
        """Drop all replies and slots: the peer is gone."""
        self.waiting.clear()
        self.bytes = 0


def error(refusal: Refused, request_id: int, request_type: int, *, fatal: bool) -> Error:
    """Returns the frame that tells of a refusal."""
    code, text = refusal.code, refusal.message
    wait_ms = RETRY_AFTER_MS.get(code, 0)
    return Error(request_id, code, request_type, refusal.field, wait_ms, text, retryable=code.retryable, fatal=fatal)
