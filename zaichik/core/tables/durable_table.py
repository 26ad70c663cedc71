"""What a durable table retains: a table in memory, and a log that can make it again (DUR-10).

    published ──▶ judged by what waits ──▶ waits ──▶ written and synced ──▶ answered, and stored

The log is for starts only. Readers are sent what is in memory, and that is what the log is known to
have: a message is stored in the table, and supersedes another, when it is on the disk. So readers
never wait for the disk, and what is cleaned out of the log is what nobody can be sent any more.

The files of the log never go to make room. They go when all that is in them has expired; until
then, the log rewrites those of which half is superseded, and asks the table what is left.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from zaichik.core.log import Log, Write
from zaichik.core.pending import Pending
from zaichik.core.retained import Piece, Wake
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.shared_names.saved_names import SavedName
from zaichik.core.tables.ahead import Ahead
from zaichik.core.tables.keep_last import KeepLast
from zaichik.core.tables.table import Table
from zaichik.core.write_queue import WriteQueue
from zaichik_protocol import Batch, ErrorCode, Frame, Published, Refused

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

# Memory of a key that waits, besides its bytes: what it will change, and what it will be then.
WAITING_KEY = 400
LOGGED = 12  # bytes of a message in a log that was rewritten, besides those that limits count


class DurableTable(Table):
    """See above.

    Args:
        topic: the topic.
        settings: those that it is given now.
        limits: the broker's.
        log: its log.
        kept: what a start has found in the log; None if the table is new.
        lost: offsets that a repair has given up, as pairs: the first, and the one after the last;
            in order.
        positions: the named positions that the log has.

    Attributes:
        log, lost: see above.
        queue: what the log is to write.
    """

    def __init__(
        self,
        topic: "TopicController",
        settings: TopicSettings,
        limits: BrokerSettings,
        log: Log,
        kept: KeepLast | None = None,
        lost: Sequence[tuple[int, int]] = (),
        positions: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(topic, settings, limits)
        self.scope = topic.name
        self.may_be_full = True
        self.log = log
        self.lost = lost
        self.queue = WriteQueue(topic, self, log, positions)
        if kept is not None:
            self.kept = kept
            self._reserve()
        self._damaged = sum(end - max(begin, log.head) for begin, end in lost if end > log.head)
        self._ahead = Ahead(self.kept, expires=settings.expires)
        self._log_bytes = settings.log_bytes
        self._swept_size = -1  # of the log at the last sweep: it grows with all that is written
        log.owner = self

    # -- what the log asks: see `LogOwner` -------------------------------------------------------

    @property
    def waiting(self) -> deque[Write]:
        """See `LogOwner`."""
        return self.queue.waiting

    @property
    def needed(self) -> int:
        """See `LogOwner`: nothing goes to make room."""
        return self.log.head

    # -- writing ---------------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """See `Retained`."""
        return self.queue.next

    @property
    def damage(self) -> str:
        """See `Retained`: what is wrong with the log (DUR-7)."""
        return self.log.damage

    @property
    def has_fixed_settings(self) -> bool:
        """See `Retained`: they are on the disk."""
        return True

    def check_room(self, batch: Batch) -> None:
        """Refuse a batch that the log cannot take now.

        Raises:
            Refused: `DAMAGED`, `NO_MEMORY`; `TOPIC_FULL` until files were rewritten.
        """
        self.queue.check(batch, self._max_bytes)
        if self.log.size + self.waiting_bytes + len(batch.data) > self._log_bytes:
            problem = (
                f"the log of table {self._topic.name!r} has {self.log.size} bytes, and its limit "
                f"(log_bytes) is {self._log_bytes}. What was superseded is being removed from it. "
                "Retry later."
            )
            raise Refused(ErrorCode.TOPIC_FULL, problem, "topic")

    def publish(
        self,
        batch: Batch,
        kept: Sequence[int],
        dropped: bytes,
        now_us: int,
        request_id: int,
        producer: int,
        sequence: int,
        *,
        tombstones: bool,
    ) -> Published | Pending:
        """See `Retained`. It is judged by what there will be when all that waits is written.

        Raises:
            Refused: `TABLE_FULL`; `INVALID_FIELD` for tombstones that are not meant (TAB-6).
        """
        ahead = self._ahead
        change = ahead.judge(self._judged(batch, tombstones=tombstones))
        self._check(change, ahead.messages, ahead.size, ahead.keyless)
        base = self.queue.next
        ahead.add(change, base)
        self.waiting_memory += WAITING_KEY * len(change.last)
        write = Write(base, now_us, batch, producer, sequence)
        answer = self.queue.add_batch(write, batch)
        answer.then(partial(self._topic.decisions.answered, now_us, batch))
        return answer

    def record_refusal(
        self, refusal: Refused, now_us: int, producer: int, sequence: int
    ) -> Pending | None:
        """See `Retained`."""
        return self.queue.record_refusal(refusal, now_us, producer, sequence)

    def when_written(self, reply: Frame) -> Frame | Pending:
        """See `Retained`."""
        return self.queue.when_written(reply)

    def save_names(self, now_us: int) -> None:
        """See `Retained`."""
        self.queue.save_names(now_us)

    def know_name(self, key: str, name: SavedName) -> None:
        """See `Retained`."""
        self.queue.saver.know(key, name)

    def on_synced(self, count: int) -> None:
        """Answer this many writes, the oldest, and store their messages: they are on the disk.

        Readers follow, so each publisher knows first.
        """
        topic = self._topic
        for _ in range(count):
            done = self.queue.take_synced()
            self.queue.answer(done)
            if isinstance(done.what, Batch):
                keys = self._ahead.take_synced()
                self.waiting_memory -= WAITING_KEY * keys
                topic.store(done.what, done.accepted_us)
        topic.charge()

    def on_refused(self, refusal: Refused) -> None:
        """Take back everything that waits, the newest first."""
        self._ahead.take_all_back()
        for _ in self.queue.take_back(refusal):
            pass

    def on_head_moved(self, head: int, own: int) -> None:
        """See `LogOwner`: only files go of which everything has expired."""

    # -- reading ---------------------------------------------------------------------------------

    def readable_from(self, offset: int) -> int:
        """See `Retained`. Where a repair has given up messages, lag begins (DUR-7)."""
        readable = self.kept.readable_from(offset)
        for begin, end in self.lost:
            if offset < begin:
                return min(readable, begin)
            if offset < end:
                return self.readable_from(end)
        return readable

    def lost_until(self, offset: int) -> int:
        """See `Retained`: what has expired is lost, and what a repair has given up."""
        offset = super().lost_until(offset)
        for begin, end in self.lost:
            if begin <= offset < end:
                offset = end
        return offset

    def read(
        self,
        offset: int,
        before: int,
        messages: int,
        max_bytes: int,
        wake: Wake,
        *,
        at_least: int,
    ) -> Piece | None:
        """See `Retained`."""
        for begin, _ in self.lost:
            if offset < begin:
                before = min(before, begin)
        return super().read(offset, before, messages, max_bytes, wake, at_least=at_least)

    # -- what goes -------------------------------------------------------------------------------

    def expire(self, limit_us: int) -> bool:
        """See `Retained`. Files are removed later, as a whole."""
        has_expired = super().expire(limit_us)
        if has_expired:
            self._ahead.expire_below(self.kept.head)
        return has_expired

    def sweep(self, now_us: int) -> None:
        """See `Retained`: tombstones go, files that have expired, and what was superseded in them.

        Positions that have moved are written, or else a checkpoint if the topic is quiet.
        """
        super().sweep(now_us)
        log = self.log
        if log.damage:
            return
        log.drop_below(self.kept.head)
        log.clean()
        size = log.size
        is_quiet = size == self._swept_size and not self.waiting
        self._swept_size = size
        self.save_names(now_us)
        has_moved = self.queue.save_positions(now_us)
        if is_quiet and not has_moved:
            log.save()

    def delete(self) -> Pending | None:
        """See `Retained`."""
        return self.queue.delete()

    # -- what it takes ---------------------------------------------------------------------------

    def held(self) -> tuple[int, int]:
        """See `Retained`."""
        stored, memory = super().held()
        return stored, memory + self.waiting_memory

    # -- what `describe` reports -----------------------------------------------------------------

    @property
    def resident(self) -> int:
        """See `Retained`."""
        return self.kept.live + self._damaged

    @property
    def damaged(self) -> int:
        """See `Retained` (DUR-7). Those that the head passes still count."""
        return self._damaged

    def holes_between(self, begin: int, end: int) -> int:
        """See `Retained`. What a repair has given up is lag, and no hole."""
        holes = super().holes_between(begin, end)
        for first, after in self.lost:
            holes -= max(0, min(after, end) - max(first, begin, self.kept.head))
        return holes

    @property
    def waiting_batches(self) -> int:
        """See `Retained`: writes, of which some may hold no batch."""
        return len(self.queue.waiting)

    def own_fields(self) -> dict[str, Any]:
        """See `Retained`."""
        kept = self.kept
        return {
            **super().own_fields(),
            "log_bytes": self.log.size,
            "log_live_bytes": kept.size + kept.tombstone_bytes + LOGGED * kept.live,
            "log_bound_bytes": self.log.bound,
            "waiting_bytes": self.waiting_bytes,
            "damage": self.log.damage,
        }

    def name_ttl_s(self, limits: BrokerSettings) -> float:
        """See `Retained`."""
        return limits.disk_session_ttl
