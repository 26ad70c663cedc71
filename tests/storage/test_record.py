"""Records: what is packed comes back, and what is not a record of this segment never does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.storage.record import (
    HEADER,
    MAGIC,
    RecordKind,
    StoredRecord,
    header,
    next_header,
    skip,
)

SALT = 0xC0FFEE
U64, U32 = st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)
RECORDS = st.builds(
    StoredRecord,
    base=U64,
    accepted_us=st.integers(-(2**63), 2**63 - 1),
    count=U32,
    body=st.binary(max_size=300),
    kind=st.sampled_from([int(kind) for kind in RecordKind]),
    producer=U64,
    sequence=U64,
    dropped=st.binary(max_size=20),
)
SAMPLE = StoredRecord(70, 1_000, 3, b"the batch", producer=5, sequence=6, dropped=b"\x12")


def unpack(data, at, salt):
    """The record that begins there, and its header; None if it is not whole."""
    head = header(data, at, salt)
    record = head and head.record(data, at, salt)
    return record and (record, head)


@given(RECORDS, U32, U32, st.binary(max_size=10))
def test_a_packed_record_comes_back_with_its_group_wherever_it_lies(record, salt, group_at, before):
    data = before + record.pack(salt, group_at) + b"what follows"
    found = unpack(data, len(before), salt)
    assert found is not None
    assert found[0] == record
    assert (
        (found[1].size, found[1].group_at)
        == (record.size, group_at)
        == (len(data) - len(before) - 12, group_at)
    )


def test_a_header_has_the_layout_that_is_written_down():
    data = SAMPLE.pack(SALT, 4096)
    assert HEADER.size == 64
    assert data.startswith(b"ZAIK")
    assert int.from_bytes(b"ZAIK", "little") == MAGIC
    fields = HEADER.unpack_from(data)
    assert fields[3:] == (10, 70, 1_000, 3, 0, 0, 5, 6, 4096, 1)
    assert data[64:] == b"\x12the batch"


def test_no_flipped_bit_passes():
    data = SAMPLE.pack(SALT, 4096)
    for bit in range(8 * len(data)):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        assert unpack(bytes(wrong), 0, SALT) is None, f"bit {bit}"


def test_no_beginning_of_a_record_passes_for_it():
    data = SAMPLE.pack(SALT, 4096)
    assert not [size for size in range(len(data)) if unpack(data[:size], 0, SALT)]


def test_a_record_of_another_segment_never_passes():
    empty = StoredRecord(1, 2)
    for record in (SAMPLE, empty):
        assert header(record.pack(SALT, 0), 0, SALT + 1) is None
        assert unpack(record.pack(SALT, 0), 0, SALT + 1) is None


@pytest.mark.parametrize("salt", [0, SALT])
def test_zeros_are_no_record(salt):
    """The checksum of nothing is 0: zeros have to fail at the magic."""
    assert header(bytes(1000), 0, salt) is None
    assert next_header(bytes(1000), 0, salt) is None


def test_a_header_can_be_believed_when_its_body_is_lost():
    data = SAMPLE.pack(SALT, 4096)
    cut = data[:64] + bytes(len(data) - 64)
    found = header(cut, 0, SALT)
    assert found is not None
    assert (found.base, found.messages, found.size, found.group_at) == (70, 3, len(data), 4096)
    assert unpack(cut, 0, SALT) is None


def test_the_next_header_is_found_behind_bytes_that_only_look_like_one():
    junk = b"ZAI ZAIK ZAIK" + bytes(70) + StoredRecord(1, 1).pack(SALT + 1, 0)
    data = junk + SAMPLE.pack(SALT, 9)
    assert next_header(data, 0, SALT) == len(junk)
    assert next_header(data, len(junk) + 1, SALT) is None


def test_records_are_passed_over_up_to_the_one_that_is_wanted():
    records = [
        StoredRecord(0, 1, 3, b"abc"),
        StoredRecord(3, 1),
        StoredRecord(3, 2, 2, b"x"),
        StoredRecord(5, 3, 1, b"wanted"),
    ]
    packed = [record.pack(SALT, 0) for record in records]
    data, ends = b"".join(packed), [sum(map(len, packed[:count])) for count in range(5)]
    assert [skip(data, 0, SALT, wanted) for wanted in (4, 5, 6, 7, 99)] == [
        (ends[i], offset) for i, offset in ((2, 3), (2, 3), (3, 5), (4, 6), (4, 6))
    ]
    assert [skip(data, 0, SALT, wanted)[0] for wanted in (0, 3)] == [0, 0]
    assert skip(data[:-3], 0, SALT, 99) == (ends[4], 6), "the end of a body is not needed"
    assert skip(data[: ends[3] + 63], 0, SALT, 99) == (ends[3], 5)
    for at in (0, 4, 20, 63):
        wrong = bytearray(data)
        wrong[ends[2] + at] ^= 1
        assert skip(bytes(wrong), 0, SALT, 99) == (ends[2], 3), "a header that is damaged"


def test_records_are_not_passed_over_where_one_is_in_the_place_of_another():
    """Its length tells nothing about where the next one is."""
    first, second = StoredRecord(0, 1, 3, b"abc"), StoredRecord(3, 1, 3, b"abc")
    for strange in (first, StoredRecord(9, 1, 3, b"abc")):
        data = first.pack(SALT, 0) + second.pack(SALT, 0) + strange.pack(SALT, 0)
        assert skip(data, 0, SALT, 99) == (2 * first.size, 6)


def test_a_header_tells_where_it_cannot_be():
    head = header(SAMPLE.pack(SALT, 4096), 0, SALT)
    assert head is not None
    assert [head.may_be_at(at, 70) for at in (0, 4095, 4096, 9999)] == [False, False, True, True]
    assert [head.may_be_at(4096, least) for least in (0, 70, 71)] == [True, True, False]
