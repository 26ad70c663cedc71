"""TLS over streams: in memory, where every cut can be chosen, and over real sockets, with OpenSSL's
own client.
"""

import contextlib
import datetime as dt
import random
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest
import trio
import trio.testing
import trustme
from anyio.lowlevel import checkpoint
from anyio.streams.tls import TLSStream
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given
from hypothesis import strategies as st
from simulation.network import Pipe, SimulatedSocket, Weather

from zaichik.net.socket_stream import SocketStream, first_bytes, without_first
from zaichik.net.stream import Stream
from zaichik.net.tls import HELD_BYTES, SEAL_BYTES, TlsStream
from zaichik.net.tls_engine import TlsEngine, TlsFailed, pin_of
from zaichik.net.tls_handshake import handshake

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass
MIB = 2**20
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)
BAD_RECORD = (
    "RECORD_LAYER_FAILURE" if ssl.OPENSSL_VERSION_INFO >= (3, 2) else ""
)  # all it says of a bad record
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
LONG_AGO = dt.datetime(2020, 1, 1)  # noqa: DTZ001 (trustme takes it as UTC)

CA, STRANGER = trustme.CA(), trustme.CA()
CERTIFICATE = CA.issue_cert("localhost")
PIN = pin_of(ssl.PEM_cert_to_DER_cert(CERTIFICATE.cert_chain_pems[0].bytes().decode()))


def server_context(version=None, certificate=CERTIFICATE):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    certificate.configure_cert(context)
    return at(context, version)


def client_context(version=None, authority=CA):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return at(context, version)


def at(context, version):
    if version:
        context.minimum_version = context.maximum_version = VERSIONS[version]
    return context


class Wire(Stream):
    """One end of a connection in memory.

    Attributes:
        arrived: bytes that came and were not received.
        room: how many more bytes it takes.
        cuts: how many bytes each receive takes at most, from a generator.
        sent: all that was sent.
        asked: how many bytes each receive has asked for.
    """

    def __init__(self, cuts=None):
        self.arrived, self.sent, self.asked = bytearray(), bytearray(), []
        self.room = 10**9
        self.cuts = cuts
        self.other = None
        self.is_drained = True
        self.is_ended = self.is_closed = self.was_reset = False
        self.is_silent = False  # it is an error to wait for more

    def receive_nowait(self, max_bytes=10**9):
        self.asked.append(max_bytes)
        if self.is_closed:
            raise anyio.ClosedResourceError
        if not self.arrived and self.other.is_ended:
            raise anyio.EndOfStream
        size = min(max_bytes, next(self.cuts)) if self.cuts else max_bytes
        data = bytes(self.arrived[:size])
        del self.arrived[:size]
        return data

    def send_pieces_nowait(self, pieces):
        if self.is_closed:
            raise anyio.ClosedResourceError
        data = first_bytes(pieces, self.room)
        self.room -= len(data)
        self.sent += data
        self.other.arrived += data
        return without_first(pieces, len(data))

    async def wait_readable(self):
        assert not self.is_silent, "nothing more will come"
        await checkpoint()

    async def each_readable(self, callback):
        await self.wait_readable()
        while callback():
            await self.wait_readable()

    async def wait_writable(self):
        await checkpoint()

    async def send_eof(self):
        self.is_ended = True

    async def aclose(self):
        self.is_ended = self.is_closed = True

    def reset(self):
        self.was_reset = True

    is_reset = False
    unacknowledged_bytes = 7


def wires():
    one, other = Wire(), Wire()
    one.other, other.other = other, one
    return one, other


def agreed(client, server, lower):
    """Two engines after their handshake, as streams over these; what was said is not on the wire
    any more.
    """
    engines = TlsEngine(client, "localhost"), TlsEngine(server)
    done = [False, False]
    while not all(done):
        for index, engine in enumerate(engines):
            done[index] = engine.do_handshake()
            engines[1 - index].feed(engine.output())
    streams = [TlsStream(stream, engine) for stream, engine in zip(lower, engines, strict=True)]
    for stream in streams:
        assert stream.receive_nowait() == b""
    for stream in lower:
        stream.asked.clear()
    return streams


