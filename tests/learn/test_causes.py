"""What is said about the mistakes that nearly everybody makes once."""

import re
import socket
import struct

import anyio
import pytest
from anyio.abc import SocketAttribute
from learn_hosts import answering, find

from zaichik.learn import causes, wire
from zaichik.learn.runner import run_check
from zaichik.learn.stage import Check
from zaichik.learn.trial import Pace

pytestmark = pytest.mark.anyio

WELCOME = wire.encode(
    "Welcome",
    frame_id=1,
    version=1,
    features=0,
    boot=5,
    max_frame=5000,
    max_batch=5,
    max_message=5,
    max_credit=5,
    idle_ms=0,
    broker="b",
)


async def hello(stream):
    return await stream.receive()


def says(data):
    """A server that answers Hello with these bytes."""

    async def handler(stream):
        await hello(stream)
        await stream.send(data)
        await anyio.sleep_forever()

    return handler


async def echo(stream):
    await stream.send(await hello(stream))
    await anyio.sleep_forever()


async def ends(stream):
    await hello(stream)


async def resets(stream):
    await hello(stream)
    raw = stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("handler", "summary", "cause"),
    [
        (says(struct.pack(">I", 61) + WELCOME[4:]), "not a frame", "little-endian"),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not a frame", 'this is text, "HTTP/1.1'),
        (says(b"OK\r\n"), "not a frame", "this is text"),
        (
            says(struct.pack("<I", len(WELCOME)) + WELCOME[4:]),
            "nothing came",
            "count its own four bytes",
        ),
        (
            says(struct.pack("<I", len(WELCOME) - 12) + WELCOME[4:]),
            "not a frame",
            "leave out part of the header",
        ),
        (
            says(struct.pack("<I", 3) + WELCOME[4:]),
            "not a frame",
            "the other 8 bytes of the header",
        ),
        (says(WELCOME[:30]), "nothing came", "but 30 came"),
        (says(WELCOME[:5]), "nothing came", "not even its header"),
        (says(struct.pack("<I", len(WELCOME) - 3) + WELCOME[4:] + b"!"), "has 1 more byte", ""),
        (says(WELCOME[:4] + b"\x01" + WELCOME[5:]), "never sends|not a frame", "the top bit set"),
        (says(WELCOME[:4] + b"\x7e" + WELCOME[5:]), "never sends a frame of type 0x7e", ""),
        (echo, "never sends", "echoes"),
        (ends, "ended the connection", "look for an exception"),
        (resets, "broke", "RST"),
    ],
)
async def test_a_wrong_answer_to_hello_is_told_with_a_likely_cause(handler, summary, cause):
    async with answering(handler) as host:
        result = await find(host, "S1.1", summary)
    assert result.outcome == "failed"
    assert re.search(summary, result.failure.summary), result.failure.summary
    assert cause in result.failure.cause


async def test_offsets_that_are_left_out_are_told():
    """Each alone may be right: only somebody who knows that nothing was missing can tell."""
    batch = [(b"", b"a"), (b"", b"b")]
    data = wire.encode(
        "Messages", frame_id=7, flags=1, base=3, accepted_us=0, deltas=[0, 2], batch=batch
    )

    async def receive(trial):
        client = await trial.dial()
        await client.send("Ping")
        await client.expect_messages(7, 3, batch)

    async with answering(says(data)) as host:
        result = await run_check(
            Check("S5.1", 5, "a check", ("a hint",) * 3, receive), host, [0], Pace()
        )
    assert result.failure.summary == "offsets were skipped, although no message was missing"


def test_without_a_good_guess_nothing_is_said():
    assert causes.of_bytes(b"") == ""
    assert causes.of_bytes(bytes.fromhex("ffffffffffffffffffffffff")) == ""
