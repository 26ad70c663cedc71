"""Connections that are served at the same time, and those that find no place."""

import logging

import anyio
import pytest

from zaichik.net.served import Served

pytestmark = pytest.mark.anyio
logger = logging.getLogger("zaichik.net.served.test")


class Stream:
    """Is closed, and nothing else."""

    def __init__(self):
        self.is_closed = False

    async def aclose(self):
        self.is_closed = True


async def until_left(stream, peer):
    await anyio.sleep_forever()
    return peer


async def test_a_connection_counts_from_its_beginning_to_its_end(caplog):
    caplog.set_level("INFO")
    served = Served(1, logger)

    async def leave(stream, peer):
        assert served.count == 1
        return "it has left"

    await served.serve(leave, Stream(), "peer:1")
    assert served.count == 0
    assert caplog.messages == ["peer:1 connected", "peer:1 disconnected: it has left"]


async def test_one_too_many_is_closed_at_once(caplog):
    served, late = Served(1, logger), Stream()
    async with anyio.create_task_group() as tasks:
        first = Stream()
        tasks.start_soon(served.serve, until_left, first, "peer:1")
        await anyio.wait_all_tasks_blocked()
        await served.serve(until_left, late, "peer:2")
        assert (late.is_closed, first.is_closed, served.count) == (True, False, 1)
        tasks.cancel_scope.cancel()
    assert first.is_closed
    assert "peer:2 turned away: there are 1 connections, which is the limit" in caplog.text
    assert served.count == 0


async def test_room_may_be_made_for_it():
    rooms = [True, False]
    served = Served(0, logger, make_room=lambda: rooms.pop(0))
    found = []

    async def note(stream, peer):
        found.append(peer)
        return ""

    for peer in ("peer:1", "peer:2"):
        await served.serve(note, Stream(), peer)
    assert found == ["peer:1"]


async def test_a_bug_ends_one_connection_and_is_logged(caplog):
    async def fail(stream, peer):
        raise ZeroDivisionError

    served = Served(1, logger)
    await served.serve(fail, Stream(), "peer:1")
    assert "peer:1: a bug ended this connection" in caplog.text
    assert served.count == 0