def in_memory(version=None):
    """A client, a server, and the wires below."""
    lower = wires()
    return *agreed(client_context(version), server_context(version), lower), *lower


@asynccontextmanager
async def sockets(buffer=0):
    """Two connected streams."""
    with socket.socket() as listening, anyio.fail_after(GUARD):
        if buffer:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        one = await SocketStream.connect(*listening.getsockname())
        other, _ = listening.accept()
        async with one, SocketStream(other) as accepted:
            yield one, accepted


async def both(client, server):
    """What the two ends of a handshake come to: a stream or an error, each."""
    results = [None, None]

    async def go(index, stream, *arguments):
        try:
            results[index] = await handshake(stream, *arguments)
        except GONE as error:
            results[index] = error
            await stream.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go, 0, *client)
        tasks.start_soon(go, 1, *server)
    return results


@asynccontextmanager
async def encrypted(version=None, buffer=0):
    """Two encrypted streams, client and server, over sockets."""
    async with sockets(buffer) as (one, other):
        client, server = await both(
            (one, client_context(version), "localhost"), (other, server_context(version))
        )  # fmt: skip
        async with client, server:
            yield client, server


async def read(stream, count):
    data = bytearray()
    while len(data) < count:
        data += await stream.receive()
    return bytes(data)


async def rest_of(stream):
    data = bytearray()
    with contextlib.suppress(anyio.EndOfStream):
        while True:
            data += await stream.receive()
    return bytes(data)


def everything(stream):
    """All that can be received without waiting."""
    data = bytearray(stream.receive_nowait())
    while not stream.is_drained:
        data += stream.receive_nowait()
    return bytes(data)


def ends_with(expected, stream):
    errors = []
    for _ in range(2):  # an end stays
        with pytest.raises(expected) as caught:
            stream.receive_nowait()
        errors.append(caught.value)
    assert errors[0] is not errors[1], "its traceback would keep alive what the connection held"
    return errors[0]


# -- the handshake


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_bytes_go_both_ways(version):
    async with encrypted(version) as (client, server):
        await client.send(b"there")
        assert await server.receive() == b"there"
        await server.send(b"and back")
        assert await client.receive() == b"and back"
        assert client.engine.state.version() == server.engine.state.version() == f"TLSv{version}"


