import anyio
import pytest

from zaichik.net.wakeup import Wakeup

pytestmark = pytest.mark.anyio


async def test_all_tasks_that_wait_are_woken():
    wakeup, woken = Wakeup(), []

    async def wait(number):
        await wakeup.wait()
        woken.append(number)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
            assert not wakeup.is_set()
            wakeup.set()
            assert wakeup.is_set()
            assert woken == [], "they run a turn later"
    assert sorted(woken) == [0, 1, 2]


async def test_what_has_happened_is_not_waited_for_but_others_have_their_turn():
    wakeup, turns = Wakeup(), []

    async def other():
        turns.append("other")

    wakeup.set()
    wakeup.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        with anyio.fail_after(20):
            while not turns:
                await wakeup.wait()


async def test_a_task_that_is_cancelled_wakes_no_other_and_leaves_nothing():
    wakeup, woken = Wakeup(), []

    async def wait():
        await wakeup.wait()
        woken.append(True)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            for _ in range(3):
                with anyio.move_on_after(0) as scope:
                    await wakeup.wait()
                assert scope.cancelled_caught
            await anyio.wait_all_tasks_blocked()
            assert woken == []
            assert len(wakeup._futures) <= 1
            wakeup.set()
    assert woken == [True]


async def test_a_task_that_is_cancelled_in_the_turn_of_the_wakeup_does_no_harm():
    wakeup = Wakeup()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wakeup.wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            wakeup.set()
        assert wakeup.is_set()
        await wakeup.wait()


async def test_a_cancelled_task_does_not_wait_at_all():
    wakeup = Wakeup()
    for happened in (False, True):
        if happened:
            wakeup.set()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await wakeup.wait()
        assert scope.cancelled_caught
