"""The byte stream over a socket, over real sockets on loopback."""

import contextlib
import gc
import os
import random
import select
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import warnings
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute
from anyio.lowlevel import checkpoint
from anyio.streams.tls import TLSStream
from silence import refusing, silent

from zaichik.net import attempts
from zaichik.net.socket_stream import (
    DEAD_SECONDS,
    MAX_PIECES,
    SocketStream,
    first_bytes,
    without_first,
)

pytestmark = pytest.mark.anyio

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass
MIB = 2**20


@asynccontextmanager
async def connected():
    """A stream and a plain socket at its other end; both are closed at the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = await SocketStream.connect(*server.getsockname())
        peer, _ = server.accept()
    with peer, anyio.fail_after(GUARD):
        async with stream:
            yield stream, peer


@asynccontextmanager
async def pair():
    """Two streams, connected to each other."""
    async with connected() as (one, peer), SocketStream(peer.dup()) as other:
        peer.close()
        yield one, other


def taken_at_once(stream, data):
    """How many of the bytes are sent without waiting."""
    return len(data) - sum(map(len, stream.send_pieces_nowait([data])))


def fill(stream):
    """Send until no more is taken; how much that was."""
    total = 0
    while taken := taken_at_once(stream, b"x" * MIB):
        total += taken
    return total


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


async def read(stream, count):
    data = bytearray()
    while len(data) < count:
        data += await stream.receive()
    return bytes(data)


async def raises(expected, function, *arguments):
    with pytest.raises(expected):
        await function(*arguments)


def descriptors():
    return len(os.listdir("/dev/fd"))  # noqa: PTH208


@pytest.fixture
def no_leak():
    """No socket is left to the garbage collector."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(item.message) for item in caught if item.category is ResourceWarning] == []


# -- sending and receiving


async def test_what_a_peer_has_not_acknowledged_goes_before_more_is_accepted():
    """LAG-3: what tells a peer that reads slowly from one that reads nothing."""
    async with connected() as (stream, peer):
        fill(stream)
        held = stream.unacknowledged_bytes
        assert held > 0
        while stream.unacknowledged_bytes == held:
            peer.recv(1024)
        assert stream.unacknowledged_bytes < held
        _, writable, _ = select.select([], [stream.extra(SocketAttribute.raw_socket)], [], 0)
        assert not writable
    assert stream.unacknowledged_bytes is None


async def test_bytes_go_both_ways():
    async with connected() as (stream, peer):
        await stream.send(b"there")
        assert peer.recv(9) == b"there"
        peer.sendall(b"and back")
        assert await stream.receive() == b"and back"


async def test_at_most_max_bytes_are_received_and_the_rest_next():
    async with connected() as (stream, peer):
        peer.sendall(b"abcdef")
        assert [await stream.receive(2) for _ in range(3)] == [b"ab", b"cd", b"ef"]


async def test_receive_waits_after_exactly_as_much_as_was_asked_for():
    """There may be more, so it tries; there is none, so it waits."""
    async with connected() as (stream, peer), anyio.create_task_group() as tasks:
        peer.sendall(b"ab")
        assert await stream.receive(2) == b"ab"
        received = []

        async def receive():
            received.append(await stream.receive())

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        assert not received
        peer.sendall(b"c")
    assert received == [b"c"]


async def test_the_end_comes_after_the_last_bytes_and_stays():
    async with connected() as (stream, peer):
        peer.sendall(b"last")
        peer.close()
        assert await stream.receive() == b"last"
        for _ in range(2):
            await raises(anyio.EndOfStream, stream.receive)


async def test_after_send_eof_receiving_goes_on():
    async with connected() as (stream, peer):
        await stream.send_eof()
        assert peer.recv(1) == b""
        peer.sendall(b"still here")
        assert await stream.receive() == b"still here"


async def test_a_big_send_to_a_slow_reader_arrives_whole():
    data = random.Random(1).randbytes(16 * MIB)
    async with pair() as (stream, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, data)
        await anyio.wait_all_tasks_blocked()
        received = bytearray()
        while len(received) < len(data):
            received += await peer.receive(65_536)
            await checkpoint()
    assert received == data


