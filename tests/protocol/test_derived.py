"""What is derived from the declaration, beside the declaration itself in construct."""

import subprocess
import sys

import pytest
from hypothesis import given
from wire_examples import (
    ALL_FRAMES,
    GOLDEN,
    PROPERTY,
    any_decoder,
    by_name,
    frames_of,
    nearly_frames,
    outcome,
)

from zaichik_protocol import ErrorCode, Frame, Unencodable, declaration, encode

every_frame = pytest.mark.parametrize("cls", ALL_FRAMES)


def read(data):
    decoder = any_decoder()
    decoder.receive_data(data)
    return outcome(decoder.next_frame)


def read_by_declaration(data):
    return outcome(declaration.decode, ALL_FRAMES, data)


def without_words(found):
    """A frame, or an error but for its words: construct has its own for what does not add up."""
    if isinstance(found, Frame):
        return found
    code, field, _, *request = found
    return code, field, *request


@pytest.mark.hypothesis  # its @given is inside, where the library cannot see it
@every_frame
def test_it_writes_and_reads_what_the_declaration_does(cls):
    @PROPERTY
    @given(frames_of(cls))
    def same(frame):
        data = encode(frame)
        assert data == declaration.encode(frame)
        assert read(data) == read_by_declaration(data) == frame

    same()


@pytest.mark.hypothesis  # its @given is inside, where the library cannot see it
@every_frame
def test_it_accepts_and_refuses_damaged_frames_like_the_declaration(cls):
    """Same frame or same error; but for the words where the bytes do not add up."""

    @PROPERTY
    @given(nearly_frames([cls]))
    def same(data):
        found, wanted = read(data), read_by_declaration(data)
        assert without_words(found) == without_words(wanted)
        if not isinstance(found, Frame) and found[0] is not ErrorCode.MALFORMED:
            assert found == wanted

    same()


@pytest.mark.parametrize("golden", GOLDEN, ids=by_name)
def test_a_frame_that_is_cut_anywhere_is_judged_like_by_the_declaration(golden):
    """Nor is it helped by the bytes that follow."""
    whole = golden.data
    for size in range(12, len(whole)):
        data = (size - 4).to_bytes(4, "little") + whole[4:size]
        found = read(data)
        assert without_words(found) == without_words(read_by_declaration(data))
        for more in (whole, bytes(99)):
            assert read(data + more) == found


@pytest.mark.parametrize(
    ("frame", "body", "why"),
    [
        ("Ping", bytes(7), "value is cut off by the end of the frame"),
        ("Ping", bytes(9), "there are bytes after its last field"),
        ("Delete", b"\x05\x00abc", "topic is cut off by the end of the frame"),
        ("Hello", b"KIAZ" + bytes(20), "magic is not ZAIK"),
        ("Describe", b"\x00\x00\x00\x01\x00\xff\x01", "limit is cut off by the end of the frame"),
    ],
)
def test_what_does_not_add_up_is_said_of_its_field(frame, body, why):
    cls = next(cls for cls in ALL_FRAMES if cls.__name__ == frame)
    header = (8 + len(body)).to_bytes(4, "little") + bytes([cls.TYPE, 0, 0, 0, 7, 0, 0, 0])
    code, field, message, *request = read(header + body)
    assert (code, field, *request) == (ErrorCode.MALFORMED, "", 7, cls.TYPE)
    assert message == f"the body of this {frame} does not add up: {why}"


@pytest.mark.hypothesis  # its @given is inside, where the library cannot see it
@every_frame
def test_what_cannot_be_written_is_refused_like_by_the_declaration(cls):
    """A number that is too large for its field, whichever it is."""

    @PROPERTY
    @given(frames_of(cls))
    def same(frame):
        for field in [*cls.FIELDS, None]:
            name = field.name if field else "id"
            if not isinstance(kept := getattr(frame, name), int):
                continue
            setattr(frame, name, 2**64)
            with pytest.raises(Unencodable) as wanted:
                declaration.encode(frame)
            with pytest.raises(Unencodable) as found:
                encode(frame)
            assert str(found.value) == str(wanted.value)
            setattr(frame, name, kept)

    same()


def test_a_program_starts_without_construct():
    """It takes as long to import as everything else that a command needs."""
    for words in (["publish", "--help"], ["serve", "--help"]):
        program = (
            "import runpy, sys, atexit\n"
            "atexit.register(lambda: print('construct' in sys.modules, file=sys.stderr))\n"
            f"sys.argv[1:] = {words}\n"
            "runpy.run_module('zaichik', run_name='__main__')"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stderr == "False\n"
