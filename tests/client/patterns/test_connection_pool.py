"""How many connections there are, and when another one is opened (PAT-4)."""

from contextlib import asynccontextmanager

import anyio
import pytest

from zaichik import ConnectFailed
from zaichik.client.patterns import connection_pool
from zaichik.client.patterns.connection_pool import MOST_ASKED, ConnectionPool
from zaichik.net.background import BackgroundTasks

pytestmark = pytest.mark.anyio


class Opened:
    """Connections that are only names, and what is told of them."""

    def __init__(self, most=100):
        self.names = []
        self.closed = []
        self.rooms = 0
        self.reasons = []
        self.most = most
        self.all = ConnectionPool("first", self.open, self.room, self.reasons.append)

    @asynccontextmanager
    async def open(self):
        if len(self.names) == self.most:
            raise ConnectFailed("nobody answers")
        name = f"further {len(self.names)}"
        self.names.append(name)
        try:
            yield name
        finally:
            self.closed.append(name)

    def room(self):
        self.rooms += 1

    def fill(self):
        """Have the one that has room take one and refuse the next; returns it."""
        pooled = self.all.with_room()
        for _ in range(2):
            left = pooled.ask()
            pooled.answered()
        pooled.refused(left)
        self.all.open_if_full()
        return pooled


def test_one_is_asked_for_a_few_at_a_time():
    opened = Opened()
    for _ in range(MOST_ASKED):
        opened.all.with_room().ask()
    assert opened.all.with_room() is None
    opened.all._all[0].answered()
    assert opened.all.with_room() is opened.all._all[0]


def test_one_that_has_refused_is_full_until_another_has_left():
    pooled = Opened().fill()
    assert pooled.is_full
    assert not pooled.is_useless
    pooled.left()
    assert not pooled.is_full
    pooled.ask()
    assert pooled.is_full


def test_a_refusal_from_before_one_has_left_says_nothing_about_now():
    """Otherwise a connection would be full for good, though all have left."""
    opened = Opened()
    pooled = opened.all.with_room()
    asked = [pooled.ask() for _ in range(4)]
    for _ in asked:
        pooled.answered()
    pooled.refused(asked[2])
    pooled.left()
    pooled.refused(asked[3])
    assert not pooled.is_full
    pooled.ask()
    assert pooled.is_full


def test_the_first_refusal_counts_those_that_have_left_since():
    pooled = Opened().all.with_room()
    asked = [pooled.ask() for _ in range(3)]
    for _ in asked:
        pooled.answered()
    pooled.left()
    pooled.refused(asked[2])
    assert not pooled.is_full
    pooled.refused(pooled.ask())
    assert pooled.is_full


async def test_another_is_opened_when_all_are_full_and_all_are_closed_at_the_end():
    opened = Opened()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(opened.all.run)
        opened.all.open_if_full()
        await anyio.wait_all_tasks_blocked()
        assert opened.names == []
        for _ in range(2):
            opened.fill()
            await anyio.wait_all_tasks_blocked()
        assert opened.all.with_room().connection == "further 1"
        assert (opened.names, opened.rooms) == (["further 0", "further 1"], 2)
        assert (opened.closed, opened.reasons) == ([], [])
    assert opened.closed == ["further 1", "further 0"]


async def test_room_that_has_come_meanwhile_is_used():
    opened = Opened()
    opened.fill().left()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(opened.all.run)
        await anyio.wait_all_tasks_blocked()
        assert (opened.names, opened.rooms) == ([], 1)


async def test_there_is_a_limit(monkeypatch):
    monkeypatch.setattr(connection_pool, "MOST_CONNECTIONS", 2)
    opened = Opened()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(opened.all.run)
        for _ in range(2):
            opened.fill()
            await anyio.wait_all_tasks_blocked()
    assert opened.names == ["further 0"]
    assert opened.reasons == ["2 connections have as many as they may"]


async def test_after_one_that_takes_none_at_all_there_is_no_other():
    opened = Opened()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(opened.all.run)
        opened.fill()
        await anyio.wait_all_tasks_blocked()
        pooled = opened.all.with_room()
        left = pooled.ask()
        pooled.answered()
        pooled.refused(left)
        opened.all.open_if_full()
        await anyio.wait_all_tasks_blocked()
    assert (opened.names, len(opened.reasons)) == (["further 0"], 1)


async def test_one_that_cannot_be_opened_is_told_and_tried_again():
    opened = Opened(most=0)
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(opened.all.run)
        opened.fill()
        await anyio.wait_all_tasks_blocked()
        assert opened.reasons == ["there is no further connection: nobody answers [CONNECT_FAILED]"]
        opened.most = 1
        opened.all.open_if_full()
        await anyio.wait_all_tasks_blocked()
    assert opened.names == ["further 0"]
