"""The operating system's files: written and synced, or as before, or not to be trusted."""

import errno
import os
from pathlib import Path

import pytest

from zaichik.log.disk import DiskFull, PosixDisk, StorageFailed

OLD = b"what was there"


@pytest.fixture
def disk(tmp_path):
    """A disk with a file of 14 bytes, and any amount of room."""
    (tmp_path / "old").write_bytes(OLD)
    return PosixDisk(tmp_path, reserve=0)


@pytest.fixture(autouse=True)
def descriptors():
    """No call leaves a file open, whatever happens in it."""
    folder = Path("/proc/self/fd") if Path("/proc/self/fd").exists() else Path("/dev/fd")
    before = len([*folder.iterdir()])
    yield
    assert len([*folder.iterdir()]) == before


class Calls:
    """Stands before a function of `os`: counts, and does what a list says about the next calls."""

    def __init__(self, monkeypatch, name, *answers):
        self.real, self.answers, self.made = getattr(os, name), list(answers), []
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments):
        self.made.append(arguments)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return self.real(*arguments) if answer is None else answer(self.real, *arguments)


def only(size):
    """Writes that many bytes of what is asked for, and says so."""
    return lambda real, file, data, at: real(file, data[:size], at)


def test_bytes_are_written_where_they_belong(disk):
    disk.write("new", 0, [b"head"])
    disk.write("new", 4, [b"one", b"", b"two"])
    assert disk.read("new", 0, 100) == b"headonetwo"
    assert disk.read("new", 4, 3) == b"one"
    assert disk.read("new", 10, 3) == b""
    assert (disk.root / "new").stat().st_mode & 0o777 == 0o600


def test_what_a_file_had_behind_the_place_is_gone(disk):
    disk.write("old", 4, [b"!"])
    assert disk.read("old", 0, 100) == b"what!"
    disk.write("old", 2, [])
    assert disk.read("old", 0, 100) == b"wh"


def test_a_file_that_is_there_is_never_written_from_the_start(disk):
    with pytest.raises(StorageFailed, match="old cannot be written: File exists"):
        disk.write("old", 0, [b"x"])
    assert disk.read("old", 0, 100) == OLD


def test_a_file_that_is_not_there_cannot_go_on(disk):
    with pytest.raises(StorageFailed):
        disk.write("gone", 4, [b"x"])
    assert not (disk.root / "gone").exists()


def test_many_pieces_are_written_at_once(disk, monkeypatch, patchable):
    calls = Calls(monkeypatch, "pwrite")
    pieces = [b"%d," % i for i in range(1500)]
    disk.write("old", len(OLD), pieces)
    assert disk.read("old", len(OLD), 10_000) == b"".join(pieces)
    assert len(calls.made) == 1


@pytest.mark.parametrize("sizes", [(1,), (3, 2, 1), (4, 0, 5), (11,), (1,) * 11])
def test_a_short_write_goes_on_where_it_ended(disk, monkeypatch, patchable, sizes):
    Calls(monkeypatch, "pwrite", *map(only, sizes))
    disk.write("old", len(OLD), [b"abcd", b"", b"efg", b"hijk"])
    assert disk.read("old", 0, 100) == OLD + b"abcdefghijk"


@pytest.mark.parametrize("answers", [(errno.ENOSPC,), (only(5), errno.ENOSPC), (only(3), errno.EDQUOT)])
def test_without_room_the_file_is_as_before(disk, monkeypatch, patchable, answers):
    Calls(monkeypatch, "pwrite", *answers)
    with pytest.raises(DiskFull, match="there is no room on the disk for old"):
        disk.write("old", len(OLD), [b"abcd", b"efgh"])
    assert disk.read("old", 0, 100) == OLD


def test_what_was_taken_back_is_off_the_disk_before_anyone_is_told(disk, monkeypatch, patchable):
    """Else a power cut could bring back what was refused."""
    Calls(monkeypatch, "pwrite", only(5), errno.ENOSPC)
    sizes = []
    Calls(monkeypatch, "fdatasync", lambda real, file: (sizes.append(os.fstat(file).st_size), real(file)))
    with pytest.raises(DiskFull):
        disk.write("old", len(OLD), [b"abcd", b"efgh"])
    assert sizes == [len(OLD)]


