"""S3: A bad frame ends its connection, and nothing else.

Goal: Tell three kinds of errors apart. If client and server disagree on where frames begin (an
impossible length, fields that don't add up), the answer is a fatal Error, and the connection
closes. If a request is understood but cannot be carried out, the answer is an Error, and the
connection goes on. The server goes on in any case.

Tested: Frames with one mistake each. After a fatal Error the stream must end; after any other Error
a Ping must work; after each of them a new client must be served.

Real systems: Kafka refuses requests above socket.request.max.bytes (100 MiB by default) and closes;
NATS answers -ERR 'Unknown Protocol Operation' and closes; AMQP 0-9-1 has two levels like ours,
channel errors and connection errors. Without an upper limit on the length, 4 bytes from anyone can
make a server allocate 4 GiB.

How: protocol/README.md, section 6, gives the order of the checks: length, zero, Hello first, type,
flags, the body's size, the fields' contents. Codes below 64 are fatal, and have flag 2 (FATAL).

Where: tutorial/tiny_broker.py: `require` raises, `answer` catches and calls `fail`, which sends an
Error and sets `done` if the code is below 64. To close without a RST: end your side, then keep
reading until the client has closed.
"""

import struct
from typing import Any

from zaichik.learn import docstrings, layouts, vectors, wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Skipped
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

MOST_TO_SEND = 16 * 2**20  # bytes
PINGS, FOLLOWING = 300, 3000
LARGER = 5000  # bytes: more than a Hello may have, less than any broker must take here

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=3, frames="Error")


async def _ends(
    connection: Connection, data: bytes, note: str, error: str, kind: int = 0, **fields: Any
) -> None:
    """Send bytes that end the connection, and check that it ends."""
    await connection.send_bytes(data, note)
    await connection.expect_fatal(error, kind, **fields)


def _of_length(length: int) -> tuple[bytes, str]:
    return struct.pack("<I", length), f"a length of {length}"


async def _server_lives(trial: Trial, broken: Connection) -> None:
    """Check that a new client is served. One at a time: more is for the next stage."""
    await broken.aclose()
    async with await trial.client() as other:
        await other.ping()


@STAGE.check(
    "a length below 8 is MALFORMED, and the connection ends",
    hint="The length includes 8 bytes of header. Check it as soon as you have its 4 bytes.",
    sentences="frame.2 error.2 error.3 judge.1 judge.8",
)
async def too_short(trial: Trial) -> None:
    """A length of 7, and one of 0."""
    for length in (7, 0):
        connection = await trial.client()
        await _ends(connection, *_of_length(length), "MALFORMED")
        await _server_lives(trial, connection)


@STAGE.check(
    "a length above the limit is FRAME_TOO_LARGE at once, without waiting for the body",
    hint="You promised max_frame in your Welcome. Before Hello the limit is 4,096. Compare before "
    "you read the body.",
    sentences="hello.2 error.2 error.3 judge.1 judge.8",
)
async def too_long(trial: Trial) -> None:
    """After a Hello, and before one."""
    connection = await trial.client()
    await _ends(connection, *_of_length(connection.limits["max_frame"] + 1), "FRAME_TOO_LARGE")
    await connection.aclose()
    early = await trial.dial()
    await _ends(early, struct.pack("<I", 4097), "a length of 4097, before Hello", "FRAME_TOO_LARGE")
    await _server_lives(trial, early)


@STAGE.check(
    "a body too short or too long for its fields is MALFORMED, and the connection ends",
    hint="Before each field, are enough bytes left? After the last one, are any left over?",
    sentences="frame.3 error.1 error.3 judge.5 judge.8",
)
async def uneven(trial: Trial) -> None:
    """A Ping that is one byte short, and one that is a byte too long."""
    for size in (7, 9):
        connection = await trial.client()
        frame = wire.raw_frame(0x07, bytes(size), frame_id=5)
        await _ends(connection, frame, f"a Ping with {size} bytes", "MALFORMED", 0x07, id=5)
        await _server_lives(trial, connection)


