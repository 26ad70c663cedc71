"""S3: A bad frame ends its connection, and nothing else.

Goal: Tell three kinds of trouble apart. Not agreeing where frames begin (a length that cannot be, fields that do not
add up) is answered with a fatal Error, and the connection closes. A request that is understood and cannot be carried
out is answered, and the connection goes on. The server goes on in any case.

Tested: Frames with one thing wrong each. After a fatal Error the stream must end; after any other a Ping must work;
after each of them a new client must be served.

Real systems: Kafka refuses requests above socket.request.max.bytes (100 MiB by default) and closes; NATS answers -ERR
'Unknown Protocol Operation' and closes; AMQP 0-9-1 has two levels like ours, channel errors and connection errors.
Without an upper limit for the length, 4 bytes of anybody's make a server ask for 4 GiB of memory.

How: protocol/README.md, section 6, has the order in which to judge: length, zero, Hello first, type, flags, the body's
size, what is inside the fields. Codes below 64 are fatal, and have flag 2 (FATAL).

Where: tutorial/tiny_broker.py: `require` raises, `answer` catches and calls `fail`, which sends an Error and sets
`done` if the code is below 64. To close without a RST: end your side, then read on until the client is gone.
"""

import struct
from typing import Any

from zaichik.learn import layouts, vectors, wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Skipped
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

MOST_TO_SEND = 16 * 2**20  # bytes
PINGS, BEHIND = 300, 3000

STAGE = Stage.told(__doc__, chapter=3, frames="Error")


async def _ends(connection: Connection, data: bytes, note: str, error: str, kind: int = 0, **fields: Any) -> None:
    """Send what ends a connection, and see it end."""
    await connection.send_bytes(data, note)
    await connection.ended_by(error, kind, **fields)


def _of_length(length: int) -> tuple[bytes, str]:
    return struct.pack("<I", length), f"a length of {length}"


async def _server_lives(trial: Trial, broken: Connection) -> None:
    """One client at a time: more than that is the next stage's."""
    await broken.aclose()
    async with await trial.client() as other:
        await other.ping()


@STAGE.check(
    "a length below 8 is MALFORMED, and the connection ends",
    hint="The length counts 8 bytes of header at least. Judge it as soon as you have its 4 bytes.",
    sentences="frame.2 error.2 error.3 judge.1 judge.8",
)
async def too_short(trial: Trial) -> None:
    """7 and 0."""
    for length in (7, 0):
        connection = await trial.client()
        await _ends(connection, *_of_length(length), "MALFORMED")
        await _server_lives(trial, connection)


@STAGE.check(
    "a length above the limit is FRAME_TOO_LARGE at once, without waiting for the body",
    hint="You promised max_frame in your Welcome. Before Hello the limit is 4,096. Compare before you read the body.",
    sentences="hello.2 error.2 error.3 judge.1 judge.8",
)
async def too_long(trial: Trial) -> None:
    """After Hello and before it."""
    connection = await trial.client()
    await _ends(connection, *_of_length(connection.limits["max_frame"] + 1), "FRAME_TOO_LARGE")
    await connection.aclose()
    stranger = await trial.dial()
    await _ends(stranger, struct.pack("<I", 4097), "a length of 4097, before Hello", "FRAME_TOO_LARGE")
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
        frame = wire.raw_frame(0x07, bytes(size), frame_id=5)
        await _ends(connection, frame, f"a Ping with {size} bytes", "MALFORMED", 0x07, id=5)
        await _server_lives(trial, connection)


@STAGE.check(
    "two bytes of the header that are not zero are MALFORMED",
    hint="Bytes 6 and 7 are for later versions of the protocol. Who sends something there means something.",
    sentences="judge.2 judge.8",
)
async def not_zero(trial: Trial) -> None:
    """A Ping whose zero is 1."""
    frame = wire.encode("Ping", frame_id=5, zero=1)
    await _ends(await trial.client(), frame, "zero = 1", "MALFORMED", 0x07, id=5)


@STAGE.check(
    "the first frame must be a Hello, with the letters ZAIK and a version that is known",
    hint="Until a Hello was accepted, any other type is HELLO_REQUIRED, and every error is fatal.",
    sentences="hello.1 hello.6 hello.9 hello.15 error.3 judge.3",
)
async def hello_first(trial: Trial) -> None:
    """A Ping; other letters; versions of the future."""
    for error, kind, frame in (
        ("HELLO_REQUIRED", 0x07, wire.encode("Ping", frame_id=5)),
        ("MALFORMED", 0x01, wire.encode("Hello", frame_id=5, magic=b"KIAZ")),
        ("UNSUPPORTED_VERSION", 0x01, wire.encode("Hello", frame_id=5, version_min=2, version_max=9)),
    ):
        async with await trial.dial() as connection:
            await _ends(connection, frame, "", error, kind, id=5)


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
    how="Reading can raise: connection reset, broken pipe, an end in the middle of a frame. Catch it around the whole "
    "connection, close the socket, and return.",
    where="tutorial/tiny_broker.py: `Connection.read` takes an end in the middle of a frame for the end; whatever "
    "else goes wrong stays in `Connection.run`.",
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


