"""A disk in memory, which can be full, fail, and lose power in the middle of a call.

Every call of a `Disk` ends with everything synced. So what a crash can spoil is what the call under
way was about to change: of a write, any of its sectors; of a replacement, how far it came; of a
removal, the files that were next.
"""

from collections.abc import Callable, Sequence
from random import Random

from zaichik.storage.disk import DiskFull, StorageFailed

SECTOR = 512


class Crash(Exception):
    """The power is gone, in the middle of a call."""


class SimDisk:
    """See `zaichik.storage.disk.Disk`.

    Attributes:
        content: the files by path, as they are on the disk.
        calls: those that change something, as they came: the method and the path.
        dropped: the paths whose content was asked to come from the disk.
        fault: called with the number of each such call, from 0 on; returns what it raises, or None.
        under_way: called with the method and the path of each call that reads a file or changes
            something, before it does; what it takes is the call's time, and what it returns is
            raised, or None.
        random: decides what is left of a call that does not succeed.
    """

    def __init__(
        self, content: dict[str, bytes] | None = None, folders: Sequence[str] = ("", "topics")
    ) -> None:
        self.content = dict(content or {})
        self.folders = {*folders, *(path.rpartition("/")[0] for path in self.content)}
        self.calls: list[tuple[str, str]] = []
        self.dropped: list[str] = []
        self.fault: Callable[[int], Exception | None] = lambda _: None
        self.under_way: Callable[[str, str], Exception | None] = lambda *_: None
        self.random = Random(0)
        self._cache: dict[str, bytes] = {}  # what the system believes that files hold

    def copy(self) -> "SimDisk":
        """Returns a disk with the same content, and no faults: what a restart finds."""
        return SimDisk(self.content, [*self.folders])

    def _begin(self, name: str, path: str, *, needs_room: bool = False) -> Exception | None:
        """Count a call.

        Returns how it will end early, if its half is to be done; raises if none of it is.
        """
        error = self.fault(len(self.calls)) or self.under_way(name, path)
        self.calls.append((name, path))
        if isinstance(error, DiskFull) and needs_room:
            raise error
        return None if isinstance(error, DiskFull) else error  # the others need no room

    def files(self, folder: str) -> dict[str, int]:
        prefix = folder and f"{folder}/"
        within = [
            name for name in sorted(self.folders) if name.startswith(prefix) and name != folder
        ]
        found = {name.removeprefix(prefix): -1 for name in within}
        known = {**self.content, **self._cache}
        found |= {
            path.removeprefix(prefix): len(data)
            for path, data in known.items()
            if path.startswith(prefix)
        }
        return {name: size for name, size in found.items() if name and "/" not in name}

    def read(self, path: str, at: int, size: int) -> bytes:
        assert size >= 0, "a system refuses that"
        if error := self.under_way("read", path):
            raise error
        if path not in self.content:
            raise FileNotFoundError(path)
        return self._cache.get(path, self.content[path])[at : at + size]

    def write(self, path: str, at: int, pieces: Sequence[bytes]) -> None:
        error = self._begin("write", path, needs_room=any(pieces))
        is_new = path not in self.content
        assert is_new == (not at), f"{path} is to be written from {at} on"
        old = self.content.get(path, b"")
        assert at <= len(old), "a hole"
        new = old[:at] + b"".join(pieces)
        if error is None:
            self.content[path] = new
            return
        if not isinstance(error, Crash):  # the system has it in memory, and takes it for written
            self._cache[path] = new
        if not is_new or path in self._cache or self.random.random() < 0.7:
            self.content[path] = torn(old, new, self.random)
        raise error

    def replace(self, path: str, data: bytes) -> None:
        error = self._begin("replace", path, needs_room=True)
        folder, _, name = path.rpartition("/")
        step = 4 if error is None else self.random.randrange(5)
        hidden = f"{folder}/.{name}".removeprefix("/")
        if step >= 1:
            self.folders.add(folder)
            self.content.pop(hidden, None)
        if step == 2:
            self.content[hidden] = torn(b"", data, self.random)
        if step == 3:
            self.content[hidden] = data
        if step == 4:
            self.content[path] = data
        if error is not None:
            raise error

    def rename(self, old: str, new: str) -> None:
        error = self._begin("rename", old)
        if error is None or self.random.random() < 0.5:
            for path in [
                path for path in self.content if path == old or path.startswith(f"{old}/")
            ]:
                self.content[new + path.removeprefix(old)] = self.content.pop(path)
            for folder in [it for it in self.folders if it == old or it.startswith(f"{old}/")]:
                self.folders.remove(folder)
                self.folders.add(new + folder.removeprefix(old))
        if error is not None:
            raise error

    def remove(self, paths: Sequence[str]) -> None:
        if not paths:
            return
        error = self._begin("remove", paths[0])
        for path in paths if error is None else paths[: self.random.randrange(len(paths) + 1)]:
            if path in self.folders:
                assert not self.files(path), f"{path} is not empty"
                self.folders.remove(path)
            self.content.pop(path, None)
        if error is not None:
            raise error

    def drop_cache(self, path: str) -> None:
        error = self._begin("drop_cache", path)
        if error is not None:
            raise error
        self.dropped.append(path)
        self._cache.pop(path, None)

    def sync_names(self, folder: str) -> None:
        error = self._begin("sync_names", folder)
        if error is not None:
            raise error


def torn(old: bytes, new: bytes, random: Random) -> bytes:
    """Returns what may be left of a file that was to become `new`: any of its sectors, and any
    length.
    """
    size = random.choice(
        [len(old), len(new), random.randint(min(len(old), len(new)), max(len(old), len(new)))]
    )
    found, lost = bytearray(new.ljust(size, b"\0")[:size]), random.choice([0, 0.1, 0.5, 1])
    for at in range(0, size, SECTOR):
        if random.random() < lost:
            found[at : at + SECTOR] = old[at : at + SECTOR].ljust(min(SECTOR, size - at), b"\0")
    return bytes(found)


def failing(
    number: int, error: Exception, *, for_ever: bool = False
) -> Callable[[int], Exception | None]:
    """Returns a fault: that call fails, or all calls from it on."""
    return lambda call: error if call == number or (for_ever and call > number) else None


def eio() -> StorageFailed:
    """Returns what a disk that is broken says."""
    return StorageFailed("the disk has failed")


def full() -> DiskFull:
    """Returns what a disk without room says."""
    return DiskFull("there is no room on the disk")