@pytest.mark.parametrize("answers", [(errno.ENOSPC,), (only(5), errno.ENOSPC)])
def test_without_room_a_new_file_is_gone_again(disk, monkeypatch, patchable, answers):
    Calls(monkeypatch, "pwrite", *answers)
    with pytest.raises(DiskFull):
        disk.write("new", 0, [b"abcdefgh"])
    assert disk.files("") == {"old": len(OLD)}
    disk.write("new", 0, [b"abcdefgh"])


def test_a_file_system_without_inodes_is_full(disk, monkeypatch, patchable):
    Calls(monkeypatch, "open", errno.ENOSPC)
    with pytest.raises(DiskFull):
        disk.write("new", 0, [b"x"])


def free(bytes_):
    class Room:
        f_bavail, f_frsize = bytes_, 1

    return lambda _real, _file: Room


def test_a_reserve_stays_free(disk, monkeypatch, patchable):
    disk.reserve = 100
    Calls(monkeypatch, "fstatvfs", free(104), free(103), free(103))
    disk.write("old", len(OLD), [b"abcd"])
    with pytest.raises(DiskFull):
        disk.write("old", len(OLD) + 4, [b"efgh"])
    assert disk.read("old", 0, 100) == OLD + b"abcd"
    with pytest.raises(DiskFull):
        disk.write("new", 0, [b"efgh"])
    assert "new" not in disk.files("")


def test_the_reserve_is_for_what_replaces_a_file_and_cutting_off_needs_none(disk, monkeypatch, patchable):
    disk.reserve = 100
    Calls(monkeypatch, "fstatvfs", free(50), free(0))
    disk.replace("old", b"checkpoint")
    assert disk.read("old", 0, 100) == b"checkpoint"
    disk.write("old", 5, [])
    assert disk.read("old", 0, 100) == b"check"


def test_an_error_of_a_write_is_not_a_full_disk(disk, monkeypatch, patchable):
    Calls(monkeypatch, "pwrite", only(3), errno.EIO)
    with pytest.raises(StorageFailed, match="old cannot be written"):
        disk.write("old", len(OLD), [b"abcd"])


def test_a_write_that_cannot_be_undone_is_a_failure(disk, monkeypatch, patchable):
    Calls(monkeypatch, "pwrite", only(3), errno.ENOSPC)
    Calls(monkeypatch, "ftruncate", errno.EIO)
    with pytest.raises(StorageFailed, match="cannot be undone"):
        disk.write("old", len(OLD), [b"abcd"])


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_sync_that_fails_is_a_failure_and_never_tried_again(disk, monkeypatch, patchable, error):
    """The system may count the lost pages as written, and answer the second call with success."""
    syncs = Calls(monkeypatch, "fdatasync", error)
    truncations = Calls(monkeypatch, "ftruncate")
    with pytest.raises(StorageFailed, match="old cannot be synced"):
        disk.write("old", len(OLD), [b"abcd"])
    assert len(syncs.made) == 1
    assert not truncations.made


@pytest.mark.parametrize("number", [0, 1])
def test_a_sync_that_fails_while_a_file_is_replaced_is_a_failure(disk, monkeypatch, patchable, number):
    syncs = Calls(monkeypatch, "fdatasync", *[None] * number, errno.EIO)
    with pytest.raises(StorageFailed):
        disk.replace("old", b"new")
    assert len(syncs.made) == number + 1
    assert disk.read("old", 0, 100) in (OLD, b"new")


class Order:
    """Notes what is synced, renamed and unlinked, in order."""

    def __init__(self, monkeypatch, root):
        self.steps = []

        def note(name, real, path, *more):
            target = Path(f"/proc/self/fd/{path}").readlink() if isinstance(path, int) else os.fspath(path)
            self.steps.append((name, str(Path(target).relative_to(root)).removesuffix(" (deleted)")))
            return real(path, *more)

        for name in ("fdatasync", "pwrite", "unlink", "rename", "replace", "rmdir", "mkdir"):
            real = getattr(os, name)
            monkeypatch.setattr(os, name, lambda *given, name=name, real=real, **_: note(name, real, *given))


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="a descriptor's path is asked of /proc")


