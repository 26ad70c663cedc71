"""A model of a file system that does no more than POSIX asks, for finding what a log takes for
granted.

A program and a disk see two different things:

    now         what every process sees: all that was written, created, renamed, removed
    on the disk what a power cut leaves, and the next start finds

Only two calls bring the second up to the first. `fsync` of a *file* puts its bytes on the disk, and
says nothing about its name. `fsync` of a *folder* puts the names in it on the disk, and says
nothing about the bytes of those files, nor about the folder's own name in its parent. All that was
not synced is anybody's guess:

    bytes       any of the sectors that were written, and any length between the old and the new
    names       any of the changes, whatever their order: the second of two removals may be on the
                disk, and the first not. (A rename is one change: there is never half of one.)

Real file systems do better: ext4 puts the name of a new file on the disk with its bytes. A log that
relies on it would lose what it has acknowledged on the first one that does not.

`ModelDisk` is a `Disk` made of such calls, in the order of the `PosixDisk` (a test compares them).
Before each call it asks `before_call`, which may raise `Crash`. What is there then can be cut in
every way that is allowed: `states_after_cut`. If only the process is killed, it stays as it is, and
what was not synced is still not synced when the next one starts: it can see what is not on the
disk, and nothing tells it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from sim_disk import SECTOR, torn

TORN_STATES = 2  # of a file that was not synced, besides the orderly ones


class File:
    """A file: what it holds, and what of that is on the disk."""

    def __init__(self, data: bytes = b"") -> None:
        self.now = data
        self.synced = data

    def moment(self) -> bytes:
        """Returns what a sync that begins now will have put on the disk."""
        return self.now

    def sync(self, moment: bytes) -> None:
        """That is on the disk."""
        self.synced = moment


class Folder:
    """A folder: the names in it, and the changes of them that are not known to be on the disk.

    A change is a mapping of names to what they are of now; to None, if they are gone.
    """

    def __init__(self) -> None:
        self.now: dict[str, File | Folder] = {}
        self.synced: dict[str, File | Folder] = {}
        self.changes: list[dict[str, File | Folder | None]] = []
        self._forgotten = 0

    def change(self, names: dict[str, File | Folder | None]) -> None:
        """Give names, or, with None, take them."""
        self.changes.append(names)
        apply(self.now, names)

    def moment(self) -> int:
        """Returns how many changes a sync that begins now will have put on the disk."""
        return self._forgotten + len(self.changes)

    def sync(self, moment: int) -> None:
        """So many changes are on the disk."""
        count = max(moment - self._forgotten, 0)
        for names in self.changes[:count]:
            apply(self.synced, names)
        del self.changes[:count]
        self._forgotten += count


def apply(names: dict[str, File | Folder], change: dict[str, File | Folder | None]) -> None:
    """Make a change of names."""
    for name, it in change.items():
        if it is None:
            names.pop(name, None)
        else:
            names[name] = it


# -- what a power cut leaves -------------------------------------------------------------------


class EveryChoice:
    """Goes through all sequences of choices, like the digits of an odometer."""

    def __init__(self) -> None:
        self._digits: list[int] = []
        self._counts: list[int] = []
        self._at = 0

    def pick(self, count: int) -> int:
        """Returns a number below `count`: the next digit."""
        if self._at == len(self._digits):
            self._digits.append(0)
            self._counts.append(count)
        self._at += 1
        return self._digits[self._at - 1]

    def advance(self) -> bool:
        """Go on to the next sequence. Returns whether there is one."""
        self._at = 0
        while self._digits and self._digits[-1] + 1 == self._counts[-1]:
            self._digits.pop()
            self._counts.pop()
        if self._digits:
            self._digits[-1] += 1
        return bool(self._digits)


def left_by_cut(folder: Folder, pick: Callable[[int], int]) -> Folder:
    """Returns what a power cut leaves of a folder, all of it on the disk.

    Args:
        folder: as it was.
        pick: returns one of that many possibilities, by its number.
    """
    names = dict(folder.synced)
    for change in folder.changes:
        if pick(2):
            apply(names, change)
    left = Folder()
    for name, it in sorted(names.items()):
        if isinstance(it, Folder):
            left.now[name] = left_by_cut(it, pick)
        else:
            possible = possible_bytes(it)
            left.now[name] = File(possible[pick(len(possible))])
    left.synced = dict(left.now)
    return left


def possible_bytes(file: File) -> list[bytes]:
    """Returns what a power cut may leave in a file: the extremes, and a few of what is between."""
    old = file.synced
    new = file.now
    if old == new:
        return [new]
    random = Random(len(old) << 32 | len(new))
    found = [
        old,
        new,
        new[: (len(old) + len(new)) // 2],
        old.ljust(len(new), b"\0")[: len(new)],  # the length is there, and none of the bytes
        old[:SECTOR].ljust(SECTOR, b"\0")[: len(new)] + new[SECTOR:],  # all but the first sector
    ]
    found += [torn(old, new, random) for _ in range(TORN_STATES)]
    return list(dict.fromkeys(found))


def states_after_cut(folder: Folder, most: int, random: Random) -> Iterator[Folder]:
    """Returns what a power cut may leave: everything, or a random part if there is more of it.

    Args:
        folder: as it was.
        most: how many states are returned.
        random: chooses among more.
    """
    every = EveryChoice()
    states = [left_by_cut(folder, every.pick)]
    while every.advance():
        if len(states) == most:
            break
        states.append(left_by_cut(folder, every.pick))
    else:
        yield from states
        return
    for _ in range(most):
        yield left_by_cut(folder, random.randrange)


# -- a disk made of it -------------------------------------------------------------------------


class ModelDisk:
    """See `zaichik.storage.disk.Disk`.

    Attributes:
        root: the folder.
        calls: the system calls that were made: the name of each, and the path.
        before_call: called before each; may raise `Crash`.
    """

    def __init__(self, root: Folder | None = None) -> None:
        if root is None:
            root = Folder()
            root.now["topics"] = Folder()
            root.synced = dict(root.now)
        self.root = root
        self.calls: list[tuple[str, str]] = []
        self.before_call: Callable[[], None] = lambda: None

    def killed(self) -> ModelDisk:
        """Returns the disk for the next process: what was not synced is not synced."""
        return ModelDisk(self.root)

    # -- what a log asks for -------------------------------------------------------------------

    def files(self, folder: str) -> dict[str, int]:
        found = self._find(folder)
        sizes: dict[str, int] = {}
        if isinstance(found, Folder):
            for name, it in found.now.items():
                sizes[name] = -1 if isinstance(it, Folder) else len(it.now)
        return sizes

    def read(self, path: str, at: int, size: int) -> bytes:
        return self._file(path).now[at : at + size]

    def write(self, path: str, at: int, pieces: Sequence[bytes]) -> None:
        self._call("open", path)
        folder, name = self._place(path)
        if not at:
            assert name not in folder.now, f"{path} is there already"
            folder.change({name: File()})
        file = self._file(path)
        data = b"".join(pieces)
        if not data or len(file.now) > at:
            self._call("ftruncate", path)
            file.now = file.now[:at]
        assert len(file.now) == at, "a hole"
        if data:
            self._call("pwrite", path)
            file.now += data
        self._sync(path)
        if not at:
            self._sync(parent(path))

    def replace(self, path: str, data: bytes) -> None:
        folder = parent(path)
        if self._find(folder) is None:
            self._call("mkdir", folder)
            above, name = self._place(folder)
            above.change({name: Folder()})
            self._sync(parent(folder))
        _, name = self._place(path)
        hidden = f"{folder}/.{name}".removeprefix("/")
        self._unlink(hidden)
        self.write(hidden, 0, [data])
        self._rename(hidden, path)
        self._sync(folder)

    def rename(self, old: str, new: str) -> None:
        self._rename(old, new)
        self._sync(parent(new))

    def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            found = self._find(path)
            if isinstance(found, Folder):
                assert not found.now, f"{path} is not empty"
                self._call("rmdir", path)
                folder, name = self._place(path)
                folder.change({name: None})
            else:
                self._unlink(path)
        if paths:
            self._sync(parent(paths[-1]))

    def drop_cache(self, path: str) -> None:
        self._sync(path)

    def sync_names(self, folder: str) -> None:
        self._sync(folder)

    # -- what that is made of ------------------------------------------------------------------

    def _call(self, name: str, path: str) -> None:
        self.before_call()
        self.calls.append((name, path))

    def _sync(self, path: str) -> None:
        self._call("sync", path)
        it = self._find(path)
        assert it is not None, f"{path} is not there"
        it.sync(it.moment())  # type: ignore[arg-type]

    def _unlink(self, path: str) -> None:
        self._call("unlink", path)
        folder, name = self._place(path)
        if name in folder.now:
            folder.change({name: None})

    def _rename(self, old: str, new: str) -> None:
        assert parent(old) == parent(new), "a name is changed within its folder"
        self._call("rename", old)
        folder, name = self._place(old)
        folder.change({name: None, self._place(new)[1]: folder.now[name]})

    def _find(self, path: str) -> File | Folder | None:
        it: File | Folder | None = self.root
        for name in path.split("/"):
            if name and isinstance(it, Folder):
                it = it.now.get(name)
        return it

    def _place(self, path: str) -> tuple[Folder, str]:
        """Returns the folder that a path is in, and its name there."""
        folder = self._find(parent(path))
        assert isinstance(folder, Folder), f"{parent(path)} is not there"
        return folder, path.rpartition("/")[2]

    def _file(self, path: str) -> File:
        found = self._find(path)
        if not isinstance(found, File):
            raise FileNotFoundError(path)
        return found


def parent(path: str) -> str:
    """Returns the folder that a path is in."""
    return path.rpartition("/")[0]