async def test_many_pieces_to_a_slow_reader_arrive_whole_and_in_order():
    """More of them than one call takes, of sizes that end anywhere in the room of the socket."""
    chance = random.Random(1)
    pieces = [chance.randbytes(chance.randrange(20_000)) for _ in range(2 * MAX_PIECES)]
    async with pair() as (stream, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send_pieces, pieces)
        await anyio.wait_all_tasks_blocked()
        received = bytearray()
        while len(received) < sum(map(len, pieces)):
            received += await peer.receive(65_536)
            await checkpoint()
    assert received == b"".join(pieces)


async def test_nothing_is_sent_at_once_while_the_peer_does_not_read():
    async with pair() as (stream, peer):
        total = 0
        while taken := fill(stream):
            total += taken
            await anyio.wait_all_tasks_blocked()
        assert taken_at_once(stream, b"x") == 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.wait_writable)
            await read(peer, total)
        assert taken_at_once(stream, b"y") == 1
        assert await peer.receive() == b"y"


# -- fairness and back-pressure


async def pushed_unread(sender, most):
    """How many bytes a peer gets rid of while nobody receives, of at most that many."""
    total = idle = 0
    while total < most and idle < 50:
        taken = taken_at_once(sender, b"x" * MIB)
        total += taken
        idle = 0 if taken else idle + 1
        await checkpoint()
    return total


async def test_nothing_is_read_without_a_receive():
    """A peer pushes 400 MiB; the kernel's buffers take a little, this process nothing."""
    async with pair() as (_, peer):
        assert await pushed_unread(peer, 400 * MIB) < 32 * MIB


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_why_this_is_not_anyios_own_stream():
    """It reads from the first moment on: all of the 64 MiB.

    When it no longer does, this module may go.
    """
    served = anyio.Event()

    async def ignore(stream):
        async with stream:
            served.set()
            await anyio.sleep_forever()

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, ignore)
        port = listener.extra(SocketAttribute.local_port)
        with anyio.fail_after(GUARD):
            async with await SocketStream.connect("127.0.0.1", port) as peer:
                await served.wait()
                await peer.send(b"x" * 64 * MIB)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("what", ["receive", "send"])
async def test_other_tasks_run_although_there_is_always_something_to_do(what):
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with pair() as (stream, peer), anyio.create_task_group() as tasks:
        await peer.send(b"x" * 1000)
        tasks.start_soon(count)
        for _ in range(1000):
            await (stream.receive(1) if what == "receive" else stream.send(b"x"))
        tasks.cancel_scope.cancel()
    assert turns >= 900


# -- a host with several addresses ----------------------------------------------------------------


@pytest.fixture
def resolve(monkeypatch):
    """Have every name stand for these addresses; each attempt begins at once."""

    def as_these(*places):
        async def found(*_, **__):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

        monkeypatch.setattr(anyio, "getaddrinfo", found)

    monkeypatch.setattr(attempts, "DELAY_SECONDS", 0.0)
    return as_these


async def test_an_address_that_is_silent_does_not_hide_the_next(resolve):
    with silent() as (*_, deaf), socket.create_server(("127.0.0.1", 0)) as server:
        resolve(deaf, server.getsockname())
        with anyio.fail_after(GUARD):
            async with await SocketStream.connect("name", 1) as stream:
                assert stream.extra(SocketAttribute.remote_address) == server.getsockname()
    gc.collect()


async def test_connecting_to_a_silent_host_can_be_cancelled_and_leaves_no_socket(resolve):
    with silent() as (*_, deaf):
        resolve(deaf, deaf)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(SocketStream.connect, "name", 1)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    # A socket that is not closed is a ResourceWarning, and an error.
    gc.collect()


async def test_the_failure_of_the_last_address_is_raised(resolve):
    with refusing() as (*_, nobody):
        resolve(nobody, nobody)
        with pytest.raises(ConnectionRefusedError):
            await SocketStream.connect("name", 1)


async def test_a_host_without_addresses_is_an_error(resolve):
    resolve()
    with pytest.raises(OSError, match="name has no address"):
        await SocketStream.connect("name", 1)


# -- the end of a connection


