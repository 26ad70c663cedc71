"""The replies of one connection: those that are known, and those that are owed.

Known replies are sent in the order of their requests. A reply that waits for the disk is owed. The
reply to a publish may be overtaken by others. Any other keeps its place: until it is known, no
further request of the connection is carried out, so a request after a Subscribe finds the
subscription. The last frame of a connection waits for all that is owed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from zaichik.core.pending import Pending
from zaichik_protocol import Error, ErrorCode, Frame, Publish, Published, Refused, encode_pieces

MOST_OWED = 4 * 1024 * 1024  # bytes of batches that wait for a disk: as much as is written at once
OWED = 1024  # bytes that a publish takes in addition, while it waits
# How soon to retry: a reader may make progress at any time, but producers are forgotten by a sweep,
# once a second.
RETRY_AFTER_MS = {
    ErrorCode.TOPIC_FULL: 50,
    ErrorCode.NO_MEMORY: 1000,
    ErrorCode.STORAGE_FULL: 1000,
}


class Replies:
    """The queue of replies to send.

    Args:
        on_output: called whenever `take` may return something.

    Attributes:
        bytes: size of the replies in the queue.
        waiting: the queue.
        owed: replies that wait for the disk.
        must_wait: whether a reply that is owed must not be overtaken by others.
        tells_durable: whether the client understands the `durable` flag (DUR-1).
    """

    def __init__(self, on_output: Callable[[], None]) -> None:
        self._on_output = on_output
        self.bytes = 0
        self.waiting: deque[bytes] = deque()
        self.owed = 0
        self.tells_durable = False
        self.must_wait = False
        self._owed_bytes = 0  # of the batches whose replies are owed
        self._last: Frame | None = None  # waits for all that is owed

    def add(self, reply: Frame) -> None:
        """Queue a reply after all others."""
        (data,) = encode_pieces(reply)  # no reply has a batch
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
        """Reply to a request when the answer comes (DUR-2)."""
        size = 0
        if isinstance(request, Publish):
            size = OWED + len(request.batch.data)
        self.owed += 1
        self._owed_bytes += size
        self.must_wait = not size
        pending.then(partial(self._pay, request, size))

    def _pay(self, request: Frame, size: int, answer: Frame | Refused) -> None:
        if not self.owed:
            # It was written off.
            return
        self.owed -= 1
        self._owed_bytes -= size
        # Only the reply that must not be overtaken has no size: any other leaves it owed.
        if not size:
            self.must_wait = False
        match answer:
            case Refused():
                refusal = error(answer, request.id, request.TYPE, fatal=False)
                self.add(refusal)
            case Published() if request.id:
                self.add(replace(answer, id=request.id, durable=self.tells_durable))
            case _ if request.id:
                self.add(answer)
        if self._last is not None and not self.owed:
            self.add(self._last)
        # More requests may be read now, or the connection is finished.
        self._on_output()

    def write_off(self, last: Frame) -> None:
        """Stop waiting for what is owed: it will never be known. That frame is the last one."""
        self.owed = 0
        self._last = None
        self.add(last)

    def is_backed_up(self, most: int) -> bool:
        """Returns whether no more requests should be carried out (LAG-3, DUR-2).

        Too much is unsent, or owed, or a reply must not be overtaken.
        """
        return self.bytes > most or self._owed_bytes > MOST_OWED or self.must_wait

    def take(self) -> list[bytes]:
        """Removes and returns all that is in the queue."""
        taken = list(self.waiting)
        self.waiting.clear()
        self.bytes = 0
        return taken

    def clear(self) -> None:
        """Drop all replies: the peer is gone."""
        self.waiting.clear()
        self.bytes = 0


def error(refusal: Refused, request_id: int, request_type: int, *, fatal: bool) -> Error:
    """Returns the frame that reports a refusal."""
    code, text = refusal.code, refusal.message
    wait_ms = RETRY_AFTER_MS.get(code, 0)
    return Error(
        request_id,
        code,
        request_type,
        refusal.field,
        wait_ms,
        text,
        retryable=code.retryable,
        fatal=fatal,
    )
