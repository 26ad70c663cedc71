"""Reading by the event loop, and by another thread instead; a thread is not needed to show that."""

import socket

import anyio
import pytest

from zaichik.net.socket_stream import SocketStream

pytestmark = pytest.mark.anyio

GUARD = 20  # seconds


@pytest.fixture
def anyio_backend():
    """Trio has no callbacks."""
    return "asyncio"


@pytest.fixture
async def ends():
    """A stream, what it has received, the other end's socket, and a failure of its reader."""
    near, far = socket.socketpair()
    stream, received, failures = SocketStream(near), [], []

    def take(data):
        received.append(data)
        return data != b"last"

    async def read():
        try:
            await stream.receive_each(take)
        except Exception as error:
            failures.append(error)

    with anyio.fail_after(GUARD), far:
        async with stream, anyio.create_task_group() as tasks:
            assert stream.callback_reader is None
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            yield stream, received, far, failures
            tasks.cancel_scope.cancel()


async def test_while_it_is_detached_only_the_caller_reads(ends):
    stream, received, far, _ = ends
    reader = stream.callback_reader
    reader.detach()
    far.sendall(b"by hand")
    await anyio.wait_all_tasks_blocked()
    assert received == []
    reader.readable()
    reader.readable()
    assert received == [b"by hand"]
    far.sendall(b"by the loop")
    reader.attach()
    while len(received) < 2:
        await anyio.lowlevel.checkpoint()
    assert received == [b"by hand", b"by the loop"]
    assert not reader.is_detached


async def test_what_ends_it_by_hand_ends_it_for_its_task(ends):
    stream, _, far, failures = ends
    reader = stream.callback_reader
    reader.detach()
    far.close()
    reader.readable()
    assert reader.is_over
    assert not reader.is_detached
    reader.attach()
    await anyio.wait_all_tasks_blocked()
    assert [type(failure) for failure in failures] == [anyio.EndOfStream]
    assert stream.callback_reader is None


async def test_the_last_that_is_wanted_ends_it_as_well(ends):
    stream, received, far, failures = ends
    reader = stream.callback_reader
    reader.detach()
    far.sendall(b"last")
    reader.readable()
    far.sendall(b"not wanted")
    reader.readable()
    await anyio.wait_all_tasks_blocked()
    assert (received, failures) == ([b"last"], [])
    assert stream.callback_reader is None


async def test_closing_the_stream_ends_what_is_detached(ends):
    stream, _, _, failures = ends
    reader = stream.callback_reader
    reader.detach()
    await stream.aclose()
    assert not reader.is_detached
    await anyio.wait_all_tasks_blocked()
    assert [type(failure) for failure in failures] == [anyio.ClosedResourceError]
