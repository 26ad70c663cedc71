import asyncio

import anyio
import anyio.lowlevel
import pytest
import trio

from zaichik.net.background import BackgroundTasks, DetachedTasks, every

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[BackgroundTasks, DetachedTasks])
def background(request):
    return request.param


class Own(BaseException):
    """Neither an Exception nor a cancellation."""


async def fail(error):
    raise error


async def sleep_until_cancelled(ended):
    try:
        await anyio.sleep_forever()
    finally:
        ended.append(True)


async def test_tasks_run_while_the_block_does_and_end_with_it(background):
    ended = []
    async with background() as tasks:
        tasks.group.start_soon(sleep_until_cancelled, ended)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
    assert ended == [True]


@pytest.mark.parametrize("kind", [KeyError, SystemExit, KeyboardInterrupt, GeneratorExit, Own])
async def test_the_blocks_exception_is_not_wrapped(background, kind):
    error, ended = kind("own"), []

    async def block():
        async with background() as tasks:
            tasks.group.start_soon(sleep_until_cancelled, ended)
            await anyio.wait_all_tasks_blocked()
            raise error

    with pytest.raises(kind) as caught:
        await block()
    assert caught.value is error
    assert ended == [True]


async def test_it_is_not_wrapped_by_nested_blocks_either(background):

    async def block():
        async with background(), background(), background() as tasks:
            tasks.group.start_soon(anyio.sleep_forever)
            raise KeyError

    with pytest.raises(KeyError):
        await block()


async def test_a_group_the_block_raises_is_not_wrapped_again(background):
    group = ExceptionGroup("own", [KeyError()])
    with pytest.raises(ExceptionGroup) as caught:
        async with background():
            raise group
    assert caught.value is group


async def test_a_background_failure_ends_the_block_and_is_raised_as_a_group(background):

    async def block():
        async with background() as tasks:
            tasks.group.start_soon(fail, KeyError("behind"))
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert isinstance(caught.value.exceptions[0], KeyError)


async def test_a_background_failure_is_raised_even_if_the_block_is_over(background):
    async def fail_at_the_end():
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError

    async def block():
        async with background() as tasks:
            tasks.group.start_soon(fail_at_the_end)
            await anyio.wait_all_tasks_blocked()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert isinstance(caught.value.exceptions[0], KeyError)


async def test_cancelling_passes_through_to_the_scope_that_asked_for_it(background):
    ended, after = [], []
    with anyio.CancelScope() as scope:
        async with background(), background() as tasks:
            tasks.group.start_soon(sleep_until_cancelled, ended)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.sleep_forever()
        after.append("went on")
    assert scope.cancelled_caught
    assert ended == [True]
    assert after == []


async def test_a_block_that_cancels_its_own_group_just_ends():
    async with BackgroundTasks() as tasks:
        tasks.group.cancel_scope.cancel()
        await anyio.sleep_forever()


async def test_cancelling_passes_through_within_a_group_of_the_blocks_own(background):
    async def cancel_and_fail(scope):
        scope.cancel()
        raise KeyError

    async def block():
        async with background(), anyio.create_task_group() as own:
            own.start_soon(cancel_and_fail, scope)
            await anyio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught, anyio.CancelScope() as scope:
        await block()
    assert caught.value.subgroup(KeyError) is not None
    assert caught.value.subgroup(anyio.get_cancelled_exc_class()) is None


async def test_an_abandoned_generator_around_a_block_closes_cleanly(background):
    ended = []

    async def numbers():
        async with background() as tasks:
            tasks.group.start_soon(sleep_until_cancelled, ended)
            await anyio.wait_all_tasks_blocked()
            yield 1

    generator = numbers()
    assert await anext(generator) == 1
    await generator.aclose()
    assert ended == [True]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tasks_own_cancel_passes_through(background):
    async def work(started):
        async with background() as tasks:
            tasks.group.start_soon(anyio.sleep_forever)
            started.set()
            await anyio.sleep_forever()
        raise AssertionError("it went on")

    started = anyio.Event()
    task = asyncio.create_task(work(started))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


