"""The accept loop: what it hands over, and what it survives."""

import errno
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute
from peer import GUARD

from zaichik.net import listener as listener_module
from zaichik.net.listener import Listener
from zaichik.net.socket_stream import SocketStream

pytestmark = pytest.mark.anyio


async def echo(stream, _):
    async with stream:
        try:
            while True:
                await stream.send(await stream.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass


@asynccontextmanager
async def serving(listener, handler=echo):
    """The listener at work, until the block ends."""
    with anyio.fail_after(GUARD):
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, handler, tasks)
            yield listener
            tasks.cancel_scope.cancel()


async def connect(listener, host=None):
    return await SocketStream.connect(host or listener.host, listener.port)


async def assert_echoes(stream):
    await stream.send(b"are you there")
    assert await stream.receive() == b"are you there"


async def assert_turned_away(stream):
    async with stream:
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()


def descriptors():
    return len(os.listdir("/dev/fd"))  # noqa: PTH208


class FailingSocket(socket.socket):
    """A listening socket; each accept first takes an error from `errors`, None for success."""

    errors = ()

    def accept(self):
        if self.errors and (code := self.errors.pop(0)):
            raise OSError(code, os.strerror(code))
        return super().accept()


def failing(*errors):
    """A listener whose accepts fail like that."""
    raw = FailingSocket()
    raw.bind(("127.0.0.1", 0))
    raw.listen()
    raw.errors = list(errors)
    return Listener([raw])


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(listener_module, "PAUSE_SECONDS", 0)


# -- accepting


async def test_each_connection_has_a_handler():
    async with serving(await Listener.open("127.0.0.1", 0)) as listener:
        assert listener.host == "127.0.0.1"
        async with await connect(listener) as one, await connect(listener) as two:
            await two.send(b"two")
            await one.send(b"one")
            assert [await one.receive(), await two.receive()] == [b"one", b"two"]


async def test_each_connection_is_accepted_in_a_turn():
    handled = []

    async def handler(stream, peer):
        handled.append(peer)
        await stream.aclose()

    async with await Listener.open("127.0.0.1", 0) as listener, anyio.create_task_group() as tasks:
        turn = anyio.Event()

        async def next_turn():
            nonlocal turn
            await turn.wait()
            turn = anyio.Event()

        tasks.start_soon(listener.serve, handler, tasks, next_turn)
        for number in range(3):
            async with await connect(listener) as stream:
                await anyio.wait_all_tasks_blocked()
                assert len(handled) == number
                turn.set()
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()
        tasks.cancel_scope.cancel()


async def test_a_handler_gets_the_peers_address():
    told = []

    async def handler(stream, peer):
        told.append(peer)
        await echo(stream, peer)

    async with (
        serving(await Listener.open("127.0.0.1", 0), handler) as listener,
        await connect(listener) as stream,
    ):
        await assert_echoes(stream)
        assert told == [f"127.0.0.1:{stream.extra(SocketAttribute.local_port)}"]


async def test_a_handler_gets_the_address_even_of_a_reset_connection():
    """The socket does not know it any more."""
    told, given = [], anyio.Event()

    async def handler(stream, peer):
        told.append((peer, stream.is_reset))
        await stream.aclose()
        given.set()

    listener = await Listener.open("127.0.0.1", 0)
    scanner = socket.create_connection((listener.host, listener.port))
    peer = f"127.0.0.1:{scanner.getsockname()[1]}"
    scanner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    scanner.close()
    async with serving(listener, handler):
        await given.wait()
    assert told == [(peer, True)]


async def test_a_connection_without_an_address_is_served_too(monkeypatch):
    """On macOS one that is reset may have none."""

    class Nameless(socket.socket):
        def accept(self):
            return super().accept()[0], None

    raw = Nameless()
    raw.bind(("127.0.0.1", 0))
    raw.listen()
    async with serving(Listener([raw])) as listener, await connect(listener) as stream:
        await assert_echoes(stream)


