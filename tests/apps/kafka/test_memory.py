"""Memory of all connections: who waits for it, and in which order it is given."""

import anyio
import pytest
from brokers import GUARD

from zaichik.apps.kafka import memory as memory_module
from zaichik.apps.kafka.memory import Memory, NoMemory
from zaichik.net.background import BackgroundTasks

pytestmark = pytest.mark.anyio


class Takers:
    """Tasks that take memory, and keep it until they are told."""

    def __init__(self, memory, group):
        self.memory, self.group = memory, group
        self.have = []
        self._ends = {}

    async def begin(self, name, user, size):
        """Returns when the task has taken, or waits."""
        scope = self._ends[name] = anyio.CancelScope()
        self.group.start_soon(self._take, scope, name, user, size)
        await anyio.wait_all_tasks_blocked()

    async def _take(self, scope, name, user, size):
        with scope:
            async with self.memory.taking(user, size):
                self.have.append(name)
                try:
                    await anyio.sleep_forever()
                finally:
                    self.have.remove(name)

    async def end(self, name):
        """Returns when others have taken what it had, or waited for."""
        self._ends[name].cancel()
        await anyio.wait_all_tasks_blocked()


@pytest.fixture
async def takers():
    with anyio.fail_after(GUARD):
        async with BackgroundTasks() as tasks:
            yield Takers(Memory("requests", 100), tasks.group)


async def test_what_finds_no_memory_waits_until_there_is_some(takers):
    await takers.begin("first", "", 70)
    await takers.begin("second", "", 40)
    assert (takers.have, takers.memory.taken) == (["first"], 70)
    await takers.end("first")
    assert (takers.have, takers.memory.taken) == (["second"], 40)


async def test_a_small_one_does_not_overtake_a_large_one(takers):
    await takers.begin("first", "", 70)
    await takers.begin("large", "", 90)
    await takers.begin("small", "", 10)
    assert takers.have == ["first"]
    await takers.end("first")
    # Both at once, so either task may go on first.
    assert sorted(takers.have) == ["large", "small"]


async def test_one_that_gives_up_holds_nobody_up(takers):
    await takers.begin("first", "", 70)
    await takers.begin("large", "", 90)
    await takers.begin("small", "", 10)
    await takers.end("large")
    assert takers.have == ["first", "small"]


async def test_a_user_who_has_as_much_as_is_free_is_overtaken(takers):
    await takers.begin("one of ana", "ana", 50)
    await takers.begin("two of ana", "ana", 10)
    await takers.begin("bob", "bob", 20)
    assert takers.have == ["one of ana", "bob"]
    await takers.end("one of ana")
    assert takers.have == ["bob", "two of ana"]


async def test_what_is_larger_than_all_there_is_gets_all(takers):
    await takers.begin("first", "", 1000)
    assert (takers.have, takers.memory.taken) == (["first"], 100)


async def test_what_turns_out_smaller_gives_the_rest_to_others(takers):
    async with takers.memory.taking("", 100) as taken:
        await takers.begin("second", "", 60)
        assert takers.have == []
        taken.shrink(40)
        taken.shrink(90)
        await anyio.wait_all_tasks_blocked()
        assert (takers.have, taken.size, takers.memory.taken) == (["second"], 40, 100)
    assert takers.memory.taken == 60


async def test_who_waits_for_too_long_is_told_so_and_the_log_too(takers, monkeypatch, caplog):
    monkeypatch.setattr(memory_module, "WAIT_SECONDS", 0)
    async with takers.memory.taking("", 100):
        for _ in range(3):
            with pytest.raises(NoMemory, match="requests have as much memory as they may"):
                await takers.memory.take("", 1)
    assert takers.memory.taken == 0
    (line,) = caplog.messages
    assert line == "requests wait for memory: they have 100 bytes, and 100 is the limit"
