"""A durable topic that is made again in a folder, from what is kept of it elsewhere.

It is written beside the topics, under a name that no broker opens, and takes its own name when it
is whole. So whatever interrupts it, a folder never has half a topic.

    topics/orders.d5acebe867b47f4d.7.rebuilt/    while it is written; the next attempt removes it
    topics/orders.d5acebe867b47f4d.7/            when it is whole

An offset stays an identity. Where messages are missing, their offsets are given up, in records like
those of a repair (DUR-7): readers are told, and no other messages ever take their place.
"""

from collections.abc import Sequence

from zaichik.storage.disk import Disk
from zaichik.storage.ranges import OffsetRange, joined
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.recovery import TOPIC_FILE, Recovered, new_state, topic_file
from zaichik.storage.repair.repairing import MOST_LOST
from zaichik.storage.segment import TopicHeader
from zaichik.storage.store import TOPICS, folder_of, folders_of, is_unfinished, own_folder
from zaichik.storage.writer import Writer, remove_folder
from zaichik_protocol import Batch

REBUILT = ".rebuilt"  # the end of the name of a folder that is not whole
GROUP = 4 * 1024 * 1024  # bytes that are written and synced as one, and one record more


def folder_with(disk: Disk, name: str) -> str:
    """Returns the folder that a topic of that name has already, whatever its epoch; "" if none."""
    own = f"{TOPICS}/{folder_of(name)}."
    for folder in folders_of(disk):
        if folder.startswith(own) and not is_unfinished(disk, folder):
            return folder
    return ""


class Rebuilding:
    """See above. Every method blocks.

    What is added comes in the order of offsets, and of times.

    Args:
        disk: the folder of all topics, which no broker uses meanwhile.
        topic: the topic. There is none of its name.

    Attributes:
        folder: where it will be.
        end: the offset after the last one that was added.
        accepted_us: the time of that; 0 before.
        head: the first offset that is on the disk: to stay within `log_bytes`, the oldest go, as
            a broker lets them go (DUR-4).
    """

    def __init__(self, disk: Disk, topic: TopicHeader) -> None:
        self.folder = f"{TOPICS}/{own_folder(topic)}"
        self.end = 0
        self.accepted_us = 0
        self._disk = disk
        self._topic = topic
        self._beside = self.folder + REBUILT
        self._lost: list[OffsetRange] = []
        self._group: list[StoredRecord] = []
        self._size = 0
        remove_folder(disk, self._beside)  # of an attempt that was interrupted
        self._writer = Writer(disk, self._beside, topic, Recovered(topic, new_state(topic)))

    @property
    def head(self) -> int:
        """See above."""
        return self._writer.head

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self._writer.bytes

    def add(self, accepted_us: int, keys: Sequence[bytes], payloads: Sequence[bytes]) -> None:
        """Add messages that were accepted at one time: they get the next offsets.

        Raises:
            DiskFull, StorageFailed: they cannot be written; call `undo`.
        """
        batch = Batch.of_columns(keys, payloads)
        self._put(StoredRecord(self.end, accepted_us, batch.count, batch.data))

    def give_up(self, end: int, accepted_us: int) -> None:
        """Have the next offsets, up to this one, hold nothing, for ever.

        Args:
            end: the offset after them.
            accepted_us: the time up to which messages with those offsets may have been accepted.

        Raises:
            DiskFull, StorageFailed: see `add`.
        """
        self._lost.append((self.end, end))
        while self.end < end:
            count = min(end - self.end, MOST_LOST)
            self._put(StoredRecord(self.end, accepted_us, count, b"", RecordKind.LOST))

    def _put(self, record: StoredRecord) -> None:
        self._group.append(record)
        self._size += record.size
        self.end += record.count
        self.accepted_us = record.accepted_us
        if self._size >= GROUP:
            self._flush()

    def _flush(self) -> None:
        """Write what has gathered, and remove what goes beyond `log_bytes`."""
        if not self._group:
            return
        self._writer.write(self._group)
        self._group = []
        self._size = 0
        self._writer.drop_below(self._writer.excess())

    def finish(self) -> None:
        """Give the topic its name: from now on it is whole.

        Raises:
            DiskFull, StorageFailed: see `add`.
        """
        self._flush()
        topic = self._topic._replace(lost=joined(self._lost, self.head))
        self._disk.replace(f"{self._beside}/{TOPIC_FILE}", topic_file(topic))
        self._writer.save()
        self._disk.rename(self._beside, self.folder)

    def undo(self) -> None:
        """Remove what is there of a topic that is not whole."""
        remove_folder(self._disk, self._beside)
