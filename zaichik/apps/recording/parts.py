"""A recording's files: their columns, their names, and the marks of files that are not complete."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from zaichik import ZaichikError

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
SETTINGS_KEY, LAYOUT_KEY = b"zaichik.settings", b"zaichik.layout"  # in a file's metadata
LAYOUT = 1
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
    def of(cls, path: Path) -> "Part":
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


def parquet_writer(path: Path, metadata: dict[bytes, bytes]) -> pq.ParquetWriter:
    """Returns a Parquet file to write, with that metadata."""
    # Offsets nearly count up, so their differences take hardly any room.
    encoding = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
    return pq.ParquetWriter(
        path,
        SCHEMA.with_metadata(metadata),
        compression="zstd",
        use_dictionary=["key"],
        column_encoding=encoding,
    )
