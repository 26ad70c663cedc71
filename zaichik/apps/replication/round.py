"""A round: what the broker has sent, as the records that one transaction writes.

It can be written again, record by record the same, if the transaction was aborted.
"""

from collections.abc import Mapping, Sequence

from zaichik import Lagged
from zaichik.apps.replication import record
from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.position import PARTITION, Position
from zaichik.apps.replication.record import HeaderField
from zaichik.apps.replication.transactions import Produce
from zaichik.client.inbox import end_of
from zaichik.client.messages import Missed, messages_of, rest_of
from zaichik_protocol import Messages


class Round:
    """Messages and gaps, in order.

    Args:
        items: what `fetch` has returned. What Kafka has already is left out.
        topic: of Kafka.
        before: how far Kafka has it.
        settings: the topic's, for the first record; None: Kafka has them.

    Attributes:
        after: how far Kafka has it after this round; `before` if there is nothing to write.
        gaps: the gaps in it, each as its first offset and the offset after it.

    Raises:
        CannotReplicate: the items leave out something that is no gap.
    """

    def __init__(
        self,
        items: Sequence[Messages | Missed],
        topic: str,
        before: Position,
        settings: Mapping[str, int] | None,
    ) -> None:
        self.gaps: list[tuple[int, int]] = []
        self._topic = topic
        self._before = before
        self._settings = settings
        # Each with the position before it.
        self._items: list[tuple[Position, Messages | Lagged]] = []
        self.after = before
        for item in items:
            self._add(item)

    def _add(self, item: Messages | Missed) -> None:
        here = self.after
        match item:
            case Messages():
                rest = rest_of(item, here.next)
                if rest is not None:
                    self._check_next(rest.base)
                    self._items.append((here, rest))
                    self.after = here.past(end_of(rest), rest.accepted_us)
            case Lagged():
                start = max(item.start, here.next)
                if start < item.end:
                    self._check_next(start)
                    self._items.append((here, Lagged(item.topic, start, item.end)))
                    self.gaps.append((start, item.end))
                    self.after = here.past_gap(start, item.end)

    def _check_next(self, offset: int) -> None:
        """Refuse a hole that nobody has told of: Kafka would have it for ever."""
        if offset != self.after.next:
            raise CannotReplicate(
                f"the broker sent offset {offset} where {self.after.next} comes next: that is a "
                "bug, in it or here. Nothing is added; start the bridge again"
            )

    def write(self, produce: Produce) -> None:
        """Write its records.

        Args:
            produce: is called as `Producer.produce`.
        """
        for here, item in self._items:
            if isinstance(item, Lagged):
                self._write_gap(item, here.accepted_us, produce)
            else:
                self._write_messages(item, produce)

    def _write_gap(self, gap: Lagged, accepted_us: int, produce: Produce) -> None:
        fields = self._fields(gap.start, gap.end, accepted_us)
        fields.append(record.gap_field(gap.end))
        produce(self._topic, b"", None, PARTITION, None, None, accepted_us // 1000, fields)

    def _write_messages(self, frame: Messages, produce: Produce) -> None:
        """Write those of a batch; most have three headers, and this is called for each batch."""
        topic, accepted_us = self._topic, frame.accepted_us
        at = accepted_us // 1000
        epoch = record.epoch_field(self.after.epoch)
        accepted = record.time_field(accepted_us)
        first, last = self._before.next, self.after.next - 1
        for message in messages_of(frame, topic):
            offset = message.offset
            fields = [epoch, record.offset_field(offset), accepted]
            if offset in (first, last):
                fields = self._fields(offset, offset + 1, accepted_us)
            # None, twice: nothing is called when it is delivered.
            produce(topic, message.payload, message.key, PARTITION, None, None, at, fields)

    def _fields(self, start: int, end: int, accepted_us: int) -> list[HeaderField]:
        """Returns the headers of a record, also those that only the first and the last one have."""
        fields = [
            record.epoch_field(self.after.epoch),
            record.offset_field(start),
            record.time_field(accepted_us),
        ]
        if start == self._before.next and self._settings is not None:
            fields.append(record.settings_field(self._settings))
        if end == self.after.next and self.after.gaps:
            fields.append(record.gaps_field(self.after.gaps))
        return fields
