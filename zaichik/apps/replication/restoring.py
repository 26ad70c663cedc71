"""Makes a topic again from what a bridge has copied of it to Kafka: a folder for `serve --data`.

    Kafka ──▶ each committed record ──▶ is it what comes next? ──▶ the log, beside the topics
                                                               ──▶ gaps that a bridge was told of
                                                               ──▶ `skip` offsets more, its name

The topic is the one that was lost: its epoch, offsets, times, keys and payloads are the same
(RS-1), and open compaction windows follow from them. Its settings are those that the first record
has, unless others are named. Named positions and the numbers of producers are not in Kafka (RS-2).

An offset stays an identity (RS-3). The lost broker may have given offsets beyond the last one in
Kafka, and readers may have seen those messages. So the topic goes on behind a gap of `skip`
offsets, which its readers are told of. If a bridge has passed that gap, Kafka has it, and the next
restore gives up the same offsets.

Nothing is guessed. What does not look like all of one topic, in order and from its beginning, is
refused with its place in Kafka, and nothing is left in the folder.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zaichik.apps.replication.record import Header, NotOurs, header_of
from zaichik.apps.replication.settings import UnknownSettings, restored_settings
from zaichik.storage.disk import Disk
from zaichik.storage.rebuilding import Rebuilding, folder_with
from zaichik.storage.segment import TopicHeader

# 42 days of 300,000 messages a second, which is more than a durable topic takes.
SKIP = 2**40
# Behind some gaps of that length, offsets are still numbers that JSON has exactly everywhere.
MOST_SKIP = 2**50
# Of messages with the same time, in one record of the log: a reader reads no less at once.
MOST_MESSAGES = 8192
MOST_BYTES = 256 * 1024


class CannotRestore(Exception):
    """What Kafka has is not a whole topic, or the folder cannot take it; the message says why."""


class KafkaRecord(Protocol):
    """A record as confluent-kafka has it."""

    def headers(self) -> Any:
        """Returns its headers."""

    def key(self) -> bytes | None:
        """Returns its key; None without one."""

    def value(self) -> bytes | None:
        """Returns its payload."""

    def offset(self) -> int | None:
        """Returns its place in Kafka's partition."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore has made.

    Attributes:
        topic, epoch, settings: the topic's.
        messages: how many Kafka had.
        missing: how many offsets have none, as the bridge was told by the broker.
        last: the last offset in Kafka.
        next: the offset of the next message to be published.
        head: the first offset that the folder has: what is older did not fit into `log_bytes`.
        size: bytes of the log.
    """

    topic: str
    epoch: int
    settings: Mapping[str, int]
    messages: int
    missing: int
    last: int
    next: int
    head: int
    size: int


class Restoring:
    """A topic that is being restored: see above.

    Args:
        disk: the folder of all topics, which no broker uses meanwhile.
        topic: its name.
        pairs: settings that hold in place of those that the first record has, as the wire carries
            them.

    Raises:
        CannotRestore: the folder has a topic of that name.
    """

    def __init__(self, disk: Disk, topic: str, pairs: Sequence[tuple[int, int]] = ()) -> None:
        there = folder_with(disk, topic)
        if there:
            raise CannotRestore(
                f"the folder has a topic {topic!r} already: restore into another folder, or move "
                f"{there} out of it first"
            )
        self._disk = disk
        self._topic = topic
        self._pairs = pairs
        self._epoch = 0
        self._settings: Mapping[str, int] = {}
        self._rebuilding: Rebuilding | None = None
        self._messages = 0
        self._missing = 0
        # What has gathered: messages that were accepted at this time.
        self._at_us = 0
        self._keys: list[bytes] = []
        self._payloads: list[bytes] = []
        self._bytes = 0

    def add(self, records: Iterable[KafkaRecord]) -> None:
        """Add the next records.

        Raises:
            CannotRestore: they are not what comes next of this topic; call `undo`.
            DiskFull, StorageFailed: there is no room, or the disk has failed; the same.
        """
        for record in records:
            try:
                header = header_of(record.headers())
            except NotOurs as error:
                raise CannotRestore(
                    f"{_place(record)} was not written by `zaichik bridge`: {error}"
                ) from None
            rebuilding = self._rebuilding or self._begun(record, header)
            self._check(record, header, rebuilding.end + len(self._keys))
            if header.end:
                self._write()
                # A bridge that has just begun may not know the time of the message before.
                self._at_us = max(header.accepted_us, self._at_us)
                rebuilding.give_up(header.end, self._at_us)
                self._missing += header.end - header.offset
            else:
                self._gather(header.accepted_us, record.key() or b"", record.value() or b"")

    def finish(self, skip: int = SKIP) -> Restored:
        """End the topic with a gap, and give it its name.

        Args:
            skip: how many offsets the lost broker may have given beyond the last one in Kafka.

        Raises:
            CannotRestore: there was no record.
            DiskFull, StorageFailed: see `add`.
        """
        rebuilding = self._rebuilding
        if rebuilding is None:
            raise CannotRestore("it has no committed record, so nothing says what the topic was")
        self._write()
        end = rebuilding.end
        rebuilding.give_up(end + skip, rebuilding.accepted_us)
        rebuilding.finish()
        return Restored(
            topic=self._topic,
            epoch=self._epoch,
            settings=self._settings,
            messages=self._messages,
            missing=self._missing,
            last=end - 1,
            next=end + skip,
            head=rebuilding.head,
            size=rebuilding.size,
        )

    def undo(self) -> None:
        """Leave nothing in the folder of a topic that is not finished."""
        if self._rebuilding is not None:
            self._rebuilding.undo()

    def _begun(self, record: KafkaRecord, header: Header) -> Rebuilding:
        """Begin with the first record: it says which topic this is."""
        if header.offset:
            raise CannotRestore(
                f"the first record in Kafka is message {header.offset} of the topic, so what came "
                "before is missing there, and a topic is restored from its beginning only. Most "
                "likely, Kafka's topic has a retention: set its retention.ms and retention.bytes "
                "to -1 (`zaichik bridge` refuses others)"
            )
        try:
            settings = restored_settings(header.settings, self._pairs)
        except UnknownSettings as error:
            raise CannotRestore(f"{_place(record)}: {error}") from None
        self._epoch = header.epoch
        self._settings = settings
        self._rebuilding = Rebuilding(self._disk, TopicHeader(self._topic, header.epoch, settings))
        return self._rebuilding

    def _check(self, record: KafkaRecord, header: Header, expected: int) -> None:
        """Refuse a record that is not what comes next.

        Raises:
            CannotRestore: it is not.
        """
        if header.epoch != self._epoch:
            raise CannotRestore(
                f"{_place(record)} is of a topic with epoch {header.epoch}, and those before it "
                f"are of one with epoch {self._epoch}: two topics were copied into one of Kafka's"
            )
        if header.offset > expected:
            raise CannotRestore(
                f"{_place(record)} is message {header.offset}, and message {expected} comes next: "
                "what is in between is missing in Kafka, and no bridge says why. Look whether "
                "Kafka's topic has cleanup.policy=compact, or somebody has deleted records"
            )
        if header.offset < expected:
            raise CannotRestore(
                f"{_place(record)} is message {header.offset}, which came before: not only one "
                "bridge at a time has written to Kafka's topic"
            )
        if header.accepted_us < self._at_us and not header.end:
            raise CannotRestore(
                f"{_place(record)} is of an earlier time than the one before it, which a broker "
                "never gives: something else than a bridge has written to Kafka's topic"
            )

    def _gather(self, accepted_us: int, key: bytes, payload: bytes) -> None:
        """Add a message to those of the same time, or write those first."""
        is_full = len(self._keys) == MOST_MESSAGES or self._bytes >= MOST_BYTES
        if accepted_us != self._at_us or is_full:
            self._write()
            self._at_us = accepted_us
        self._keys.append(key)
        self._payloads.append(payload)
        self._bytes += len(key) + len(payload)

    def _write(self) -> None:
        """Write what has gathered."""
        if self._keys and self._rebuilding is not None:
            self._rebuilding.add(self._at_us, self._keys, self._payloads)
            self._messages += len(self._keys)
            self._keys = []
            self._payloads = []
            self._bytes = 0


def _place(record: KafkaRecord) -> str:
    return f"the record at Kafka's offset {record.offset()}"