async def test_a_reset_breaks_everything():
    async with connected() as (stream, peer):
        fill(stream)
        reset(peer)
        await raises(anyio.BrokenResourceError, stream.receive)
        await raises(anyio.BrokenResourceError, stream.send, b"x")
        await raises(anyio.BrokenResourceError, stream.send_eof)
        with pytest.raises(anyio.BrokenResourceError):
            taken_at_once(stream, b"x")


@pytest.mark.parametrize("what", ["receive", "send", "wait_writable"])
async def test_a_reset_wakes_waiting_tasks(what):
    """One who waits: of several, the first is told, and the kernel forgets it with that."""
    async with connected() as (stream, peer), anyio.create_task_group() as tasks:
        if what == "receive":
            tasks.start_soon(raises, anyio.BrokenResourceError, stream.receive)
        elif what == "send":
            tasks.start_soon(raises, anyio.BrokenResourceError, stream.send, b"x" * 64 * MIB)
        else:
            fill(stream)
            tasks.start_soon(stream.wait_writable)  # the next send will tell
        await anyio.wait_all_tasks_blocked()
        reset(peer)


async def test_a_closed_stream_says_so():
    async with connected() as (stream, _):
        await stream.aclose()
        await stream.aclose()  # the second time is nothing
        await raises(anyio.ClosedResourceError, stream.receive)
        await raises(anyio.ClosedResourceError, stream.send, b"x")
        await raises(anyio.ClosedResourceError, stream.wait_writable)
        await raises(anyio.ClosedResourceError, stream.send_eof)
        with pytest.raises(anyio.ClosedResourceError):
            taken_at_once(stream, b"x")


async def test_closing_with_bytes_unread_says_so_too():
    async with connected() as (stream, peer):
        peer.sendall(b"abc")
        await stream.receive(1)
        await stream.aclose()
        await raises(anyio.ClosedResourceError, stream.receive)


@pytest.mark.parametrize("sending", ["send", "wait_writable"])
async def test_closing_wakes_waiting_tasks(sending):
    async with connected() as (stream, _), anyio.create_task_group() as tasks:
        fill(stream)
        send = [stream.send, b"x" * 64 * MIB] if sending == "send" else [stream.wait_writable]
        tasks.start_soon(raises, anyio.ClosedResourceError, stream.receive)
        tasks.start_soon(raises, anyio.ClosedResourceError, *send)
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()


async def test_a_stream_that_was_told_to_reset_drops_what_the_peer_has_not_read():
    """LAG-3: or else the system would hold it for as long as the peer likes."""
    async with connected() as (stream, peer):
        assert fill(stream)
        stream.reset()
        await stream.aclose()
        peer.settimeout(GUARD)
        with pytest.raises(ConnectionResetError):
            b"".join(iter(lambda: peer.recv(MIB), b""))


async def test_resetting_a_closed_stream_does_nothing():
    async with connected() as (stream, _):
        await stream.aclose()
        stream.reset()


async def test_a_cancelled_close_closes():
    async with connected() as (stream, peer):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.aclose()
        assert stream.extra(SocketAttribute.raw_socket).fileno() == -1
        assert peer.recv(1) == b""


# -- cancellation


@pytest.mark.parametrize("drained", [False, True])
async def test_a_receive_cancelled_from_the_start_takes_nothing(drained):
    async with connected() as (stream, peer):
        peer.sendall(b"abcdef")
        assert await stream.receive(9 if drained else 2)
        assert stream.is_drained is drained
        if drained:
            peer.sendall(b"cdef")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.receive()
        assert scope.cancelled_caught
        assert await stream.receive() == b"cdef"


async def test_a_receive_cancelled_while_it_waits_takes_nothing():
    async with connected() as (stream, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.receive)
            await anyio.wait_all_tasks_blocked()
            peer.sendall(b"abc")
            tasks.cancel_scope.cancel()
        assert await stream.receive() == b"abc"


