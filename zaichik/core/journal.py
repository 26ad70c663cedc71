"""A topic's journal: the fate of each message published to it, kept as a topic of its own.

A message that compaction dropped is nowhere in the topic; that is the point of dropping it. The
journal records that it arrived, when, and which message kept it out. Nor does a table still have
the messages that newer ones of their keys superseded: the record of the newer one says which it
was. For each batch published to a topic `t`, the topic `$journal/t` gets a batch with the same keys
in the same order, and a record as each payload:

    accepted_us i64 | offset i64 | other i64 | hash u64 | size u32 | status u8 | zero u8[3]

`other` is an offset: for a message that was dropped, of the one that kept it out; for one that was
stored, of the one that it superseded (TAB-7).

Integers are little-endian. Any client reads it like any other topic; only the broker writes it
(JRN-1, JRN-2).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from struct import Struct

from zaichik.core.rights import JOURNAL
from zaichik.core.settings import MAX_CAPACITY, TopicSettings
from zaichik.core.sharing.budget import Budget
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER, Batch

NONE = -1  # in place of an offset, where there is none

_RECORD = Struct("<qqq8sIB3x")
_STORED, _COMPACTED = 0, 1


class Journal:
    """Writes the journal of one topic.

    Args:
        of: the topic that is journalled, created with `journal_bytes`.
        budget: the bytes that all topics may hold together.

    Attributes:
        topic: the journal, as a topic.
    """

    def __init__(self, of: TopicController, budget: Budget) -> None:
        max_bytes = of.settings.journal_bytes
        settings = TopicSettings(FOREVER, capacity=MAX_CAPACITY, max_bytes=max_bytes)
        self.topic = TopicController(
            JOURNAL + of.name, settings, of.epoch, explicit=True, budget=budget, client=of.client
        )
        self._of = of
        # The offset of the latest message stored of each key: while the key's window is open, the
        # one that opened it.
        self._winners: OrderedDict[bytes, int] = OrderedDict()
        of.observer = self.write

    def resize(self) -> None:
        """Take the journal's size from the topic's settings, which have changed (TOP-3)."""
        topic = self.topic
        max_bytes = self._of.settings.journal_bytes
        topic.settings = replace(topic.settings, max_bytes=max_bytes)
        topic.retained.limit_bytes(max_bytes)

    def write(
        self,
        batch: Batch,
        kept: Sequence[int],
        first_offset: int,
        now_us: int,
        superseded: Sequence[int],
    ) -> None:
        """Record a batch of which the messages at the indices `kept` were stored.

        They have the offsets from `first_offset` on. Records that are evicted from the journal's
        ring are lag to its readers, as in any topic.

        Args:
            batch: the whole batch.
            kept: the indices of the messages that are stored.
            first_offset: the offset of the first of these.
            now_us: when the batch is accepted.
            superseded: in a table, for each message the offset of the one that it supersedes, or
                `NONE`; empty in other topics.
        """
        keys = batch.keys()
        stored = set(kept)
        winners = self._winners
        offset = first_offset
        records = []
        messages = zip(keys, batch.each_payload(), strict=True)
        for index, (key, payload) in enumerate(messages):
            size = len(payload)
            digest = blake2b(payload, digest_size=8).digest()
            if index in stored:
                other = NONE
                if superseded:
                    other = superseded[index]
                record = _RECORD.pack(now_us, offset, other, digest, size, _STORED)
                if key:
                    winners[key] = offset
                    winners.move_to_end(key)
                offset += 1
            else:
                winner = winners.get(key, NONE)
                record = _RECORD.pack(now_us, NONE, winner, digest, size, _COMPACTED)
            records.append(record)
        self.forget_closed()
        self.topic.store(Batch.of_columns(keys, records), now_us)

    def forget_closed(self) -> None:
        """Forget the winners whose windows have closed.

        A sweep calls this too, for topics that have fallen idle.
        """
        winners = self._winners
        window = self._of.window
        still_open = 0
        if window is not None:
            still_open = len(window)
        # Windows close in the order in which they opened, which is the order of the winners.
        while len(winners) > still_open:
            winners.popitem(last=False)
