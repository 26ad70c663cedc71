"""Publishing a stream: messages gather into batches, and several batches may be in flight at once.

There is no linger time to set. While nothing is in flight, a message is sent at once. Otherwise the
messages of one turn of the event loop gather and are sent together; and while `BATCHES_IN_FLIGHT`
are sent and not answered, everything gathers. So a message never waits for others to come, and
under load batches grow by themselves until they are full.

Batches do not wait for the ones before them, and their order holds all the same. A batch larger
than any that the topic's ring has accepted so far could be refused for its size; it is then sent
again in halves, which must not be overtaken by later batches. A batch like that is on trial: it is
sent when nothing is in flight, and nothing is sent before its outcome is known. One that is no
larger, in messages and in bytes, cannot be refused for its size.

A producer whose messages are to be acknowledged after replication (AK-1) sends on meanwhile. Only
what is settled, for `flush`, is what the watermark has passed.

A batch either deletes keys with its empty payloads or does not (TAB-6). A message that was meant
otherwise waits for the next one.
"""

from collections import deque
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import TYPE_CHECKING

from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import BrokerError
from zaichik.client.messages import Key, Payload, check_size, key_bytes, payload_bytes
from zaichik.client.outcome import Lost, unexpected
from zaichik.client.publishing import Publishing
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import Batch, Error, ErrorCode, Frame, Publish, Published

if TYPE_CHECKING:
    from zaichik.client.replication.acknowledgement import Acknowledgement
    from zaichik.client.replication.follower import WatermarkFollower

# A number, by which it is found again.
_Promised = tuple[int, "Acknowledgement"]

BATCHES_IN_FLIGHT = 8  # enough that neither side waits for the other to be scheduled


