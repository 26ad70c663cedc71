import anyio
import pytest

from zaichik.net.background import BackgroundTasks, every

pytestmark = pytest.mark.anyio


class Own(BaseException):
    """Neither an Exception nor a cancellation."""


async def fail(error):
    raise error


async def sleep_until_cancelled(ended):
    try:
        await anyio.sleep_forever()
    finally:
        ended.append(True)


async def test_tasks_run_while_the_block_does_and_end_with_it():
    ended = []
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(sleep_until_cancelled, ended)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
    assert ended == [True]


@pytest.mark.parametrize("kind", [KeyError, SystemExit, KeyboardInterrupt, GeneratorExit, Own])
async def test_the_blocks_exception_is_not_wrapped(kind):
    error, ended = kind("own"), []

    async def block():
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(sleep_until_cancelled, ended)
            await anyio.wait_all_tasks_blocked()
            raise error

    with pytest.raises(kind) as caught:
        await block()
    assert caught.value is error
    assert ended == [True]


async def test_it_is_not_wrapped_by_nested_blocks_either():

    async def block():
        async with BackgroundTasks(), BackgroundTasks(), BackgroundTasks() as tasks:
            tasks.group.start_soon(anyio.sleep_forever)
            raise KeyError

    with pytest.raises(KeyError):
        await block()


async def test_a_group_the_block_raises_is_not_wrapped_again():
    group = ExceptionGroup("own", [KeyError()])
    with pytest.raises(ExceptionGroup) as caught:
        async with BackgroundTasks():
            raise group
    assert caught.value is group


async def test_a_background_failure_ends_the_block_and_is_raised_as_a_group():

    async def block():
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(fail, KeyError("behind"))
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert isinstance(caught.value.exceptions[0], KeyError)


async def test_a_background_failure_is_raised_even_if_the_block_is_over():
    async def fail_at_the_end():
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError

    async def block():
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(fail_at_the_end)
            await anyio.wait_all_tasks_blocked()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert isinstance(caught.value.exceptions[0], KeyError)


async def test_cancelling_passes_through_to_the_scope_that_asked_for_it():
    ended, after = [], []
    with anyio.CancelScope() as scope:
        async with BackgroundTasks(), BackgroundTasks() as tasks:
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


async def test_cancelling_passes_through_within_a_group_of_the_blocks_own():
    async def cancel_and_fail(scope):
        scope.cancel()
        raise KeyError

    async def block():
        async with BackgroundTasks(), anyio.create_task_group() as own:
            own.start_soon(cancel_and_fail, scope)
            await anyio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught, anyio.CancelScope() as scope:
        await block()
    assert caught.value.subgroup(KeyError) is not None
    assert caught.value.subgroup(anyio.get_cancelled_exc_class()) is None


async def test_an_abandoned_generator_around_a_block_closes_cleanly():
    ended = []

    async def numbers():
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(sleep_until_cancelled, ended)
            await anyio.wait_all_tasks_blocked()
            yield 1

    generator = numbers()
    assert await anext(generator) == 1
    await generator.aclose()
    assert ended == [True]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tasks_own_cancel_passes_through():
    import asyncio

    async def work(started):
        async with BackgroundTasks() as tasks:
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


async def test_every_calls_again_and_again_until_it_raises():
    called = []

    def third():
        called.append(None)
        if len(called) == 3:
            raise KeyError

    with anyio.fail_after(20), pytest.raises(KeyError):
        await every(0.001, third)
    assert len(called) == 3
