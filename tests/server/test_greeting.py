"""The greeting: from accept to a Hello that is here whole, over a stream in memory."""

import anyio
import pytest
from peer import GUARD, MemoryStream, Peer
from trio.testing import MockClock, wait_all_tasks_blocked

from zaichik.server.greeting import ForeignProtocol, greet
from zaichik_protocol import (
    ErrorCode,
    FrameDecoder,
    Hello,
    Ping,
    ProtocolError,
    Publish,
    Refused,
    encode,
)
from zaichik_protocol.batch import Batch

pytestmark = pytest.mark.anyio

HELLO = Hello(1, client="somebody")


async def greeted(*pieces, seconds=GUARD, is_ended=False):
    """The first frame of a peer that sends these pieces, and the decoder after it."""
    peer, decoder = Peer(greeting=False), FrameDecoder.for_broker()
    for piece in pieces:
        peer.send_bytes(piece)
    if is_ended:
        peer.end()
    with anyio.fail_after(GUARD):
        return await greet(peer.stream, decoder, seconds), decoder


async def test_a_hello_is_the_first_frame():
    frame, decoder = await greeted(encode(HELLO))
    assert frame == HELLO
    assert decoder.buffered == 0


async def test_a_hello_may_come_byte_by_byte():
    frame, _ = await greeted(*(bytes([byte]) for byte in encode(HELLO)))
    assert frame == HELLO


async def test_what_comes_with_the_hello_is_kept():
    """It is for the conversation."""
    frame, decoder = await greeted(encode(HELLO) + encode(Ping(2, 7)))
    assert frame == HELLO
    decoder.greeted(1000)
    assert decoder.next_frame() == Ping(2, 7)


@pytest.mark.parametrize("first", [b"", encode(HELLO)[:-1]])
async def test_a_hello_that_is_incomplete_in_time_is_refused(first):
    """TIM-1."""
    with pytest.raises(Refused, match=r"no complete Hello within 0\.01 s") as raised:
        await greeted(*[first][: len(first)], seconds=0.01)
    assert raised.value.code is ErrorCode.HANDSHAKE_TIMEOUT


async def test_partial_input_does_not_extend_the_deadline():
    """TIM-1: a peer that always sends the next one in time is refused all the same."""
    peer, decoder = Peer(greeting=False), FrameDecoder.for_broker()

    async def trickle():
        for byte in encode(Hello(1, client="x" * 4000)):
            peer.send_bytes(bytes([byte]))
            await anyio.sleep(0.001)

    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(trickle)
            with pytest.raises(Refused):
                await greet(peer.stream, decoder, 0.02)
            tasks.cancel_scope.cancel()


class StalledStream(MemoryStream):
    """A stream whose bytes come while the broker stands still: no task sees them in time."""

    def __init__(self):
        super().__init__()
        self.arriving = []

    async def receive(self, max_bytes=65536):
        self.incoming.extend(self.arriving)
        self.arriving.clear()
        await anyio.sleep_forever()


async def test_a_hello_that_arrived_while_the_broker_was_stalled_is_read():
    """TIM-1: the time was over before the broker came to look."""
    stream = StalledStream()
    stream.arriving.append(encode(HELLO))
    assert await greet(stream, FrameDecoder.for_broker(), 0) == HELLO


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock()})], ids=["trio"])
async def test_time_in_which_the_broker_stood_still_does_not_count(anyio_backend):
    """TIM-1: the rest of a Hello comes after the stall, in time."""
    _, options = anyio_backend
    peer, first = Peer(greeting=False), []

    async def greeting():
        first.append(await greet(peer.stream, FrameDecoder.for_broker(), 5.0))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(greeting)
        peer.send_bytes(encode(HELLO)[:9])
        await wait_all_tasks_blocked()
        options["clock"].jump(100)
        await wait_all_tasks_blocked()
        assert first == []
        peer.send_bytes(encode(HELLO)[9:])
    assert first == [HELLO]


async def test_an_end_of_stream_during_a_stall_is_an_end():
    stream = StalledStream()
    stream.arriving.append(b"")  # the end
    with pytest.raises(anyio.EndOfStream):
        await greet(stream, FrameDecoder.for_broker(), 0)


@pytest.mark.parametrize("first", [b"", encode(HELLO)[:-1]])
async def test_a_peer_that_goes_before_its_hello_is_an_end(first):
    with pytest.raises(anyio.EndOfStream):
        await greeted(*[first][: len(first)], is_ended=True)


async def test_a_peer_that_resets_before_its_hello_is_gone():
    peer = Peer(greeting=False)
    peer.reset()
    with pytest.raises(anyio.BrokenResourceError):
        await greet(peer.stream, FrameDecoder.for_broker(), GUARD)


async def test_another_frame_than_a_hello_is_an_error():
    with pytest.raises(ProtocolError) as raised:
        await greeted(encode(Ping(2)))
    assert (raised.value.code, raised.value.request_id) == (ErrorCode.HELLO_REQUIRED, 2)


async def test_a_hello_that_is_malformed_is_an_error():
    with pytest.raises(ProtocolError) as raised:
        await greeted(b"\x07\x00\x00\x00")
    assert raised.value.code is ErrorCode.MALFORMED


async def test_a_frame_that_is_too_long_for_a_hello_is_an_error():
    with pytest.raises(ProtocolError) as raised:
        await greeted(b"\xff\xff\x00\x00")
    assert raised.value.code is ErrorCode.FRAME_TOO_LARGE


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (bytes.fromhex("16030100f8010000f40303"), "TLS"),
        (b"*1\r\n$4\r\nPING\r\n", "Redis"),
        (b"SSH-2.0-x\r\n", "SSH"),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 1000])
async def test_another_protocol_is_recognised_by_its_first_bytes(first, name, step):
    with pytest.raises(ForeignProtocol) as raised:
        await greeted(*(first[at : at + step] for at in range(0, len(first), step)))
    assert str(raised.value) == name


async def test_a_frame_of_ours_is_not_taken_for_another_protocol():
    """Its length is 0x0316, as a TLS record begins."""
    frame = encode(Publish(2, "t", Batch.of([(b"", b"p" * (0x0316 - 8 - 16 - 3 - 20))])))
    assert frame.startswith(b"\x16\x03\0")
    with pytest.raises(ProtocolError) as raised:
        await greeted(frame)
    assert raised.value.code is ErrorCode.HELLO_REQUIRED