async def test_handlers_run_in_the_given_group_and_outlive_the_accepting():
    async with (
        await Listener.open("127.0.0.1", 0) as listener,
        anyio.create_task_group() as handlers,
    ):
        async with anyio.create_task_group() as accepting:
            accepting.start_soon(listener.serve, echo, handlers)
            stream = await connect(listener)
            await assert_echoes(stream)
            accepting.cancel_scope.cancel()
        async with stream:
            await assert_echoes(stream)


# -- opening and closing


async def test_a_port_in_use_is_an_os_error_and_leaves_nothing():
    async with await Listener.open("127.0.0.1", 0) as listener:
        before = descriptors()
        with pytest.raises(OSError, match=r".+") as caught:
            await Listener.open("127.0.0.1", listener.port)
        assert caught.value.errno == errno.EADDRINUSE
        assert descriptors() == before


def resolve_to(monkeypatch, *addresses):
    async def getaddrinfo(_host, port, **_):
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [
            (family, socket.SOCK_STREAM, 0, "", (address, port))
            for family, address in zip(families, addresses, strict=True)
        ]

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)


async def test_if_one_of_several_addresses_is_unavailable_none_is_used(monkeypatch):
    resolve_to(monkeypatch, "127.0.0.1", "192.0.2.1")
    before = descriptors()
    with pytest.raises(OSError, match=r".+"):
        await Listener.open("many", 0)
    assert descriptors() == before


async def test_all_addresses_have_one_port_and_duplicates_count_once(monkeypatch):
    resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2", "127.0.0.1")
    listener = await Listener.open("many", 0)
    monkeypatch.undo()
    async with serving(listener):
        assert [raw.getsockname() for raw in listener._sockets] == [
            ("127.0.0.1", listener.port),
            ("127.0.0.2", listener.port),
        ]
        for host in ("127.0.0.1", "127.0.0.2"):
            async with await connect(listener, host) as stream:
                await assert_echoes(stream)


