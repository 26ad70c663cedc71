"""The original's frames: golden vectors, and bytes that come in any pieces."""

import pytest
from recorded import ECHO, ECHO_ANSWER, RETENTION_PRODUCER

from zaichik.apps.legacy.frames import (
    CloseConnection,
    Commit,
    CreateTopic,
    FrameReader,
    NotAFrame,
    Publish,
    Subscribe,
    Unsubscribe,
    encode,
)

MOST = 1000
A = "0100000000000000 61"
VECTORS = {
    f"00000000 {A} 60ea000000000000 0a00000000000000": CreateTopic("a", 60_000, 10),
    f"01000000 {A} 00 0200000000000000 00ff": Publish("a", None, b"\x00\xff"),
    f"01000000 {A} 01 0200000000000000 c3a9 0000000000000000": Publish("a", "é", b""),
    f"01000000 {A} 01 0000000000000000 0000000000000000": Publish("a", "", b""),
    f"02000000 {A}": Subscribe("a"),
    "02000000 0000000000000000": Subscribe(""),
    f"03000000 {A}": Unsubscribe("a"),
    "04000000": CloseConnection(),
    "05000000": Commit(),
}


def read(*pieces: bytes) -> list:
    reader, found = FrameReader(MOST), []
    for piece in pieces:
        reader.receive_data(piece)
        while (command := reader.next_frame()) is not None:
            found.append(command)
    return found


@pytest.mark.parametrize(
    ("data", "command"), VECTORS.items(), ids=[repr(command) for command in VECTORS.values()]
)
def test_each_command_has_its_bytes(data, command):
    assert encode(command) == bytes.fromhex(data)
    assert read(bytes.fromhex(data)) == [command]


def test_what_the_original_sends_is_understood():
    publish = Publish("hello", "key", b"message")
    assert read(ECHO) == [Subscribe("hello"), publish]
    assert encode(publish) == ECHO_ANSWER
    assert read(RETENTION_PRODUCER) == [
        CreateTopic("hello", 10_000, 0),
        Publish("hello", "key1", b"message"),
    ]


@pytest.mark.parametrize("cut", range(1, len(ECHO)))
def test_half_a_frame_waits_for_the_rest(cut):
    """The original took it for a broken one, and threw it away."""
    assert read(ECHO[:cut], ECHO[cut:]) == [Subscribe("hello"), Publish("hello", "key", b"message")]


def test_frames_may_come_byte_by_byte():
    stream = b"".join(map(encode, VECTORS.values()))
    assert read(*(bytes([byte]) for byte in stream)) == list(VECTORS.values())


def test_a_frame_that_comes_byte_by_byte_is_parsed_once_for_each_field(monkeypatch):
    parsed = []
    parse = FrameReader._parse
    monkeypatch.setattr(FrameReader, "_parse", lambda self: parsed.append(1) or parse(self))
    read(*(bytes([byte]) for byte in encode(Publish("topic", "key", bytes(500)))))
    # After tag, and after each of three lengths, their three contents and the option's byte.
    assert len(parsed) == 8


@pytest.mark.parametrize(
    ("data", "reason"),
    {
        "06000000": "command 6",
        "5a41494b": "command 1263092058",
        "02000000 0000000000000080": "a frame of 9,223,372,036,854,775,820 bytes",
        f"01000000 {A} 00 0000000000000010": "a frame of 1,152,921,504,606,846,998 bytes",
        f"01000000 {A} 01 0000000000000010": "bytes or more",
        f"01000000 {A} 02": "an option that is not 0 or 1",
        "02000000 0200000000000000 fffe": "not UTF-8",
        f"01000000 {A} 01 0100000000000000 ff": "not UTF-8",
    }.items(),
)
def test_what_can_never_become_a_frame_is_refused_at_the_first_wrong_byte(data, reason):
    data = bytes.fromhex(data)
    with pytest.raises(NotAFrame, match=reason):
        read(data)
    assert read(data[:-1]) == []


def test_a_frame_is_refused_from_one_byte_too_many_on():
    overhead = len(encode(Publish("a", None, b"")))
    assert read(encode(Publish("a", None, bytes(MOST - overhead))))
    with pytest.raises(
        NotAFrame, match=f"a frame of 1,001 bytes or more; at most {MOST:,} are read"
    ):
        # As soon as the length is there.
        read(encode(Publish("a", None, bytes(MOST - overhead + 1)))[:22])


def test_what_was_refused_stays_refused():
    reader = FrameReader(MOST)
    reader.receive_data(bytes.fromhex("06000000"))
    for _ in range(2):
        with pytest.raises(NotAFrame):
            reader.next_frame()


def test_frames_before_a_broken_one_come_out():
    reader = FrameReader(MOST)
    reader.receive_data(encode(Commit()) + bytes.fromhex("06000000"))
    assert reader.next_frame() == Commit()
    with pytest.raises(NotAFrame):
        reader.next_frame()