async def test_whenever_receives_are_cancelled_nothing_is_lost():
    rng = random.Random(1)
    sent, received = bytearray(), bytearray()

    async with connected() as (stream, peer):

        async def receive_for_ever():
            while True:
                received.extend(await stream.receive(rng.choice([1, 7, 1000])))

        for number in range(300):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive_for_ever)
                for _ in range(rng.randrange(4)):
                    await checkpoint()
                data = bytes([number % 256]) * rng.randrange(1, 20)
                sent += data
                peer.sendall(data)
                for _ in range(rng.randrange(4)):
                    await checkpoint()
                tasks.cancel_scope.cancel()
        received += (
            await read(stream, len(sent) - len(received)) if len(received) < len(sent) else b""
        )
    assert received == sent


async def test_a_cancelled_send_has_sent_a_beginning():
    data = random.Random(1).randbytes(32 * MIB)
    async with pair() as (stream, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, data)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await stream.aclose()
        received = bytearray()
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                received += await peer.receive()
    assert 0 < len(received) < len(data)
    assert data.startswith(received)


# -- connecting


@pytest.fixture
def nobodys_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def resolve_to(monkeypatch, *addresses):
    async def getaddrinfo(_host, port, **_):
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in addresses
        ]

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)


async def test_a_refused_connection_is_an_os_error(nobodys_port, no_leak):
    with pytest.raises(ConnectionRefusedError):
        await SocketStream.connect("127.0.0.1", nobodys_port)


async def test_an_unknown_host_is_an_os_error():
    with pytest.raises(OSError, match=r".+"):
        await SocketStream.connect("no-such-host.invalid", 1)


async def test_a_host_without_addresses_is_an_os_error(monkeypatch):
    resolve_to(monkeypatch)
    with pytest.raises(OSError, match="nowhere has no address"):
        await SocketStream.connect("nowhere", 1)


async def test_of_several_addresses_the_first_that_answers(monkeypatch, no_leak):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # whoever connects is refused, and nobody else can listen there
        port = deaf.getsockname()[1]
        resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2", "127.0.0.3")
        with socket.create_server(("127.0.0.2", port)):
            async with await SocketStream.connect("many", port) as stream:
                assert stream.extra(SocketAttribute.remote_address) == ("127.0.0.2", port)


async def test_an_address_of_an_unsupported_family_is_skipped(monkeypatch, no_leak):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        async def getaddrinfo(*_, **__):
            return [
                (family, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))
                for family in (9999, socket.AF_INET)
            ]

        monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
        await (await SocketStream.connect("many", port)).aclose()


async def test_a_connection_established_at_once_needs_no_wait(monkeypatch):
    """Some systems do that on loopback."""

    async def never(_):
        pytest.fail("nothing to wait for")

    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    monkeypatch.setattr(anyio, "wait_writable", never)
    await (await SocketStream.connect("127.0.0.1", 1)).aclose()


async def test_cancelled_connecting_closes_the_socket(monkeypatch, no_leak):
    waits = anyio.Event()

    async def wait_writable(_):
        waits.set()
        await anyio.sleep_forever()

    def connect(*_):
        raise BlockingIOError

    monkeypatch.setattr(anyio, "wait_writable", wait_writable)
    monkeypatch.setattr(socket.socket, "connect", connect)
    before = descriptors()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(SocketStream.connect, "127.0.0.1", 1)
        await waits.wait()
        assert descriptors() == before + 1
        tasks.cancel_scope.cancel()
    assert descriptors() == before


async def test_a_peer_that_has_gone_already_is_noticed_by_receiving():
    """On macOS options are refused then; here a socket that is not TCP's does."""
    one, two = socket.socketpair()
    two.close()
    async with SocketStream(one) as stream:
        await raises(anyio.EndOfStream, stream.receive)


# -- for anyio


async def test_attributes():
    async with connected() as (stream, peer):
        host, port = peer.getpeername()
        assert stream.extra(SocketAttribute.family) == socket.AF_INET
        assert stream.extra(SocketAttribute.local_address) == (host, port)
        assert stream.extra(SocketAttribute.local_port) == port
        assert stream.extra(SocketAttribute.remote_address) == peer.getsockname()
        assert stream.extra(SocketAttribute.remote_port) == peer.getsockname()[1]
        raw = stream.extra(SocketAttribute.raw_socket)
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert raw.getsockname() == (host, port)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of a server called localhost, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"


