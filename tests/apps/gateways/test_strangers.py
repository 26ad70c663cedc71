"""What lost clients speak, for the log."""

import socket
import ssl

import anyio
import pytest
import trustme
from brokers import GUARD

from zaichik.apps.gateways.strangers import NoTls, secured, speaks
from zaichik.net.socket_stream import SocketStream

pytestmark = pytest.mark.anyio

CLIENT_HELLO = bytes.fromhex("16030100f8010000f40303")
CONNECT = bytes.fromhex("101000044d5154540402003c000461626364")


@pytest.fixture(scope="module")
def context():
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(made)
    return made


@pytest.fixture
def ends():
    here, there = socket.socketpair()
    here.setblocking(False)
    yield SocketStream(here), there
    there.close()


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (CLIENT_HELLO, "TLS, which is not spoken at this port: see --tls-cert"),
        (CLIENT_HELLO[:4], "TLS, which is not spoken at this port: see --tls-cert"),
        (b"GET / HTTP/1.1\r\n", "HTTP, which is not spoken at this port"),
        (CONNECT, ""),
        (bytes(16), ""),
    ],
)
def test_a_protocol_is_named_unless_it_is_the_right_one(first, words):
    assert speaks(first, "MQTT") == words


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (CONNECT, "it speaks MQTT without TLS, and this port speaks TLS only"),
        (bytes(16), "it speaks something without TLS, and this port speaks TLS only"),
        (CLIENT_HELLO[:1] + bytes(20), "TLS"),
        (b"", "it has left"),
        (CLIENT_HELLO, "the connection was closed before TLS was agreed on"),
    ],
)
async def test_why_there_is_no_tls_is_said_and_the_connection_closed(ends, context, first, problem):
    stream, client = ends
    client.sendall(first)
    client.shutdown(socket.SHUT_WR)
    with anyio.fail_after(GUARD), pytest.raises(NoTls, match=problem):
        await secured(stream, context, GUARD)
    await anyio.to_thread.run_sync(client.makefile("rb").read)  # to its end


async def test_a_client_that_says_nothing_has_so_much_time(ends, context):
    stream, _ = ends
    with pytest.raises(NoTls, match="it did not agree on TLS in time"):
        await secured(stream, context, 0)
