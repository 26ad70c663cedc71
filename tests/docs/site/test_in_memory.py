"""A broker and its clients in one process, without sockets: what a browser runs."""

import json
import logging

import anyio
import in_memory
import pytest
import stage_here
from in_memory import ROOM_BYTES, MemoryListener, MemoryStream, Pipe, connect

from zaichik.net.socket_stream import SocketStream
from zaichik.server import server

pytestmark = pytest.mark.anyio
GUARD = 60  # seconds after which a test that hangs fails


@pytest.fixture
def ends():
    """Both ends of a connection."""
    there, back = Pipe(), Pipe()
    return MemoryStream(there, back), MemoryStream(back, there)


async def test_what_one_end_sends_the_other_receives(ends):
    one, other = ends
    await one.send(b"hello")
    assert await other.receive() == b"hello"
    assert other.receive_nowait() == b""


async def test_the_end_comes_after_all_bytes(ends):
    one, other = ends
    await one.send(b"bye")
    await one.aclose()
    assert await other.receive() == b"bye"
    with pytest.raises(anyio.EndOfStream):
        await other.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await other.send(b"too late")
    with pytest.raises(anyio.ClosedResourceError):
        await one.receive()


async def test_a_sender_waits_for_a_receiver_that_does_not_read(ends):
    one, other = ends
    left = one.send_pieces_nowait([bytes(ROOM_BYTES), b"more"])
    assert left == [b"more"]
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.send_pieces, left)
            await anyio.wait_all_tasks_blocked()
            assert one.unacknowledged_bytes == ROOM_BYTES
            received = b""
            while len(received) < ROOM_BYTES + len(b"more"):
                received += await other.receive()
    assert received.endswith(b"more")


async def test_closing_wakes_the_task_that_reads(ends):
    one, _ = ends
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close_later, one)
            with pytest.raises(anyio.ClosedResourceError):
                await one.receive()


async def close_later(stream):
    await anyio.wait_all_tasks_blocked()
    await stream.aclose()


async def test_only_one_task_may_read(ends):
    one, _ = ends
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.each_readable, lambda: True)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await one.each_readable(lambda: True)
        tasks.cancel_scope.cancel()


async def test_a_port_on_which_nothing_listens_refuses():
    with pytest.raises(ConnectionRefusedError):
        await connect("127.0.0.1", 1)


async def test_a_listener_serves_until_it_is_closed():
    async with (
        await MemoryListener.open("127.0.0.1", 0) as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, echo, tasks)
        with anyio.fail_after(GUARD):
            stream = await connect("127.0.0.1", listener.port)
            await stream.send(b"hello")
            assert await stream.receive() == b"hello"
            await stream.aclose()
        tasks.cancel_scope.cancel()
    with pytest.raises(ConnectionRefusedError):
        await connect("127.0.0.1", listener.port)


async def echo(stream, _peer):
    await stream.send(await stream.receive())


@pytest.mark.usefixtures("patchable")
async def test_a_scene_is_played_to_its_end_without_a_socket(monkeypatch):
    monkeypatch.setattr(server, "Listener", server.Listener)  # undone afterwards
    monkeypatch.setattr(SocketStream, "connect", SocketStream.connect)
    ready = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage_here.serve, ready.set)
        with anyio.fail_after(GUARD):
            await ready.wait()
            assert server.Listener is in_memory.MemoryListener
            shown = await asked("/stage", {"link": "window"})
            while not shown["here"]["is_over"]:
                shown = await asked(f"/stage/{shown['id']}/step", {})
        assert shown["here"]["reading"]["topic"]["compacted"] > 0
        tasks.cancel_scope.cancel()


@pytest.mark.usefixtures("patchable")
async def test_outside_a_browser_the_log_is_left_as_it_was(monkeypatch):
    monkeypatch.setattr(server, "Listener", server.Listener)
    monkeypatch.setattr(SocketStream, "connect", SocketStream.connect)
    log = logging.getLogger("zaichik")
    level = log.level
    ready = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage_here.serve, ready.set)
        await ready.wait()
        tasks.cancel_scope.cancel()
    assert log.level == level


@pytest.mark.usefixtures("patchable")
async def test_a_refusal_is_a_sentence(monkeypatch):
    monkeypatch.setattr(server, "Listener", server.Listener)
    monkeypatch.setattr(SocketStream, "connect", SocketStream.connect)
    ready = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage_here.serve, ready.set)
        await ready.wait()
        status, text = await stage_here.request("POST", "/stage", "", '{"link": "nothing"}')
        tasks.cancel_scope.cancel()
    assert status == 400
    assert json.loads(text)["text"].startswith("that is no link to a scene")


async def asked(path, body):
    status, text = await stage_here.request("POST", path, "width=800", json.dumps(body))
    assert status == 200, text
    return json.loads(text)
