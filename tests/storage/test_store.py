"""The folder of all topics: who may use it, what is found in it, and what its logs may take."""

import errno
import fcntl
import json
import logging
import os
import re
import shutil
import stat
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from owners import SETTINGS, Owner, done, with_topics, working
from sim_disk import Crash, SimDisk, failing, full

from zaichik.cli.log_events import fields
from zaichik.storage import store as store_module
from zaichik.storage.disk import PosixDisk
from zaichik.storage.ownership import name_of
from zaichik.storage.recovery import topic_file
from zaichik.storage.repair.checking import check
from zaichik.storage.segment import HEAD_SIZE, TopicHeader, seal, unseal
from zaichik.storage.store import (
    CLOCK,
    TOPICS,
    CannotOpen,
    Store,
    exclusive_lock,
    folder_of,
    shared_lock,
)
from zaichik_protocol import ErrorCode, Refused

asynchronous = pytest.mark.anyio


def sim_topic(name, epoch=7, **more):
    """The content of a new topic's folder."""
    folder = f"{TOPICS}/{folder_of(name)}.{epoch:x}"
    return {f"{folder}/topic": topic_file(TopicHeader(name, epoch, {**SETTINGS, **more}))}


# -- who may use a folder --------------------------------------------------------------------------


def refusal_of(path):
    with pytest.raises(CannotOpen) as told:
        Store.open(path)
    return str(told.value), told.value.code


def descriptors():
    return len([*Path("/proc/self/fd").iterdir()]) if Path("/proc/self/fd").exists() else 0


def test_a_folder_is_made_for_its_user_alone(tmp_path):
    path = tmp_path / "deep" / "data"
    store = Store.open(path)
    assert [(path / name).stat().st_mode & 0o777 for name in ("", TOPICS, "lock")] == [
        0o700,
        0o700,
        0o600,
    ]
    store.close(5)
    assert sorted(it.name for it in path.iterdir()) == [CLOCK, "lock", TOPICS]


def test_a_folder_has_one_broker_at_a_time(tmp_path):
    before = descriptors()
    store = Store.open(tmp_path)
    for _ in range(2):
        assert refusal_of(tmp_path) == (
            f"another broker uses {tmp_path}; stop it, or choose another folder", os.EX_CANTCREAT,
        )  # fmt: skip
    with pytest.raises(CannotOpen, match="another broker uses"):
        exclusive_lock(tmp_path)
    store.release()
    store.release()
    exclusive_lock(tmp_path).release()
    Store.open(tmp_path).close(0)
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
    assert refusal_of(tmp_path) == (
        f"{tmp_path} cannot be used for durable topics: File exists",
        os.EX_CANTCREAT,
    )


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch, patchable):
    """The tests may run as a user who may do everything, so the system's answers are made up."""
    before = descriptors()
    monkeypatch.setattr(os, "access", lambda *_: False)
    expected = (
        f"{tmp_path} cannot be used for durable topics: it cannot be written",
        os.EX_CANTCREAT,
    )
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


def test_a_start_that_ends_while_it_looks_at_the_file_system_lets_the_folder_go(
    tmp_path, monkeypatch, patchable
):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_warn_of_file_system", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Store.open(tmp_path)
    Store.open(tmp_path).release()


@pytest.mark.parametrize(("kind", "is_refused"), [("ext4", True), ("exfat", False)])
def test_where_files_keep_no_inodes_another_one_is_no_damage(
    tmp_path, monkeypatch, patchable, kind, is_refused
):
    """An inode that changes by itself looks like a copy that somebody has put there."""
    monkeypatch.setattr(store_module, "_mounts", lambda: f"/dev/sda1 / {kind} rw 0 0\n")
    store = Store.open(tmp_path)
    owner = Owner(store.create("orders", 7, SETTINGS))
    owner.publish()
    work(store)
    (path,) = (tmp_path / TOPICS).glob("*/*.log")
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    owner.publish()
    work(store)
    assert bool(owner.refusals) is is_refused
    assert owner.stored == 2 - is_refused
    store.release()


def test_a_disk_that_fails_at_the_start_is_told_and_the_folder_let_go(
    tmp_path, monkeypatch, patchable
):
    before = descriptors()

    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    problem, code = refusal_of(tmp_path)
    assert (code, "cannot be synced: Input/output error" in problem) == (os.EX_IOERR, True)
    monkeypatch.undo()
    assert descriptors() == before
    Store.open(tmp_path).release()


