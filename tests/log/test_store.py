"""The folder of all topics: who may use it, what is found in it, and the threads that work for it."""

import errno
import fcntl
import json
import logging
import os
import re
import threading
from collections import deque
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from made import topic
from sim_disk import Crash, SimDisk, eio, failing, full

from zaichik.broker.durable import Write
from zaichik.log.disk import PosixDisk, StorageFailed
from zaichik.log.recovery import topic_file
from zaichik.log.segment import HEAD_SIZE, Topic, seal, unseal
from zaichik.log.store import CLOCK, TOPICS, CannotOpen, Store, folder_of, locked
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Batch, ErrorCode, Refused

SETTINGS = topic().settings
asynchronous = pytest.mark.anyio


class Owner:
    """A topic's durable side: publishes one message at a time, and knows what was stored."""

    needed = 0

    def __init__(self, log):
        self.log, self.next, self.stored, self.refusals = log, log.end, log.end, []
        self.waiting = deque()
        log.owner = self

    def write(self, what, accepted_us=0):
        """Has that wait for the log. Returns the answer to come."""
        self.waiting.append(Write(self.next, accepted_us, what))
        self.log.write()
        return self.waiting[-1].answer

    def publish(self, size=20):
        self.write(Batch.of([(b"", b"%d" % self.next + bytes(size))]), self.next)
        self.next += 1

    def synced(self, count):
        for _ in range(count):
            done = self.waiting.popleft()
            self.stored += isinstance(done.what, Batch)
            done.answer.settle(True)

    def refused(self, refusal):
        self.refusals.append(refusal.code)
        self.next = self.stored
        while self.waiting:
            self.waiting.pop().answer.settle(refusal)

    def head_moved(self, head, own):
        pass


@asynccontextmanager
async def working(store):
    """Runs the store's threads."""
    with anyio.fail_after(20):
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(store.run)
            yield store


async def done(owner):
    """Waits until all that waits so far is on the disk, or refused. Returns the refusal, or None."""
    came, told = anyio.Event(), []
    owner.write(None).then(lambda answer: (told.append(answer), came.set()))
    await came.wait()
    return None if told[0] is True else told[0]


async def with_topics(store, *names, messages=3):
    """Makes topics with that many messages each. Returns their owners."""
    owners = [Owner(store.create(name, 10 + index, SETTINGS)) for index, name in enumerate(names)]
    async with working(store):
        for owner in owners:
            for _ in range(messages):
                owner.publish()
            assert await done(owner) is None
            assert owner.stored == messages
    return owners


def sim_topic(name, epoch=7, **more):
    """The content of a new topic's folder."""
    folder = f"{TOPICS}/{folder_of(name)}.{epoch:x}"
    return {f"{folder}/topic": topic_file(Topic(name, epoch, {**SETTINGS, **more}))}


# -- who may use a folder --------------------------------------------------------------------------------------


def refusal_of(path):
    with pytest.raises(CannotOpen) as told:
        Store.opened(path)
    return str(told.value), told.value.code


def descriptors():
    return len([*Path("/proc/self/fd").iterdir()]) if Path("/proc/self/fd").exists() else 0


def test_a_folder_is_made_for_its_user_alone(tmp_path):
    path = tmp_path / "deep" / "data"
    store = Store.opened(path)
    assert [(path / name).stat().st_mode & 0o777 for name in ("", TOPICS, "lock")] == [0o700, 0o700, 0o600]
    store.close(5)
    assert sorted(it.name for it in path.iterdir()) == [CLOCK, "lock", TOPICS]


def test_a_folder_has_one_broker_at_a_time(tmp_path):
    before = descriptors()
    store = Store.opened(tmp_path)
    for _ in range(2):
        assert refusal_of(tmp_path) == (
            f"another broker uses {tmp_path}; stop it, or choose another folder", os.EX_CANTCREAT,
        )  # fmt: skip
    with pytest.raises(CannotOpen, match="another broker uses"):
        locked(tmp_path)
    store.release()
    store.release()
    os.close(locked(tmp_path))
    Store.opened(tmp_path).close(0)
    assert descriptors() == before