async def test_tls_goes_over_it(certificate, no_leak):
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_context.load_cert_chain(*certificate)
    client_context = ssl.create_default_context(cafile=certificate[0])
    data = random.Random(1).randbytes(4 * MIB)

    async def echo(stream):
        async with await TLSStream.wrap(
            stream, server_side=True, ssl_context=server_context
        ) as tls:
            await tls.send(await read(tls, len(data)))
            await raises(anyio.EndOfStream, tls.receive)

    async with pair() as (one, other), anyio.create_task_group() as tasks:
        tasks.start_soon(echo, other)
        async with await TLSStream.wrap(
            one, hostname="localhost", ssl_context=client_context
        ) as tls:
            tasks.start_soon(tls.send, data)
            assert await read(tls, len(data)) == data
            assert tls.extra(SocketAttribute.remote_port) == other.extra(SocketAttribute.local_port)


# -- a function for each piece that comes


async def test_receive_each_hands_over_all_bytes_in_order_until_the_end():
    data = os.urandom(3 * MIB)
    taken = bytearray()
    async with pair() as (one, other), anyio.create_task_group() as tasks:

        async def send():
            await other.send(data)
            await other.send_eof()

        tasks.start_soon(send)
        with pytest.raises(anyio.EndOfStream):
            await one.receive_each(lambda piece: taken.extend(piece) is None)
    assert taken == data


async def test_receive_each_ends_when_told_and_takes_not_a_byte_more():
    async with pair() as (one, other):
        await other.send(b"first")
        await one.receive_each(lambda piece: piece != b"first")
        await other.send(b"second")
        await checkpoint()
        assert await one.receive() == b"second"


async def test_what_the_function_raises_comes_out_and_the_stream_goes_on():
    def fail(_piece):
        raise KeyError("x")

    async with pair() as (one, other):
        await other.send(b"first")
        with pytest.raises(KeyError, match="x"):
            await one.receive_each(fail)
        await other.send(b"second")
        assert await one.receive() == b"second"


async def test_a_cancelled_receive_each_has_taken_nothing_since():
    taken = []
    async with pair() as (one, other):
        with anyio.move_on_after(0):
            await one.receive_each(lambda piece: taken.append(piece) is None)
        await other.send(b"later")
        await checkpoint()
        assert await one.receive() == b"later"
        assert taken == []


async def test_closing_wakes_a_receive_each():
    async with connected() as (stream, _), anyio.create_task_group() as tasks:

        async def receive():
            with pytest.raises(anyio.ClosedResourceError):
                await stream.receive_each(lambda _: True)

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()


async def test_receive_each_on_a_closed_stream_says_so():
    async with connected() as (stream, _):
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive_each(lambda _: True)


async def test_tcp_probes_a_silent_peer():
    """P7: a cable that was pulled says nothing."""
    async with connected() as (stream, _):
        raw = stream.extra(SocketAttribute.raw_socket)
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if sys.platform == "linux":
            names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            idle, every, times, most_ms = (
                raw.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names
            )
            assert idle + every * times == DEAD_SECONDS == most_ms // 1000


async def test_receiving_each_can_be_ended_and_begun_again():
    async with pair() as (one, other):
        for data in (b"first", b"second", b"third"):
            await other.send(data)
            taken = []
            await one.receive_each(lambda piece, taken=taken: taken.append(piece))
            assert taken == [data]


async def test_only_one_task_may_receive_each_at_a_time():
    async with connected() as (stream, _), anyio.create_task_group() as tasks:
        tasks.start_soon(stream.receive_each, lambda _: True)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await stream.receive_each(lambda _: True)
        tasks.cancel_scope.cancel()


async def test_a_peer_that_resets_ends_a_receive_each():
    async with connected() as (stream, peer):
        reset(peer)
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive_each(lambda _: True)


# -- a function for each time that something has come


async def test_each_readable_calls_back_as_long_as_something_is_there():
    """It is for the function to receive it, now or later."""
    received, calls = [], 0

    async with connected() as (stream, peer):

        def readable():
            nonlocal calls
            calls += 1
            if calls % 2:  # left for the next time
                received.append(stream.receive_nowait(2))
            return len(received) < 3

        peer.sendall(b"abcdef")
        await stream.each_readable(readable)
        assert received == [b"ab", b"cd", b"ef"]
        assert stream.receive_nowait() == b""


