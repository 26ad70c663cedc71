"""Batches of records: those of real producers, and those that nobody should send."""

import gzip
import struct
import sys
from contextlib import suppress

import pytest
from batches import GZIP, WORDS, batch, record, recorded_records
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from zaichik.apps.kafka import compression, records
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.compression import BadBatch
from zaichik.apps.kafka.records import Produced, pack, unpack


def rows_of(data: bytes) -> list:
    return unpack(data).rows


# -- as recorded ---------------------------------------------------------------------------------


def test_kcat_writes_keys_nulls_and_headers():
    produced = unpack(recorded_records("kcat_write"))
    assert produced == Produced(
        -1, -1, -1, [(b"k1", b"one"), (None, b"two"), (b"k3", b"three")], headers=6, size=57
    )


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_kcat_compresses(codec):
    pytest.importorskip("pyarrow")
    assert rows_of(recorded_records(f"kcat_{codec}")) == 30 * [(b"k1", WORDS)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_java_is_idempotent_and_compresses(codec):
    pytest.importorskip("pyarrow")
    produced = unpack(recorded_records(f"java_{codec}"))
    assert produced.rows == 30 * [(None, WORDS)]
    assert (produced.producer >= 0, produced.epoch, produced.sequence) == (True, 0, 0)


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_without_pyarrow_other_compression_than_gzip_is_refused(codec, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadBatch) as caught:
        unpack(recorded_records(f"java_{codec}"))
    assert caught.value.code is Code.UNSUPPORTED_COMPRESSION_TYPE
    assert rows_of(recorded_records("java_gzip")) == 30 * [(None, WORDS)]


# -- what consumers get --------------------------------------------------------------------------


@pytest.mark.parametrize("deltas", [(0, 1, 2), (0, 70, 100_000)])
def test_consumers_read_what_is_packed(deltas):
    """Read by another implementation, which checks the checksum when it is asked to."""
    rows = [(b"k", b"one"), (None, b""), (b"k" * 1000, None)]
    packed = pack(5, deltas, 1_700_000_000_123, rows)
    (read,) = list(_batches(packed))
    assert read.validate_crc()
    records = list(read)
    assert [(r.key, r.value) for r in records] == rows
    assert [r.offset for r in records] == [5 + delta for delta in deltas]
    assert {(r.timestamp, r.timestamp_type) for r in records} == {(1_700_000_000_123, 1)}
    assert read.next_offset == 5 + deltas[-1] + 1


def _batches(packed):
    records = MemoryRecords(packed)
    while (found := records.next_batch()) is not None:
        yield found


@given(
    st.lists(
        st.tuples(st.none() | st.binary(min_size=1, max_size=200), st.none() | st.binary()),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_packed_can_be_unpacked(rows):
    assert rows_of(pack(0, range(len(rows)), 0, rows)) == rows


# -- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kcat_write", "kcat_gzip", "kcat_zstd", "java_snappy"])
def test_a_batch_that_is_cut_anywhere_is_refused(name):
    data = recorded_records(name)
    for end in range(1, len(data)):
        with pytest.raises(BadBatch):
            unpack(data[:end])


def test_a_changed_byte_is_refused():
    """Those before the checksum's part are the offset, the length, an epoch, the format."""
    data = recorded_records("kcat_write")
    for at in range(17, len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x10
        with pytest.raises(BadBatch) as caught:
            unpack(bytes(changed))
        assert caught.value.code is Code.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_refused(magic):
    with pytest.raises(BadBatch) as caught:
        unpack(batch((None, b"1"), magic=magic))
    assert caught.value.code is Code.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (batch((b"", b"1")), Code.INVALID_RECORD),
        (batch((b"k", b"1"), attributes=0x10), Code.INVALID_REQUEST),
        (batch((b"k", b"1"), attributes=0x20), Code.INVALID_REQUEST),
        (batch((b"k", b"1"), attributes=5), Code.UNSUPPORTED_COMPRESSION_TYPE),
        (batch((b"k", b"1"), count=2), Code.CORRUPT_MESSAGE),
        (batch((b"k", b"1"), count=2**31 - 1), Code.MESSAGE_TOO_LARGE),
        (batch((b"k", b"1"), (b"k", b"2"), count=1), Code.CORRUPT_MESSAGE),
        (batch(count=-1, body=b""), Code.CORRUPT_MESSAGE),
        (batch(count=1, body=b"\xff" * 20), Code.CORRUPT_MESSAGE),
        (batch(count=1, body=b"\x08\0\0\0\x7e"), Code.CORRUPT_MESSAGE),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(bad, code):
    with pytest.raises(BadBatch) as caught:
        unpack(bad)
    assert caught.value.code is code


def test_a_partition_has_exactly_one_batch():
    """Each may unpack to a thousand times its size: several would have no bound together."""
    one = batch((None, b"1"))
    for data in (b"", one + one):
        with pytest.raises(BadBatch) as caught:
            unpack(data)
        assert caught.value.code is Code.INVALID_RECORD


def test_more_records_than_a_batch_may_have_are_refused_before_they_are_unpacked(monkeypatch):
    monkeypatch.setattr(records, "MAX_RECORDS", 2)
    rows = [(None, b"1")] * 3
    assert len(rows_of(batch(*rows[:2]))) == 2
    with pytest.raises(BadBatch) as caught:
        unpack(batch(*rows, attributes=GZIP))
    assert caught.value.code is Code.MESSAGE_TOO_LARGE


@given(st.binary(max_size=200))
def test_arbitrary_records_are_refused_or_read(body):
    """With a checksum that is right, whatever follows it."""
    data = batch(count=3, body=body)
    with suppress(BadBatch):
        assert len(rows_of(data)) == 3


@given(st.binary(max_size=300), st.integers(0, 4))
def test_arbitrary_compressed_records_are_refused_or_read(body, kind):
    with suppress(BadBatch):
        compression.unpacked(kind, body)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_unpacks_to_too_much_is_refused(codec):
    pa = pytest.importorskip("pyarrow")
    kinds = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    large = bytes(compression.MAX_UNPACKED + 1)
    if codec == "snappy":
        packed = pa.compress(large, "snappy", asbytes=True)
    else:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(large)
        packed = sink.getvalue().to_pybytes()
    assert len(packed) < len(large) / 10
    with pytest.raises(BadBatch) as caught:
        compression.unpacked(kinds[codec], packed)
    assert caught.value.code is Code.MESSAGE_TOO_LARGE


def test_blocks_of_snappy_that_unpack_to_too_much_together_are_refused():
    pa = pytest.importorskip("pyarrow")
    block = pa.compress(bytes(compression.MAX_UNPACKED // 2 + 1), "snappy", asbytes=True)
    stream = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    stream += 2 * (struct.pack(">i", len(block)) + block)
    with pytest.raises(BadBatch) as caught:
        compression.unpacked(2, stream)
    assert caught.value.code is Code.MESSAGE_TOO_LARGE


def test_gzip_without_its_end_is_refused():
    with pytest.raises(BadBatch) as caught:
        compression.unpacked(GZIP, gzip.compress(record(0, None, b"1"))[:-4])
    assert caught.value.code is Code.CORRUPT_MESSAGE