def test_a_path_that_is_a_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"mine")
    problem = f"{path} cannot be used for durable topics: it is not a folder"
    assert refusal_of(path) == (problem, os.EX_CANTCREAT)
    assert "Not a directory" in refusal_of(path / "data")[0]
    assert path.read_bytes() == b"mine"


def test_a_folder_of_topics_that_is_a_file_is_refused(tmp_path):
    (tmp_path / TOPICS).write_bytes(b"mine")
    assert refusal_of(tmp_path) == (f"{tmp_path} cannot be used for durable topics: File exists", os.EX_CANTCREAT)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch, patchable):
    """The tests may run as a user who may do everything, so the system's answers are made up."""
    before = descriptors()
    monkeypatch.setattr(os, "access", lambda *_: False)
    expected = f"{tmp_path} cannot be used for durable topics: it cannot be written", os.EX_CANTCREAT
    assert refusal_of(tmp_path) == expected
    monkeypatch.undo()
    real = os.open

    def read_only(path, flags, *more, **others):
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", read_only)
    assert refusal_of(tmp_path)[0].endswith("Read-only file system")
    assert descriptors() == before


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, patchable):
    before = descriptors()

    def none_left(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none_left)
    assert refusal_of(tmp_path)[0].endswith("No locks available")
    assert descriptors() == before


def test_a_disk_that_fails_at_the_start_is_told_and_the_folder_let_go(tmp_path, monkeypatch, patchable):
    before = descriptors()

    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    problem, code = refusal_of(tmp_path)
    assert (code, "cannot be synced: Input/output error" in problem) == (os.EX_IOERR, True)
    monkeypatch.undo()
    assert descriptors() == before
    Store.opened(tmp_path).release()


