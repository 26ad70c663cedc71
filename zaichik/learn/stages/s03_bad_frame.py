"""S3: what a broker says to bytes that make no sense."""

import struct

from zaichik.learn import wire
from zaichik.learn.connection import Connection
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage(
    number=3,
    title="A bad frame ends its connection, and nothing else",
    chapter=3,
    frames=("Error",),
    goal=(
        "Tell three kinds of trouble apart. Not agreeing where frames begin (a length that cannot be, fields "
        "that do not add up) is answered with a fatal Error, and the connection closes. A request that is "
        "understood and cannot be carried out is answered, and the connection goes on. The server goes on in "
        "any case."
    ),
    tested=(
        "Frames with one thing wrong each. After a fatal Error the stream must end; after any other a Ping "
        "must work; after each of them a new client must be served."
    ),
    real="Kafka refuses requests above socket.request.max.bytes (100 MiB by default) and closes; NATS answers "
    "-ERR 'Unknown Protocol Operation' and closes; AMQP 0-9-1 has two levels like ours, channel errors and connection "
    "errors. Without an upper limit for the length, 4 bytes of anybody's make a server ask for 4 GiB of memory.",
    hints=(
        (
            "protocol/README.md, section 6, has the order in which to judge: length, zero, Hello first, type, "
            "flags, the body's size, what is inside the fields. Codes below 64 are fatal, and have flag 2 "
            "(FATAL)."
        ),
        (
            "tutorial/tiny_broker.py: `require` raises, `answer` catches and calls `fail`, which sends an "
            "Error and sets `done` if the code is below 64. To close without a RST: end your side, then read "
            "on until the client is gone."
        ),
    ),
)


async def _ends_with(connection: Connection, error: str, *, request_type: int, frame_id: int) -> None:
    frame = await connection.read(awaited=f"the error {error}")
    connection.must_be_error(frame, error, request_type=request_type, id=frame_id)
    await connection.ends()


async def _server_lives(trial: Trial, broken: Connection) -> None:
    """One client at a time: more than that is the next stage's."""
    await broken.aclose()
    other = await trial.client()
    await other.ping()
    await other.aclose()


@STAGE.check(
    "a length below 8 is MALFORMED, and the connection ends",
    hint="The length counts 8 bytes of header at least. Judge it as soon as you have its 4 bytes.",
    sentences="frame.2 error.2 error.3 judge.1 judge.8",
)
async def too_short(trial: Trial) -> None:
    """7 and 0."""
    for length in (7, 0):
        connection = await trial.client()
        await connection.send_bytes(struct.pack("<I", length), f"a length of {length}")
        await _ends_with(connection, "MALFORMED", request_type=0, frame_id=0)
        await _server_lives(trial, connection)


@STAGE.check(
    "a length above the limit is FRAME_TOO_LARGE at once, without waiting for the body",
    hint="You promised max_frame in your Welcome. Before Hello the limit is 4,096. Compare before you read the body.",
    sentences="hello.2 error.2 error.3 judge.1 judge.8",
)
async def too_long(trial: Trial) -> None:
    """After Hello and before it."""
    connection = await trial.client()
    length = connection.limits["max_frame"] + 1
    await connection.send_bytes(struct.pack("<I", length), f"a length of {length}")
    await _ends_with(connection, "FRAME_TOO_LARGE", request_type=0, frame_id=0)
    await connection.aclose()
    stranger = await trial.dial()
    await stranger.send_bytes(struct.pack("<I", 4097), "a length of 4097, before Hello")
    await _ends_with(stranger, "FRAME_TOO_LARGE", request_type=0, frame_id=0)
    await _server_lives(trial, stranger)


@STAGE.check(
    "a body that is too short or too long for its fields is MALFORMED, and the connection ends",
    hint="After the last field, is something left? Before each field, is enough left?",
    sentences="frame.3 error.1 error.3 judge.5 judge.8",
)
async def uneven(trial: Trial) -> None:
    """A Ping with a byte less, and with one more."""
    for size in (7, 9):
        connection = await trial.client()
        await connection.send_bytes(wire.raw_frame(0x07, bytes(size), frame_id=5), f"a Ping with {size} bytes")
        await _ends_with(connection, "MALFORMED", request_type=0x07, frame_id=5)
        await _server_lives(trial, connection)


@STAGE.check(
    "two bytes of the header that are not zero are MALFORMED",
    hint="Bytes 6 and 7 are for later versions of the protocol. Who sends something there means something.",
    sentences="judge.2 judge.8",
)
async def not_zero(trial: Trial) -> None:
    """A Ping whose zero is 1."""
    connection = await trial.client()
    await connection.send_bytes(wire.encode("Ping", frame_id=5, zero=1), "zero = 1")
    await _ends_with(connection, "MALFORMED", request_type=0x07, frame_id=5)


@STAGE.check(
    "the first frame must be a Hello, with the letters ZAIK and a version that is known",
    hint="Until a Hello was accepted, any other type is HELLO_REQUIRED, and every error is fatal.",
    sentences="hello.1 hello.6 hello.9 hello.15 error.3 judge.3",
)
async def hello_first(trial: Trial) -> None:
    """A Ping; other letters; versions of the future."""
    connection = await trial.dial()
    await connection.send_bytes(wire.encode("Ping", frame_id=5))
    await _ends_with(connection, "HELLO_REQUIRED", request_type=0x07, frame_id=5)
    await connection.aclose()
    for error, fields in (
        ("MALFORMED", {"magic": b"KIAZ"}),
        ("UNSUPPORTED_VERSION", {"version_min": 2, "version_max": 9}),
    ):
        stranger = await trial.dial()
        await stranger.send_bytes(wire.encode("Hello", frame_id=5, **fields))
        await _ends_with(stranger, error, request_type=0x01, frame_id=5)
        await stranger.aclose()


@STAGE.check(
    "an unknown type and unknown flags are UNSUPPORTED, and the connection goes on",
    hint="This frame was read well: its length was right. So answer, drop it, and go on with the next one.",
    sentences="type.3 flag.1 hello.7 judge.3 judge.4",
)
async def unsupported(trial: Trial) -> None:
    """A type nobody knows, with a body; a flag Ping does not have; a second Hello."""
    connection = await trial.client()
    for frame, kind in (
        (wire.raw_frame(0x7E, trial.payload(40), frame_id=3), 0x7E),
        (wire.encode("Ping", frame_id=3, flags=0x80), 0x07),
        (wire.encode("Hello", frame_id=3), 0x01),
    ):
        await connection.send_frame(frame)
        connection.must_be_error(await connection.reply(3), "UNSUPPORTED", request_type=kind)
        await connection.ping()


@STAGE.check(
    "a client that crashes in the middle of a frame takes nobody with it",
    hint="Whatever reading from a socket can raise, for this client it is the end, and for the server nothing.",
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
    await other.ends()
    await _server_lives(trial, other)
