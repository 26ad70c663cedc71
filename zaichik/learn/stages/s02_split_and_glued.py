"""S2: Split and glued frames.

Goal: One read may bring half a frame, or three and a half. Keep bytes until a frame is complete,
take it out, and check whether the next one is complete, too. An incomplete frame is not an error.

Tested: Frames are cut at every interesting byte, sent byte by byte, and sent many at once. From
here on, every check does all three without mentioning it.

Real systems: The first zaichik, in 2020, mistook half a frame for corruption and cleared its
buffer: it worked on one machine, and lost its place in the stream whenever a network split a frame.
Redis keeps such a buffer for each client (querybuf), Kafka a NetworkReceive that first reads 4
bytes, and then as many as they say.

How: Three outcomes, kept apart: complete, incomplete, invalid. Only the last one is an error.

Where: tutorial/tiny_broker.py, `Connection.read`: receive_exactly(4) for the length, then
receive_exactly(length). With plain sockets: append to a bytearray; while it holds a complete frame,
take that off its front.
"""

import anyio

from zaichik.learn import docstrings, wire
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

# Between pieces, so that a server reads them separately; if too short, it only proves less.
PAUSE_S = 0.01

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=2)


@STAGE.check(
    "a frame that arrives in two pieces is one frame",
    hint="Does your code handle a read that ends inside the length field? Inside the header? "
    "Inside the body?",
    sentences="frame.4",
)
async def in_two_pieces(trial: Trial) -> None:
    """Cut inside and after the length, inside and after the header, and inside the body."""
    connection = await trial.client()
    await connection.flush()
    for cut in (1, 4, 7, 12, 15, 19):
        value = trial.rng.getrandbits(64)
        frame = wire.encode("Ping", frame_id=cut, value=value)
        await connection.send_bytes(frame[:cut], "the beginning of a Ping")
        await anyio.sleep(PAUSE_S * trial.scale)
        await connection.send_bytes(frame[cut:], "its rest")
        connection.must_be(await connection.reply(cut), "Pong", value=value)


@STAGE.check(
    "a whole conversation may arrive byte by byte",
    hint="A read may return a single byte. Do you rely on the size of a read anywhere?",
    sentences="frame.4",
)
async def byte_by_byte(trial: Trial) -> None:
    """Hello and two Pings, with a short pause between bytes."""
    connection = await trial.dial()
    frames = [
        wire.encode("Hello", frame_id=1),
        *(wire.encode("Ping", frame_id=i, value=i) for i in (2, 3)),
    ]
    for frame in frames:
        for byte in frame[:-1]:
            await connection.send_bytes(bytes([byte]), "a byte")
            await anyio.sleep(0.001)
        await connection.send_bytes(frame[-1:], "the frame's last byte")
    connection.must_be(await connection.reply(1), "Welcome")
    for frame_id in (2, 3):
        connection.must_be(await connection.reply(frame_id), "Pong", value=frame_id)


@STAGE.check(
    "several frames and half of another may arrive in one read",
    hint="After a frame, check the buffer again before you wait: the next one may be there.",
    sentences="frame.4 hello.4 open.1",
)
async def glued(trial: Trial) -> None:
    """Hello and two and a half Pings at once, then the other half with two more."""
    connection = await trial.dial()
    pings = [wire.encode("Ping", frame_id=number, value=number) for number in range(2, 7)]
    cut = trial.rng.randrange(1, 20)
    await connection.send_bytes(
        wire.encode("Hello", frame_id=1) + pings[0] + pings[1] + pings[2][:cut], "2½ Pings"
    )
    connection.must_be(await connection.reply(1), "Welcome")
    for number in (2, 3):
        connection.must_be(await connection.reply(number), "Pong", value=number)
    await connection.send_bytes(
        pings[2][cut:] + pings[3] + pings[4], "the other half, and two more"
    )
    for number in (4, 5, 6):
        connection.must_be(await connection.reply(number), "Pong", value=number)