async def test_each_readable_calls_back_at_the_end_too():
    ends = []

    async with connected() as (stream, peer):

        def readable():
            try:
                stream.receive_nowait()
            except anyio.EndOfStream:
                ends.append(True)
            return not ends

        peer.close()
        await stream.each_readable(readable)
    assert ends == [True]


async def test_each_readable_that_was_ended_leaves_what_comes_in_the_socket():
    calls = []
    async with pair() as (one, other):
        await other.send(b"first")
        await one.each_readable(lambda: calls.append(True))
        for _ in range(5):
            await checkpoint()
        assert calls == [True]
        assert one.receive_nowait() == b"first"
        await other.send(b"second")
        await checkpoint()
        assert calls == [True]


async def test_a_function_that_is_called_back_may_cancel_the_task_that_waits():
    async with connected() as (stream, peer):
        with anyio.CancelScope() as scope:

            def readable():
                scope.cancel()
                return False

            peer.sendall(b"x")
            await stream.each_readable(readable)
        assert stream.receive_nowait() == b"x"


async def test_receive_nowait_returns_nothing_if_nothing_is_there():
    async with connected() as (stream, peer):
        assert stream.receive_nowait() == b""
        peer.sendall(b"x")
        await stream.wait_readable()
        assert stream.receive_nowait() == b"x"
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            stream.receive_nowait()


async def test_a_receive_tells_whether_it_has_taken_all_there_was():
    async with connected() as (stream, peer):
        peer.sendall(b"abcd")
        await stream.wait_readable()
        for data, is_drained in ((b"ab", False), (b"cd", False), (b"", True)):
            assert stream.receive_nowait(2) == data
            assert stream.is_drained is is_drained
        peer.sendall(b"e")
        await stream.wait_readable()
        assert stream.receive_nowait(2) == b"e"
        assert stream.is_drained


# -- pieces


async def test_pieces_are_sent_as_if_they_were_one():
    pieces = [b"%d," % number for number in range(3000)]  # more than one system call takes
    async with connected() as (stream, peer):
        rest = stream.send_pieces_nowait(pieces)
        assert rest == pieces[MAX_PIECES:]
        while rest:
            rest = stream.send_pieces_nowait(rest)
        await stream.send_eof()
        assert b"".join(iter(lambda: peer.recv(65536), b"")) == b"".join(pieces)


async def test_unsent_pieces_are_returned_without_a_copy():
    async with pair() as (one, other):
        pieces = [os.urandom(MIB) for _ in range(16)]
        rest = one.send_pieces_nowait(pieces)
        while (
            still := one.send_pieces_nowait(rest)
        ) != rest:  # the kernel moves it on, and takes a little more
            rest = still
        assert rest, "the peer must read first"
        assert rest[0].obj is pieces[-len(rest)]
        assert all(
            piece is same for piece, same in zip(rest[1:], pieces[1 - len(rest) :], strict=True)
        )
        whole = bytearray()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.send, b"".join(rest))
            while len(whole) < 16 * MIB:
                whole += await other.receive()
        assert whole == b"".join(pieces)


@pytest.mark.parametrize(
    "pieces", [[b"abc"], [b"a", b"bc"], [b"", b"ab", b"", b"c", b""], [memoryview(b"abc")], []]
)
def test_the_first_bytes_of_pieces_are_left_out_wherever_they_end(pieces):
    whole = b"".join(pieces)
    for size in range(len(whole) + 1):
        left = without_first(pieces, size)
        assert first_bytes(pieces, size) == whole[:size]
        assert b"".join(left) == whole[size:]
        assert bool(left) == (size < len(whole)), "nothing is left of what is empty"


async def test_pieces_for_a_peer_that_is_gone_are_an_error():
    async with connected() as (stream, peer):
        reset(peer)
        await anyio.wait_readable(
            stream.extra(SocketAttribute.raw_socket)
        )  # the reset is known here
        with pytest.raises(anyio.BrokenResourceError):
            stream.send_pieces_nowait([b"x"])