@STAGE.check(
    "a header whose bytes 6 and 7 are not zero is MALFORMED",
    hint="Bytes 6 and 7 are reserved for later versions of the protocol. If they aren't zero, they "
    "mean something you don't know.",
    sentences="judge.2 judge.8",
)
async def not_zero(trial: Trial) -> None:
    """A Ping whose field zero is 1."""
    frame = wire.encode("Ping", frame_id=5, zero=1)
    await _ends(await trial.client(), frame, "zero = 1", "MALFORMED", 0x07, id=5)


@STAGE.check(
    "the first frame must be a Hello with the letters ZAIK and a known version",
    hint="Before a Hello is accepted, any other type is HELLO_REQUIRED, and errors are fatal.",
    sentences="hello.1 hello.6 hello.9 hello.15 error.3 judge.3",
)
async def hello_first(trial: Trial) -> None:
    """A Ping; other letters; only future versions."""
    for error, kind, frame in (
        ("HELLO_REQUIRED", 0x07, wire.encode("Ping", frame_id=5)),
        ("MALFORMED", 0x01, wire.encode("Hello", frame_id=5, magic=b"KIAZ")),
        (
            "UNSUPPORTED_VERSION",
            0x01,
            wire.encode("Hello", frame_id=5, version_min=2, version_max=9),
        ),
    ):
        async with await trial.dial() as connection:
            await _ends(connection, frame, "", error, kind, id=5)


@STAGE.check(
    "an unknown type and unknown flags are UNSUPPORTED, and the connection goes on",
    hint="The frame could be read: its length was right. So answer with an Error, drop it, and go "
    "on with the next one.",
    sentences="type.3 flag.1 hello.2 hello.7 judge.3 judge.4",
)
async def unsupported(trial: Trial) -> None:
    """An unknown type, a flag that Ping doesn't have, a second Hello; a large frame with Hello."""
    connection = await trial.client()
    for frame, kind in (
        (wire.raw_frame(0x7E, trial.payload(40), frame_id=3), 0x7E),
        (wire.encode("Ping", frame_id=3, flags=0x80), 0x07),
        (wire.encode("Hello", frame_id=3), 0x01),
    ):
        await connection.send_frame(frame)
        connection.must_be_error(await connection.reply(3), "UNSUPPORTED", request_type=kind)
        await connection.ping()
    await connection.aclose()  # one at a time: more is for the next stage
    async with await trial.dial() as early:
        large = wire.raw_frame(0x7E, bytes(LARGER), frame_id=3)
        await early.send_bytes(wire.encode("Hello", frame_id=1) + large, "Hello and a large frame")
        early.must_be(await early.reply(1), "Welcome")
        early.must_be_error(await early.reply(3), "UNSUPPORTED", request_type=0x7E)


@STAGE.check(
    "a client that crashes in the middle of a frame affects no other client",
    hint="Whatever a read from the socket raises, it ends this connection and nothing else.",
    how="A read can raise: connection reset, broken pipe, end of stream in the middle of a frame. "
    "Catch that around the whole connection, close the socket, and return.",
    where="tutorial/tiny_broker.py: `Connection.read` treats an end in the middle of a frame as "
    "the end; `Connection.run` catches whatever else goes wrong.",
    sentences="connect.1 connect.2 close.6",
)
async def crash(trial: Trial) -> None:
    """Half a frame, then a RST; half a frame, then a FIN."""
    connection = await trial.client()
    await connection.send_bytes(wire.encode("Ping", frame_id=5)[:9], "half a frame")
    await connection.reset()
    other = await trial.client()
    await other.send_bytes(wire.encode("Ping", frame_id=5)[:9], "half a frame")
    await other.end()
    await other.expect_end()
    await _server_lives(trial, other)


