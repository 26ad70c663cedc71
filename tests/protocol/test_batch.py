import struct
from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st
from wire_examples import INVALID, PROPERTY, THOROUGH, batches, by_name, damaged

from zaichik_protocol import Batch
from zaichik_protocol.declaration import BATCH_COLUMNS

messages = st.lists(
    st.tuples(st.binary(max_size=9), st.binary(max_size=20)), min_size=1, max_size=12
)
THREE = [(b"a", b"hi"), (b"", b"there"), (b"long", b"")]


def messages_of(batch):
    return list(zip(batch.keys(), batch.payloads(), strict=True))


# -- making and reading --------------------------------------------------------------------------


@PROPERTY
@given(messages)
def test_a_batch_gives_back_its_messages(several):
    batch = Batch.of(several)
    assert messages_of(batch) == several
    assert batch.count == len(several)
    assert Batch.parse(batch.data) == batch


@PROPERTY
@given(messages)
def test_a_batch_knows_its_sizes(several):
    batch = Batch.of(several)
    assert batch.size == sum(len(key) + len(payload) for key, payload in several)
    assert batch.key_size == sum(len(key) for key, _ in several)


@PROPERTY
@given(messages, st.data())
def test_the_longest_run_that_fits_is_found(several, data):
    batch, count = Batch.of(several), len(several)
    start = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(start + 1, count))
    sizes = [len(key) + len(payload) for key, payload in several]
    room = data.draw(st.integers(0, sum(sizes)))
    fits = [end for end in range(start, stop + 1) if sum(sizes[start:end]) <= room]
    assert batch.fitting(start, stop, room) == max(fits)


def test_a_batch_is_its_bytes():
    assert Batch.of([(b"a", b"hi"), (b"", b"there")]).data.hex(" ", 4) == (
        "02000000 00000000 01000000 01000000 00000000 02000000 07000000 61686974 68657265"
    )
    assert Batch.of([(b"", b"")]).data == struct.pack("<5i", 1, 0, 0, 0, 0)


def test_messages_may_come_from_any_iterable():
    assert Batch.of(iter(THREE)) == Batch.of_columns([b"a", b"", b"long"], (b"hi", b"there", b""))


def test_a_batch_does_not_change():
    with pytest.raises(FrozenInstanceError):
        Batch.of(THREE).data = b""


def test_batches_of_the_same_messages_are_equal():
    assert Batch.of(THREE) == Batch.of(THREE)
    assert len({Batch.of(THREE), Batch.of(THREE), Batch.of(THREE[:2])}) == 2


@pytest.mark.parametrize(
    ("keys", "payloads"), [([], []), ([b"k"], []), ([], [b"p"]), ([b"a", b"b"], [b"p"])]
)
def test_a_batch_needs_a_key_a_payload_and_one_of_each(keys, payloads):
    with pytest.raises(ValueError, match=f"not {len(keys)} and {len(payloads)}$"):
        Batch.of_columns(keys, payloads)


def test_no_messages_are_no_batch():
    with pytest.raises(ValueError, match="at least one of each"):
        Batch.of([])
    with pytest.raises(ValueError, match="at least one of each"):
        Batch.of(THREE).select([])


# -- cutting -------------------------------------------------------------------------------------


@PROPERTY
@given(messages, st.data())
def test_cutting_a_batch_is_slicing_its_messages(several, data):
    start = data.draw(st.integers(0, len(several) - 1))
    stop = data.draw(st.integers(start + 1, len(several)))
    cut = Batch.of(several).cut(start, stop)
    assert cut == Batch.of(several[start:stop])
    assert Batch.parse(cut.data) == cut


@PROPERTY
@given(messages, st.data())
def test_selecting_from_a_batch_is_picking_messages_in_that_order(several, data):
    indices = data.draw(st.lists(st.integers(0, len(several) - 1), min_size=1, max_size=20))
    assert Batch.of(several).select(indices) == Batch.of([several[i] for i in indices])


def test_all_of_a_batch_is_the_batch_itself():
    batch = Batch.of(THREE)
    assert batch.cut(0, 3) is batch


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 0), (2, 2), (2, 1), (0, 4), (3, 4)])
def test_a_cut_outside_the_batch_is_refused(start, stop):
    with pytest.raises(ValueError, match=f"cannot cut {start} to {stop} out of 3 messages"):
        Batch.of(THREE).cut(start, stop)


def test_a_selection_outside_the_batch_is_refused():
    with pytest.raises(IndexError):
        Batch.of(THREE).select([3])


# -- judging -------------------------------------------------------------------------------------


def parsed(data):
    try:
        return messages_of(Batch.parse(data))
    except ValueError:
        return None


def read_by_declaration(data):
    """The messages by the declared columns, with the rules that lengths cannot express."""
    try:
        columns = BATCH_COLUMNS.parse(data)
    except ConstructError:
        return None
    rows = list(columns.key_offsets), list(columns.payload_offsets)
    if columns.count == 0 or any(row[0] != 0 or row != sorted(row) for row in rows):
        return None
    strings = zip(rows, (columns.key_bytes, columns.payload_bytes), strict=True)
    return list(zip(*([part[i:j] for i, j in pairwise(row)] for row, part in strings), strict=True))


@st.composite
def nearly_batches(draw):
    """A count, about as many offsets, about as many bytes: right by chance."""
    count = draw(st.integers(0, 3))
    offsets = st.lists(st.integers(-2, 4), min_size=count + 1, max_size=count + 1)
    rows = [
        draw(
            offsets | offsets.map(sorted) | offsets.map(lambda row: [0, *sorted(map(abs, row))[1:]])
        )
    ] * 2
    rows[1] = draw(
        st.just(rows[0]) | offsets | offsets.map(lambda row: [0, *sorted(map(abs, row))[1:]])
    )
    size = draw(st.just(max(0, rows[0][-1] + rows[1][-1])) | st.integers(0, 8))
    return struct.pack(f"<I{2 * (count + 1)}i", count, *rows[0], *rows[1]) + bytes(
        range(97, 97 + size)
    )


@THOROUGH
@given(nearly_batches() | damaged(batches.map(lambda batch: batch.data)) | st.binary(max_size=40))
def test_exactly_the_batches_of_the_declaration_are_accepted(data):
    """Two calls of the struct module see what construct and the rules of section 3 see, no more and
    no less.
    """
    assert parsed(data) == read_by_declaration(data)


@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
def test_a_count_that_cannot_be_true_costs_nothing(count):
    with pytest.raises(ValueError, match="bytes of offsets, here are 24"):
        Batch.parse(struct.pack("<I", count) + bytes(20))


@pytest.mark.parametrize("case", [case for case in INVALID if case.field == "batch"], ids=by_name)
def test_invalid_batches_are_refused_by_both(case):
    header = 12 + (19 if case.receiver == "broker" else 16)
    assert parsed(case.data[header:]) is None
    assert read_by_declaration(case.data[header:]) is None