async def test_both_families_at_once(monkeypatch):
    """As localhost often has them."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    resolve_to(monkeypatch, "::1", "127.0.0.1")
    listener = await Listener.open("localhost", 0)
    monkeypatch.undo()
    async with serving(listener):
        assert listener.host == "::1"
        for host in ("::1", "127.0.0.1"):
            async with await connect(listener, host) as stream:
                await assert_echoes(stream)


async def test_a_port_that_is_free_at_one_address_only_is_not_taken(monkeypatch):
    """Port 0: the system chooses for the first address, and another program may have that port at
    the second.
    """
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    resolve_to(monkeypatch, "::1", "127.0.0.1")
    bind, asked = socket.socket.bind, []

    class Bound(socket.socket):
        def bind(self, address):
            asked.append(address[:2])
            if len(asked) == 2:
                raise OSError(errno.EADDRINUSE, "in use")
            bind(self, address)

    monkeypatch.setattr(socket, "socket", Bound)
    listener = await Listener.open("localhost", 0)
    monkeypatch.undo()
    async with listener:
        assert [host for host, _ in asked] == ["::1", "127.0.0.1"] * 2
        assert asked[1][1] != 0
        assert asked[3][1] == listener.port


@pytest.mark.usefixtures("patchable")
async def test_without_a_spare_descriptor_there_is_no_listener(monkeypatch):
    def exhausted(_):
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(Listener, "__init__", lambda _, sockets: exhausted(sockets))
    before = descriptors()
    with pytest.raises(OSError, match="too many"):
        await Listener.open("127.0.0.1", 0)
    assert descriptors() == before


async def test_closing_ends_the_accepting_and_leaves_nothing():
    before = descriptors()
    listener = await Listener.open("127.0.0.1", 0)
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, echo, tasks)
            await anyio.wait_all_tasks_blocked()
            await listener.aclose()
    await listener.aclose()  # the second time is nothing
    assert descriptors() == before
    with pytest.raises(OSError, match=r".+"):
        await connect(listener)


async def test_closing_during_a_pause_ends_the_accepting(monkeypatch):
    paused = anyio.Event()

    async def sleep(_):
        paused.set()
        await listener.aclose()

    monkeypatch.setattr(anyio, "sleep", sleep)
    listener = failing(errno.EMFILE)
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, echo, tasks)
            await assert_turned_away(await connect(listener))
    assert paused.is_set()


# -- when accept fails


@pytest.mark.parametrize("code", [errno.ECONNABORTED, errno.EAGAIN, errno.EPROTO])
async def test_a_peer_that_has_gone_already_is_ignored(code, caplog):
    async with serving(failing(code, code)) as listener, await connect(listener) as stream:
        await assert_echoes(stream)
    assert not caplog.records


@pytest.mark.parametrize("code", sorted(listener_module.EXHAUSTED))
async def test_without_descriptors_a_peer_is_closed_and_others_continue(code, caplog, no_pause):
    async with serving(failing(None, code)) as listener, await connect(listener) as first:
        await assert_echoes(first)
        await assert_turned_away(await connect(listener))
        await assert_echoes(first)
        async with await connect(listener) as third:
            await assert_echoes(third)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert os.strerror(code) in record.getMessage()


@pytest.mark.parametrize(("log_seconds", "lines"), [(3600, 1), (0, 5)])
async def test_it_is_not_logged_each_time(monkeypatch, caplog, no_pause, log_seconds, lines):
    monkeypatch.setattr(listener_module, "LOG_SECONDS", log_seconds)
    async with serving(failing(*[errno.EMFILE, None] * 5)) as listener:
        for _ in range(5):
            await assert_turned_away(await connect(listener))
    assert len(caplog.records) == lines


async def test_a_pause_prevents_spinning(monkeypatch):
    """While nothing can be accepted, not even with the spare descriptor, the connection waits in
    the backlog.
    """
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(anyio, "sleep", sleep)
    async with (
        serving(failing(*[errno.EMFILE, errno.EMFILE] * 3)) as listener,
        await connect(listener) as stream,
    ):
        await assert_echoes(stream)
    assert pauses == [listener_module.PAUSE_SECONDS] * 3


async def test_a_lost_spare_descriptor_is_regained(no_pause, monkeypatch):
    """Another thread took it in the moment it was given up."""

    def taken():
        raise OSError(errno.EMFILE, "a thread was quicker")

    listener = failing(errno.EMFILE, errno.EMFILE, None)
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", taken)
        listener._turn_away(listener._sockets[0], "no more descriptors")
    assert listener._spare.fileno() == -1
    async with serving(listener):
        await assert_turned_away(await connect(listener))
        assert listener._spare.fileno() >= 0
        async with await connect(listener) as stream:
            await assert_echoes(stream)
    assert listener._spare.fileno() == -1


EXHAUSTED_SERVER = """
import logging, os, resource, sys
import anyio
from zaichik.net.listener import Listener

async def echo(stream, _):
    async with stream:
        try:
            while True:
                await stream.send(await stream.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass

async def main():
    async with await Listener.open("127.0.0.1", 0) as listener, anyio.create_task_group() as tasks:
        limit = max(map(int, os.listdir("/dev/fd"))) + 4
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        print(listener.port, flush=True)
        await listener.serve(echo, tasks)

logging.basicConfig()
anyio.run(main, backend=sys.argv[1])
"""


def answers(client):
    try:
        client.sendall(b"x")
        return client.recv(1) == b"x"
    except ConnectionError:
        return False


def test_a_process_without_descriptors_continues(anyio_backend):
    """Real ones: connect until one is turned away; then all others still work, and one that leaves
    makes room.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", EXHAUSTED_SERVER, anyio_backend],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    clients, turned_away = [], []
    try:
        port = int(process.stdout.readline())

        def another():
            client = socket.create_connection(("127.0.0.1", port), timeout=GUARD)
            clients.append(client)
            return answers(client)

        started = time.monotonic()
        while another():
            assert len(clients) < 10
        assert len(clients) > 2
        for _ in range(5):
            assert not another()
        turned_away += [clients.pop() for _ in range(6)]
        assert all(map(answers, clients))
        clients.pop().close()
        freed = time.monotonic()
        while not another():
            assert time.monotonic() - freed < GUARD
            turned_away.append(clients.pop())
        assert all(map(answers, clients))
        seconds = time.monotonic() - started
    finally:
        for client in clients + turned_away:
            client.close()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=GUARD)
    assert "Traceback" not in errors
    assert 1 <= errors.count("connections are turned away") <= 1 + seconds
