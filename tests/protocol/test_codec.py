import struct
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_examples import (
    ALL_FRAMES,
    GOLDEN,
    INVALID,
    LARGEST,
    PROPERTY,
    THOROUGH,
    all_frames,
    any_decoder,
    any_frame,
    by_name,
    damaged,
    frames_of,
    nearly_frames,
    outcome,
    streams,
)

from zaichik_protocol import (
    EVENTS,
    HELLO_MAX_FRAME,
    NEED_DATA,
    REPLIES,
    REPLY_MAX_FRAME,
    REQUESTS,
    Batch,
    Close,
    CreateTopic,
    Describe,
    ErrorCode,
    Frame,
    FrameDecoder,
    Hello,
    Messages,
    Ping,
    ProtocolError,
    Publish,
    Subscribe,
    Unencodable,
    Welcome,
    encode,
)

every_golden = pytest.mark.parametrize("golden", GOLDEN, ids=by_name)
every_invalid = pytest.mark.parametrize("case", INVALID, ids=by_name)

STREAM = b"".join(golden.data for golden in GOLDEN)
FRAMES = [golden.frame for golden in GOLDEN]
BAD_TOPIC = struct.pack("<IBBHI", 12, CreateTopic.TYPE, 0, 0, 5) + b"\x01\x00\xff\x00"


def fed(data, decoder=None):
    decoder = decoder or any_decoder()
    decoder.receive_data(data)
    return decoder


def greeted_broker():
    decoder = FrameDecoder.for_broker()
    decoder.greeted(LARGEST)
    return decoder


# -- frames --------------------------------------------------------------------------------------


@every_golden
def test_a_frame_comes_whole(golden):
    decoder = fed(golden.data)
    assert decoder.next_frame() == golden.frame
    assert decoder.next_frame() is NEED_DATA
    assert decoder.buffered == 0


@every_golden
def test_a_frame_comes_byte_by_byte(golden):
    """Not having all of a frame yet is no error, and nothing is taken."""
    decoder = any_decoder()
    for position, byte in enumerate(golden.data):
        assert decoder.next_frame() is NEED_DATA
        assert decoder.buffered == position
        decoder.receive_data(bytes([byte]))
    assert decoder.next_frame() == golden.frame


@every_golden
def test_a_frame_comes_in_two_pieces_split_anywhere(golden):
    for position in range(len(golden.data) + 1):
        decoder = fed(golden.data[:position])
        first = all_frames(decoder)
        decoder.receive_data(golden.data[position:])
        assert first + all_frames(decoder) == [golden.frame]


def test_all_frames_come_glued_together():
    assert all_frames(fed(STREAM)) == FRAMES


@PROPERTY
@given(st.lists(st.integers(0, len(STREAM)), max_size=40).map(sorted))
def test_all_frames_come_in_any_pieces(cuts):
    decoder, found = any_decoder(), []
    for begin, end in pairwise([0, *cuts, len(STREAM)]):
        decoder.receive_data(STREAM[begin:end])
        found += all_frames(decoder)
    assert found == FRAMES


@every_golden
def test_what_follows_a_frame_stays_for_later(golden):
    decoder = fed(golden.data + b"\x09\x00\x00")
    assert decoder.next_frame() == golden.frame
    assert decoder.next_frame() is NEED_DATA
    assert decoder.buffered == 3


@pytest.mark.parametrize("size", [1, 7, 30])
def test_the_first_bytes_of_a_frame_do_not_hold_all_that_came_with_them(size):
    """An idle client would cost as much memory as its last large receive."""
    decoder = any_decoder()
    data = encode(Ping(1)) * 100 + encode(Publish(2, "t", Batch.of([(b"", b"x" * 100)])))[:size]
    held = sys.getrefcount(data)
    decoder.receive_data(data)
    assert len(all_frames(decoder)) == 100
    assert sys.getrefcount(data) == held
    assert decoder.buffered == size


@pytest.mark.hypothesis  # its @given is inside, where the library cannot see it
@pytest.mark.parametrize("cls", ALL_FRAMES)
def test_what_is_encoded_is_decoded(cls):
    @PROPERTY
    @given(frames_of(cls))
    def round_trip(frame):
        assert all_frames(fed(encode(frame))) == [frame]

    round_trip()


