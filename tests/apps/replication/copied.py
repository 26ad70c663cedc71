"""What a bridge has copied of a topic to Kafka, without either: records that look like Kafka's."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from zaichik.apps.replication import record
from zaichik.apps.replication.restoring import SKIP, Restored, Restoring
from zaichik.client.messages import Lagged, Message
from zaichik.storage.disk import PosixDisk

SETTINGS = {"retention_ttl_ms": 2**64 - 1, "durable": 1, "log_bytes": 2**24}


class Copy:
    """A record as confluent-kafka has it."""

    def __init__(self, place, headers, key=None, value=b""):
        self._place = place
        self._headers = headers
        self._key = key
        self._value = value

    def headers(self):
        return self._headers

    def key(self):
        return self._key

    def value(self):
        return self._value

    def offset(self):
        return self._place


def message(offset, at_us=None, key=None, payload=None, epoch=7, settings=None):
    """The record of a message, by default one of its own for each offset."""
    headers = [
        record.epoch_field(epoch),
        record.time_field(1000 + offset if at_us is None else at_us),
        record.offset_field(offset),
    ]
    if settings is not None:
        headers.append(record.settings_field(settings))
    return Copy(3 * offset, headers, key, b"%d" % offset if payload is None else payload)


def gap(start, end, at_us=None, epoch=7, settings=None):
    """The record of a gap."""
    told = message(start, at_us, None, b"", epoch, settings)
    told.headers().append(record.gap_field(end))
    return told


def copied(items: Iterable[Message | Lagged], epoch: int, settings: dict[str, int]) -> list[Copy]:
    """What a bridge makes of what it reads: the first record has the settings."""
    records: list[Copy] = []
    at_us = epoch
    for item in items:
        first = None if records else settings
        if isinstance(item, Lagged):
            records.append(gap(item.start, item.end, at_us, epoch, first))
            continue
        at_us = round(item.timestamp * 1_000_000)
        records.append(message(item.offset, at_us, item.key, item.payload, epoch, first))
    return records


def restored(
    folder: Path, records: Sequence[Copy], topic: str = "orders", skip: int = SKIP, pairs=()
) -> Restored:
    """Restore a topic from these records into a folder."""
    (folder / "topics").mkdir(parents=True, exist_ok=True)
    restoring = Restoring(PosixDisk(folder), topic, pairs)
    try:
        # Kafka returns them in lists, which begin and end anywhere.
        for start in range(0, len(records), 7):
            restoring.add(records[start : start + 7])
        return restoring.finish(skip)
    except BaseException:
        restoring.undo()
        raise