@asynchronous
async def test_a_symbolic_link_is_a_folder_like_any(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = Store.opened(tmp_path / "link")
    await with_topics(store, "orders")
    store.close(99)
    again = Store.opened(tmp_path / "real")
    assert [it[0].name for it in again.recovered] == ["orders"]
    again.release()


def newer_topic(path):
    """Makes a topic's file one that a later version has written."""
    mark = b"zaichik topic 1\n"
    told = json.loads(unseal(mark, path.read_bytes())) | {"format": 2, "new": 1}
    path.write_bytes(seal(mark, json.dumps(told).encode()))


@asynchronous
async def test_a_newer_format_is_refused_and_nothing_is_touched(tmp_path):
    """Also what comes before it in the folder: a torn end, a deletion that was interrupted."""
    before = descriptors()
    store = Store.opened(tmp_path)
    await with_topics(store, "alpha", "zeta", "gone")
    store.release()
    alpha, gone, zeta = sorted((tmp_path / TOPICS).iterdir())
    newer_topic(zeta / "topic")
    gone.rename(gone.with_name(f"{gone.name}.deleted"))
    log = next(alpha.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    content = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    problem = "the log of 'zeta' has format 2, and this zaichik knows 1; nothing was changed"
    assert refusal_of(tmp_path) == (f"{tmp_path} was written by a newer zaichik: {problem}", os.EX_CONFIG)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == content
    assert descriptors() == before


# -- what is found ---------------------------------------------------------------------------------------------

NAMES = ["a/b", "..", ".", "Orders", "orders", "ORDERS", "x" * 200, "y" * 41, "y" * 42, "🐇🐇", "con", "a b", "a\nb",
         "-rf", "orders.deleted", "é", "e\u0301", "a\\b", "*", "'", " ", "%2e"]  # fmt: skip


@asynchronous
async def test_any_name_of_a_topic_is_a_folder_of_its_own_and_comes_back(tmp_path):
    store = Store.opened(tmp_path)
    await with_topics(store, *NAMES, messages=1)
    store.close(0)
    folders = [it.name for it in (tmp_path / TOPICS).iterdir()]
    assert len({name.lower() for name in folders}) == len(NAMES)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}\.[0-9a-f]{16}\.[0-9a-f]+", name) for name in folders)
    assert {it.name for it in tmp_path.iterdir()} == {TOPICS, CLOCK, "lock"}
    again = Store.opened(tmp_path)
    assert [(it[0].name, it[0].epoch, it[2].end) for it in again.recovered] == [
        (name, 10 + index, 1) for index, name in enumerate(NAMES)
    ]
    again.release()


@asynchronous
async def test_topics_come_back_in_the_order_of_their_epochs_and_the_clock_does_not_go_back(tmp_path):
    store = Store.opened(tmp_path)
    assert store.clock_us == 0
    await with_topics(store, "b", "a")
    store.close(4_000)
    again = Store.opened(tmp_path)
    assert ([it[0].name for it in again.recovered], again.clock_us) == (["b", "a"], 4_000)
    again.release()
    (tmp_path / CLOCK).unlink()
    again = Store.opened(tmp_path)
    assert again.clock_us == 11  # the epoch of the last topic
    again.release()


@asynchronous
async def test_after_a_crash_the_clock_goes_on_from_what_was_accepted_last(tmp_path):
    """RET-8, DUR-8: also if the topic is much older, and that was no message."""
    store = Store.opened(tmp_path)
    (owner,) = await with_topics(store, "a")
    async with working(store):
        owner.write({"reader": 1}, 5_000)
        assert await done(owner) is None
    store.release()
    again = Store.opened(tmp_path)
    assert again.clock_us == 5_000
    again.release()


@pytest.mark.parametrize("data", [b"", b"x", b"\xff", b"12x", b"[1]"])
def test_a_damaged_clock_is_not_needed(tmp_path, data):
    (tmp_path / CLOCK).write_bytes(data)
    store = Store.opened(tmp_path)
    assert store.clock_us == 0
    store.close(7)
    assert Store(PosixDisk(tmp_path)).clock_us == 7


@asynchronous
async def test_files_and_folders_that_are_not_ours_are_not_touched(tmp_path, caplog):
    store = Store.opened(tmp_path)
    await with_topics(store, "orders")
    store.close(0)
    topics = tmp_path / TOPICS
    known = next(topics.iterdir())
    strange = [tmp_path / "notes", topics / "README", topics / "lost+found" / "x", topics / "old.deleted" / "x",
               topics / f"{known.name}.bak" / "topic", known / "notes.log", known / "0.state",
               topics / "x.0123456789abcdef.7.deleted", topics / f"{folder_of('notes')}.7"]  # fmt: skip
    for path in strange:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    (topics / "x.0123456789abcdef.8").symlink_to(topics / "lost+found")
    again = Store.opened(tmp_path)
    assert [(it[0].name, it[1].damage) for it in again.recovered] == [("orders", "")]
    again.check("notes")
    again.close(0)
    assert [path.read_bytes() for path in strange] == [b"mine"] * len(strange)
    assert (topics / "x.0123456789abcdef.8").is_symlink()


@asynchronous
async def test_a_topic_that_cannot_be_read_hinders_no_other_and_is_not_created_again(tmp_path, caplog):
    store = Store.opened(tmp_path)
    await with_topics(store, "bad", "good")
    store.close(0)
    (bad,) = (tmp_path / TOPICS).glob("bad.*")
    for path in bad.iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    again = Store.opened(tmp_path)
    assert [it[0].name for it in again.recovered] == ["good"]
    assert "neither topic nor a segment tells which topic it is" in caplog.text
    with pytest.raises(Refused, match=re.escape(f"the folder {bad.name} of a topic of that name is damaged")) as told:
        again.check("bad")
    assert told.value.code == ErrorCode.DAMAGED
    again.check("bad2")
    again.close(0)
    assert len([*bad.iterdir()]) == 3


def test_damage_is_logged_with_its_place_and_what_to_do(caplog):
    content, path = sim_topic("bad"), f"{TOPICS}/{folder_of('bad')}.7"
    Store(SimDisk({**content, f"{path}/{0:020}.log": bytes(5000)}))
    (error,) = [it.getMessage() for it in caplog.records if it.levelno == logging.ERROR]
    assert error == f"{path}: {0:020}.log: the head of the file is damaged; see `zaichik check`"


class Unreadable(SimDisk):
    """Cannot read what is in a folder."""

    def read(self, path, at, size):
        if "bad." in path:
            raise PermissionError(errno.EACCES, "Permission denied")
        return super().read(path, at, size)


def test_a_folder_without_permission_hinders_no_other_topic(caplog):
    store = Store(Unreadable({**sim_topic("bad"), **sim_topic("good", 8)}))
    assert [it[0].name for it in store.recovered] == ["good"]
    assert "it cannot be read: Permission denied" in caplog.text
    with pytest.raises(Refused):
        store.check("bad")


@pytest.mark.parametrize("left", [{}, {".topic": b"half"}], ids=["empty", "unfinished"])
def test_a_topic_whose_creation_was_interrupted_was_never_there(left):
    folder = f"{TOPICS}/{folder_of('orders')}.7"
    disk = SimDisk({f"{folder}/{name}": data for name, data in left.items()}, ["", TOPICS, folder])
    store = Store(disk)
    assert (store.recovered, disk.content, disk.files(TOPICS)) == ([], {}, {})
    store.check("orders")


def test_a_deletion_that_was_interrupted_is_finished():
    whole = {**sim_topic("orders"), **sim_topic("orders2", 8)}
    folder = f"{TOPICS}/{folder_of('orders')}.7"
    disk = SimDisk({path.replace(folder, f"{folder}.deleted"): data for path, data in whole.items()})
    assert [it[0].name for it in Store(disk).recovered] == ["orders2"]
    assert list(disk.content) == list(sim_topic("orders2", 8))


def set_aside(name, epoch):
    folder = f"{TOPICS}/{folder_of(name)}.{epoch:x}"
    return {path.replace(folder, f"{folder}.older"): data for path, data in sim_topic(name, epoch).items()}


def test_of_two_topics_of_one_name_the_newer_is_opened_and_the_older_set_aside(caplog):
    """Its deletion was interrupted, or somebody has brought it back from a copy: nothing is removed."""
    for epochs in ((7, 300), (300, 7)):
        disk = SimDisk(dict(item for epoch in epochs for item in sim_topic("orders", epoch).items()))
        for _ in range(2):
            assert [(it[0].name, it[0].epoch) for it in Store(disk).recovered] == [("orders", 300)]
            assert disk.content == sim_topic("orders", 300) | set_aside("orders", 7)
    older = f"{TOPICS}/{folder_of('orders')}.7"
    assert caplog.messages == [f"{older} is of an older topic of the same name; it has .older at its end now"] * 2


@pytest.mark.parametrize("number", range(6))
def test_a_start_that_is_interrupted_is_made_again(number):
    disk = SimDisk(dict(item for epoch in (7, 300) for item in sim_topic("orders", epoch).items()))
    disk.fault = failing(number, Crash())
    try:
        Store(disk)
    except Crash:
        disk = disk.copy()
    assert [(it[0].name, it[0].epoch) for it in Store(disk).recovered] == [("orders", 300)]
    assert disk.content == sim_topic("orders", 300) | set_aside("orders", 7)


@pytest.mark.skipif(not descriptors(), reason="what a process holds is read from Linux's /proc")
def test_no_call_of_a_disk_has_more_than_one_file_open(tmp_path, monkeypatch, patchable):
    """CLO-5: that is what the broker keeps for each thread."""
    disk, before, opened = PosixDisk(tmp_path, reserve=0), descriptors(), []

    def noted(real, *given, **how):
        result = real(*given, **how)
        opened.append(descriptors() - before)
        return result

    for name in ("open", "pwritev", "pread", "fdatasync", "fstatvfs", "unlink", "rename", "replace", "rmdir", "mkdir"):
        monkeypatch.setattr(os, name, partial(noted, getattr(os, name)))
    disk.replace("made/topic.json", b"x")
    disk.write("made/log", 0, [b"x", b"y"])
    disk.write("made/log", 1, [b"z"])
    assert (disk.read("made/log", 0, 9), disk.files("made")) == (b"xz", {"topic.json": 1, "log": 2})
    disk.remove(["made/topic.json", "made/log"])
    disk.rename("made", "other")
    disk.remove(["other"])
    assert set(opened) == {0, 1}


# -- threads ---------------------------------------------------------------------------------------------------


@asynchronous
async def test_topics_are_written_and_come_back():
    disk = SimDisk()
    store = Store(disk)
    await with_topics(store, *(f"topic {number}" for number in range(20)), messages=5)
    store.close(0)
    assert [(it[2].end, it[1].damage, it[1].unsaved) for it in Store(disk).recovered] == [(5, "", 0)] * 20


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
    assert (len(store.chunks), log._reading) == (0, set())


@asynchronous
async def test_what_follows_is_called_between_the_turns_of_connections():
    store, turns = Store(SimDisk()), []

    class Turn:
        def __enter__(self):
            turns.append("begin")

        def __exit__(self, *_):
            turns.append("end")

    store.between_turns = Turn
    owner = Owner(store.create("orders", 7, SETTINGS))
    async with working(store):
        owner.publish()
        owner.write(None).then(lambda _: turns.append("told"))
        await store.drained()
    assert turns == ["begin", "told", "end"]


@asynchronous
async def test_drained_means_that_nothing_is_left_to_be_written():
    store = Store(SimDisk())
    owners = [Owner(store.create(f"{number}", 10 + number, SETTINGS)) for number in range(9)]
    async with working(store):
        await store.drained()
        for owner in owners:
            for _ in range(10):
                owner.publish()
        await store.drained()
        assert [owner.stored for owner in owners] == [10] * 9


class Eager(Owner):
    """Publishes again as soon as something was stored, up to ten messages."""

    def synced(self, count):
        super().synced(count)
        if self.next < 10:
            self.publish()


@asynchronous
async def test_what_is_published_while_a_group_is_written_is_written_next():
    store = Store(SimDisk())
    owner = Eager(store.create("orders", 7, SETTINGS))
    async with working(store):
        owner.publish()
        await store.drained()
        assert owner.stored == 10


class Held(SimDisk):
    """A disk whose writes wait until it is let go."""

    def __init__(self):
        super().__init__()
        self.may_write = threading.Event()

    def write(self, path, at, pieces):
        assert self.may_write.wait(20)
        super().write(path, at, pieces)


@asynchronous
async def test_no_thread_begins_a_group_before_the_one_before_is_synced(monkeypatch, patchable):
    """DUR-7: that is what tells a torn end from damage."""
    disk = Held()
    store = Store(disk)
    owner = Owner(store.create("orders", 7, SETTINGS))
    gather, begun = owner.log.gather, []
    monkeypatch.setattr(owner.log, "gather", lambda: (begun.append(owner.next), gather())[1])
    async with working(store):
        for _ in range(3):
            owner.publish()
            await anyio.wait_all_tasks_blocked()
        before = list(begun), owner.stored
        disk.may_write.set()
        await store.drained()
    assert before == ([1], 0)
    assert (begun, owner.stored) == ([1, 3], 3)


@pytest.mark.parametrize("error", [eio(), OSError(errno.EMFILE, "Too many open files")], ids=["sync", "files"])
@asynchronous
async def test_a_failure_is_kept_told_once_and_ends_all_writing(error, caplog):
    disk, failures = SimDisk(), []
    store = Store(disk)
    store.on_failure = lambda: failures.append(store.failure)
    owners = await with_topics(store, *"abcdef")
    disk.fault = lambda _: error
    async with working(store):
        for owner in owners:
            owner.publish()
        await store.drained()
        assert failures == [store.failure]
        assert isinstance(store.failure, StorageFailed)
        await store.drained()
        for owner in owners:
            owner.publish()
        await store.drained()
    assert [owner.stored for owner in owners] == [3] * 6
    assert len([record for record in caplog.records if record.levelno == logging.CRITICAL]) == 1
    calls = len(disk.calls)
    store.close(99)
    assert len(disk.calls) == calls


@asynchronous
async def test_after_one_failed_sync_nothing_is_written_although_the_disk_would_take_it():
    """DUR-6: it would take the place of what was lost, and be told to those who wait for that."""
    disk = Held()
    disk.may_write.set()
    store = Store(disk)
    (owner,) = await with_topics(store, "orders")
    stored, writes = owner.stored, []

    def once(call):
        writes.append(call)
        return eio() if len(writes) == 1 else None

    disk.may_write.clear()
    async with working(store):
        owner.publish()
        await anyio.wait_all_tasks_blocked()
        owner.publish()  # the next group gathers
        disk.fault = once
        disk.may_write.set()
        await store.drained()
        for _ in range(20):
            await anyio.wait_all_tasks_blocked()
    assert (owner.stored, len(writes)) == (stored, 1)


@asynchronous
async def test_a_full_disk_is_an_answer_and_no_failure():
    disk = SimDisk()
    store = Store(disk)
    (owner,) = await with_topics(store, "orders")
    disk.fault = lambda _: full()
    async with working(store):
        owner.publish()
        refusal = await done(owner)
        assert (refusal.code, owner.refusals) == (ErrorCode.STORAGE_FULL, [ErrorCode.STORAGE_FULL])
        disk.fault = lambda _: None
        owner.publish()
        assert await done(owner) is None
    assert (owner.stored, store.failure) == (4, None)


@asynchronous
async def test_logs_have_no_more_bytes_together_than_they_may():
    """DUR-9: whoever writes at the same time. What is deleted makes room for others."""
    store = Store(SimDisk())
    store.limit = 200_000
    owners = [Owner(store.create(f"{number}", 10 + number, SETTINGS)) for number in range(9)]
    async with working(store):
        for _ in range(30):
            for owner in owners:
                owner.publish(1000)
        await store.drained()
        assert 100_000 < store.used <= store.limit
        assert store.used == sum(owner.log.size for owner in owners)
        assert sum(owner.refusals.count(ErrorCode.STORAGE_FULL) for owner in owners) > 0
        *gone, last = owners
        for owner in gone:
            owner.log.delete(owner.waiting.clear)
        await store.drained()
        last.publish(1000)
        assert await done(last) is None
        assert store.used == last.log.size


@asynchronous
async def test_the_time_of_a_sync_is_told_as_the_99th_percentile_of_the_last(monkeypatch, patchable):
    store = Store(SimDisk())
    assert store.sync_p99_us() is None
    store.syncs.extend(number / 1000 for number in range(1, 1001))
    assert store.sync_p99_us() == 998_000, "of 745 to 1000 ms"
    store.syncs.clear()
    await with_topics(store, "orders")
    assert store.sync_p99_us() == round(max(store.syncs) * 1e6) > 0


@asynchronous
async def test_a_stop_on_a_full_disk_is_orderly(tmp_path):
    disk = SimDisk()
    store = Store(disk)
    await with_topics(store, "orders")
    disk.fault = lambda _: full()
    store.close(99)
    disk.fault = lambda _: None
    again = Store(disk)
    assert [(it[2].end, it[1].damage) for it in again.recovered] == [(3, "")]


@asynchronous
async def test_a_deleted_topic_is_gone_and_can_be_created_again_at_once():
    disk = SimDisk()
    store = Store(disk)
    (old,) = await with_topics(store, "orders")
    gone = []
    old.publish()
    old.log.delete(lambda: (gone.append(None), old.waiting.clear()))
    new = Owner(store.create("orders", 300, SETTINGS))
    async with working(store):
        new.publish()
        assert await done(new) is None
        await store.drained()
    assert gone == [None]
    assert list(store._logs) == [new.log]
    store.close(0)
    assert [(it[0].epoch, it[2].end) for it in Store(disk).recovered] == [(300, 1)]


@asynchronous
async def test_creating_a_topic_asks_the_disk_nothing(monkeypatch):
    """It is called by the event loop."""
    disk = SimDisk()
    store = Store(disk)
    for name in ("files", "read", "write", "replace", "rename", "remove", "drop_cache"):
        monkeypatch.setattr(disk, name, None)
    log = store.create("orders", 7, SETTINGS)
    assert (log.head, log.end, log.size, log.damage) == (0, 0, 0, "")


@asynchronous
async def test_on_a_real_disk_it_is_the_same(tmp_path):
    store = Store.opened(tmp_path)
    (owner,) = await with_topics(store, "orders", messages=50)
    store.release()  # no orderly stop
    (log,) = tmp_path.rglob("*.log")
    log.write_bytes(log.read_bytes() + b"torn")
    again = Store.opened(tmp_path)
    ((_, found, _),) = again.recovered
    assert (found.state.end, found.torn, found.damage) == (50, 4, "")
    assert log.stat().st_size == owner.log.size > HEAD_SIZE
    again.close(0)
