"""What a topic remembers besides its messages: a fold over the records of its log.

The log is the only source of truth. Open compaction windows, the numbers of producers and the
positions of named subscriptions all follow from its records, so a start restores them by reading
the log. A checkpoint saves the reading: it is the fold up to a certain record, made by the writer
from the records that it has just synced, and never from the live tables. A checkpoint that is
missing or wrong costs time and nothing else, as long as the records are there.
"""

import json
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

from zaichik.base.clock import SECOND_US
from zaichik.base.json_text import NotJson, parsed_object
from zaichik.core.compaction import CompactionWindow
from zaichik.core.jumps import Jump, not_passed_us
from zaichik.core.producers import REMEMBERED_ANSWERS
from zaichik.core.shared_names.saved_names import SavedName, take_over
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.segment import seal, unseal
from zaichik.storage.shapes import OF_STORED, is_checkpoint
from zaichik_protocol import Batch

_MARK = b"zaichik state 1\n"
PRODUCER_SILENCE_US = 600 * SECOND_US  # after which a producer is forgotten, as `producer_ttl` says

# Of a stored batch, see `Stored` of the broker's producers; of a refused one: code, text, field.
SavedAnswer = tuple[Any, ...]


class KnownProducer:
    """A producer, as the log knows it.

    Attributes:
        next: the number of its next batch.
        answers: its last ones.
        used_us: when its last batch was accepted.
    """

    def __init__(self, number: int = 0, used_us: int = 0) -> None:
        self.next = number
        self.answers: deque[SavedAnswer] = deque(maxlen=REMEMBERED_ANSWERS)
        self.used_us = used_us


