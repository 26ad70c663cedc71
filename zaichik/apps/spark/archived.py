"""`option("archive", "s3://lake/zaichik")`: a topic's recording and the topic itself as one table.

    recording       ├──────────────┤├──────┤
    broker                            ├──────────────▶
    read from           recording       │   broker

Offsets that the recording has come from there, all others from the broker. Both are of one epoch:
the one that the topic has now. What neither has, a hole, is an error, as messages that are gone
are; with `onLag=skip` it is left out. (Holes of a table are none: a file covers those before its
messages.)

Workers read Parquet with Arrow. So an object store needs no Hadoop, and its credentials are those
that Arrow finds where a worker runs.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from zaichik import Lagged
from zaichik.apps.recording.parts import SCHEMA, rows_at_once
from zaichik.apps.recording.pieces import Piece, pieces_of
from zaichik.apps.recording.places import Place
from zaichik.apps.recording.stores import Store, explained
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.errors import without_traceback
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import (
    CannotRead,
    Range,
    lost,
    position,
    read_range,
    state_of,
    whole,
)
from zaichik.client.client import RECONNECT_SECONDS
from zaichik.client.messages import StartAt, start_at

logger = logging.getLogger("zaichik.spark.archived")

ATTEMPTS = 3  # to find what a recorder has merged meanwhile


@dataclass(frozen=True)
class RecordedRange(Range):
    """What one task reads of a recording.

    Attributes:
        where: the recording's place.
        pieces: what to read, in order and without a hole.
    """

    where: Place = ""
    pieces: tuple[Piece, ...] = ()

    def split(self, parts: int | None) -> list[Range]:
        """See `Range`. A task gets the names of its own objects only."""
        return [
            replace(
                self,
                start=part.start,
                end=part.end,
                pieces=tuple(within(self.pieces, part.start, part.end)),
            )
            for part in super().split(parts)
        ]


def within(pieces: Sequence[Piece], start: int, end: int) -> list[Piece]:
    """Returns those that have some of the offsets from `start` to `end - 1`."""
    return [piece for piece in pieces if piece.start < end and start < piece.end]


def covers(pieces: Sequence[Piece], start: int, end: int) -> bool:
    """Returns whether they have all offsets from `start` to `end - 1`."""
    for piece in within(pieces, start, end):
        if piece.start > start:
            return False
        start = piece.end
    return start >= end


def ranges(
    options: Options,
    recorded: Sequence[Piece],
    state: Mapping[str, Any],
    start: int,
    end: int,
    known_below: int = 0,
) -> list[Range]:
    """Returns these offsets of a topic as ranges of its recording, and of the broker.

    Args:
        options: the recording's place, and what to do about lag.
        recorded: what it has of the topic's epoch.
        state: what the broker says about the topic.
        start: the first offset.
        end: the offset after the last one.
        known_below: see `Range`.

    Raises:
        CannotRead: neither has some of them, and `onLag` is fail.
    """
    where, on_lag = options.archive, options.on_lag
    if where is None:
        return [whole(state, start, end, on_lag, known_below)]
    found: list[Range] = []
    # Everything below has been found.
    reached = start
    run: list[Piece] = []
    for piece in within(recorded, start, end):
        if run and piece.start > run[-1].end:
            found.append(_of_recording(where, run, state, start, end))
            reached = run[-1].end
            run = []
        if not run and piece.start > reached:
            found.append(_of_broker(state, reached, piece.start, on_lag, known_below))
        run.append(piece)
    if run:
        found.append(_of_recording(where, run, state, start, end))
        reached = run[-1].end
    if reached < end or not found:
        found.append(_of_broker(state, min(reached, end), end, on_lag, known_below))
    return found


def _of_recording(
    where: Place, run: Sequence[Piece], state: Mapping[str, Any], start: int, end: int
) -> RecordedRange:
    return RecordedRange(
        topic=state["name"],
        epoch=int(state["epoch"]),
        start=max(start, run[0].start),
        end=min(end, run[-1].end),
        where=where,
        pieces=tuple(run),
    )


def _of_broker(
    state: Mapping[str, Any], start: int, end: int, on_lag: str, known_below: int
) -> Range:
    first = min(int(state["head"]), end)
    if start < first and on_lag == "fail":
        raise lost(Lagged(state["name"], start, first), "the archive has none of them, and ")
    return whole(state, start, end, on_lag, known_below)


def read_recorded(
    wanted: RecordedRange, schema: StructType, on_lag: str
) -> Iterator[pa.RecordBatch]:
    """The messages of a range of a recording as record batches.

    Raises:
        CannotRead: an object has gone since this was planned, and no other has what was in it.
        StoreUnavailable: the store cannot be used.
    """
    store = Store.at(wanted.where)
    left = list(wanted.pieces)
    reached, attempts = wanted.start, 0
    while left and reached < wanted.end:
        piece = left.pop(0)
        piece = replace(piece, start=max(piece.start, reached), end=min(piece.end, wanted.end))
        try:
            for rows in _rows(store, piece):
                yield _with_columns(rows, wanted.topic, schema)
                reached = rows["offset"][-1].as_py() + 1
            reached = piece.end
        except FileNotFoundError:
            # A recorder merges small files of a folder; of a bucket, somebody has deleted it.
            attempts += 1
            left = within(pieces_of(store, wanted.topic, wanted.epoch), reached, wanted.end)
            first = left[0].start if left else wanted.end
            if first > reached or attempts > ATTEMPTS:
                _leave(Lagged(wanted.topic, reached, max(first, reached + 1)), on_lag)


def _leave(gone: Lagged, on_lag: str) -> None:
    if on_lag == "fail":
        raise lost(gone, "the archive had them when this was planned, ")
    logger.warning(
        "%s: messages have gone from the archive and are left out (offsets %d to %d)",
        gone.topic, gone.start, gone.end - 1,
    )  # fmt: skip


def _rows(store: Store, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows of a piece, at least one at a time.

    Raises:
        FileNotFoundError: the object has gone.
        CannotRead: it is none of a recording's.
        StoreUnavailable: it cannot be read.
    """
    with store.opened(piece.path) as file, explained(store.shown(piece.path)):
        source = pq.ParquetFile(file)
        if source.schema_arrow.names[: len(SCHEMA)] != SCHEMA.names:
            raise CannotRead(
                f"{store.shown(piece.path)} is not part of a recording: its columns must begin "
                f"with {', '.join(SCHEMA.names)}"
            )
        groups = [
            number
            for number in range(source.num_row_groups)
            if _may_have(source.metadata.row_group(number), piece)
        ]
        batches = source.iter_batches(
            rows_at_once(source.metadata), row_groups=groups, columns=SCHEMA.names
        )
        for batch in batches:
            offsets = batch.column("offset")
            is_wanted = pc.and_(pc.greater_equal(offsets, piece.start), pc.less(offsets, piece.end))
            rows = batch.filter(is_wanted)
            if len(rows):
                yield rows


