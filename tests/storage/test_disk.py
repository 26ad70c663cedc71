"""The operating system's files: written and synced, or as before, or not to be trusted."""

import errno
import os
from pathlib import Path

import pytest

from zaichik.storage.disk import (
    FOLDER,
    LINK,
    RESERVE,
    DiskFull,
    FileChanged,
    FileTooLong,
    PosixDisk,
    StorageFailed,
    sync_parents,
)

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


@pytest.mark.parametrize(
    "answers", [(errno.ENOSPC,), (only(5), errno.ENOSPC), (only(3), errno.EDQUOT)]
)
def test_without_room_the_file_is_as_before(disk, monkeypatch, patchable, answers):
    Calls(monkeypatch, "pwrite", *answers)
    with pytest.raises(DiskFull, match="there is no room on the disk for old"):
        disk.write("old", len(OLD), [b"abcd", b"efgh"])
    assert disk.read("old", 0, 100) == OLD


def test_what_was_taken_back_is_off_the_disk_before_anyone_is_told(disk, monkeypatch, patchable):
    """Else a power cut could bring back what was refused."""
    Calls(monkeypatch, "pwrite", only(5), errno.ENOSPC)
    sizes = []
    Calls(
        monkeypatch,
        "fdatasync",
        lambda real, file: (sizes.append(os.fstat(file).st_size), real(file)),
    )
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


def test_what_stays_free_is_named(disk, monkeypatch, patchable):
    """A disk with 40 MiB has room, and a publish is refused all the same."""
    disk.reserve = RESERVE
    Calls(monkeypatch, "fstatvfs", free(40 * 2**20))
    with pytest.raises(DiskFull, match="40 MiB are free, and 64 MiB stay free"):
        disk.write("old", len(OLD), [b"abcd"])


@pytest.mark.parametrize("answers", [(errno.EFBIG,), (only(3), errno.EFBIG)])
def test_a_limit_of_files_is_no_failed_disk(disk, monkeypatch, patchable, answers):
    Calls(monkeypatch, "pwrite", *answers)
    with pytest.raises(FileTooLong, match="no room in old: it has reached the limit of a file's"):
        disk.write("old", len(OLD), [b"abcd"])
    assert disk.read("old", 0, 100) == OLD


def test_the_reserve_is_for_what_replaces_a_file_and_cutting_off_needs_none(
    disk, monkeypatch, patchable
):
    disk.reserve = 100
    Calls(monkeypatch, "fstatvfs", free(50), free(0))
    disk.replace("old", b"checkpoint")
    assert disk.read("old", 0, 100) == b"checkpoint"
    disk.write("old", 5, [])
    assert disk.read("old", 0, 100) == b"check"


def test_the_reserve_is_for_a_hidden_file_too(disk, monkeypatch, patchable):
    """DUR-10: it takes the place of files that are larger."""
    disk.reserve = 100
    Calls(monkeypatch, "fstatvfs", free(50), free(50))
    disk.write(".new", 0, [b"abcd"])
    disk.write(".new", 4, [b"efgh"])
    assert disk.read(".new", 0, 100) == b"abcdefgh"


def test_a_hidden_file_does_not_hide_that_the_log_was_changed(disk, tmp_path):
    """DUR-7, DUR-10: a table's log is written, and another file beside it, in turns."""
    disk.write("log", 0, [b"abcd"])
    disk.write(".new", 0, [b"efgh"])
    (tmp_path / "log").write_bytes(b"abcd, and more")
    with pytest.raises(FileChanged, match="log"):
        disk.write("log", 4, [b"ijkl"])
    disk.rename(".new", "old")
    disk.write(".new", 0, [b"another"])
    disk.write(".new", 7, [b" one"])
    disk.remove([".new"])
    disk.write(".new", 0, [b"the third"])


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
def test_a_sync_that_fails_while_a_file_is_replaced_is_a_failure(
    disk, monkeypatch, patchable, number
):
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
            target = (
                Path(f"/proc/self/fd/{path}").readlink()
                if isinstance(path, int)
                else os.fspath(path)
            )
            self.steps.append(
                (name, str(Path(target).relative_to(root)).removesuffix(" (deleted)"))
            )
            return real(path, *more)

        for name in ("fdatasync", "pwrite", "unlink", "rename", "replace", "rmdir", "mkdir"):
            real = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda *given, name=name, real=real, **_: note(name, real, *given)
            )


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="a descriptor's path is asked of /proc"
)


@needs_proc
def test_a_new_file_and_its_name_are_synced_and_an_old_one_alone(disk, monkeypatch, patchable):
    order = Order(monkeypatch, disk.root)
    disk.write("new", 0, [b"x"])
    disk.write("new", 1, [b"x"])
    assert order.steps == [
        ("pwrite", "new"),
        ("fdatasync", "new"),
        ("fdatasync", "."),
        ("pwrite", "new"),
        ("fdatasync", "new"),
    ]


