"""Merges a recorded topic's many small files of a day into few: a followed topic has a new one every half minute.

The order of steps keeps a recording whole, however a recorder ends. The merged file appears complete, under the name
that says how far it reaches; only then do those that it was made of go. If that is interrupted, some files are
*covered*: what they hold is in another one, too. Names show it; `uncovered` leaves such files out, and the next
recorder deletes them.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq

from zaichik.recording.parts import FILE_MESSAGES, MERGING, Part, parquet_writer

FEWEST = 16  # files that are worth merging: each time, the largest of them is written anew
ROWS_AT_ONCE = 1 << 16


def uncovered(files: Iterable[Path]) -> list[Path]:
    """Returns the files whose messages are in no other one, in the order of their messages."""
    kept: list[Path] = []
    for file in sorted(files, key=lambda file: (Part.of(file).epoch, Part.of(file).start, -Part.of(file).end)):
        part, last = Part.of(file), Part.of(kept[-1]) if kept else None
        if last is None or part.epoch != last.epoch or part.end > last.end:
            kept.append(file)
    return kept


def merge(topic: Path) -> None:
    """Merge the files of each day in a topic's folder, and delete those that are covered.

    Files are merged as long as their messages follow each other without a gap, and there are not too many of them.
    """
    for day in sorted(topic.glob("day=*")):
        files = list(day.glob("[!.]*.parquet"))
        kept = uncovered(files)
        for file in set(files) - set(kept):
            file.unlink()
        for group in _groups(kept):
            if len(group) >= FEWEST:
                _join(group)


def _groups(files: list[Path]) -> Iterator[list[Path]]:
    """Cuts files, in order, into groups that can be one file each."""
    number, begin, before = 0, 0, Part(-1, 0, 0)
    numbers = []
    for part in map(Part.of, files):
        if (part.epoch, part.start) != (before.epoch, before.end) or part.end - begin > FILE_MESSAGES:
            number, begin = number + 1, part.start
        before = part
        numbers.append(number)
    for _, group in groupby(zip(numbers, files, strict=True), key=lambda one: one[0]):
        yield [file for _, file in group]


def _join(files: list[Path]) -> None:
    first, last = Part.of(files[0]), Part.of(files[-1])
    unfinished = files[0].parent / MERGING
    with parquet_writer(unfinished, dict(pq.read_schema(files[-1]).metadata)) as writer:
        for file in files:
            with pq.ParquetFile(file) as source:
                for batch in source.iter_batches(ROWS_AT_ONCE):
                    writer.write_batch(batch.cast(writer.schema))
    with unfinished.open("rb") as whole:
        os.fsync(whole.fileno())
    unfinished.replace(files[0].with_name(f"{first.epoch}-{first.start}-{last.end}.parquet"))
    for file in files:
        file.unlink()
