"""What is known about a topic from outside: who sent which bytes, where they stand, and whether
they may be gone.

A topic is known only by what clients sent and what the broker said to anybody; the broker's own
state is not looked at. Each payload is sent once, so a payload names its message. The first time an
offset is heard of, in an answer or in a delivery, its message is written down; ever after, to
everybody, it must be that one (P1).

Where something is not known (a batch whose publisher was cut off may be stored or not) the ledger
believes the broker: it never reports what could have been right.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from zaichik_protocol import FOREVER

from .trace import Anomaly

LARGEST_BATCH = 4096  # bytes: what a batch may have of which nothing is known


def offsets_of(frame):
    """The offsets of the messages in a frame."""
    if frame.holes:
        return [frame.base + delta for delta in frame.deltas]
    return [*range(frame.base, frame.base + frame.batch.count)]


@dataclass(eq=False, slots=True)
class SentBatch:
    """A batch on its way, and what became of it.

    Attributes:
        messages: (key, payload) pairs.
        size: bytes of it in a ring.
        sender: whose order it keeps.
        order: its place among those that this sender sent.
        sent_us: when it was first sent; None before.
        answer, acked_us: what the broker said of it first, and when.
        is_refused: the broker did not take it.
        times_sent: how often it was sent.
        accepted_us: when the broker accepted it, as soon as that was said.
        offsets: of its messages, as far as known.
    """

    messages: list
    size: int
    sender: object
    order: int
    sent_us: int | None = None
    answer: object = None
    acked_us: int | None = None
    is_refused: bool = False
    times_sent: int = 0
    accepted_us: int | None = None
    offsets: dict[int, int] = field(default_factory=dict)


class TopicLedger:
    """One topic.

    Args:
        name: its name.
        settings: the `TopicSettings` it was created with.
        is_squeezed: whether other topics may take its room (RET-10); then anything may be gone at
            any time.
        older: the epoch of the last topic of this name, which is gone.

    Attributes:
        epoch: 0 until it is known.
        acked_end: every offset below was said to be taken.
    """

    def __init__(self, name, settings, *, is_squeezed=False, older=0):
        self.name = name
        self.settings = settings
        self.is_squeezed = is_squeezed
        self._older = older
        self.epoch = 0
        self.acked_end = 0
        self._sent = {}  # payload: batch and index
        self._at = {}  # offset: batch and index
        self._dropped = []  # batch and index
        self._passed = set()  # offsets that somebody has passed as holes
        self._last_order = {}  # sender: order and offset of its latest batch that is known

    @property
    def is_durable(self):
        """Whether it outlives the broker: all that is known of it stays true."""
        return bool(self.settings.durable)

    def created(self, reply):
        """The broker said that it is there."""
        if self.epoch not in (0, reply.epoch) or bool(reply.created) == bool(self.epoch):
            raise Anomaly("P1", f"{self.name} is made twice: {self.epoch}, {reply.epoch}")
        if reply.epoch <= self._older:
            raise Anomaly(
                "P1", f"{self.name} is another topic than before, and has epoch {reply.epoch}"
            )
        self.epoch = reply.epoch

    def successor(self):
        """The ledger of the topic that takes this one's name after a restart, because this one was
        in memory.
        """
        older = max(self.epoch, self._older)
        return TopicLedger(self.name, self.settings, is_squeezed=self.is_squeezed, older=older)

    def survives(self, topic):
        """The broker has started again, and has found this topic."""
        if topic is None or topic.end < self.acked_end:
            found = "gone" if topic is None else f"ends at {topic.end}"
            raise Anomaly(
                "P3",
                f"{self.name} had {self.acked_end} messages that were acknowledged, and is {found}",
            )
        if topic.epoch != self.epoch:
            raise Anomaly(
                "P1", f"{self.name} had epoch {self.epoch}, and after a restart {topic.epoch}"
            )

    # -- what is sent ----------------------------------------------------------------------------

    def sent(self, batch, now_us):
        """A batch is sent, perhaps not for the first time."""
        batch.times_sent += 1
        if batch.times_sent > 1:
            return
        batch.sent_us = now_us
        for index, (_, payload) in enumerate(batch.messages):
            assert payload not in self._sent, "payloads are unique"
            self._sent[payload] = batch, index

    def sent_batch(self, payload):
        """The batch that was sent with this payload; None if none was."""
        return self._sent.get(payload, (None, 0))[0]

    # -- what is said ----------------------------------------------------------------------------

    def published(self, batch, reply, now_us):
        """The broker said what became of a batch."""
        count = len(batch.messages)
        kept = [
            i for i in range(count) if not (reply.dropped and reply.dropped[i >> 3] >> (i & 7) & 1)
        ]
        if (reply.stored, reply.compacted) != (len(kept), count - len(kept)):
            raise Anomaly(
                "P3",
                f"{self.name}: of {count} messages {reply.stored} stored, {reply.compacted} "
                "compacted",
            )
        if reply.compacted and not self.settings.compaction_window_ms:
            raise Anomaly("COM-2", f"{self.name} compacts nothing, and dropped {reply.compacted}")
        if reply.duplicate and batch.times_sent < 2:
            raise Anomaly(
                "P3",
                f"{self.name}: a batch that was sent once is taken for a copy, and answered "
                f"{reply}",
            )
        if batch.answer is not None:
            self._check_duplicate(batch, reply)
            return
        batch.answer, batch.acked_us = reply, now_us
        self._dropped += ((batch, index) for index in range(count) if index not in kept)
        for number, index in enumerate(kept):
            self._place(reply.first_offset + number, batch, index)
        self.acked_end = max(self.acked_end, reply.first_offset + len(kept))

    def _check_duplicate(self, batch, reply):
        """A batch that is sent again is answered again, and not stored again (PUB-4)."""
        first = batch.answer
        known = first.first_offset, first.stored, first.compacted, first.dropped
        if (
            not reply.duplicate
            or (reply.first_offset, reply.stored, reply.compacted, reply.dropped) != known
        ):
            raise Anomaly(
                "P3",
                f"{self.name}: a batch at {first.first_offset} is sent again, and answered {reply}",
            )

    def delivered(self, frame, now_us):
        """The broker sends these messages to somebody."""
        ttl_ms = self.settings.retention_ttl_ms
        if ttl_ms not in (0, FOREVER) and now_us >= frame.accepted_us + ttl_ms * 1000:
            late = now_us - frame.accepted_us - ttl_ms * 1000
            raise Anomaly(
                "P4", f"{self.name}: offset {frame.base} is delivered {late} µs after its time"
            )
        pairs = zip(frame.batch.keys(), frame.batch.each_payload(), strict=True)
        for offset, (key, payload) in zip(offsets_of(frame), pairs, strict=True):
            batch, index = self._sent.get(payload, (None, 0))
            if batch is None or batch.messages[index][0] != key:
                raise Anomaly(
                    "P3",
                    f"{self.name}: what is delivered as offset {offset} was never sent: "
                    f"{payload[:40]!r}",
                )
            self._place(offset, batch, index)
            if batch.accepted_us is None and batch.sent_us <= frame.accepted_us <= now_us:
                batch.accepted_us = frame.accepted_us
            if batch.accepted_us != frame.accepted_us:
                times = (
                    f"sent at {batch.sent_us}, said to be accepted at {frame.accepted_us}, "
                    "not "
                    f"{batch.accepted_us}"
                )
                raise Anomaly("P1", f"{self.name}: offset {offset} was {times}")

    def passed(self, offset):
        """The broker has gone over that offset without a word to somebody: it was superseded
        (TAB-2).
        """
        if not self.settings.table:
            raise Anomaly("P2", f"{self.name} is no table, and offset {offset} is passed")
        self._passed.add(offset)

    def check_passed(self):
        """What was passed has a later message of its key (TAB-1); asked at the end."""
        for offset in sorted(self._passed & self._at.keys()):
            key, _ = self.message(offset)
            later = range(offset + 1, self.acked_end)
            if not key:
                raise Anomaly("TAB-1", f"{self.name}: offset {offset} has no key, and is passed")
            # If some are not known, it may be one of them.
            if not any(self.message(at) is None or self.message(at)[0] == key for at in later):
                raise Anomaly(
                    "TAB-1", f"{self.name}: offset {offset} is passed, the last one of key {key!r}"
                )

    def _place(self, offset, batch, index):
        """This message has that offset, says the broker."""
        if batch.is_refused:
            raise Anomaly("P3", f"{self.name}: what was refused is stored as {offset}")
        known = self._at.setdefault(offset, (batch, index))
        if known != (batch, index):
            raise Anomaly(
                "P1",
                f"{self.name}: offset {offset} is {self._name(batch, index)} and "
                f"{self._name(*known)}",
            )
        place = batch.offsets.setdefault(index, offset)
        if place != offset:
            raise Anomaly(
                "P1",
                f"{self.name}: {self._name(batch, index)} is stored at {place} and at {offset}",
            )
        before, after = (
            batch.offsets.get(index - 1, offset - 1),
            batch.offsets.get(index + 1, offset + 1),
        )
        if (before, after) != (offset - 1, offset + 1):
            raise Anomaly("P1", f"{self.name}: the batch around offset {offset} is torn apart")
        order, place = self._last_order.get(batch.sender, (batch.order, offset))
        if (order < batch.order and offset < place) or (batch.order < order and place < offset):
            raise Anomaly(
                "P1",
                f"{self.name}: offsets {place} and {offset} of one sender are not in its order",
            )
        if batch.order >= order:
            self._last_order[batch.sender] = batch.order, offset

    def _name(self, batch, index):
        return batch.messages[index][1].partition(b" ")[0].decode()

    def place_told(self, payload):
        """The offset that was acknowledged for the message with this payload; None: that it was
        dropped.

        Raises:
            Anomaly: nobody has acknowledged it.
        """
        batch, index = self._sent.get(payload, (None, 0))
        if batch is None or batch.answer is None:
            raise Anomaly(
                "P3",
                f"{self.name}: {payload[:40]!r} was not acknowledged, and its publisher is told it "
                "was",
            )
        return batch.offsets.get(index)

    # -- what may be gone ------------------------------------------------------------------------

    def batch(self, offset):
        """The batch of that message; None if nobody has said."""
        return self._at.get(offset, (None, 0))[0]

    def message(self, offset):
        """The key and the payload that have this offset; None if nobody has said."""
        batch, index = self._at.get(offset, (None, 0))
        return batch and batch.messages[index]

    def accepted_us(self, offset):
        """When that message was accepted; None if nobody has said so."""
        batch = self.batch(offset)
        return batch and batch.accepted_us

    def may_be_gone(self, offset, next_offset, now_us):
        """Whether that message may be gone by now, in a topic that ends before `next_offset`
        (RET-1, RET-6).

        A log is never full here: what is in it goes when its time is over, and only then (DUR-4).
        """
        if self.is_durable:
            return self._is_expired(offset, now_us)
        if self.settings.table:
            message = self.message(offset)
            return self._is_expired(offset, now_us) or message is None or bool(message[0])
        return (
            self.is_squeezed
            or next_offset - offset > self.settings.capacity
            or self._is_expired(offset, now_us)
            or self._bytes_from(offset, next_offset) > self.settings.max_bytes
        )

    def may_be_lost(self, offset, next_offset, now_us):
        """Whether somebody may be told that it is lag: in a table, only what has expired is."""
        if self.settings.table:
            return self._is_expired(offset, now_us)
        return self.may_be_gone(offset, next_offset, now_us)

    def _is_expired(self, offset, now_us):
        ttl_ms = self.settings.retention_ttl_ms
        if ttl_ms in (0, FOREVER):
            return False
        batch = self.batch(offset)
        if batch is None:
            return True
        accepted_us = batch.sent_us if batch.accepted_us is None else batch.accepted_us
        return now_us >= accepted_us + ttl_ms * 1000

    def _bytes_from(self, offset, next_offset):
        """Bytes of the batches from that message's on: as many as they can be at most."""
        size, last = 0, None
        for at in range(offset, next_offset):
            batch = self.batch(at)
            if batch is None:
                size += LARGEST_BATCH
            elif batch is not last:
                size += batch.size
            last = batch
            if size > self.settings.max_bytes:
                break
        return size

    # -- what was compacted ----------------------------------------------------------------------

    def check_windows(self):
        """Of the messages of one key, the first of each window was stored, and no other (COM-2);
        asked at the end.
        """
        window_us = self.settings.compaction_window_ms * 1000
        opened_us = defaultdict(list)
        for offset in sorted(self._at) if window_us else ():
            batch, index = self._at[offset]
            key = batch.messages[index][0]
            if key and batch.accepted_us is not None:
                is_open = opened_us[key] and batch.accepted_us < opened_us[key][-1] + window_us
                # Windows are memory: where others may take it, one is forgotten early (COM-6).
                if is_open and not self.is_squeezed:
                    raise Anomaly(
                        "COM-2",
                        f"{self.name}: offset {offset} is stored, and key {key!r} had its window "
                        "open",
                    )
                opened_us[key].append(batch.accepted_us)
        for batch, index in self._dropped:
            key = batch.messages[index][0]
            places = [at for at, (each, i) in self._at.items() if each.messages[i][0] == key]
            is_known = (
                all(self.accepted_us(at) is not None for at in places)
                and len(self._at) == self.acked_end
            )
            if is_known and not any(
                batch.sent_us - window_us < us <= batch.acked_us for us in opened_us[key]
            ):
                raise Anomaly(
                    "COM-2",
                    f"{self.name}: {self._name(batch, index)} was dropped, and no window was open",
                )
