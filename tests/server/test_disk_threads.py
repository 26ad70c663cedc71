"""The threads that work for logs: what they do at the same time, and what ends them."""

import errno
import logging
import threading
import weakref
from queue import SimpleQueue

import anyio
import pytest
from owners import SETTINGS, Owner, done, with_topics, working
from sim_disk import SimDisk, eio, full

from zaichik.net.loop_calls import LoopCalls
from zaichik.server import disk_threads
from zaichik.server.disk_threads import WRITERS, DiskThread, DiskThreads, Job
from zaichik.storage.disk import StorageFailed
from zaichik.storage.store import Store
from zaichik_protocol import ErrorCode

asynchronous = pytest.mark.anyio


@asynchronous
async def test_three_hundred_readers_at_once_get_what_they_ask_for():
    disk = SimDisk()
    store = Store(disk)
    (owner,) = await with_topics(store, "orders", messages=100)
    log, found, all_done = owner.log, {}, anyio.Event()

    def ask(number):
        def wake():
            entry = log.entry(number % 100, wake)
            if entry is not None:
                log.release(wake)
                found[number] = entry.base
            if len(found) == 300:
                all_done.set()

        wake()

    async with working(store):
        for number in range(300):
            ask(number)
        await all_done.wait()
    assert found == {number: number % 100 for number in range(300)}
    assert (len(store._resources.chunks), log._reading) == (0, set())


@asynchronous
async def test_what_follows_is_called_between_the_turns_of_connections():
    store, turns = Store(SimDisk()), []

    class Turn:
        def __enter__(self):
            turns.append("begin")

        def __exit__(self, *_):
            turns.append("end")

    owner = Owner(store.create("orders", 7, SETTINGS))
    async with working(store, between_turns=Turn) as threads:
        owner.publish()
        owner.write(None).then(lambda _: turns.append("told"))
        await threads.drained()
    assert turns == ["begin", "told", "end"]


@asynchronous
async def test_drained_means_that_nothing_is_left_to_be_written():
    store = Store(SimDisk())
    owners = [Owner(store.create(f"{number}", 10 + number, SETTINGS)) for number in range(9)]
    async with working(store) as threads:
        await threads.drained()
        for owner in owners:
            for _ in range(10):
                owner.publish()
        await threads.drained()
        assert [owner.stored for owner in owners] == [10] * 9


class Eager(Owner):
    """Publishes again as soon as something was stored, up to ten messages."""

    def on_synced(self, count):
        super().on_synced(count)
        if self.next < 10:
            self.publish()


@asynchronous
async def test_what_is_published_while_a_group_is_written_is_written_next():
    store = Store(SimDisk())
    owner = Eager(store.create("orders", 7, SETTINGS))
    async with working(store) as threads:
        owner.publish()
        await threads.drained()
        assert owner.stored == 10


class Held(SimDisk):
    """A disk whose writes wait until it is let go."""

    def __init__(self):
        super().__init__()
        self.may_write = threading.Event()

    def write(self, path, at, pieces):
        assert self.may_write.wait(60)
        super().write(path, at, pieces)


@asynchronous
async def test_any_number_of_tasks_can_wait_until_all_is_written():
    disk, ended = Held(), []
    store = Store(disk)
    owner = Owner(store.create("orders", 7, SETTINGS))

    async def wait(threads):
        await threads.drained()
        ended.append(owner.stored)

    async with working(store) as threads:
        owner.publish()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait, threads)
            await anyio.wait_all_tasks_blocked()
            disk.may_write.set()
    assert ended == [1, 1, 1]


@asynchronous
async def test_no_thread_begins_a_group_before_the_one_before_is_synced(monkeypatch, patchable):
    """DUR-7: that is what tells a torn end from damage."""
    disk = Held()
    store = Store(disk)
    owner = Owner(store.create("orders", 7, SETTINGS))
    gather, begun = owner.log.gather, []
    monkeypatch.setattr(owner.log, "gather", lambda: (begun.append(owner.next), gather())[1])
    async with working(store) as threads:
        for _ in range(3):
            owner.publish()
            await anyio.wait_all_tasks_blocked()
        before = list(begun), owner.stored
        disk.may_write.set()
        await threads.drained()
    assert before == ([1], 0)
    assert (begun, owner.stored) == ([1, 3], 3)


@pytest.mark.parametrize(
    "error", [eio(), OSError(errno.EMFILE, "Too many open files")], ids=["sync", "files"]
)
@asynchronous
async def test_a_failure_is_kept_told_once_and_ends_all_writing(error, caplog):
    disk, failures = SimDisk(), []
    store = Store(disk)
    owners = await with_topics(store, *"abcdef")
    disk.fault = lambda _: error
    async with working(store) as threads:
        threads.on_failure = lambda: failures.append(threads.failure)
        for owner in owners:
            owner.publish()
        await threads.drained()
        assert failures == [threads.failure]
        assert isinstance(threads.failure, StorageFailed)
        await threads.drained()
        for owner in owners:
            owner.publish()
        await threads.drained()
    assert [owner.stored for owner in owners] == [3] * 6
    assert len([record for record in caplog.records if record.levelno == logging.CRITICAL]) == 1


