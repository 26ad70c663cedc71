import pytest
from hypothesis import given
from wire_examples import PROPERTY, any_decoder, frames_of, nearly_frames, outcome

from zaichik_protocol import Batch, Commit, Committed, Messages, Publish, Published, encode, hot
from zaichik_protocol.codec import encode_by_declaration
from zaichik_protocol.layout import HEADER_SIZE

TWINS = [Publish, Published, Commit, Committed, Messages]
BATCH = Batch.of([(b"key", b"payload"), (b"", b"more")])
every_twin = pytest.mark.parametrize("cls", TWINS)


def read(data):
    decoder = any_decoder()
    decoder.receive_data(data)
    return outcome(decoder.next_frame)


def read_by_declaration(data):
    return outcome(any_decoder().decode_by_declaration, data)


def test_the_frames_of_every_batch_have_twins():
    assert set(hot.ENCODERS) == set(hot.DECODERS) == set(TWINS)
    assert set(hot.FLAGGED) == {(Published, Published.FLAGS["durable"])}


@pytest.mark.hypothesis  # its @given is inside, where the library cannot see it
@every_twin
def test_twins_write_and_read_what_the_declaration_does(cls):
    @PROPERTY
    @given(frames_of(cls))
    def same(frame):
        data = encode(frame)
        assert data == encode_by_declaration(frame)
        assert read(data) == read_by_declaration(data) == frame

    same()


@pytest.mark.hypothesis  # its @given is inside, where the library cannot see it
@every_twin
def test_twins_themselves_read_what_has_no_flags_and_what_is_durable(cls):
    """Or else the declaration, which steps in for a twin that stumbles, would hide that none works."""

    @PROPERTY
    @given(frames_of(cls))
    def read_without_help(frame):
        data = encode(frame)
        if decode := hot.FLAGGED.get((cls, data[5])) if data[5] else hot.DECODERS[cls]:
            assert b"".join(hot.ENCODERS[cls](frame)) == data
            assert decode(frame.id, b"before" + data + b"after", 6 + HEADER_SIZE, 6 + len(data)) == frame

    read_without_help()


@pytest.mark.hypothesis  # its @given is inside, where the library cannot see it
@every_twin
def test_twins_accept_and_refuse_damaged_frames_like_the_declaration(cls):
    """Same frame or same error, down to its words."""

    @PROPERTY
    @given(nearly_frames([cls]))
    def same(data):
        assert read(data) == read_by_declaration(data)

    same()


@every_twin
def test_twins_stumble_over_any_cut_and_leave_it_to_the_declaration(cls):
    whole = encode(
        {
            Publish: Publish(1, "topic", BATCH, producer=2, sequence=3),
            Published: Published(1, 2, 3, 9, 5, b"\x00\x0f", durable=True),
            Commit: Commit(1, 2, 3),
            Committed: Committed(1, 2),
            Messages: Messages(1, 2, 3, BATCH),
        }[cls]
    )
    for size in range(12, len(whole)):
        data = (size - 4).to_bytes(4, "little") + whole[4:size]
        assert read(data) == read_by_declaration(data)
        assert isinstance(read(data), tuple)
        for more in (whole, bytes(99)):
            assert read(data + more) == read(data), "nor are they helped by the bytes that follow"
