"""A restore from its beginning to its end: the folder, the bridge that was, Kafka, the topic.

    the folder is locked ──▶ the bridge is fenced ──▶ all committed records ──▶ the topic, whole

A bridge that may still run is *fenced* before anything is read: its transactional id is taken over,
so Kafka aborts what it has begun, and from then on refuses whatever it sends. Otherwise it could
commit messages after this has read, and they would be acknowledged, and not in the topic. What
other programs have open in Kafka's topic is waited for.

Without fencing, the bridge goes on, and so does its broker: what is made is a copy as of now.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from zaichik.apps.replication.committed import Committed
from zaichik.apps.replication.position import CommittedEnd
from zaichik.apps.replication.restoring import SKIP, Restored, Restoring
from zaichik.apps.replication.servers import Servers, Waiting
from zaichik.apps.replication.transactions import Transactions
from zaichik.storage.disk import DiskFull, StorageFailed
from zaichik.storage.store import opened

MOST_BYTES = 1_000_000  # of what is sent together: nothing is

# Called with how many records were read, and how many there are at most.
Tell = Callable[[int, int], None]


def restore_topic(
    folder: Path,
    topic: str,
    servers: Servers,
    kafka_topic: str,
    *,
    skip: int = SKIP,
    pairs: Sequence[tuple[int, int]] = (),
    fences: bool = True,
    stop: threading.Event | None = None,
    tell: Tell = lambda done, most: None,
) -> Restored:
    """Returns what was made: a topic in a folder, of all that is committed in a topic of Kafka.

    Blocks, and waits for a Kafka that is away. However it ends, the folder has all of the topic, or
    nothing.

    Args:
        folder: for `serve --data`.
        topic: the topic's name.
        servers: Kafka's.
        kafka_topic: the topic's name there.
        skip: see `Restoring.finish`.
        pairs: see `Restoring`.
        fences: whether a bridge to that topic is fenced.
        stop: set, from another thread, when this is to stop.
        tell: see `Tell`.

    Raises:
        CannotOpen: the folder cannot be used.
        CannotRestore: it has the topic already, or Kafka has not all of one.
        CannotRead, CannotReplicate: Kafka refuses.
        DiskFull, StorageFailed: there is no room, or the disk has failed.
        Stopped: this was to stop.
    """
    disk, lock = opened(folder)
    try:
        restoring = Restoring(disk, topic, pairs)
        waiting = Waiting(stop or threading.Event(), patience=0)
        with Committed(servers, kafka_topic, waiting) as committed:
            if fences:
                Transactions(servers, kafka_topic, committed.cluster, MOST_BYTES, waiting).begin()
                CommittedEnd(servers, kafka_topic, waiting, frozenset()).wait_for_others()
            try:
                _read(committed, restoring, tell)
                return restoring.finish(skip)
            except BaseException:
                # The next attempt removes what is left.
                with suppress(DiskFull, StorageFailed, OSError):
                    restoring.undo()
                raise
    finally:
        lock.release()


def _read(committed: Committed, restoring: Restoring, tell: Tell) -> None:
    first, end = committed.range()
    done = 0
    for records in committed.each():
        restoring.add(records)
        done += len(records)
        tell(done, end - first)