class Immediate:
    """Stands for a `DiskThread`: a job is done when `begin` returns."""

    def __init__(self, _name, has_done):
        self._has_done = has_done

    def start(self):
        pass

    def begin(self, job):
        try:
            job.then = job.work()
        except Exception as error:
            job.error = error
        self._has_done(job)

    def end(self):
        pass


@pytest.fixture
def immediate(monkeypatch, patchable):
    """What is handed over in a step is done in that step, and handled in the next one."""
    monkeypatch.setattr(disk_threads, "DiskThread", Immediate)


@pytest.mark.usefixtures("immediate")
@asynchronous
async def test_after_one_failed_sync_nothing_is_written_although_the_disk_would_take_it():
    """DUR-6: it would take the place of what was lost, and be told to those who wait for that."""
    disk = SimDisk()
    store = Store(disk)
    (owner,) = await with_topics(store, "orders")
    stored, writes = owner.stored, []

    def once(call):
        writes.append(call)
        if len(writes) > 1:
            return None
        owner.publish()  # the next group gathers
        return eio()

    disk.fault = once
    async with working(store) as threads:
        owner.publish()
        await threads.drained()
        for _ in range(20):
            await anyio.wait_all_tasks_blocked()
    assert isinstance(threads.failure, StorageFailed)
    assert (owner.stored, len(writes)) == (stored, 1)


@pytest.mark.usefixtures("immediate")
@asynchronous
async def test_after_a_failure_nothing_else_is_told_although_it_is_on_the_disk():
    """DUR-6: what ends this broker ends it for every topic at the same time."""
    disk = SimDisk()
    store = Store(disk)
    first, second = await with_topics(store, "first", "second")
    before = len(disk.calls)
    disk.fault = lambda call: eio() if call == before else None
    async with working(store) as threads:
        first.publish()
        second.publish()
        await threads.drained()
        for _ in range(20):
            await anyio.wait_all_tasks_blocked()
    assert isinstance(threads.failure, StorageFailed)
    assert len(disk.calls) > before + 1  # the second was written
    assert (first.stored, second.stored) == (3, 3)


@pytest.mark.usefixtures("immediate")
@asynchronous
async def test_a_thread_is_not_at_work_when_it_is_done_before_it_was_begun():
    store = Store(SimDisk())
    (owner,) = await with_topics(store, "orders")
    async with working(store) as threads:
        owner.publish()
        await threads.drained()
    assert (owner.stored, threads.are_at_work) == (4, False)


@asynchronous
async def test_a_full_disk_is_an_answer_and_no_failure():
    disk = SimDisk()
    store = Store(disk)
    (owner,) = await with_topics(store, "orders")
    disk.fault = lambda _: full()
    async with working(store) as threads:
        owner.publish()
        refusal = await done(owner)
        assert (refusal.code, owner.refusals) == (ErrorCode.STORAGE_FULL, [ErrorCode.STORAGE_FULL])
        disk.fault = lambda _: None
        owner.publish()
        assert await done(owner) is None
    assert (owner.stored, threads.failure) == (4, None)