@STAGE.check(
    "frames as large as you allow are read, and larger ones are not",
    hint="A limit is the largest that is right: 4,096 before Hello, max_frame after it. Compare with >, not with >=.",
    sentences="hello.2 hello.4 judge.1 welcome.4",
)
async def at_the_limit(trial: Trial) -> None:
    """A Hello of 4,096 and one of 4,097; types nobody knows, of max_frame and one byte more."""
    hello = {length: wire.encode("Hello", frame_id=5, client="x" * (length - 31)) for length in (4096, 4097)}
    async with await trial.dial() as connection:
        await connection.send_bytes(hello[4096], "a Hello with a length of 4096")
        await connection.receives("Welcome", id=5)
    async with await trial.dial() as connection:
        await _ends(connection, hello[4097], "a Hello with a length of 4097", "FRAME_TOO_LARGE")
    connection = await trial.client()
    most = connection.limits["max_frame"]
    if most > MOST_TO_SEND:
        raise Skipped(f"max_frame is {most:,}, and this check sends no more than {MOST_TO_SEND:,} bytes")
    await connection.send_bytes(wire.raw_frame(0x7E, bytes(most - 8), frame_id=5), f"a frame with a length of {most}")
    frame_ = await connection.read(awaited="an Error")
    connection.must_be_error(frame_, "UNSUPPORTED", request_type=0x7E, id=5, at="type")
    await _ends(connection, *_of_length(most + 1), "FRAME_TOO_LARGE")


@STAGE.check(
    "what came before a bad frame is answered, and nothing behind it is carried out",
    hint="Answer in order, then the Error, then FIN, and read on for a second: to close a socket with unread bytes in "
    "it destroys what you have sent.",
    sentences="close.7 judge.8 judge.9",
)
async def around(trial: Trial) -> None:
    """Hundreds of Pings, a bad frame, and much behind it, in one piece."""
    connection = await trial.client()
    pings = [wire.encode("Ping", frame_id=2, value=value) for value in range(PINGS)]
    behind = wire.encode("Ping", frame_id=3) * BEHIND
    await connection.send_bytes(b"".join(pings) + wire.encode("Ping", frame_id=5, zero=1) + behind, "Pings, one bad")
    for value in range(PINGS):
        await connection.receives("Pong", id=2, value=value)
    await connection.ended_by("MALFORMED", 0x07, id=5)


@STAGE.check(
    "a Hello that is refused ends the connection, and what follows it is not carried out",
    hint="Every error before a Hello was accepted is fatal, whatever its code. Stop reading requests there.",
    sentences="hello.5 hello.6 hello.9 hello.15 hello.16 error.3",
)
async def refused_hello(trial: Trial) -> None:
    """An auth nobody knows, versions before the first, other letters; a good Hello and a Ping behind each."""
    behind = wire.encode("Hello", frame_id=6) + wire.encode("Ping", frame_id=7)
    for error, field, fields in (
        ("INVALID_FIELD", "auth", {"auth": 3}),
        ("UNSUPPORTED_VERSION", None, {"version_min": 0, "version_max": 0}),
        ("MALFORMED", None, {"magic": b"zaik"}),
    ):
        hello, note = wire.encode("Hello", frame_id=5, **fields), f"Hello with {fields}, Hello, Ping"
        async with await trial.dial() as connection:
            await _ends(connection, hello + behind, note, error, 0x01, at=field, id=5, flags=layouts.FATAL)


@STAGE.check(
    "every bad frame that Hello, Ping or an unknown type can be is refused as the test vectors say",
    hint="protocol/vectors/invalid.json has bytes and errors. If several things are wrong, the first level counts.",
    sentences="judge.1 judge.2 judge.3 judge.4 judge.5 judge.6 judge.7 flag.1 type.3 frame.3",
    once=True,
)
async def bad_frames(trial: Trial) -> None:
    """Those of types that later stages need are for S14."""
    await vectors.refuse(trial, lambda kind: kind in {-1, 0x01, 0x07} or kind not in layouts.REQUESTS)