def test_it_goes_over_a_network_in_memory_in_any_weather():
    bad = Weather(latency_ms=(0, 1, 300), piece=7, buffer=100, stall=0.1, stall_ms=2000, short=0.5)
    data = random.Random(1).randbytes(30_000)

    async def converse():
        chance = random.Random(1)
        up, down = Pipe(chance, bad), Pipe(chance, bad)
        client, server = await both(
            (SimulatedSocket(down, up, 1), client_context(), "localhost"),
            (SimulatedSocket(up, down, 1), server_context()),
        )
        async with trio.open_nursery() as tasks:
            tasks.start_soon(client.send, data)
            tasks.start_soon(server.send, data[::-1])
            tasks.start_soon(expect, client, data[::-1])
            tasks.start_soon(expect, server, data)

    async def expect(stream, wanted):
        assert await read(stream, len(wanted)) == wanted

    trio.run(converse, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.anyio
async def test_what_was_received_before_the_handshake_counts():
    """A server may look at the first bytes to see whether it is TLS at all."""
    async with sockets() as (one, other), anyio.create_task_group() as tasks:
        tasks.start_soon(handshake, one, client_context(), "localhost")
        first = await other.receive(5)
        assert first.startswith(b"\x16\x03")
        await handshake(other, server_context(), received=first)


def said_with_the_last_flight(version, data):
    """A server that has received, in one piece, the end of a client's handshake and this; and its
    wire.
    """
    one, other = wires()
    client, server = (
        TlsEngine(client_context(version), "localhost"),
        TlsEngine(server_context(version)),
    )
    client.do_handshake()
    server.feed(client.output())
    server.do_handshake()
    client.feed(server.output())
    last = b""
    while not client.do_handshake():  # in TLS 1.2, whose last flight is the server's
        server.feed(client.output())
        server.do_handshake()
        client.feed(server.output())
    last += client.output() + b"".join(client.encrypt(data))
    server.feed(last)
    assert server.do_handshake()
    other.is_silent = True
    return TlsStream(other, server), one


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_bytes_that_came_with_the_last_flight_need_no_socket(version):
    server, _ = said_with_the_last_flight(version, b"Hello")
    assert await server.receive() == b"Hello"


@pytest.mark.anyio
async def test_a_function_for_each_piece_gets_those_too():
    server, _ = said_with_the_last_flight("1.3", b"Hello")
    taken = []
    await server.receive_each(taken.append)
    assert taken == [b"Hello"]


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("certificate", "authority", "host", "pins", "words"),
    [
        (CA.issue_cert("localhost", not_after=LONG_AGO), CA, "localhost", (), "has expired"),
        (CERTIFICATE, CA, "example.org", (), "not valid for 'example.org'"),
        (CERTIFICATE, STRANGER, "localhost", (), "unable to get local issuer certificate"),
        (CERTIFICATE, CA, "localhost", {"sha256:" + "0" * 64}, PIN),
    ],
    ids=["expired", "other name", "unknown CA", "other pin"],
)
async def test_no_byte_leaves_for_a_broker_that_cannot_be_trusted(
    certificate, authority, host, pins, words, version
):
    async with sockets() as (one, other):
        client, server = await both(
            (one, client_context(version, authority), host, pins),
            (other, server_context(version, certificate)),
        )
        assert isinstance(client, TlsFailed)
        assert client.is_hopeless
        assert words in str(client)
        if isinstance(server, TlsStream):  # a pin is compared when TLS 1.2 has finished
            assert (version, bool(pins)) == ("1.2", True)
            ends_with(anyio.EndOfStream, server)
            assert server.is_truncated
        else:
            assert isinstance(server, TlsFailed)


@pytest.mark.anyio
async def test_of_a_client_a_broker_with_another_pin_learns_nothing_but_that_it_was_there():
    one, other = wires()
    client, server = await both(
        (one, client_context("1.3"), "localhost", {"sha256:" + "0" * 64}),
        (other, server_context("1.3")),
    )
    assert (client.reason, server.reason) == ("OTHER_CERTIFICATE", "CLOSED")
    size = int.from_bytes(one.sent[3:5], "big")
    assert one.sent[5 + size :] == b"", "nothing but the ClientHello"


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_any_of_the_pins_will_do(version):
    async with sockets() as (one, other):
        context = client_context(version, STRANGER)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        pins = {"sha256:" + "0" * 64, PIN}
        for end in await both((one, context, "", pins), (other, server_context(version))):
            assert isinstance(end, TlsStream)


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "certificate", [None, STRANGER.issue_cert(common_name="ana")], ids=["none", "unknown CA"]
)
async def test_a_client_is_told_that_its_certificate_is_not_accepted(certificate, version):
    """In TLS 1.3 only by its first receive: by then, its own handshake was complete."""
    asking, shown = server_context(version), client_context(version)
    CA.configure_trust(asking)
    asking.verify_mode = ssl.CERT_REQUIRED
    if certificate:
        certificate.configure_cert(shown)
    async with sockets() as (one, other):
        client, server = await both((one, shown, "localhost"), (other, asking))
        assert isinstance(server, TlsFailed)
        if version == "1.3":
            with pytest.raises(TlsFailed) as caught:
                await client.receive()
            client = caught.value
        assert client.is_hopeless
        words = (
            "does not accept"
            if certificate
            else "required"
            if version == "1.3"
            else "shows no certificate"
        )
        assert words in str(client)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLSV1_ALERT_PROTOCOL_VERSION", "does not speak TLS"),
        (
            b"HTTP/1.1 400 Bad Request\r\n",
            BAD_RECORD or "WRONG_VERSION_NUMBER",
            "does not speak TLS",
        ),
        (b"", "CLOSED", "was closed before"),
    ],
)
async def test_a_client_at_a_port_without_tls_is_told_so(answer, reason, words):
    one, other = wires()
    other.send_pieces_nowait([answer])
    await other.send_eof()
    with pytest.raises(TlsFailed, match=words) as caught:
        await handshake(one, client_context(), "localhost")
    assert caught.value.reason == reason
    assert caught.value.is_hopeless == (reason not in {"CLOSED", BAD_RECORD})


