"""S18, continued: messages of a key in their order, and messages that have gone from the topic."""

from zaichik.learn.layouts import CAPACITY
from zaichik.learn.stages.s18_lost import STAGE as STAGE
from zaichik.learn.stages.s18_shared import DAY_MS, DONE, REJECT, RELEASE, RETRY, Work
from zaichik.learn.trial import Trial


@STAGE.check(
    "with BY_KEY, a message waits until those of its key before it are settled",
    hint="Before you hand out, look for an open message of that key with a smaller offset, also "
    "one that waits to come again. No key, no order.",
    how="For each key keep its open message that is first, and those that wait for it. Whatever "
    "settles the first lets the next one go.",
    where="zaichik/core/work_queue/key_order.py: one file, and nothing else.",
    sentences="shared.12 shared.6",
)
async def by_key(trial: Trial) -> None:
    """Two keys and none; done, dead, released, and to be tried again in a day."""
    work = await Work.begin(trial)
    worker = await work.worker(by_key=True)
    await work.publish(b"a", b"a", b"b", b"", b"", b"a", b"b", b"a\0")
    first, other, *free, alike = await worker.expect(0, 2, 3, 4, 7)
    await worker.expect_nothing("a message of each key was open, and the others waited for it")
    await worker.settle(RELEASE, first)
    (first,) = await worker.expect(0, again=True)
    await worker.settle(DONE, *free, alike)
    await worker.expect_nothing("messages without a key let none of a key go")
    await worker.settle(DONE, first)
    (second,) = await worker.expect(1)
    await worker.settle(RETRY, other, delay_ms=DAY_MS)
    await worker.expect_nothing("one of key b was to be tried again, and the next waited for it")
    await worker.settle(REJECT, second)
    (third,) = await worker.expect(5)
    beside = await work.worker(by_key=True)
    await beside.expect_nothing("another worker must wait, too")
    await worker.settle(DONE, third)
    await worker.expect_nothing("the last message waited for one of its key")


@STAGE.check(
    "without BY_KEY, messages of a key wait for nobody",
    hint="Order costs time: only those who ask for it have it.",
    sentences="shared.4 shared.6",
)
async def no_order(trial: Trial) -> None:
    """Three of one key, settled from the last to the first."""
    work = await Work.begin(trial)
    worker = await work.worker()
    await work.publish(b"a", b"a")
    await work.publish(b"a")
    came = await worker.expect(0, 1, 2)
    await worker.settle(DONE, came[2])
    await worker.settle(RETRY, came[0], delay_ms=0)
    await worker.expect(0, number=2, again=True)


@STAGE.check(
    "what has gone from the topic when its turn comes is lag, told once, to one worker",
    hint="Look below the head before you hand out, new messages and those that come again alike.",
    how="A new one: tell of all up to the head, and go on there. One that comes again: tell of "
    "that offset alone. Either way it is open no more.",
    where="zaichik/core/shared_names/shared_reader.py: `_go_over` finds what has gone, and tells.",
    sentences="lag.1 lag.2 lag.3 shared.5 shared.13",
)
async def lag(trial: Trial) -> None:
    """A ring of two: a message that a worker has, new ones, and one that is to come again."""
    work = await Work.begin(trial, {CAPACITY: 2})
    worker, busy = await work.worker(credit=1), await work.worker(credit=1)
    await work.publish(b"", b"")
    mine, yours = await worker.take(1), await busy.take(1)
    for _ in range(2):
        await work.publish(b"", b"")
    for each in (worker, busy):
        await each.expect_nothing("neither worker had free credit")
    await worker.settle(DONE, *mine)
    await worker.client.expect_lag(worker.id, 2, 4)
    mine = await worker.expect(4)
    await busy.settle(RETRY, *yours, delay_ms=0)
    gone = yours[0].offset
    await busy.client.expect_lag(busy.id, gone, gone + 1)
    yours = await busy.expect(5)
    await worker.settle(DONE, *mine)
    await busy.settle(DONE, *yours)
    for each in (worker, busy):
        await each.expect_nothing("what had gone was told, once, and the rest was done")
    await work.worker(expect={"start": 6, "committed": 6})