@needs_proc
def test_a_new_file_and_its_name_are_synced_and_an_old_one_alone(disk, monkeypatch, patchable):
    order = Order(monkeypatch, disk.root)
    disk.write("new", 0, [b"x"])
    disk.write("new", 1, [b"x"])
    assert order.steps == [
        ("pwrite", "new"), ("fdatasync", "new"), ("fdatasync", "."), ("pwrite", "new"), ("fdatasync", "new"),
    ]  # fmt: skip


@needs_proc
def test_a_file_is_replaced_by_one_that_is_synced_in_a_folder_that_is(disk, monkeypatch, patchable):
    order = Order(monkeypatch, disk.root)
    disk.replace("new/topic.json", b"x")
    hidden = "new/.topic.json"
    steps = [step for step in order.steps if step != ("unlink", hidden)]
    assert steps == [
        ("mkdir", "new"), ("fdatasync", "."), ("pwrite", hidden), ("fdatasync", hidden), ("fdatasync", "new"),
        ("replace", hidden), ("fdatasync", "new"),
    ]  # fmt: skip
    assert (disk.root / "new").stat().st_mode & 0o777 == 0o700


@needs_proc
def test_names_are_removed_and_changed_on_the_disk_too(disk, monkeypatch, patchable):
    for path in ("one/a", "one/b", "one/c"):
        disk.replace(path, b"x")
    order = Order(monkeypatch, disk.root)
    disk.remove(["one/b", "one/a"])
    disk.rename("one", "two")
    disk.remove(["two/c"])
    disk.remove(["two"])
    assert [step for step in order.steps if step[0] in ("fdatasync", "unlink", "rmdir", "rename")] == [
        ("unlink", "one/b"), ("unlink", "one/a"), ("fdatasync", "one"), ("rename", "one"), ("fdatasync", "."),
        ("unlink", "two/c"), ("fdatasync", "two"), ("rmdir", "two"), ("fdatasync", "."),
    ]  # fmt: skip
    assert disk.files("") == {"old": len(OLD)}


def test_a_replacement_without_room_leaves_the_old_file_alone(disk, monkeypatch, patchable):
    Calls(monkeypatch, "pwrite", only(3), errno.ENOSPC)
    with pytest.raises(DiskFull):
        disk.replace("old", b"something new")
    assert disk.files("") == {"old": len(OLD)}
    assert disk.read("old", 0, 100) == OLD


def test_a_replacement_that_was_interrupted_is_in_nobodys_way(disk):
    (disk.root / ".old").write_bytes(b"half of something")
    disk.replace("old", b"new")
    assert disk.files("") == {"old": 3}


def test_removing_what_is_gone_is_no_error(disk):
    disk.remove(["gone", "old"])
    disk.remove([])
    assert disk.files("") == {}


def test_a_folder_that_is_not_there_has_no_files(disk):
    assert disk.files("gone") == {}


def test_files_have_their_sizes_folders_have_none_and_links_are_not_followed(disk, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "broken").symlink_to("nowhere")
    sizes = disk.files("")
    assert (sizes["old"], sizes["folder"]) == (len(OLD), -1)
    assert sizes["link"] >= 0
    assert sizes["broken"] >= 0
    disk.remove(["link"])
    assert (tmp_path / "folder").exists()


def test_dropping_the_cache_syncs_first(disk, monkeypatch, patchable):
    syncs = Calls(monkeypatch, "fdatasync")
    if hasattr(os, "posix_fadvise"):
        advice = Calls(monkeypatch, "posix_fadvise", lambda *_: syncs.made.append("advised"))
        disk.drop_cache("old")
        assert syncs.made[1:] == ["advised"]
        assert advice.made[0][1:] == (0, 0, os.POSIX_FADV_DONTNEED)
    syncs.answers.append(errno.EIO)
    with pytest.raises(StorageFailed, match="old cannot be synced"):
        disk.drop_cache("old")