@needs_proc
def test_a_file_is_replaced_by_one_that_is_synced_in_a_folder_that_is(disk, monkeypatch, patchable):
    order = Order(monkeypatch, disk.root)
    disk.replace("new/topic.json", b"x")
    hidden = "new/.topic.json"
    steps = [step for step in order.steps if step != ("unlink", hidden)]
    assert steps == [
        ("mkdir", "new"),
        ("fdatasync", "."),
        ("pwrite", hidden),
        ("fdatasync", hidden),
        ("fdatasync", "new"),
        ("replace", hidden),
        ("fdatasync", "new"),
    ]
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
    assert [
        step for step in order.steps if step[0] in ("fdatasync", "unlink", "rmdir", "rename")
    ] == [
        ("unlink", "one/b"),
        ("unlink", "one/a"),
        ("fdatasync", "one"),
        ("rename", "one"),
        ("fdatasync", "."),
        ("unlink", "two/c"),
        ("fdatasync", "two"),
        ("rmdir", "two"),
        ("fdatasync", "."),
    ]
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
    assert (sizes["old"], sizes["folder"]) == (len(OLD), FOLDER)
    assert sizes["link"] == sizes["broken"] == LINK
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


def test_the_names_of_a_folder_and_of_its_parents_are_synced(tmp_path, monkeypatch, patchable):
    """As far up as its file system reaches, through links, and past folders of other people."""
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a/b/c")
    opened = Calls(monkeypatch, "open", None, errno.EACCES)
    sync_parents(tmp_path / "link")
    folders = [os.path.realpath(path) for path, *_ in opened.made]
    assert folders[:3] == [str(tmp_path / "a/b"), str(tmp_path / "a"), str(tmp_path)]


@pytest.fixture
def below_a_private_folder(tmp_path, monkeypatch):
    """The working folder is in one that this user may not search, so no absolute path leads here.

    Returns it.
    """
    private = tmp_path / "private"
    own = private / "own"
    (own / "topics").mkdir(parents=True)
    monkeypatch.chdir(own)
    private.chmod(0)
    # Root may search everything.
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    yield own
    if is_root:
        os.seteuid(0)
    private.chmod(0o700)


def test_parents_that_this_user_may_not_reach_are_left_to_others(
    below_a_private_folder, monkeypatch, patchable
):
    """But the folder that the name was given in is synced."""
    opened = Calls(monkeypatch, "open")
    syncs = Calls(monkeypatch, "fdatasync")
    sync_parents(Path("topics"))
    assert [os.fspath(path) for path, *_ in opened.made] == ["topics/..", "topics/../.."]
    assert len(syncs.made) == 1


def test_names_that_cannot_be_synced_are_a_failure(disk, monkeypatch, patchable):
    Calls(monkeypatch, "fdatasync", errno.EIO)
    with pytest.raises(StorageFailed):
        disk.sync_names("")


# -- what others do to the file that is written ----------------------------------------------------


def shorter(path):
    os.truncate(path, 3)


def longer(path):
    with path.open("ab") as file:
        file.write(b"of another broker")


def copied(path):
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def removed(path):
    path.unlink()


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("room", [1000, 0], ids=["room", "no room"])
@pytest.mark.parametrize("change", [shorter, longer, copied, removed, linked])
def test_a_file_that_somebody_has_changed_is_not_written(
    disk, change, room, monkeypatch, patchable
):
    """Else what is acknowledged could not be read. It stays as they left it."""
    path = disk.root / "log"
    disk.write("log", 0, [b"head"])
    disk.write("log", 4, [b"one"])
    change(path)
    before = {it.name: it.read_bytes() for it in disk.root.iterdir()}
    Calls(monkeypatch, "fstatvfs", *[free(room)] * 2)
    for _ in range(2):
        with pytest.raises(FileChanged, match="log"):
            disk.write("log", 7, [b"two"])
    assert {it.name: it.read_bytes() for it in disk.root.iterdir()} == before


def test_where_files_keep_no_inodes_only_the_length_counts(tmp_path):
    disk = PosixDisk(tmp_path, reserve=0, has_stable_inodes=False)
    path = tmp_path / "log"
    disk.write("log", 0, [b"head"])
    copied(path)
    disk.write("log", 4, [b"one"])
    assert disk.read("log", 0, 100) == b"headone"
    longer(path)
    with pytest.raises(FileChanged, match="instead of 7"):
        disk.write("log", 7, [b"two"])


def test_a_file_that_is_removed_while_it_is_opened_is_not_written(disk, monkeypatch, patchable):
    disk.write("log", 0, [b"head"])

    def opened(real, *arguments):
        file = real(*arguments)
        (disk.root / "log").unlink()
        return file

    Calls(monkeypatch, "open", opened)
    with pytest.raises(FileChanged, match="it was removed"):
        disk.write("log", 4, [b"one"])


def test_a_file_that_a_start_has_found_has_no_hole_either(disk):
    with pytest.raises(FileChanged, match=f"it has {len(OLD)} bytes instead of 20"):
        disk.write("old", 20, [b"new"])
    assert disk.read("old", 0, 100) == OLD


def test_a_new_file_never_takes_the_place_of_one_that_was_put_there(disk):
    with pytest.raises(FileChanged, match="File exists"):
        disk.write("old", 0, [b"new"])


def test_a_file_that_was_replaced_is_written(disk):
    """By the log itself: it is another one from then on."""
    disk.write("log", 0, [b"head"])
    disk.replace("log", b"new head")
    disk.write("log", 8, [b"one"])
    disk.write("log", 11, [b"two"])
    assert disk.read("log", 0, 100) == b"new headonetwo"


def test_it_is_asked_in_the_calls_that_there_are(disk, monkeypatch, patchable):
    """A write has one `fstat`, as before."""
    disk.write("log", 0, [b"head"])
    calls = Calls(monkeypatch, "fstat")
    disk.write("log", 4, [b"one"])
    assert len(calls.made) == 1