class LogState:
    """The fold over the records so far.

    Args:
        window_us: the length of a compaction window; 0: none.
        max_keys: the most windows.

    Attributes:
        end: the offset after the last message.
        accepted_us: of the last record.
        compacted: messages that compaction dropped.
        window: the open windows; None without compaction.
        producers: by their ids.
        positions: the committed offsets of named subscriptions.
        deleted_below: of a table: an offset above every tombstone that is gone (TAB-5).
        names: the shared names; see `saved_names`.
        ticket: the greatest that was saved with them.
        jumps: those of the broker's clock. Where a record is the first after one, windows and
            producers are taken to be that much younger.
    """

    def __init__(self, window_us: int, max_keys: int) -> None:
        self.end = 0
        self.accepted_us = 0
        self.compacted = 0
        self.window: CompactionWindow | None = None
        if window_us:
            self.window = CompactionWindow(window_us, max_keys)
        self.producers: OrderedDict[int, KnownProducer] = OrderedDict()
        self.positions: dict[str, int] = {}
        self.deleted_below = 0
        self.names: dict[str, SavedName] = {}
        self.ticket = 0
        self.jumps: Sequence[Jump] = ()

    @property
    def published(self) -> int:
        """Messages that arrived: stored or compacted."""
        return self.end + self.compacted

    def add(self, record: StoredRecord) -> None:
        """Add the next record to the fold."""
        if self.jumps:
            self._pass_jumps(record.accepted_us)
        self.accepted_us = max(self.accepted_us, record.accepted_us)
        # Last: another thread that sees the new end sees the time, too.
        self.end = record.base + record.count
        match record.kind:
            case RecordKind.MESSAGES:
                self._add_messages(record)
            case RecordKind.REFUSED:
                self._answer(record, tuple(json.loads(record.body)))
            case RecordKind.POSITIONS:
                for name, committed in json.loads(record.body).items():
                    self.positions.pop(name, None)
                    if committed is not None:
                        self.positions[name] = committed
            case RecordKind.NAMES:
                saved = json.loads(record.body)
                self.ticket = max(self.ticket, saved["ticket"])
                take_over(self.names, saved["names"])

    @property
    def not_passed_us(self) -> int:
        """How much of the time after the last record has not passed: it was a jump."""
        return not_passed_us(self.jumps, self.accepted_us)

    def _pass_jumps(self, accepted_us: int) -> None:
        """Take over the jumps before that time."""
        passed = [jump for jump in self.jumps if jump[0] <= accepted_us]
        by_us = not_passed_us(passed, self.accepted_us)
        if not by_us:
            return
        if self.window is not None:
            self.window.shift(by_us)
        for known in self.producers.values():
            known.used_us += by_us

    def _add_messages(self, record: StoredRecord) -> None:
        compacted = sum(byte.bit_count() for byte in record.dropped)
        self.compacted += compacted
        if self.window is not None and record.count:
            keys = Batch(record.body, record.count).keys()
            # The broker stored them, so it may have forgotten their windows early (COM-6).
            self.window.take_back(keys)
            self.window.admit(keys, record.accepted_us)
        subscribers = 0  # how many there were is not stored
        answer = (record.base, record.count, compacted, subscribers, record.dropped)
        self._answer(record, answer)

    def _answer(self, record: StoredRecord, answer: SavedAnswer) -> None:
        if record.producer:
            known = self.producers.setdefault(record.producer, KnownProducer())
            known.next = record.sequence + 1
            known.used_us = record.accepted_us
            known.answers.append(answer)
            self.producers.move_to_end(record.producer)
        # The first one has been silent longest.
        while self.producers:
            first = next(iter(self.producers.values()))
            if self.accepted_us - first.used_us <= PRODUCER_SILENCE_US:
                break
            self.producers.popitem(last=False)

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(
        self, epoch: int, segment: int, position: int, salt: int, head: int = 0
    ) -> bytes:
        """Returns the state as the content of a file.

        It holds up to that position in the segment of that base. The log begins at the offset
        `head`: what a start finds below is left over from a removal.
        """
        producers = []
        for producer, known in self.producers.items():
            answers = [_shown(answer) for answer in known.answers]
            producers.append([producer, known.next, known.used_us, answers])
        windows = 0
        if self.window is not None:
            windows = len(self.window)
        fields = {
            "epoch": epoch,
            "segment": segment,
            "position": position,
            "salt": salt,
            "head": head,
            "end": self.end,
            "accepted_us": self.accepted_us,
            "compacted": self.compacted,
            "producers": producers,
            "positions": self.positions,
            "deleted_below": self.deleted_below,
            "windows": windows,
        }
        # Hardly any topic has one.
        if self.ticket or self.names:
            fields["ticket"] = self.ticket
            fields["names"] = self.names
        return seal(_MARK, json.dumps(fields).encode() + b"\n" + self._open_windows())

    def _open_windows(self) -> bytes:
        """Returns the open windows as a batch: keys, and when they were opened as payloads."""
        if not self.window:
            return b""
        keys: list[bytes] = []
        times: list[bytes] = []
        for key, opened_us in self.window.opening_times():
            keys.append(key)
            times.append(opened_us.to_bytes(8, "little", signed=True))
        return Batch.of_columns(keys, times).data

    def restore(self, fields: dict[str, Any], keys: bytes) -> None:
        """Take over the state in a checkpoint."""
        self.end = fields["end"]
        self.accepted_us = fields["accepted_us"]
        self.compacted = fields["compacted"]
        self.positions = fields["positions"]
        self.deleted_below = fields.get("deleted_below", 0)
        self.ticket = fields.get("ticket", 0)
        self.names = fields.get("names", {})
        for producer, number, used_us, answers in fields["producers"]:
            known = KnownProducer(number, used_us)
            known.answers.extend(_read(answer) for answer in answers)
            self.producers[producer] = known
        if self.window is not None and fields["windows"]:
            batch = Batch(keys, fields["windows"])
            for key, at in zip(batch.keys(), batch.each_payload(), strict=True):
                self.window.admit([key], int.from_bytes(at, "little", signed=True))


def read_checkpoint(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Returns what a checkpoint's file says, and its keys; None if it is not whole."""
    inner = unseal(_MARK, data)
    if inner is None:
        return None
    text, _, keys = inner.partition(b"\n")
    try:
        fields = parsed_object(text)
    except NotJson:
        return None
    if not is_checkpoint(fields, keys):
        return None
    return fields, keys


def _shown(answer: SavedAnswer) -> list[Any]:
    """Returns an answer as JSON can hold it: bytes become hexadecimal digits."""
    shown = list(answer)
    if len(answer) == OF_STORED:
        shown[-1] = answer[-1].hex()
    return shown


def _read(answer: list[Any]) -> SavedAnswer:
    """Returns an answer as it was; see `_shown`."""
    if len(answer) == OF_STORED:
        *numbers, dropped = answer
        return *numbers, bytes.fromhex(dropped)
    return tuple(answer)
