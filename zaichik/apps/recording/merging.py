"""Merges a recorded topic's many small files of a day into few.

A topic that is followed has a new file every half minute.

The order of steps keeps a recording whole, however a recorder ends. The merged file appears
complete, under the name that says how far it reaches; only then are those that it was made of
deleted. If that is interrupted, some files are *covered*: what they hold is in another one, too.
Their names show it; `uncovered` leaves such files out, and the next recorder deletes them.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from zaichik.apps.recording.parts import (
    FILE_MESSAGES,
    LARGE_BYTES,
    LAYOUT,
    LAYOUT_KEY,
    MERGING,
    Part,
    parquet_writer,
    rows_at_once,
    sync_folder,
    with_epoch,
)

FEWEST = 16  # files that are worth merging: each time, the largest of them is written again

logger = logging.getLogger("zaichik.recording.merging")


def uncovered(files: Iterable[Path]) -> list[Path]:
    """Returns the files whose messages are in no other file, in the order of their messages."""
    kept: list[Path] = []
    for file in sorted(
        files, key=lambda file: (Part.of(file).epoch, Part.of(file).start, -Part.of(file).end)
    ):
        part, last = Part.of(file), Part.of(kept[-1]) if kept else None
        if last is None or part.epoch != last.epoch or part.end > last.end:
            kept.append(file)
    return kept


def merge(topic: Path) -> None:
    """Merge the files of each day in a topic's folder, and delete those that are covered.

    Files are merged as long as their messages follow each other without a gap, and there are not
    too many of them.
    """
    for day in sorted(topic.glob("day=*")):
        files = list(day.glob("[!.]*.parquet"))
        kept = uncovered(files)
        covered = set(files) - set(kept)
        if covered and all(map(_is_whole, kept)):
            for file in covered:
                file.unlink()
        for group in _groups(kept):
            if len(group) >= FEWEST:
                try:
                    _join(group)
                except (pa.ArrowException, OSError) as error:
                    logger.warning(
                        "%s: small files stay as they are, for they cannot be merged (%s)",
                        day,
                        error,
                    )
                    (day / MERGING).unlink(missing_ok=True)


def _is_whole(file: Path) -> bool:
    """Returns whether a file can be read to its end, where its metadata is.

    A file that somebody has copied into the folder, and not all of it, has its whole name.
    """
    try:
        pq.read_metadata(file)
    except (pa.ArrowException, OSError) as error:
        logger.warning("%s: files that it covers are kept, for it is damaged (%s)", file, error)
        return False
    return True


def _groups(files: list[Path]) -> Iterator[list[Path]]:
    """Cuts files, in order, into groups that can be one file each. A large file stays as it is."""
    number, begin, before = 0, 0, Part(-1, 0, 0)
    numbers = []
    for file in files:
        part, is_large = Part.of(file), file.stat().st_size > LARGE_BYTES
        if (
            (part.epoch, part.start) != (before.epoch, before.end)
            or part.end - begin > FILE_MESSAGES
            or is_large
        ):
            number, begin = number + 1, part.start
        before = Part(-1, 0, 0) if is_large else part
        numbers.append(number)
    for _, group in groupby(zip(numbers, files, strict=True), key=lambda one: one[0]):
        yield [file for _, file in group]


def _join(files: list[Path]) -> None:
    first, last = Part.of(files[0]), Part.of(files[-1])
    unfinished = files[0].parent / MERGING
    with parquet_writer(unfinished, _metadata(files[-1])) as writer:
        for file in files:
            with pq.ParquetFile(file) as source:
                for batch in source.iter_batches(rows_at_once(source.metadata)):
                    writer.write_batch(with_epoch(batch, first.epoch).cast(writer.schema))
    with unfinished.open("rb") as whole:
        os.fsync(whole.fileno())
    unfinished.replace(files[0].with_name(f"{first.epoch}-{first.start}-{last.end}.parquet"))
    # Or else a power cut might undo the renaming, and not the deleting.
    sync_folder(files[0].parent)
    for file in files:
        file.unlink()


def _metadata(file: Path) -> dict[bytes, bytes]:
    """Returns a file's metadata, for one that has all columns."""
    metadata: dict[bytes, bytes] = dict(pq.read_schema(file).metadata or {})
    return metadata | {LAYOUT_KEY: b"%d" % LAYOUT}