@pytest.mark.parametrize("bug", [ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("where", ["thread", "completion"])
@asynchronous
async def test_a_bug_is_raised_by_what_runs_the_threads(where, bug, monkeypatch, patchable):
    """It is no failure of the disk, and nobody else would hear of it."""
    store = Store(SimDisk())
    owner = Owner(store.create("orders", 7, SETTINGS))

    def fail(*_):
        raise bug

    if where == "thread":
        monkeypatch.setattr(owner.log, "gather", lambda: fail)
    else:
        monkeypatch.setattr(owner, "on_synced", fail)
    threads = DiskThreads(store.work)
    owner.publish()
    with anyio.fail_after(20), pytest.raises(bug):
        await threads.run()
    assert threads.failure is None
    assert not threads.are_at_work


@asynchronous
async def test_nobody_waits_for_the_disk_after_a_bug(monkeypatch, patchable):
    store = Store(SimDisk())
    owner = Owner(store.create("orders", 7, SETTINGS))
    may_fail = threading.Event()

    def fail():
        assert may_fail.wait(60)
        raise ZeroDivisionError

    monkeypatch.setattr(owner.log, "gather", lambda: fail)
    threads = DiskThreads(store.work)
    owner.publish()

    async def run():
        with pytest.raises(ZeroDivisionError):
            await threads.run()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            tasks.start_soon(threads.drained)
            await anyio.wait_all_tasks_blocked()
            may_fail.set()
        await threads.drained()
    assert not store.work.is_written


@asynchronous
async def test_nothing_is_begun_after_a_bug_which_is_the_one_that_is_raised(monkeypatch, patchable):
    store = Store(SimDisk())
    first = Owner(store.create("first", 7, SETTINGS))
    second = Owner(store.create("second", 8, SETTINGS))
    gathered = []

    def fail(_):
        second.publish()  # a step is due
        raise ZeroDivisionError

    def gather():
        gathered.append(second)
        raise LookupError

    monkeypatch.setattr(first, "on_synced", fail)
    monkeypatch.setattr(second.log, "gather", gather)
    threads = DiskThreads(store.work)
    first.publish()
    with anyio.fail_after(20), pytest.raises(ZeroDivisionError):
        await threads.run()
    await anyio.wait_all_tasks_blocked()
    assert gathered == []


@pytest.fixture
def refused(monkeypatch):
    """While it is True, the system refuses threads for the disk."""
    start, answers = threading.Thread.start, {"refused": True}

    def start_or_not(thread):
        if answers["refused"] and thread.name.startswith("disk"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_not)
    return answers


@pytest.mark.usefixtures("refused")
@asynchronous
async def test_a_thread_that_the_system_refuses_is_not_at_work():
    """The folder would stay locked until the process ends."""
    store = Store(SimDisk())
    owner = Owner(store.create("orders", 7, SETTINGS))
    threads = DiskThreads(store.work)
    owner.publish()
    with anyio.fail_after(20), pytest.raises(RuntimeError, match="can't start new thread"):
        await threads.run()
    assert not threads.are_at_work


def test_a_thread_that_was_refused_can_be_started_later(refused):
    has_done = SimpleQueue()
    thread = DiskThread("disk writer", has_done.put)
    with pytest.raises(RuntimeError):
        thread.start()
    refused["refused"] = False
    thread.start()
    job = Job(thread, lambda: None)
    thread.begin(job)
    assert has_done.get(timeout=20) is job
    thread.end()


@asynchronous
async def test_four_threads_write_at_most_and_a_lone_log_has_always_the_same():
    disk, names = Held(), []
    store = Store(disk)
    owners = [Owner(store.create(f"{number}", 10 + number, SETTINGS)) for number in range(9)]
    disk.under_way = lambda *_: names.append(threading.current_thread().ident)
    async with working(store) as threads:
        for owner in owners:
            owner.publish()
        await anyio.wait_all_tasks_blocked()
        assert len(threads._at_work) == WRITERS
        disk.may_write.set()
        await threads.drained()
        assert len(set(names)) == WRITERS
        names.clear()
        for _ in range(10):
            owners[0].publish()
            await threads.drained()
        assert len(set(names)) == 1
    assert [owner.stored for owner in owners] == [11] + [1] * 8


@asynchronous
async def test_threads_end_with_what_runs_them_and_an_idle_one_keeps_no_messages(
    monkeypatch, patchable
):
    store, before = Store(SimDisk()), set(threading.enumerate())
    owner = Owner(store.create("orders", 7, SETTINGS))
    gather, groups = owner.log.gather, []

    def noted():
        group = gather()
        groups.append(weakref.ref(group))
        return group

    monkeypatch.setattr(owner.log, "gather", noted)
    async with working(store) as threads:
        owner.publish()
        await threads.drained()
        (thread,) = set(threading.enumerate()) - before
        while groups[0]() is not None:  # the thread is on its way to its next job
            await anyio.lowlevel.checkpoint()
    thread.join(20)
    assert not thread.is_alive()
    assert not threads.are_at_work


@asynchronous
async def test_what_is_published_after_the_end_waits_for_ever():
    """A broker that stops may still be at it."""
    store = Store(SimDisk())
    (owner,) = await with_topics(store, "orders")
    async with working(store) as threads:
        owner.publish()
        await threads.drained()
    owner.publish()
    await anyio.wait_all_tasks_blocked()
    assert (owner.stored, threads.are_at_work) == (4, False)


@asynchronous
async def test_a_step_that_was_due_at_the_end_begins_nothing(monkeypatch, patchable):
    """Threads that have ended would never do it, and the folder would stay locked."""
    store, due = Store(SimDisk()), []
    (owner,) = await with_topics(store, "orders")

    class Later(LoopCalls):
        def __init__(self):
            super().__init__()
            self.soon = due.append

    monkeypatch.setattr(disk_threads, "LoopCalls", Later)
    async with working(store) as threads:
        await anyio.wait_all_tasks_blocked()
        owner.publish()
    (step,) = due
    step()
    assert not threads.are_at_work
    assert not store.work.is_written


def test_a_thread_may_be_done_when_the_event_loop_has_just_ended(
    monkeypatch, patchable, anyio_backend
):
    calls, may_call, problems = threading.Event(), threading.Event(), []

    class Late(LoopCalls):
        """The event loop ends after the thread has looked whether it runs."""

        def __init__(self):
            super().__init__()
            from_thread = self.from_thread

            def call(function):
                calls.set()
                assert may_call.wait(60)
                from_thread(function)

            self.from_thread = call

    async def publish():
        store = Store(SimDisk())
        owner = Owner(store.create("orders", 7, SETTINGS))
        async with working(store):
            owner.publish()
            while not calls.is_set():
                await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(disk_threads, "LoopCalls", Late)
    monkeypatch.setattr(threading, "excepthook", problems.append)
    before = set(threading.enumerate())
    anyio.run(publish, backend=anyio_backend)
    (thread,) = set(threading.enumerate()) - before
    may_call.set()
    thread.join(20)
    assert not thread.is_alive()
    assert problems == []