@asynchronous
async def test_a_symbolic_link_is_a_folder_like_any(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = Store.open(tmp_path / "link")
    await with_topics(store, "orders")
    store.close(99)
    again = Store.open(tmp_path / "real")
    assert [it[0].name for it in again.recovered] == ["orders"]
    again.release()


def newer_topic(path):
    """Makes a topic's file one that a later version has written."""
    mark = b"zaichik topic 1\n"
    told = json.loads(unseal(mark, path.read_bytes())) | {"format": 3, "new": 1}
    path.write_bytes(seal(mark, json.dumps(told).encode()))


@asynchronous
async def test_a_newer_format_is_refused_and_nothing_is_touched(tmp_path):
    """Also what comes before it in the folder: a torn end, a deletion that was interrupted."""
    before = descriptors()
    store = Store.open(tmp_path)
    await with_topics(store, "alpha", "zeta", "gone")
    store.release()
    alpha, gone, zeta = sorted((tmp_path / TOPICS).iterdir())
    newer_topic(zeta / "topic")
    gone.rename(gone.with_name(f"{gone.name}.deleted"))
    log = next(alpha.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    content = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    problem = "the log of 'zeta' has format 3, and this zaichik knows 2; nothing was changed"
    assert refusal_of(tmp_path) == (
        f"{tmp_path} was written by a newer zaichik: {problem}",
        os.EX_CONFIG,
    )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == content
    assert descriptors() == before


# -- what is found ---------------------------------------------------------------------------------

NAMES = [
    "a/b",
    "..",
    ".",
    "Orders",
    "orders",
    "ORDERS",
    "x" * 200,
    "y" * 41,
    "y" * 42,
    "🐇🐇",
    "con",
    "a b",
    "a\nb",
    "-rf",
    "orders.deleted",
    "é",
    "e\u0301",
    "a\\b",
    "*",
    "'",
    " ",
    "%2e",
]


@asynchronous
async def test_any_name_of_a_topic_is_a_folder_of_its_own_and_comes_back(tmp_path):
    store = Store.open(tmp_path)
    await with_topics(store, *NAMES, messages=1)
    store.close(0)
    folders = [it.name for it in (tmp_path / TOPICS).iterdir()]
    assert len({name.lower() for name in folders}) == len(NAMES)
    assert all(
        re.fullmatch(r"[A-Za-z0-9_-]{1,40}\.[0-9a-f]{16}\.[0-9a-f]+", name) for name in folders
    )
    assert {it.name for it in tmp_path.iterdir()} == {TOPICS, CLOCK, "lock"}
    again = Store.open(tmp_path)
    assert [(it[0].name, it[0].epoch, it[2].end) for it in again.recovered] == [
        (name, 10 + index, 1) for index, name in enumerate(NAMES)
    ]
    again.release()


@asynchronous
async def test_topics_come_back_in_the_order_of_their_epochs_and_the_clock_does_not_go_back(
    tmp_path,
):
    store = Store.open(tmp_path)
    assert store.clock_us == 0
    await with_topics(store, "b", "a")
    store.close(4_000)
    again = Store.open(tmp_path)
    assert ([it[0].name for it in again.recovered], again.clock_us) == (["b", "a"], 4_000)
    again.release()
    (tmp_path / CLOCK).unlink()
    again = Store.open(tmp_path)
    assert again.clock_us == 11  # the epoch of the last topic
    again.release()


@asynchronous
async def test_after_a_crash_the_clock_goes_on_from_what_was_accepted_last(tmp_path):
    """RET-8, DUR-8: also if the topic is much older, and that was no message."""
    store = Store.open(tmp_path)
    (owner,) = await with_topics(store, "a")
    async with working(store):
        owner.write({"reader": 1}, 5_000)
        assert await done(owner) is None
    store.release()
    again = Store.open(tmp_path)
    assert again.clock_us == 5_000
    again.release()


@pytest.mark.parametrize("data", [b"", b"x", b"\xff", b"12x", b"[1]"])
def test_a_damaged_clock_is_not_needed(tmp_path, data):
    (tmp_path / CLOCK).write_bytes(data)
    store = Store.open(tmp_path)
    assert store.clock_us == 0
    store.close(7)
    assert Store(PosixDisk(tmp_path)).clock_us == 7


@asynchronous
async def test_files_and_folders_that_are_not_ours_are_not_touched(tmp_path, caplog):
    store = Store.open(tmp_path)
    await with_topics(store, "orders")
    store.close(0)
    topics = tmp_path / TOPICS
    known = next(topics.iterdir())
    strange = [
        tmp_path / "notes",
        topics / "README",
        topics / "lost+found" / "x",
        topics / "old.deleted" / "x",
        topics / f"{known.name}.bak" / "topic",
        known / "notes.log",
        known / "0.state",
        topics / "x.0123456789abcdef.7.deleted",
        topics / f"{folder_of('notes')}.7",
    ]
    for path in strange:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    (topics / "x.0123456789abcdef.8.bak").symlink_to(topics / "lost+found")
    again = Store.open(tmp_path)
    assert [(it[0].name, it[1].damage) for it in again.recovered] == [("orders", "")]
    again.check("notes")
    again.close(0)
    assert [path.read_bytes() for path in strange] == [b"mine"] * len(strange)
    assert (topics / "x.0123456789abcdef.8.bak").is_symlink()


@asynchronous
async def test_a_topic_that_cannot_be_read_hinders_no_other_and_is_not_created_again(
    tmp_path, caplog
):
    store = Store.open(tmp_path)
    await with_topics(store, "bad", "good")
    store.close(0)
    (bad,) = (tmp_path / TOPICS).glob("bad.*")
    for path in bad.iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    again = Store.open(tmp_path)
    assert [it[0].name for it in again.recovered] == ["good"]
    assert "neither topic nor a segment tells which topic it is" in caplog.text
    with pytest.raises(
        Refused, match=re.escape(f"the folder {bad.name} of a topic of that name is damaged")
    ) as told:
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
    assert "cannot be opened: it cannot be read: Permission denied" in caplog.text
    (record,) = caplog.records
    folder = f"{TOPICS}/{folder_of('bad')}.7"
    told = fields(record)
    assert (told["event"], told["folder"]) == ("log_denied", folder)
    with pytest.raises(Refused, match=r"cannot be opened: .*Permission denied") as told:
        store.check("bad")
    assert "damaged" not in str(told.value)


@asynchronous
async def test_a_file_that_may_not_be_opened_is_named_with_its_owner(
    tmp_path, monkeypatch, patchable
):
    """The tests may run as a user who may do everything, so the system's answer is made up."""
    store = Store.open(tmp_path)
    await with_topics(store, "bad", "good")
    store.close(0)
    (log,) = (tmp_path / TOPICS).glob("bad.*/*.log")
    real = Path.open

    def denied(path, *more, **others):
        if path == log:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *more, **others)

    monkeypatch.setattr(Path, "open", denied)
    again = Store.open(tmp_path)
    assert [it[0].name for it in again.recovered] == ["good"]
    owner = name_of(log.stat().st_uid)
    with pytest.raises(Refused, match=re.escape(f"{log} belongs to {owner}, and ")):
        again.check("bad")
    again.close(0)


def test_a_folder_that_may_not_be_entered_hinders_no_other_topic(tmp_path, monkeypatch, patchable):
    """As root has made it, who created a topic by hand."""
    bad = f"{TOPICS}/{folder_of('bad')}.7"
    disk = SimDisk({**sim_topic("bad"), **sim_topic("good", 8)})
    files = disk.files

    def denied(folder):
        if folder == bad:
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return files(folder)

    disk.files = denied
    store = Store(disk)
    assert [it[0].name for it in store.recovered] == ["good"]
    with pytest.raises(Refused, match=f"cannot be opened: {re.escape(bad)}"):
        store.check("bad")


@pytest.mark.parametrize("place", ["", TOPICS])
def test_root_makes_no_files_in_what_another_user_has(tmp_path, monkeypatch, patchable, place):
    """The service could not read them."""
    (tmp_path / TOPICS).mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path / place, 54_321, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    problem, code = refusal_of(tmp_path)
    assert problem.startswith(f"{tmp_path / place} belongs to user ")
    assert "start the broker as that user" in problem
    assert code == os.EX_CANTCREAT
    assert [it.name for it in tmp_path.iterdir()] == [TOPICS]


def test_a_start_says_that_there_is_no_room(tmp_path, monkeypatch, caplog, patchable):
    class Room:
        f_bavail, f_frsize = 40, 2**20

    monkeypatch.setattr(os, "statvfs", lambda _: Room)
    Store.open(tmp_path).close(0)
    assert "40 MiB are free, and 64 MiB stay free" in caplog.text


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
    disk = SimDisk(
        {path.replace(folder, f"{folder}.deleted"): data for path, data in whole.items()}
    )
    assert [it[0].name for it in Store(disk).recovered] == ["orders2"]
    assert list(disk.content) == list(sim_topic("orders2", 8))


def set_aside(name, epoch):
    folder = f"{TOPICS}/{folder_of(name)}.{epoch:x}"
    return {
        path.replace(folder, f"{folder}.older"): data
        for path, data in sim_topic(name, epoch).items()
    }


def test_of_two_topics_of_one_name_the_newer_is_opened_and_the_older_set_aside(caplog):
    """Its deletion was interrupted, or somebody has brought it back from a copy: nothing is
    removed.
    """
    for epochs in ((7, 300), (300, 7)):
        disk = SimDisk(
            dict(item for epoch in epochs for item in sim_topic("orders", epoch).items())
        )
        for _ in range(2):
            assert [(it[0].name, it[0].epoch) for it in Store(disk).recovered] == [("orders", 300)]
            assert disk.content == sim_topic("orders", 300) | set_aside("orders", 7)
    older = f"{TOPICS}/{folder_of('orders')}.7"
    assert (
        caplog.messages
        == [f"{older} is of an older topic of the same name; it has .older at its end now"] * 2
    )


@pytest.mark.parametrize("number", range(6))
def test_a_start_that_is_interrupted_is_made_again(number):
    disk = SimDisk(dict(item for epoch in (7, 300) for item in sim_topic("orders", epoch).items()))
    disk.fault = failing(number, Crash())
    with suppress(Crash):
        Store(disk)
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

    for name in (
        "open",
        "pwritev",
        "pread",
        "fdatasync",
        "fstatvfs",
        "unlink",
        "rename",
        "replace",
        "rmdir",
        "mkdir",
    ):
        monkeypatch.setattr(os, name, partial(noted, getattr(os, name)))
    disk.replace("made/topic.json", b"x")
    disk.write("made/log", 0, [b"x", b"y"])
    disk.write("made/log", 2, [b"z"])
    assert (disk.read("made/log", 0, 9), disk.files("made")) == (
        b"xyz",
        {"topic.json": 1, "log": 3},
    )
    disk.remove(["made/topic.json", "made/log"])
    disk.rename("made", "other")
    disk.remove(["other"])
    assert set(opened) == {0, 1}


# -- threads ---------------------------------------------------------------------------------------


@asynchronous
async def test_topics_are_written_and_come_back():
    disk = SimDisk()
    store = Store(disk)
    await with_topics(store, *(f"topic {number}" for number in range(20)), messages=5)
    store.close(0)
    assert [(it[2].end, it[1].damage, it[1].unsaved) for it in Store(disk).recovered] == [
        (5, "", 0)
    ] * 20


@asynchronous
async def test_logs_have_no_more_bytes_together_than_they_may():
    """DUR-9: whoever writes at the same time. What is deleted makes room for others."""
    store = Store(SimDisk())
    store.limit = 200_000
    owners = [Owner(store.create(f"{number}", 10 + number, SETTINGS)) for number in range(9)]
    async with working(store) as threads:
        for _ in range(30):
            for owner in owners:
                owner.publish(1000)
        await threads.drained()
        assert 100_000 < store.used <= store.limit
        assert store.used == sum(owner.log.size for owner in owners)
        assert sum(owner.refusals.count(ErrorCode.STORAGE_FULL) for owner in owners) > 0
        *gone, last = owners
        for owner in gone:
            owner.log.delete(owner.waiting.clear)
        await threads.drained()
        last.publish(1000)
        assert await done(last) is None
        assert store.used == last.log.size


@asynchronous
async def test_the_time_of_a_sync_is_told_as_the_99th_percentile_of_the_last(
    monkeypatch, patchable
):
    store = Store(SimDisk())
    assert store.sync_p99_us() is None
    syncs = store._resources.sync_times.latest
    syncs.extend(number / 1000 for number in range(1, 1001))
    assert store.sync_p99_us() == 998_000, "of 745 to 1000 ms"
    syncs.clear()
    await with_topics(store, "orders")
    assert store.sync_p99_us() == round(max(syncs) * 1e6) > 0


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
    async with working(store) as threads:
        new.publish()
        assert await done(new) is None
        await threads.drained()
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
    store = Store.open(tmp_path)
    (owner,) = await with_topics(store, "orders", messages=50)
    store.release()  # no orderly stop
    (log,) = tmp_path.rglob("*.log")
    log.write_bytes(log.read_bytes() + b"torn")
    again = Store.open(tmp_path)
    ((_, found, _),) = again.recovered
    assert (found.state.end, found.torn, found.damage) == (50, 4, "")
    assert log.stat().st_size == owner.log.size > HEAD_SIZE
    again.close(0)


# -- what others do to the folder ------------------------------------------------------------------


def work(store):
    """Does what threads do."""
    queue = store.work
    while queue.has_writes:
        log = queue.take_write()
        log.gather()()()
        queue.finish_write(log)


def with_orders(path):
    """Makes a folder with a durable topic that has a message and a checkpoint. Returns its path."""
    store = Store.open(path)
    log = store.create("orders", 7, SETTINGS)
    owner = Owner(log)
    owner.publish()
    work(store)
    store.close(9)
    (folder,) = (path / TOPICS).iterdir()
    return folder


@pytest.mark.parametrize("is_there", [True, False], ids=["to a place", "to nothing"])
@pytest.mark.parametrize("name", ["", "topic", f"{0:020}.log", f"{1:020}.state"])
def test_a_link_is_neither_followed_nor_overlooked(tmp_path, name, is_there):
    """By a start, and by a check. Moved back, it is as it was."""
    folder = with_orders(tmp_path / "data")
    linked = folder / name
    moved = tmp_path / "elsewhere"
    linked.rename(moved)
    linked.symlink_to(moved if is_there else tmp_path / "nowhere")
    place = linked.relative_to(tmp_path / "data")
    link = f"{place} is a symbolic link; move it back, or mount the other place there"
    problem, code = refusal_of(tmp_path / "data")
    assert problem == f"{tmp_path / 'data'} cannot be used for durable topics: {link}"
    assert code == os.EX_CANTCREAT
    (checked,) = check(PosixDisk(tmp_path / "data"))
    assert checked.hopeless == [link]
    linked.unlink()
    moved.rename(linked)
    store = Store.open(tmp_path / "data")
    assert [it[1].state.end for it in store.recovered] == [1]
    store.release()


class Listing(SimDisk):
    """A disk that counts what is listed, by folder."""

    def __init__(self, content):
        super().__init__(content)
        self.listed = Counter()

    def files(self, folder):
        self.listed[folder] += 1
        return super().files(folder)


def test_a_start_and_a_check_list_the_folder_of_all_topics_once_however_many_there_are():
    """Each would list ten thousand, ten thousand times."""
    content = {}
    for number in range(20):
        content |= sim_topic(f"t{number}")
    for use in (Store, check):
        disk = Listing(content)
        use(disk)
        assert disk.listed[TOPICS] == 1


def test_a_link_that_is_not_a_file_of_ours_is_left_alone(tmp_path):
    folder = with_orders(tmp_path)
    (folder / "notes").symlink_to(tmp_path / "nowhere")
    (folder.parent / "backup").symlink_to(tmp_path)
    Store.open(tmp_path).close(9)
    assert (folder / "notes").is_symlink()


def emptied(path):
    os.truncate(path, 0)


def put_back(path):
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize("change", [emptied, put_back, Path.unlink])
def test_a_file_that_is_changed_under_a_broker_fails_its_topic_and_no_other(
    tmp_path, change, caplog
):
    """DUR-7. A start knows of it, too: it never gives the offsets again."""
    store = Store.open(tmp_path)
    owners = [Owner(store.create(name, 7, SETTINGS)) for name in ("orders", "others")]
    for owner in owners:
        owner.publish()
    work(store)
    (path,) = tmp_path.glob(f"{TOPICS}/orders*/*.log")
    change(path)
    for owner in owners:
        owner.publish()
    work(store)
    changed, other = owners
    assert (changed.refusals, changed.stored) == ([ErrorCode.DAMAGED], 1)
    assert (other.refusals, other.stored) == ([], 2)
    assert str(path.relative_to(tmp_path)) in changed.log.damage
    assert f"{changed.log.damage}; the topic takes no more messages" in caplog.messages
    store.close(9)
    again = Store.open(tmp_path)
    found = {topic.name: recovered for topic, recovered, _ in again.recovered}
    again.release()
    assert found["others"].damage == ""
    assert bool(found["orders"].damage) == (change is not put_back)
    assert found["orders"].state.end == int(change is put_back)


def test_a_topic_whose_folder_is_removed_under_a_broker_is_not_made_again(tmp_path):
    folder = with_orders(tmp_path)
    store = Store.open(tmp_path)
    ((_, _, log),) = store.recovered
    owner = Owner(log)
    owner.publish()
    work(store)
    shutil.rmtree(folder)
    owner.publish()
    work(store)
    assert owner.refusals == [ErrorCode.DAMAGED]
    assert not folder.exists()
    store.release()


def test_the_folder_is_locked_and_not_only_a_file_in_it(tmp_path):
    """Whoever removes `lock` lets nobody else in: not under another path, either."""
    data = tmp_path / "data"
    store = Store.open(data)
    (data / "lock").unlink()
    (tmp_path / "link").symlink_to(data)
    for path in (data, tmp_path / "link"):
        with pytest.raises(CannotOpen, match="another broker uses"):
            Store.open(path)
        with pytest.raises(CannotOpen, match="a broker uses"):
            shared_lock(path)
    store.release()
    shared_lock(data).release()
    Store.open(data).release()


def test_a_broker_of_an_earlier_version_is_kept_out_and_keeps_out(tmp_path):
    """It locks the file, and nothing else."""
    store = Store.open(tmp_path)
    with (tmp_path / "lock").open("r+b") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        store.release()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(CannotOpen, match="another broker uses"):
            Store.open(tmp_path)


def test_where_folders_cannot_be_locked_the_file_is(tmp_path, monkeypatch, caplog, patchable):
    real = fcntl.flock

    def flock(file, how):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EBADF, "not for folders")
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    store = Store.open(tmp_path)
    assert caplog.messages == [
        f"the file system of {tmp_path} locks no folders, so never remove the file lock in it"
    ]
    with pytest.raises(CannotOpen, match="another broker uses"):
        Store.open(tmp_path)
    store.release()