def test_a_broker_takes_requests_and_a_client_replies_and_events():
    for golden in GOLDEN:
        takers = [greeted_broker(), FrameDecoder.for_client()]
        wanted = [isinstance(golden.frame, REQUESTS), isinstance(golden.frame, REPLIES + EVENTS)]
        for decoder, expected in zip(takers, wanted, strict=True):
            found = outcome(fed(golden.data, decoder).next_frame)
            assert (
                found == golden.frame if expected else found[:2] == (ErrorCode.UNSUPPORTED, "type")
            )


# -- encoding what does not fit ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (Hello(1, version_min=2**16), "version_min"),
        (Hello(1, auth=-1), "auth"),
        (Ping(1, -1), "value"),
        (Ping(2**32, 0), "id"),
        (Describe(1, 0, prefix="x" * 2**16), "prefix"),
        (Messages(1, 0, 2**63, Batch.of([(b"", b"")])), "accepted_us"),
        (Publish(1, "t" * 2**16, Batch.of([(b"", b"")])), "topic"),
        (CreateTopic(1, "t", ((256, 0),)), "settings"),
        (CreateTopic(1, "t", ((1, 0),) * 256), "settings"),
    ],
)
def test_a_value_that_does_not_fit_is_named(frame, field):
    problem = f"{type(frame).__name__} cannot be encoded: {field} does not fit its field"
    with pytest.raises(ValueError, match=f"^{problem}$"):
        encode(frame)


@pytest.mark.parametrize(
    "frame", [Subscribe(1, "\udc80"), Publish(1, "\udc80", Batch.of([(b"", b"")]))]
)
def test_a_text_that_is_no_utf_8_is_refused(frame):
    with pytest.raises(ValueError, match=rf"^{type(frame).__name__} cannot be encoded: .*utf-8"):
        encode(frame)


@pytest.mark.parametrize("number", ["owner", "attempt"])
def test_an_owner_is_encoded_only_with_its_flag(number):
    with pytest.raises(
        Unencodable, match=f"^Subscribe: {number} does not go with the other fields$"
    ):
        encode(Subscribe(1, "t", "name", **{number: 1}))


# -- errors --------------------------------------------------------------------------------------


def assert_refused(decoder, case):
    with pytest.raises(ProtocolError) as caught:
        decoder.next_frame()
    assert (caught.value.code.name, caught.value.field) == (case.code, case.field)
    assert caught.value.message


@every_invalid
def test_invalid_bytes_are_refused(case):
    assert_refused(fed(case.data, case.decoder()), case)


@every_invalid
def test_invalid_bytes_are_refused_byte_by_byte(case):
    decoder = case.decoder()
    for byte in case.data:
        decoder.receive_data(bytes([byte]))
        try:
            assert decoder.next_frame() is NEED_DATA
        except ProtocolError:
            break
    else:
        pytest.fail("all of it was taken")
    assert (decoder.buffered == 0) or not ErrorCode[case.code].fatal
    if ErrorCode[case.code].fatal:
        assert_refused(decoder, case)


@every_invalid
def test_an_error_names_the_request_it_answers(case):
    found = outcome(fed(case.data, case.decoder()).next_frame)
    if 8 <= int.from_bytes(case.data[:4], "little") == len(case.data) - 4:
        assert found[3:] == (int.from_bytes(case.data[8:12], "little"), case.data[4])
    else:  # judged by its length: not read that far
        assert found[3:] == (0, 0)


@pytest.mark.parametrize(
    "case", [case for case in INVALID if ErrorCode[case.code].fatal], ids=by_name
)
def test_after_a_fatal_error_nothing_is_read_or_kept(case):
    """The stream is out of step for good: asking again raises again, and whatever comes is thrown
    away.
    """
    decoder = fed(case.data, case.decoder())
    first = outcome(decoder.next_frame)
    decoder.receive_data(encode(Close(1)))
    assert outcome(decoder.next_frame) == first
    assert outcome(decoder.next_frame) == first
    assert decoder.buffered == 0


@pytest.mark.parametrize(
    "case", [case for case in INVALID if not ErrorCode[case.code].fatal], ids=by_name
)
def test_after_an_error_that_is_not_fatal_the_next_frame_is_read(case):
    decoder = case.decoder()
    good = GOLDEN[0] if case.receiver == "broker" else GOLDEN[2]
    fed(case.data + good.data, decoder)
    assert_refused(decoder, case)
    assert decoder.buffered == len(good.data)
    assert decoder.next_frame() == good.frame


def test_what_came_before_an_error_is_read_first():
    decoder = fed(encode(Ping(1)) + BAD_TOPIC + encode(Ping(2)) + bytes(4) + encode(Ping(3)))
    found = [outcome(decoder.next_frame) for _ in range(5)]
    assert found[0] == Ping(1)
    assert found[1][0] == ErrorCode.INVALID_FIELD
    assert found[2] == Ping(2)
    assert found[3][0] == found[4][0] == ErrorCode.MALFORMED


