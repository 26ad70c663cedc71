"""What a message costs a connection in system calls; tests/broker/test_costs.py has what it costs the core."""

from collections import Counter

import anyio
import pytest
from conversation import batch
from peer import GUARD

from zaichik.net.socket_stream import SocketStream
from zaichik.running import running_broker
from zaichik_protocol import FrameDecoder, Hello, NeedData, Publish, Subscribe, encode

pytestmark = pytest.mark.anyio

ECHOES = 50


@pytest.fixture
def system_calls(monkeypatch):
    """How often each method was called, of those that are one system call each."""
    calls = Counter()

    def count(name, real):
        def counted(*arguments):
            calls[name] += 1
            return real(*arguments)

        monkeypatch.setattr(SocketStream, name, counted)

    for name in ("receive_nowait", "send_pieces_nowait"):
        count(name, getattr(SocketStream, name))
    return calls


async def test_a_message_that_is_echoed_takes_two_system_calls(system_calls):
    """The reply to the publish and the message itself leave together."""
    decoder = FrameDecoder.for_client()

    async def ask(stream, request, replies):
        await stream.send(encode(request))
        for _ in range(replies):
            with anyio.fail_after(GUARD):
                while isinstance(decoder.next_frame(), NeedData):
                    decoder.receive_data(await stream.receive())

    async with running_broker() as server, await anyio.connect_tcp(server.host, server.port) as stream:
        await ask(stream, Hello(1), 1)
        await ask(stream, Subscribe(2, "t", credit=1000, credit_bytes=2**20), 1)
        system_calls.clear()
        for sequence in range(ECHOES):
            await ask(stream, Publish(3, "t", batch(b"m"), producer=1, sequence=sequence), 2)
        assert system_calls == {"receive_nowait": ECHOES, "send_pieces_nowait": ECHOES}