def test_an_error_that_python_has_no_name_for_is_known_by_its_words():
    """Python 3.11 does not know the names that OpenSSL 3.2 brought."""
    error = ssl.SSLError(1, "[SSL] record layer failure (_ssl.c:992)")
    error.reason = None
    failure = TlsFailed.from_error(error)
    assert (failure.reason, failure.is_hopeless) == ("RECORD_LAYER_FAILURE", False)
    assert str(failure).startswith(
        "the port does not speak TLS, or what it sends is changed on the way"
    )


@pytest.mark.anyio
async def test_a_handshake_that_fails_tells_the_other_end_why():
    async with sockets() as (one, other):
        client, server = await both(
            (one, client_context("1.2"), "localhost"), (other, server_context("1.3"))
        )
        assert (client.reason, server.reason) == (
            "TLSV1_ALERT_PROTOCOL_VERSION",
            "UNSUPPORTED_PROTOCOL",
        )
        assert "since 1.2" in str(client)


@pytest.mark.anyio
async def test_a_broken_connection_is_no_failure_of_tls():
    async with sockets() as (one, other):
        other.reset()
        await other.aclose()
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await handshake(one, client_context(), "localhost")
        assert not isinstance(caught.value, TlsFailed)


# -- sending


def test_bytes_count_as_sent_when_their_ciphertext_has_left():
    """What was not taken is offered again, and not a byte that counts waits for another call."""
    client, server, wire, _ = in_memory()
    chance = random.Random(1)
    pieces = [chance.randbytes(size) for size in (0, 10, 3 * SEAL_BYTES, 0, 1, SEAL_BYTES - 11)]
    whole, left, received = b"".join(pieces), pieces, b""
    while left:
        wire.room = chance.choice((0, 1, 1000, SEAL_BYTES, 2 * SEAL_BYTES))
        left = client.send_pieces_nowait(left)
        received += everything(server)
        assert len(whole) - sum(map(len, left)) <= len(received)
    assert received == whole


def test_what_is_offered_again_is_not_encrypted_again():
    client, _, wire, _ = in_memory()
    left = [bytes(SEAL_BYTES)]
    while left:
        wire.room = 1000
        left = client.send_pieces_nowait(left)
    assert len(wire.sent) < SEAL_BYTES + 5 * 30  # of each record


def test_other_bytes_in_their_place_are_an_error():
    client, _, wire, _ = in_memory()
    wire.room = 1000
    assert client.send_pieces_nowait([b"a" * 5000])
    with pytest.raises(ValueError, match="must begin with the bytes"):
        client.send_pieces_nowait([b"b" * 5000])


def test_unsent_pieces_are_returned_without_a_copy():
    client, _, wire, _ = in_memory()
    pieces = [bytes(SEAL_BYTES), bytes(SEAL_BYTES), bytes(10)]
    wire.room = SEAL_BYTES + 1000
    left = client.send_pieces_nowait(pieces)
    assert [piece is same for piece, same in zip(left, pieces[1:], strict=True)] == [True, True]


