"""What a topic remembers besides its messages: a fold over the records of its log.

The log is the only source of truth. Open compaction windows, the numbers of producers and the positions of named
subscriptions all follow from its records, so a start restores them by reading the log. A checkpoint saves the reading:
it is the fold up to a certain record, made by the writer from the records that it has just synced, and never from the
live tables. A checkpoint that is missing or wrong costs time and nothing else, as long as the records are there.
"""

import json
from collections import OrderedDict, deque
from typing import Any

from zaichik.broker.compaction import CompactionWindow
from zaichik.broker.producers import REMEMBERED
from zaichik.log.record import Kind, Record
from zaichik.log.segment import seal, unseal
from zaichik_protocol import Batch

_MARK = b"zaichik state 1\n"
PRODUCER_SILENCE_US = 600_000_000  # after which a producer is forgotten, as `producer_ttl` says

# Of a stored batch, see `Stored` of the broker's producers; of a refused one: code, text, field.
Reply = tuple[Any, ...]


class Known:
    """A producer, as the log knows it.

    Attributes:
        next: the number of its next batch.
        answers: its last ones.
        used_us: when its last batch was accepted.
    """

    def __init__(self, number: int = 0, used_us: int = 0) -> None:
        self.next = number
        self.answers: deque[Reply] = deque(maxlen=REMEMBERED)
        self.used_us = used_us


class State:
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
    """

    def __init__(self, window_us: int, max_keys: int) -> None:
        self.end = self.accepted_us = self.compacted = 0
        self.window = CompactionWindow(window_us, max_keys) if window_us else None
        self.producers: OrderedDict[int, Known] = OrderedDict()
        self.positions: dict[str, int] = {}

    @property
    def published(self) -> int:
        """Messages that arrived: stored or compacted."""
        return self.end + self.compacted

    def add(self, record: Record) -> None:
        """Add the next record to the fold."""
        self.accepted_us = max(self.accepted_us, record.accepted_us)
        self.end = record.base + record.count  # last: whoever sees it in another thread sees the time, too
        match record.kind:
            case Kind.MESSAGES:
                self._add_messages(record)
            case Kind.REFUSED:
                self._answer(record, tuple(json.loads(record.body)))
            case Kind.POSITIONS:
                for name, committed in json.loads(record.body).items():
                    self.positions.pop(name, None)
                    if committed is not None:
                        self.positions[name] = committed

    def _add_messages(self, record: Record) -> None:
        compacted = sum(byte.bit_count() for byte in record.dropped)
        self.compacted += compacted
        if self.window is not None and record.count:
            keys = Batch(record.body, record.count).keys()
            self.window.take_back(keys)  # the broker stored them, so it may have forgotten their windows early (COM-6)
            self.window.admit(keys, record.accepted_us)
        self._answer(record, (record.base, record.count, compacted, 0, record.dropped))

    def _answer(self, record: Record, answer: Reply) -> None:
        if record.producer:
            known = self.producers.setdefault(record.producer, Known())
            known.next, known.used_us = record.sequence + 1, record.accepted_us
            known.answers.append(answer)
            self.producers.move_to_end(record.producer)
        while self.producers and self.accepted_us - next(iter(self.producers.values())).used_us > PRODUCER_SILENCE_US:
            self.producers.popitem(last=False)

    # -- checkpoints -------------------------------------------------------------------------------------------

    def checkpoint(self, epoch: int, segment: int, position: int, salt: int) -> bytes:
        """Returns the state as the content of a file; it holds up to that position in the segment of that base."""
        producers = [
            [producer, known.next, known.used_us, [_shown(answer) for answer in known.answers]]
            for producer, known in self.producers.items()
        ]
        told = {
            "epoch": epoch,
            "segment": segment,
            "position": position,
            "salt": salt,
            "end": self.end,
            "accepted_us": self.accepted_us,
            "compacted": self.compacted,
            "producers": producers,
            "positions": self.positions,
            "windows": 0 if self.window is None else len(self.window),
        }
        keys = b""
        if self.window:
            opened = list(self.window.opened())
            times = [at.to_bytes(8, "little", signed=True) for _, at in opened]
            keys = Batch.of_columns([key for key, _ in opened], times).data
        return seal(_MARK, json.dumps(told).encode() + b"\n" + keys)

    def restore(self, told: dict[str, Any], keys: bytes) -> None:
        """Take over the state in a checkpoint."""
        for name in ("end", "accepted_us", "compacted", "positions"):
            setattr(self, name, told[name])
        for producer, number, used_us, answers in told["producers"]:
            known = self.producers[producer] = Known(number, used_us)
            known.answers.extend(_read(answer) for answer in answers)
        if self.window is not None and told["windows"]:
            batch = Batch(keys, told["windows"])
            for key, at in zip(batch.keys(), batch.each_payload(), strict=True):
                self.window.admit([key], int.from_bytes(at, "little", signed=True))


def read_checkpoint(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Returns what a checkpoint's file says, and its keys; None if it is not whole."""
    inner = unseal(_MARK, data)
    if inner is None:
        return None
    told, _, keys = inner.partition(b"\n")
    return json.loads(told), keys


def _shown(answer: Reply) -> list[Any]:
    return [item.hex() if isinstance(item, bytes) else item for item in answer]


def _read(answer: list[Any]) -> Reply:
    """Returns an answer as it was. A refusal has three parts; other answers have five, the last of which is bytes."""
    return (*answer[:4], bytes.fromhex(answer[4])) if len(answer) == 5 else tuple(answer)
