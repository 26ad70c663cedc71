"""A topic of any size in bounded memory: its events are divided by key, and each part is counted by itself.

Everything that is counted of a message depends on other messages of its key, and on no others. So what does not fit
into memory is written once, into as many temporary files as needed, and read back one file at a time (a grace hash join
does the same). A message without a key depends on none: they are spread over the files.

Only the messages of one key cannot be divided: if most of a large topic has a single key, all of that is in memory. And
there are at most 256 files, so a topic of more than some hundred times the memory takes more of it.
"""

import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from zaichik.statistics.chain import numbered
from zaichik.statistics.events import SCHEMA

EVENT_BYTES = 220  # of memory while an event is counted, its key included; measured, see docs/statistics.md
MOST_FILES = 256  # that are written at the same time
SPREAD = 2  # times as many files as would do if keys were equally frequent


def parts(batches: Iterable[pa.RecordBatch], rows: int, memory: int) -> Iterator[pa.Table]:
    """Returns the events in tables, each with all messages of its keys, and those of a key in their order.

    Args:
        batches: of `SCHEMA`, in the order of positions.
        rows: about how many events they have.
        memory: about how many bytes counting may use; more if a single key needs more.
    """
    count = -(-rows * EVENT_BYTES // memory)
    if count <= 1:
        yield pa.Table.from_batches(batches, SCHEMA)
        return
    with tempfile.TemporaryDirectory(prefix="zaichik-stats-") as folder:
        files = [Path(folder) / f"{number}.arrow" for number in range(min(SPREAD * count, MOST_FILES))]
        _divide(batches, files)
        for file in files:
            with pa.memory_map(str(file)) as source:
                table = pa.ipc.open_file(source).read_all()
            if len(table):
                yield table
            file.unlink()


def _divide(batches: Iterable[pa.RecordBatch], files: list[Path]) -> None:
    """Writes each event into the file of its key."""
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_file(str(file), SCHEMA)) for file in files]
        for batch in batches:
            table = pa.Table.from_batches([batch])
            keys, key = numbered(table.column("key"))
            of_key = np.array([zlib.crc32(one) % len(files) for one in keys.to_pylist()] + [0], np.int64)
            place = of_key[key]
            without = key == len(keys)
            place[without] = batch.column("position").to_numpy()[without] % len(files)
            order = np.argsort(place, kind="stable")
            edges = np.searchsorted(place[order], np.arange(len(files) + 1))
            table = table.take(pa.array(order))
            for writer, (start, end) in zip(writers, pairwise(edges), strict=True):
                if start < end:
                    writer.write_table(table.slice(start, end - start))