def tree(folder):
    return {it.name: it.read_bytes() for it in folder.iterdir()}


@pytest.mark.parametrize(
    "name", ["backup-{}", "{}0", "a.0123456789abcdef.7", "zz.0123456789abcdef.7"]
)
def test_a_copy_is_never_the_topic(tmp_path, name, caplog):
    """Wherever it stands in the order of names. It is left as it is, and named."""
    folder = with_orders(tmp_path)
    copy = folder.with_name(name.format(folder.name))
    shutil.copytree(folder, copy)
    with (copy / f"{0:020}.log").open("ab") as file:
        file.write(b"a torn end, which a start would cut off")
    before = tree(copy)
    store = Store.open(tmp_path)
    ((_, _, log),) = store.recovered
    problem = (
        f"it was copied or renamed, for the folder of topic 'orders' is {folder.name}; "
        f"a broker leaves it alone. If there is no {folder.name}, stop the broker and rename this "
        "folder to that; otherwise it is a copy: move it elsewhere"
    )
    own = f"{TOPICS}/{folder.name}"
    assert caplog.messages == [
        f"{TOPICS}/{copy.name} is not opened, for it is not {own}: {problem}"
    ]
    assert fields(caplog.records[0]) == {
        "event": "log_copied",
        "folder": f"{TOPICS}/{copy.name}",
        "of": own,
        "reason": problem,
    }
    owner = Owner(log)
    owner.publish()
    work(store)
    store.check("orders")
    store.close(9)
    assert tree(copy) == before
    assert f"{1:020}.log" in tree(folder)
    told = {it.folder: it.hopeless for it in check(PosixDisk(tmp_path))}
    assert told == {f"{TOPICS}/{copy.name}": [problem], f"{TOPICS}/{folder.name}": []}


def test_a_topic_whose_folder_was_renamed_is_not_begun_anew(tmp_path, caplog):
    """It is not overlooked, either: nobody would see that its messages are not there.

    All who are told of it are told how to have them back.
    """
    folder = with_orders(tmp_path)
    folder.rename(folder.with_name(f"my-{folder.name}"))
    store = Store.open(tmp_path)
    assert store.recovered == []
    with pytest.raises(
        Refused, match="stop the broker and rename it back: `zaichik check`"
    ) as told:
        store.check("orders")
    assert told.value.code == ErrorCode.DAMAGED
    ((problem,),) = [it.hopeless for it in check(PosixDisk(tmp_path))]
    assert (
        f"If there is no {folder.name}, stop the broker and rename this folder to that" in problem
    )
    assert problem in caplog.text
    store.check("others")
    store.release()
    folder.with_name(f"my-{folder.name}").rename(folder)
    store = Store.open(tmp_path)
    assert [it[1].state.end for it in store.recovered] == [1]
    store.release()