@STAGE.check(
    "frames up to your limit are read, and larger ones are not",
    hint="The limit is 4,096 before Hello, and max_frame after it. Compare with >, not >=.",
    sentences="hello.2 hello.4 judge.1 welcome.4",
)
async def at_the_limit(trial: Trial) -> None:
    """A Hello of 4,096 bytes and one of 4,097; unknown types of max_frame bytes and of one more."""
    hello = {
        length: wire.encode("Hello", frame_id=5, client="x" * (length - 31))
        for length in (4096, 4097)
    }
    async with await trial.dial() as connection:
        await connection.send_bytes(hello[4096], "a Hello with a length of 4096")
        await connection.expect_frame("Welcome", id=5)
    async with await trial.dial() as connection:
        await _ends(connection, hello[4097], "a Hello with a length of 4097", "FRAME_TOO_LARGE")
    connection = await trial.client()
    most = connection.limits["max_frame"]
    if most > MOST_TO_SEND:
        raise Skipped(
            f"max_frame is {most:,}, and this check sends no more than {MOST_TO_SEND:,} bytes"
        )
    await connection.send_bytes(
        wire.raw_frame(0x7E, bytes(most - 8), frame_id=5), f"a frame with a length of {most}"
    )
    frame_ = await connection.read(awaited="an Error")
    connection.must_be_error(frame_, "UNSUPPORTED", request_type=0x7E, id=5, at="type")
    await _ends(connection, *_of_length(most + 1), "FRAME_TOO_LARGE")


@STAGE.check(
    "requests before a bad frame are answered, and nothing after it is carried out",
    hint="Answer in order, then send the Error, then FIN, and keep reading for a second: closing a "
    "socket that has unread bytes destroys what you have sent.",
    sentences="close.7 judge.8 judge.9",
)
async def around(trial: Trial) -> None:
    """Hundreds of Pings, a bad frame, and thousands more Pings, in one write."""
    connection = await trial.client()
    pings = [wire.encode("Ping", frame_id=2, value=value) for value in range(PINGS)]
    following = wire.encode("Ping", frame_id=3) * FOLLOWING
    await connection.send_bytes(
        b"".join(pings) + wire.encode("Ping", frame_id=5, zero=1) + following, "Pings, one bad"
    )
    for value in range(PINGS):
        await connection.expect_frame("Pong", id=2, value=value)
    await connection.expect_fatal("MALFORMED", 0x07, id=5)


@STAGE.check(
    "a refused Hello ends the connection, and nothing after it is carried out",
    hint="Before a Hello is accepted, every error is fatal. Carry out nothing that follows it.",
    sentences="hello.5 hello.6 hello.9 hello.15 hello.16 error.3",
)
async def refused_hello(trial: Trial) -> None:
    """An unknown auth, a version 0, other letters; each followed by a good Hello and a Ping."""
    following = wire.encode("Hello", frame_id=6) + wire.encode("Ping", frame_id=7)
    for error, field, fields in (
        ("INVALID_FIELD", "auth", {"auth": 3}),
        ("UNSUPPORTED_VERSION", None, {"version_min": 0, "version_max": 0}),
        ("MALFORMED", None, {"magic": b"zaik"}),
    ):
        hello, note = (
            wire.encode("Hello", frame_id=5, **fields),
            f"Hello with {fields}, Hello, Ping",
        )
        async with await trial.dial() as connection:
            await _ends(
                connection,
                hello + following,
                note,
                error,
                0x01,
                at=field,
                id=5,
                flags=layouts.FATAL,
            )


@STAGE.check(
    "every bad Hello, bad Ping and frame of unknown type is refused as the test vectors say",
    hint="See protocol/vectors/invalid.json. If several things are wrong, the first level counts.",
    sentences="judge.1 judge.2 judge.3 judge.4 judge.5 judge.6 judge.7 flag.1 type.3 frame.3",
    once=True,
)
async def bad_frames(trial: Trial) -> None:
    """Frames of the types that later stages add are checked in S14."""
    await vectors.refuse(
        trial, lambda kind: kind in {-1, 0x01, 0x07} or kind not in layouts.REQUESTS
    )