class Producer:
    """Gathers messages for a topic and sends them in batches; `Client.producer` makes one.

    Attributes:
        topic: the topic it publishes to.
        stored, compacted: messages stored so far, and dropped by compaction.
        settled: messages of which that is all, and that are replicated if they are to be.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        publishing: Publishing,
        topic: str,
        max_batch: int,
        max_bytes: int,
        follower: "WatermarkFollower | None" = None,
    ) -> None:
        self.topic = topic
        self.stored = 0
        self.compacted = 0
        self.settled = 0
        self._connection = connection
        self._publishing = publishing
        self._max_batch = max_batch
        self._max_bytes = max_bytes
        # The gathering batch.
        self._keys: list[bytes] = []
        self._payloads: list[bytes] = []
        self._bytes = 0
        # Whether its empty payloads with a key are tombstones; None while it has none.
        self._tombstones: bool | None = None
        # Of a batch that was too large, with whether it has tombstones: they are sent before all
        # others.
        self._pieces: deque[tuple[Batch, bool]] = deque()
        # Messages that have left the gathering batch, in all.
        self._left = 0
        # Batches in flight, and the functions that withdraw them.
        self._in_flight = 0
        self._withdrawals: deque[Callable[[], None]] = deque()
        # Whether the one batch in flight is larger than any that the ring has accepted.
        self._on_trial = False
        # Whether the gathering batch is to be sent in the writer's next turn.
        self._is_due = False
        # Messages, and bytes with offsets, of the largest batches that the ring has accepted.
        self._proven_count = 0
        self._proven_bytes = 0
        # What knows the watermark; None: nothing waits for one.
        self._follower = follower
        # Of batches that are stored and not replicated yet, by a number of their own.
        self._expected: dict[int, Acknowledgement] = {}
        self._number = 0
        # Held for as long as this lasts, or the follower would end in a pause.
        self._idle: Acknowledgement | None = None
        if follower is not None:
            self._idle = follower.acknowledgement()
        self._failure: Callable[[], Exception] | None = None
        self._change: Wakeup | None = None

    async def send(self, payload: Payload | None, key: Key = None) -> None:
        """Queue a message; waits only if the gathering batch is full and may not be sent yet.

        The broker's answer comes later: see `flush`.

        Args:
            payload: its bytes; None deletes the key from a table (TAB-5).
            key: its key, if it has one.

        Raises:
            MessageTooLarge: more bytes than `welcome.max_message`. It is not queued, and others may
                follow.
            ValueError: a key is to be deleted, and none is named.
            Exception: why an earlier batch could not be stored, in most cases a `ZaichikError`. No
                batch is sent once that is known; of those in flight, some may be stored.
        """
        name = b""
        if key is not None:
            name = key_bytes(key)
        is_tombstone = payload is None
        if type(payload) is not bytes:
            payload = payload_bytes(payload, name)
        size = len(name) + len(payload)
        if len(self._payloads) >= self._max_batch or self._bytes + size > self._max_bytes:
            await self._make_room(size)
        if name and not payload:
            # Its batch must be one that is meant in the same way.
            await self._make_room(size, tombstones=is_tombstone)
            self._tombstones = is_tombstone
        self._keys.append(name)
        self._payloads.append(payload)
        self._bytes += size
        if not self._in_flight:
            self._leave()
        elif not self._is_due:
            self._is_due = True
            self._connection.call_soon(self._turn)

    async def flush(self) -> None:
        """Wait until everything queued so far is stored.

        Raises:
            Exception: why it could not be, in most cases a `ZaichikError`.
        """
        goal = self._left + len(self._payloads)
        while self.settled < goal:
            await self._progress()

    def close(self, failure: Callable[[], Exception]) -> None:
        """Send nothing more.

        The gathering batch is dropped, and `send` raises the exception that `failure` makes.
        """
        self._failure = self._failure or failure
        # So that `send` looks for the reason.
        self._max_batch = 0
        self._empty()
        self._pieces.clear()
        self._expected.clear()
        self._idle = None
        for withdraw in self._withdrawals:
            withdraw()
        if self._change is not None:
            self._change.set()

    def _has_room(self, size: int, *, tombstones: bool | None) -> bool:
        count = len(self._payloads)
        if not count:
            return True
        if tombstones is not None and self._tombstones not in {None, tombstones}:
            return False
        return count < self._max_batch and self._bytes + size <= self._max_bytes

    async def _make_room(self, size: int, *, tombstones: bool | None = None) -> None:
        """Wait until a message of that size may be queued.

        Raises if it never may, or the producer has failed.

        Args:
            size: bytes of its key and its payload.
            tombstones: what the batch's flag must be for it; None: either will do.
        """
        check_size(1, size, self._connection.welcome)
        while self._failure is not None or not self._has_room(size, tombstones=tombstones):
            await self._progress()

    async def _progress(self) -> None:
        """Send the next batch if it may be sent, or else wait for the outcome of one.

        Raises if there was a failure.
        """
        if self._failure is not None:
            raise self._failure()
        if self._may_leave():
            self._leave()
        else:
            if self._change is None or self._change.is_set():
                self._change = Wakeup()
            await self._change.wait()

    def _may_leave(self) -> bool:
        if not self._in_flight:
            return True
        if self._on_trial or self._pieces or self._in_flight == BATCHES_IN_FLIGHT:
            return False
        return bool(self._payloads) and self._is_proven(len(self._payloads), self._bytes)

    def _is_proven(self, count: int, size: int) -> bool:
        """Returns whether the ring has accepted batches that were no smaller.

        One had at least as many messages, and one at least as many bytes.
        """
        return count <= self._proven_count and _with_offsets(count, size) <= self._proven_bytes

    def _turn(self) -> None:
        self._is_due = False
        if self._may_leave():
            self._leave()

    def _leave(self) -> None:
        """Send the next batch: a piece of one that was too large, or what has gathered."""
        if self._pieces:
            batch, tombstones = self._pieces.popleft()
        elif self._payloads:
            batch = Batch.of_columns(self._keys, self._payloads)
            tombstones = bool(self._tombstones)
            self._empty()
            self._left += batch.count
        else:
            return
        try:
            settle = partial(self._settle, batch, self._promised(batch), tombstones=tombstones)
            withdraw = self._publishing.post(self.topic, batch, settle, tombstones=tombstones)
            self._withdrawals.append(withdraw)
        except Exception as error:
            # It is raised by `send` and `flush`.
            self.close(partial(copy, error))
        else:
            self._in_flight += 1
            self._on_trial = not self._is_proven(batch.count, batch.size)

    def _promised(self, batch: Batch) -> _Promised | None:
        """Returns what waits for a batch to be replicated; None if nothing has to."""
        if self._follower is None:
            return None
        self._number += 1
        on_outcome = partial(self._acknowledged, self._number, batch.count)
        return self._number, self._follower.acknowledgement(on_outcome)

    def _expect(self, promised: _Promised, reply: Published) -> None:
        """Wait for the watermark to pass a batch that is stored."""
        number, acknowledgement = promised
        self._expected[number] = acknowledgement
        acknowledgement.expect(reply.first_offset, reply.stored)

    def _acknowledged(self, number: int, count: int, failure: Lost | None) -> None:
        """Handle the outcome of a batch that was stored."""
        self._expected.pop(number, None)
        if failure is None:
            self.settled += count
        else:
            self.close(failure)
        if self._change is not None:
            self._change.set()

    def _empty(self) -> None:
        """Begin another batch to gather."""
        self._keys = []
        self._payloads = []
        self._bytes = 0
        self._tombstones = None

    def _settle(
        self,
        batch: Batch,
        promised: _Promised | None,
        outcome: Frame | Lost,
        *,
        tombstones: bool,
    ) -> None:
        """Handle the outcome of a batch; the next one may be sent now."""
        self._in_flight -= 1
        self._withdrawals.popleft()
        match outcome:
            case Published():
                self.stored += outcome.stored
                self.compacted += outcome.compacted
                if promised is None:
                    self.settled += batch.count
                else:
                    self._expect(promised, outcome)
                self._proven_count = max(self._proven_count, batch.count)
                self._proven_bytes = max(self._proven_bytes, _with_offsets(batch.count, batch.size))
            case Error(code=ErrorCode.BATCH_TOO_LARGE) if batch.count > 1:
                half = batch.count // 2
                self._max_batch = min(self._max_batch, half)
                second = batch.cut(half, batch.count)
                self._pieces.extendleft(((second, tombstones), (batch.cut(0, half), tombstones)))
            case Error():
                self.close(partial(BrokerError.of, outcome))
            case Frame():
                self.close(partial(unexpected, Publish, outcome))
            case lost:
                self.close(lost)
        if self._may_leave() and self._failure is None:
            self._leave()
        if self._change is not None:
            self._change.set()


def _with_offsets(count: int, size: int) -> int:
    """Returns the bytes of a batch as a ring counts them, up to a constant.

    Every message adds two offsets.
    """
    return size + 8 * count