def _may_have(group: Any, piece: Piece) -> bool:
    """Whether some rows of a group may be wanted, by what its metadata says about offsets."""
    statistics = group.column(SCHEMA.names.index("offset")).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min < piece.end and piece.start <= statistics.max)


def _with_columns(rows: pa.RecordBatch, topic: str, schema: StructType) -> pa.RecordBatch:
    """Returns rows of a file as the columns that a schema names; see `columns.record_batch`."""
    sizes = pc.cast(pc.binary_length(rows.column("payload")), pa.int64())
    made = {name: rows.column(name) for name in SCHEMA.names}
    made["topic"] = pa.repeat(topic, len(rows))
    made["size"] = sizes
    made["accepted_us"] = rows.column("timestamp").cast(pa.int64())
    made["deleted"] = pc.and_(rows.column("key").is_valid(), pc.equal(sizes, 0))
    columns = [made[name] for name in schema.fieldNames()]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(schema, timezone="UTC"))


def recorded_of(client: AnyClient, options: Options, state: Mapping[str, Any]) -> list[Piece]:
    """Returns what the option `archive` has of a topic's epoch.

    Raises:
        CannotRead: it has more than the topic.
        StoreUnavailable: it cannot be listed.
        CannotRecord: it has objects that are not part of a recording.
    """
    if options.archive is None:
        return []
    topic, epoch = state["name"], int(state["epoch"])
    recorded = pieces_of(Store.at(options.archive), topic, epoch)
    end = recorded[-1].end if recorded else 0
    if end > state["next_offset"]:
        # What was published since may be recorded already.
        live = state_of(client, topic, epoch)["next_offset"]
        if end > live:
            raise CannotRead(
                f"{topic} ends before offset {live}, and its archive has it up to {end}: an older "
                "copy of the topic was restored, so offsets do not mean the same in both. Read "
                "what was archived from its files, and the topic without the option archive"
            )
    return recorded


def position_in(
    client: AnyClient,
    state: Mapping[str, Any],
    at: StartAt,
    options: Options,
    recorded: Sequence[Piece],
) -> int:
    """The offset that a start or end means in a topic and its recording.

    Raises:
        CannotRead: it is beyond the topic's end.
        StoreUnavailable: the recording cannot be read.
    """
    there = position(client, state, at)
    if options.archive is None or not recorded:
        return there
    if at == "earliest":
        return min(there, recorded[0].start)
    if isinstance(at, datetime):
        found = _offset_at(Store.at(options.archive), recorded, start_at(at)[1])
        return there if found is None else found
    return there


def _offset_at(store: Store, recorded: Sequence[Piece], us: int) -> int | None:
    """Returns the first offset that was accepted then or later; None if none was.

    Timestamps never decrease within a topic, so few of its objects are looked into.
    """
    low, high = 0, len(recorded)
    found = None
    while low < high:
        middle = (low + high) // 2
        offset = _first_since(store, recorded[middle], us)
        if offset is None:
            low = middle + 1
        else:
            high = middle
            found = offset
    return found


def _first_since(store: Store, piece: Piece, us: int) -> int | None:
    with explained(store.shown(piece.path)), store.opened(piece.path) as file:
        rows = pq.ParquetFile(file).read(["offset", "timestamp"])
    later = rows.filter(pc.greater_equal(rows["timestamp"].cast(pa.int64()), us))
    if not len(later):
        return None
    return max(piece.start, int(later["offset"][0].as_py()))


def read(
    wanted: Range, options: Options, schema: StructType, *, reconnect: float = RECONNECT_SECONDS
) -> Iterator[pa.RecordBatch]:
    """The messages of a range, of a recording or of the broker; see `reading.read_range`."""
    if not isinstance(wanted, RecordedRange):
        yield from read_range(wanted, options, schema, reconnect=reconnect)
        return
    with without_traceback():
        yield from read_recorded(wanted, schema, options.on_lag)