# -- blocks that other tasks leave -----------------------------------------------------------------


async def failure_of(block):
    with pytest.raises(ExceptionGroup) as caught:
        await block()
    (error,) = caught.value.exceptions
    return error


async def entered(waits_for=None):
    """A block that another task has entered, which then waits, or ends.

    On trio, it must be a task with no scope around the block: see `background`.
    """
    tasks, is_entered = DetachedTasks(), anyio.Event()

    async def enter():
        await tasks.__aenter__()
        is_entered.set()
        if waits_for is not None:
            await waits_for.wait()

    try:
        task = asyncio.get_running_loop().create_task(enter())
    except RuntimeError:
        task = trio.lowlevel.spawn_system_task(enter)
    await is_entered.wait()
    await anyio.wait_all_tasks_blocked()
    return tasks, task


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "ended"])
async def test_another_task_may_leave_the_block(waits):
    """Whether or not the task that has entered it is still there."""
    ended, is_over = [], anyio.Event()
    tasks, _task = await entered(is_over if waits else None)
    tasks.group.start_soon(sleep_until_cancelled, ended)
    await anyio.wait_all_tasks_blocked()
    assert ended == []
    await tasks.__aexit__(None, None, None)
    assert ended == [True]
    is_over.set()
    await anyio.wait_all_tasks_blocked()


async def test_blocks_may_be_left_in_the_order_in_which_they_were_entered():
    ended = []
    with anyio.CancelScope():
        blocks = [DetachedTasks() for _ in range(3)]
        for block in blocks:
            await block.__aenter__()
            block.group.start_soon(sleep_until_cancelled, ended)
        await anyio.wait_all_tasks_blocked()
        for number, block in enumerate(blocks, 1):
            await block.__aexit__(None, None, None)
            assert ended == [True] * number
    await anyio.lowlevel.checkpoint()


async def test_a_block_that_another_task_has_left_is_not_in_the_way_of_an_earlier_one():
    first, second = DetachedTasks(), DetachedTasks()
    with anyio.CancelScope():
        await first.__aenter__()
        await second.__aenter__()
        async with anyio.create_task_group() as own:
            own.start_soon(second.__aexit__, None, None, None)
        await first.__aexit__(None, None, None)
    await anyio.lowlevel.checkpoint()


async def test_a_failure_that_the_block_does_not_wait_for_is_raised_and_nothing_is_left_behind():
    failed = []

    async def fail_soon():
        failed.append(True)
        raise KeyError

    async def block():
        async with DetachedTasks() as tasks:
            tasks.group.start_soon(fail_soon)
            with anyio.CancelScope(shield=True):
                while not failed:
                    await anyio.lowlevel.checkpoint()

    assert isinstance(await failure_of(block), KeyError)
    await anyio.lowlevel.checkpoint()


async def test_a_failure_is_raised_by_the_task_that_leaves_and_cancels_no_other():
    tasks, _task = await entered()
    tasks.group.start_soon(fail, KeyError())
    await anyio.wait_all_tasks_blocked()

    async def leave():
        await tasks.__aexit__(None, None, None)

    assert isinstance(await failure_of(leave), KeyError)


def test_a_block_that_is_never_left_ends_with_the_event_loop(anyio_backend_name):
    ended = []

    async def main():
        tasks = await DetachedTasks().__aenter__()
        tasks.group.start_soon(sleep_until_cancelled, ended)
        await anyio.wait_all_tasks_blocked()

    anyio.run(main, backend=anyio_backend_name)
    assert ended == [True]


async def test_every_calls_again_and_again_until_it_raises():
    called = []

    def third():
        called.append(None)
        if len(called) == 3:
            raise KeyError

    with anyio.fail_after(20), pytest.raises(KeyError):
        await every(0.001, third)
    assert len(called) == 3