# -- lengths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "code"),
    [
        (0, ErrorCode.MALFORMED),
        (7, ErrorCode.MALFORMED),
        (8, None),
        (HELLO_MAX_FRAME, None),
        (HELLO_MAX_FRAME + 1, ErrorCode.FRAME_TOO_LARGE),
        (LARGEST, ErrorCode.FRAME_TOO_LARGE),
    ],
)
def test_a_length_is_judged_as_soon_as_it_is_there(length, code):
    data = struct.pack("<I", length)
    decoder = fed(data[:3], FrameDecoder.for_broker())
    assert decoder.next_frame() is NEED_DATA
    decoder.receive_data(data[3:])
    found = outcome(decoder.next_frame)
    assert found is NEED_DATA if code is None else found[0] is code


def test_after_hello_longer_frames_may_come():
    """A client need not wait for Welcome: the new limit holds for what follows its Hello."""
    large = Publish(2, "t", Batch.of([(b"", bytes(HELLO_MAX_FRAME))]))
    decoder = fed(encode(Hello(1)) + encode(large), FrameDecoder.for_broker())
    assert decoder.next_frame() == Hello(1)
    decoder.greeted(2 * HELLO_MAX_FRAME)
    assert decoder.next_frame() == large


def test_after_hello_the_new_limit_holds():
    decoder = FrameDecoder.for_broker()
    decoder.greeted(8)
    assert all_frames(fed(encode(Close(1)), decoder)) == [Close(1)]
    assert outcome(fed(encode(Ping(1)), decoder).next_frame)[0] is ErrorCode.FRAME_TOO_LARGE


@pytest.mark.parametrize(
    "golden", [golden for golden in GOLDEN if not isinstance(golden.frame, Hello)], ids=by_name
)
def test_before_hello_whatever_else_comes_first_is_refused(golden):
    found = outcome(fed(golden.data, FrameDecoder.for_broker()).next_frame)
    assert found[0] is ErrorCode.HELLO_REQUIRED


def test_a_second_hello_is_for_the_broker_to_judge():
    decoder = FrameDecoder.for_broker()
    decoder.greeted(HELLO_MAX_FRAME)
    assert all_frames(fed(encode(Hello(1)), decoder)) == [Hello(1)]


def test_a_client_takes_any_length_that_a_frame_can_have():
    """Others are not waited for: judge.1."""
    welcome = Welcome(1, 1, 0, 1, 2, 3, 4, 5, 6, "x" * HELLO_MAX_FRAME)
    assert all_frames(fed(encode(welcome), FrameDecoder.for_client())) == [welcome]
    longest = fed(struct.pack("<I", REPLY_MAX_FRAME), FrameDecoder.for_client())
    assert longest.next_frame() is NEED_DATA
    for length in (REPLY_MAX_FRAME + 1, LARGEST):
        too_long = fed(struct.pack("<I", length), FrameDecoder.for_client())
        assert outcome(too_long.next_frame)[0] is ErrorCode.FRAME_TOO_LARGE


# -- whatever comes ------------------------------------------------------------------------------


def read_to_the_end(decoder):
    """All outcomes until no more data or a fatal error; anything else that is raised fails the
    test.
    """
    found = []
    while (last := outcome(decoder.next_frame)) is not NEED_DATA:
        found.append(last)
        if not isinstance(last, Frame) and last[0].fatal:
            break
    return found


@THOROUGH
@given(
    st.binary(max_size=64) | nearly_frames() | damaged(any_frame().map(encode)) | damaged(streams),
    st.integers(1, 9),
)
def test_whatever_comes_and_however_the_outcome_is_the_same(data, step):
    """Any bytes end in frames, NEED_DATA or ProtocolError, and pieces do not matter."""
    pieces, found = any_decoder(), []
    for begin in range(0, len(data), step):
        pieces.receive_data(data[begin : begin + step])
        found += read_to_the_end(pieces)
        if found and not isinstance(found[-1], Frame) and found[-1][0].fatal:
            break
    assert found == read_to_the_end(fed(data))


@THOROUGH
@given(nearly_frames())
def test_what_is_accepted_says_the_same_again(data):
    """A frame has one way to be written: what decodes, encodes to the very same bytes."""
    found = outcome(fed(data).next_frame)
    if isinstance(found, Frame):
        assert encode(found) == data
