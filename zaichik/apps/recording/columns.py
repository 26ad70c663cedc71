"""From the wire to Arrow without copies: a batch's bytes already hold its two columns.

    count u32 | key offsets i32[count + 1] | payload offsets i32[count + 1] | keys | payloads

An Arrow array of binary strings is a buffer of offsets and a buffer of bytes. Both are slices of
the frame; there is no Python object for a message. Only a validity bit for each message (the wire's
empty key is Arrow's null) and the columns that are the same for a whole batch are new.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zaichik.apps.recording.parts import FILE_SCHEMA, SCHEMA
from zaichik_protocol import Batch, Messages

_OFFSET = 4  # bytes, of the count and of each offset


def keys(batch: Batch) -> pa.Array:
    """A batch's keys, null where a message has none."""
    offsets = np.frombuffer(batch.data, "<i4", batch.count + 1, _OFFSET)
    has_key = offsets[1:] != offsets[:-1]
    valid = None if has_key.all() else pa.py_buffer(np.packbits(has_key, bitorder="little"))
    data = pa.py_buffer(batch.data)
    start = _OFFSET * (1 + 2 * (batch.count + 1))
    return pa.Array.from_buffers(
        pa.binary(), batch.count, [valid, data.slice(_OFFSET), data.slice(start, batch.key_size)]
    )


def payloads(batch: Batch) -> pa.Array:
    """A batch's payloads."""
    data = pa.py_buffer(batch.data)
    offsets = data.slice(_OFFSET * (1 + batch.count + 1))
    start = _OFFSET * (1 + 2 * (batch.count + 1)) + batch.key_size
    return pa.Array.from_buffers(pa.binary(), batch.count, [None, offsets, data.slice(start)])


def _counts(frames: Sequence[Messages]) -> list[int]:
    return [frame.batch.count for frame in frames]


def _offsets(frames: Sequence[Messages]) -> pa.Array:
    deltas = (
        np.array(frame.deltas, np.int64)
        if frame.holes
        else np.arange(frame.batch.count, dtype=np.int64)
        for frame in frames
    )
    return pa.array(
        np.concatenate([frame.base + delta for frame, delta in zip(frames, deltas, strict=True)])
    )


def _accepted_us(frames: Sequence[Messages]) -> pa.Array:
    return pa.array(
        np.repeat(np.array([frame.accepted_us for frame in frames], np.int64), _counts(frames))
    )


def _sizes(frames: Sequence[Messages]) -> pa.Array:
    batches = [frame.batch for frame in frames]
    offsets = [
        np.frombuffer(batch.data, "<i4", batch.count + 1, _OFFSET * (batch.count + 2))
        for batch in batches
    ]
    return pa.array(np.concatenate([np.diff(of_batch) for of_batch in offsets]).astype(np.int64))


def _deleted(frames: Sequence[Messages]) -> pa.Array:
    has_key = pa.concat_arrays([keys(frame.batch).is_valid() for frame in frames])
    return pc.and_(has_key, pc.equal(_sizes(frames), 0))


COLUMNS: dict[str, Callable[[Sequence[Messages]], pa.Array]] = {
    "offset": _offsets,
    "timestamp": lambda frames: _accepted_us(frames).cast(pa.timestamp("us", "UTC")),
    "key": lambda frames: pa.concat_arrays([keys(frame.batch) for frame in frames]),
    "payload": lambda frames: pa.concat_arrays([payloads(frame.batch) for frame in frames]),
    "size": _sizes,
    "accepted_us": _accepted_us,
    "deleted": _deleted,
}
"""The columns of some frames, at least one, by name.

`size` is the number of the payload's bytes, `accepted_us` the timestamp as a plain integer,
`deleted` whether the message is a tombstone, if the topic is a table.
"""


def file_rows(frames: Sequence[Messages], epoch: int) -> pa.RecordBatch:
    """Returns the messages of some frames as a file has them, with the epoch of their topic."""
    columns = [COLUMNS[name](frames) for name in SCHEMA.names]
    columns.append(pa.repeat(pa.scalar(epoch, pa.int64()), count(frames)))
    return pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)


def count(frames: Sequence[Messages]) -> int:
    """Returns the number of messages in the frames."""
    return sum(_counts(frames))
