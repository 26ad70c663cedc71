"""A recording's files: their columns, their names, and the marks of files that are not complete."""

import os
from dataclasses import dataclass
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from zaichik import ZaichikError
from zaichik.base.calendar_time import calendar_time
from zaichik.base.clock import DAY_US

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
FILE_SCHEMA = SCHEMA.append(pa.field("epoch", pa.int64(), nullable=False))
"""Of files: with the epoch in each row, tools that do not know file names can tell topics apart."""
SETTINGS_KEY, LAYOUT_KEY = b"zaichik.settings", b"zaichik.layout"  # in a file's metadata
LAYOUT = 2  # layout 1 had no column epoch
FILE_MESSAGES = (
    1_000_000  # in one file: at most a few hundred MB, and all that a killed recorder has to repeat
)
GROUP_BYTES = 32 * 1024 * 1024  # gathered in memory, then written together
READ_BYTES, MOST_ROWS = 16 * 1024 * 1024, 1 << 16  # that are read at once
LARGE_BYTES = 64 * 1024 * 1024  # of a file that is not merged any more
UNFINISHED, MERGING = ".unfinished.parquet", ".merging.parquet"  # of a file that is being written


class CannotRecord(ZaichikError):
    """The folder is in use, has a file that is not a recording's, or cannot be written to."""


@dataclass(frozen=True, order=True, slots=True)
class Part:
    """The meaning of a file's name: offsets `start` up to `end` of the topic with that epoch."""

    epoch: int
    start: int
    end: int

    @classmethod
    def of(cls, path: PurePath) -> "Part":
        """Parses a file's name.

        Raises:
            CannotRecord: it is not the name of a part.
        """
        try:
            epoch, start, end = map(int, path.stem.split("-"))
        except ValueError:
            raise CannotRecord(
                f"{path} is not part of a recording: its name must be EPOCH-START-END.parquet"
            ) from None
        return cls(epoch, start, end)


def rows_at_once(metadata: pq.FileMetaData) -> int:
    """How many rows of a file to read at once, so that they take some ten MB of memory."""
    size = sum(
        metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)
    )
    return max(1, min(MOST_ROWS, READ_BYTES * int(metadata.num_rows) // max(int(size), 1)))


def parquet_writer(where: Path | pa.NativeFile, metadata: dict[bytes, bytes]) -> pq.ParquetWriter:
    """Returns a Parquet file to write there, with that metadata."""
    # Offsets nearly count up, so their differences take hardly any room.
    encoding = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
    return pq.ParquetWriter(
        # Arrow takes a relative path for a URL if its first folder has a colon in its name.
        where.absolute() if isinstance(where, Path) else where,
        FILE_SCHEMA.with_metadata(metadata),
        compression="zstd",
        use_dictionary=["key", "epoch"],
        column_encoding=encoding,
    )


def with_epoch(rows: pa.RecordBatch, epoch: int) -> pa.RecordBatch:
    """Returns rows of a file with the columns of `FILE_SCHEMA`, which those of layout 1 lack."""
    if "epoch" not in rows.schema.names:
        rows = rows.append_column("epoch", pa.repeat(pa.scalar(epoch, pa.int64()), len(rows)))
    return rows.select(FILE_SCHEMA.names)


def day_name(day: int) -> str:
    """Returns the date of the day that many days after 1970-01-01.

    If no calendar has it, that is the number: the clock of a broker may be wrong, and what it has
    accepted then is worth as much.
    """
    moment = calendar_time(day * DAY_US)
    if moment is None:
        return str(day)
    return moment.date().isoformat()


def sync_folder(folder: Path) -> None:
    """Have the disk keep the names in a folder, through a power cut, as they are now."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_with_parents(folder: Path) -> None:
    """Have the disk keep the names in a folder, and the folder itself.

    A parent that this user may not open was made by somebody else, and so was all above it.
    """
    sync_folder(folder)
    for parent in folder.absolute().parents:
        try:
            sync_folder(parent)
        except PermissionError:
            return
