"""A topic of any size in bounded memory: divided by key, and each part counted by itself.

Everything that is counted of a message depends on other messages of its key, and on no others. So
what does not fit into memory is written once, into as many temporary files as needed, and read back
one file at a time (a grace hash join does the same). A message without a key depends on none: they
are spread over the files.

Only the messages of one key cannot be divided: if most of a large topic has a single key, all of
that is in memory. And there are at most 64 files, so a topic of more than some thirty times the
memory takes more of it.
"""

import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from zaichik.apps.statistics.chain import numbered
from zaichik.apps.statistics.events import SCHEMA

# of memory while an event is counted, besides its key (which is there twice at most); measured
EVENT_BYTES = 220
MOST_FILES = 64  # that are written at the same time
ROWS_AT_ONCE = 1 << 16  # that are divided together: small batches would make very many small pieces
SPREAD = 2  # times as many files as would be enough if keys were equally frequent


def parts(batches: Iterable[pa.RecordBatch], rows: int, memory: int) -> Iterator[pa.Table]:
    """Returns the events in tables, each with all messages of its keys, in their order.

    Args:
        batches: of `SCHEMA`, in the order of positions.
        rows: about how many events they have.
        memory: about how many bytes counting may use; more if a single key needs more.
    """
    gathered = _gathered(batches)
    first = next(gathered, None)
    if first is None:
        return
    whole = chain([first], gathered)
    count = -(-rows * (EVENT_BYTES + 2 * first.column("key").nbytes // len(first)) // memory)
    if count <= 1:
        yield pa.concat_tables(whole)
        return
    with tempfile.TemporaryDirectory(prefix="zaichik-stats-") as folder:
        files = [
            Path(folder) / f"{number}.arrow" for number in range(min(SPREAD * count, MOST_FILES))
        ]
        _divide(whole, files)
        for file in files:
            with pa.memory_map(str(file)) as source:
                table = pa.ipc.open_file(source).read_all()
            if len(table):
                yield table
            file.unlink()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches in tables of this many rows or more, none of them empty."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting, SCHEMA)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting, SCHEMA)


def _divide(tables: Iterable[pa.Table], files: list[Path]) -> None:
    """Writes each event into the file of its key."""
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_file(str(file), SCHEMA)) for file in files]
        for table in tables:
            keys, key = numbered(table.column("key"))
            of_key = np.array(
                [zlib.crc32(one) % len(files) for one in keys.to_pylist()] + [0], np.int64
            )
            place = of_key[key]
            without = key == len(keys)
            place[without] = table.column("position").to_numpy()[without] % len(files)
            order = np.argsort(place, kind="stable")
            edges = np.searchsorted(place[order], np.arange(len(files) + 1))
            divided = table.take(pa.array(order))
            for writer, (start, end) in zip(writers, pairwise(edges), strict=True):
                if start < end:
                    writer.write_table(divided.slice(start, end - start))