def test_many_small_pieces_are_one_record():
    client, server, wire, _ = in_memory()
    assert client.send_pieces_nowait([b"%4d" % number for number in range(1000)]) == []
    assert len(wire.sent) < 4000 + 30
    assert everything(server) == b"".join(b"%4d" % number for number in range(1000))


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_much_arrives_whole_through_small_buffers_at_a_slow_reader(version):
    data = random.Random(1).randbytes(10 * MIB)

    async def send():
        await client.send(data)
        await client.send_eof()

    async with (
        encrypted(version, buffer=4096) as (client, server),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(send)
        received = bytearray()
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                received += await server.receive(20_000)
                await checkpoint()
        assert received == data
        assert not server.is_truncated


@pytest.mark.anyio
async def test_both_ends_send_much_at_once():
    data = random.Random(1).randbytes(4 * MIB)
    async with encrypted() as (client, server), anyio.create_task_group() as tasks:
        tasks.start_soon(client.send, data)
        tasks.start_soon(server.send, data[::-1])
        async with anyio.create_task_group() as reading:
            for stream, wanted in ((client, data[::-1]), (server, data)):

                async def expect(stream=stream, wanted=wanted):
                    assert await read(stream, len(wanted)) == wanted

                reading.start_soon(expect)


# -- receiving


@given(
    pieces=st.lists(st.integers(0, 40_000), max_size=5),
    cuts=st.lists(st.integers(1, 30_000), min_size=1),
    asked=st.lists(st.integers(1, 70_000), min_size=1),
    version=st.sampled_from([*VERSIONS]),
)
def test_bytes_come_whole_however_the_ciphertext_is_cut(pieces, cuts, asked, version):
    client, server, _, wire = in_memory(version)
    chance = random.Random(1)
    data = [chance.randbytes(size) for size in pieces]
    client.send_pieces_nowait(data)
    client.engine.finish()
    client._flush()
    wire.cuts = iter(lambda: chance.choice(cuts), 0)
    received = bytearray()
    with contextlib.suppress(anyio.EndOfStream):
        while True:
            most = chance.choice(asked)
            got = server.receive_nowait(most)
            assert len(got) <= most
            received += got
    assert received == b"".join(data)
    assert not server.is_truncated


def test_openssl_gets_one_record_at_a_time():
    """Its queues keep as much memory as they ever held, and it goes through all that is in them."""
    client, server, *_ = in_memory()
    counted = []

    def count(queue, name):
        call = getattr(queue, name)
        return SimpleNamespace(**{name: lambda *data: counted.append(call(*data)) or counted[-1]})

    client.engine._outgoing = count(client.engine._outgoing, "read")
    server.engine._incoming = count(server.engine._incoming, "write")
    client.send_pieces_nowait([bytes(MIB)])
    assert len(everything(server)) == MIB
    sizes = [size if isinstance(size, int) else len(size) for size in counted]
    assert 16 * 1024 < max(sizes) < 16 * 1024 + 256


def test_an_idle_connection_keeps_part_of_a_record_at_most():
    client, server, _, other = in_memory()
    client.send_pieces_nowait([bytes(MIB)])
    last = other.arrived.pop()
    assert len(everything(server)) == MIB - 16 * 1024
    assert len(server.engine._input) < 17 * 1024
    other.arrived.append(last)
    assert len(everything(server)) == 16 * 1024
    assert server.engine._input == b""


def test_a_turn_is_bounded_in_bytes():
    client, server, _, wire = in_memory()
    client.send_pieces_nowait([bytes(MIB)])
    received = 0
    while received < MIB:
        before = len(wire.arrived)
        received += len(server.receive_nowait())
        assert before - len(wire.arrived) <= 128 * 1024
        assert not server.is_drained or received == MIB


def test_a_turn_is_bounded_in_records():
    """One-byte records: each of them costs as much to decrypt as one of a thousand bytes."""
    client, server, *_ = in_memory()
    for number in range(5000):
        client.send_pieces_nowait([bytes([number % 256])])
    received = bytearray()
    while not server.is_drained or not received:
        received += (data := server.receive_nowait())
        assert len(data) <= 64
    assert received == bytes(number % 256 for number in range(5000))


def test_after_as_many_bytes_as_asked_for_there_may_be_more():
    client, server, *_ = in_memory()
    client.send_pieces_nowait([b"abcdef"])
    for data, is_drained in ((b"abcd", False), (b"ef", True), (b"", True)):
        assert server.receive_nowait(4) == data
        assert server.is_drained is is_drained


def test_threads_do_not_mix_what_they_decrypt():
    """OpenSSL works beside other threads, and the place that it decrypts to is shared by all
    streams of one.
    """
    wrong = []

    def converse(letter):
        client, server, *_ = in_memory()
        for _ in range(300):
            client.send_pieces_nowait([letter * 50_000])
            wrong.extend({*everything(server)} - {*letter})

    threads = [threading.Thread(target=converse, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.anyio
async def test_a_function_for_each_piece_gets_all_of_them_in_order():
    data = random.Random(1).randbytes(3 * MIB)
    taken = bytearray()

    async def send():
        await client.send(data)
        await client.send_eof()

    async with encrypted() as (client, server), anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        with pytest.raises(anyio.EndOfStream):
            await server.receive_each(lambda piece: taken.extend(piece) is None)
    assert taken == data


@pytest.mark.anyio
async def test_what_a_function_leaves_here_is_offered_again_though_no_socket_announces_it():
    client, server, _, wire = in_memory()
    client.send_pieces_nowait([b"abcdef"])
    taken = []

    def readable():
        taken.append(server.receive_nowait(2))
        wire.is_silent = True
        return len(taken) < 3

    await server.each_readable(readable)
    assert taken == [b"ab", b"cd", b"ef"]


@pytest.mark.anyio
async def test_a_cancelled_receive_takes_nothing():
    async with encrypted() as (client, server):
        await client.send(b"abc")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await server.receive()
        assert await read(server, 3) == b"abc"


# -- the end


def test_the_end_comes_after_bytes_that_came_with_it():
    client, server, *_ = in_memory()
    client.send_pieces_nowait([b"last"])
    client.engine.finish()
    client._flush()
    assert server.receive_nowait() == b"last"
    assert not server.is_drained, "the socket will not announce the end"
    ends_with(anyio.EndOfStream, server)
    assert not server.is_truncated


def test_an_end_that_was_not_announced_is_one_too():
    client, server, wire, _ = in_memory()
    client.send_pieces_nowait([b"last"])
    wire.is_ended = True
    assert server.receive_nowait() == b"last"
    ends_with(anyio.EndOfStream, server)
    assert server.is_truncated


@pytest.mark.parametrize("version", VERSIONS)
def test_a_byte_that_was_changed_on_the_way_ends_the_connection(version):
    client, server, _, wire = in_memory(version)
    client.send_pieces_nowait([b"whole"])
    at = len(wire.arrived)
    client.send_pieces_nowait([b"changed"])
    wire.arrived[at + 10] ^= 1
    assert server.receive_nowait() == b"whole"
    assert (BAD_RECORD or "BAD_RECORD_MAC") in ends_with(TlsFailed, server).reason
    assert not server.is_truncated
    with pytest.raises(anyio.BrokenResourceError):
        server.send_pieces_nowait([b"x"])


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1", b"\x17\x03\x03\xff\xff", b"\x17\x03\x03\x00\x03abc"]
)
def test_so_does_what_is_no_record(garbage):
    client, server, wire, _ = in_memory()
    client.send_pieces_nowait([b"whole"])
    wire.send_pieces_nowait([garbage])
    assert server.receive_nowait() == b"whole"
    ends_with(TlsFailed, server)


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_after_send_eof_receiving_goes_on(version):
    async with encrypted(version) as (client, server):
        await server.send(b"on its way")
        await client.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await server.receive()
        assert not server.is_truncated
        await server.send(b"still here")
        assert await read(client, 20) == b"on its waystill here"
        with pytest.raises(anyio.BrokenResourceError):
            await client.send(b"x")
        await server.send_eof()
        assert await rest_of(client) == b""


@pytest.mark.anyio
async def test_the_end_is_sent_after_what_waits():
    client, server, wire, _ = in_memory()
    wire.room = 100
    assert client.send_pieces_nowait([b"a" * 1000])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.send_eof)
        for _ in range(5):
            await checkpoint()
        assert not wire.is_ended
        wire.room = 5000
    assert wire.is_ended
    assert server.receive_nowait() == b"a" * 1000
    ends_with(anyio.EndOfStream, server)
    assert not server.is_truncated


@pytest.mark.anyio
async def test_closing_says_goodbye_if_that_needs_no_wait():
    client, server, wire, _ = in_memory()
    await client.aclose()
    ends_with(anyio.EndOfStream, server)
    assert not server.is_truncated
    client, server, wire, _ = in_memory()
    wire.room = 0
    await client.aclose()
    assert wire.is_closed
    ends_with(anyio.EndOfStream, server)
    assert server.is_truncated


@pytest.mark.anyio
async def test_a_closed_stream_says_so():
    client, server, *_ = in_memory()
    server.send_pieces_nowait([b"unread"])
    assert client.receive_nowait(2) == b"un"
    await client.aclose()
    await client.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        client.send_pieces_nowait([b"x"])
    ends_with(anyio.ClosedResourceError, client)


@pytest.mark.anyio
async def test_a_reset_says_no_goodbye():
    client, _, wire, _ = in_memory()
    client.reset()
    await client.aclose()
    assert wire.was_reset
    assert not wire.sent
    async with encrypted() as (client, server):
        client.reset()
        await client.aclose()
        with pytest.raises(anyio.BrokenResourceError):
            await server.receive()
        assert server.is_reset


@pytest.mark.anyio
async def test_what_the_peer_has_not_acknowledged_is_what_the_stream_below_says():
    async with encrypted() as (client, _):
        assert client.unacknowledged_bytes is not None
    assert client.unacknowledged_bytes is None  # the socket is closed


@pytest.mark.anyio
async def test_closing_wakes_a_receive():
    async with encrypted() as (client, _), anyio.create_task_group() as tasks:

        async def receive():
            with pytest.raises(anyio.ClosedResourceError):
                await client.receive()

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await client.aclose()


# -- what TLS says by itself


def test_replies_of_tls_itself_leave_though_nobody_sends():
    client, server, wire, _ = in_memory()
    client.engine._outgoing.write(b"a reply")
    server.send_pieces_nowait([b"x"])
    assert client.receive_nowait() == b"x"
    assert wire.sent == b"a reply"


def test_a_peer_cannot_make_replies_pile_up():
    client, server, wire, _ = in_memory()
    wire.room = 0
    for _ in range(HELD_BYTES // 1000 + 1):
        client.engine._outgoing.write(bytes(1000))
        server.send_pieces_nowait([b"x"])
        assert client.receive_nowait() == b"x"
    assert "does not read the replies" in str(ends_with(TlsFailed, client))


def expanded(secret, label, size):
    """HKDF-Expand-Label of RFC 8446, 7.1."""
    info = struct.pack(">HB", size, 6 + len(label)) + b"tls13 " + label + b"\0"
    return HKDFExpand(SHA384(), size, info).derive(secret)


UPDATE = b"\x18\x00\x00\x01\x01" + b"\x16"  # keys, in both directions
LETTER = b"x" + b"\x17"


def crafted(folder, records):
    """A server that has received these records, from a client that its own TLS would not make; and
    its wire.
    """
    context = client_context("1.3")
    context.keylog_filename = str(folder / "keys")
    wire, other = wires()
    client, server = agreed(context, server_context("1.3"), (wire, other))
    assert client.engine.state.cipher()[0] == "TLS_AES_256_GCM_SHA384"
    (line,) = (
        line
        for line in (folder / "keys").read_text().splitlines()
        if line.startswith("CLIENT_TRAFFIC")
    )
    secret, number = bytes.fromhex(line.split()[2]), 0
    for record in records:
        header = struct.pack(">BHH", 23, 0x303, len(record) + 16)
        nonce = int.from_bytes(expanded(secret, b"iv", 12), "big") ^ number
        sealed = AESGCM(expanded(secret, b"key", 32)).encrypt(
            nonce.to_bytes(12, "big"), record, header
        )
        wire.send_pieces_nowait([header + sealed])
        secret, number = (
            (expanded(secret, b"traffic upd", 48), 0) if record == UPDATE else (secret, number + 1)
        )
    return server, other


def test_a_peer_cannot_keep_tls_busy_with_itself(tmp_path):
    """Each KeyUpdate takes as long as a hundred records, and OpenSSL would go through all that it
    is given.
    """
    server, wire = crafted(tmp_path, [UPDATE] * 200)
    turns = 0
    while not server._end:
        before = len(wire.sent)
        with contextlib.suppress(TlsFailed):
            assert server.receive_nowait() == b""
        assert len(wire.sent) - before <= 5 * 27, "replies in one turn"
        turns += 1
        assert turns < 50
    assert turns > 1, "some are allowed"
    assert "keeps TLS busy" in str(ends_with(TlsFailed, server))


def test_a_peer_that_sends_may_update_its_keys_as_often_as_it_likes(tmp_path):
    server, _ = crafted(tmp_path, [*[UPDATE] * 20, LETTER] * 5)
    assert everything(server) == b"xxxxx"


# -- other implementations


@pytest.mark.anyio
async def test_it_talks_with_another_implementation():
    data = random.Random(1).randbytes(MIB)

    async def echo():
        async with await TLSStream.wrap(
            other, server_side=True, ssl_context=server_context()
        ) as stream:
            await stream.send(await read(stream, len(data)))
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()

    async with sockets() as (one, other), anyio.create_task_group() as tasks:
        tasks.start_soon(echo)
        async with await handshake(one, client_context(), "localhost") as client:
            await client.send(data)
            assert await read(client, len(data)) == data


@asynccontextmanager
async def echoing(context):
    """The port of a server that repeats what it gets; and what became of each handshake."""
    ends = []
    async with anyio.create_task_group() as tasks, contextlib.AsyncExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)

        async def accept():
            while True:
                await anyio.wait_readable(listening)
                raw, _ = listening.accept()
                tasks.start_soon(echo, SocketStream(raw))

        async def echo(stream):
            async with stream:
                try:
                    async with await handshake(stream, context) as tls:
                        ends.append(tls.engine.state.version())
                        with contextlib.suppress(anyio.EndOfStream):
                            while True:
                                await tls.send(await tls.receive())
                except GONE as error:
                    ends.append(getattr(error, "reason", "broken"))

        tasks.start_soon(accept)
        yield listening.getsockname()[1], ends
        tasks.cancel_scope.cancel()


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")


async def s_client(port, *options, say=b"hello\n"):
    """What OpenSSL's client prints."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-ign_eof", *options]
    with anyio.fail_after(GUARD):
        async with await anyio.open_process(
            command, stdin=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            output = bytearray()
            with contextlib.suppress(anyio.BrokenResourceError):
                await process.stdin.send(say)
            async for data in process.stdout:
                output += data
                if b"\nhello\n" in output:
                    process.terminate()
    return bytes(output)


@needs_openssl
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "end"),
    [
        (["-tls1_2"], "TLSv1.2"),
        (["-tls1_3"], "TLSv1.3"),
        (["-alpn", "h2"], "TLSv1.3"),
        (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "UNSUPPORTED_PROTOCOL"),
    ],
)
async def test_openssls_own_client(options, end):
    context = server_context()
    context.minimum_version = VERSIONS["1.2"]
    context.set_alpn_protocols(["zaichik/1"])
    async with echoing(context) as (port, ends):
        output = await s_client(port, *options)
        assert ends == [end]
        assert (b"\nhello\n" in output) == end.startswith("TLS")


@needs_openssl
@pytest.mark.anyio
async def test_keys_can_be_updated():
    """OpenSSL's client asks for it if a line is `K`; the server replies, and both go on."""
    async with echoing(server_context("1.3")) as (port, ends):
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}"]
        with anyio.fail_after(GUARD):
            async with await anyio.open_process(
                command, stdin=subprocess.PIPE, stderr=subprocess.STDOUT
            ) as process:
                output = bytearray()
                for line, answer in (
                    (b"K\n", b"KEYUPDATE"),
                    (b"hello\n", b"\nhello\n"),
                    (b"again\n", b"\nagain\n"),
                ):
                    await process.stdin.send(line)
                    while answer not in output:
                        output += await process.stdout.receive()
                process.terminate()
        assert ends == ["TLSv1.3"]
