"""What a broker has asked the system to do with its folder, and what a power cut at any moment
would leave of that.

`strace` records the calls. Here they are made again, in memory, with the difference between what
was written and what was synced: of a file that was not synced since, a cut leaves any sectors and
any length; of the names in a folder that was not synced since, the first so many changes. A call
that has begun counts for what it may have done, and a sync for nothing before it has ended.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from random import Random

from sim_disk import torn

from zaichik_protocol import NEED_DATA, Frame, FrameDecoder

WRITES, SYNCS = "pwrite64", "fdatasync,fsync"
TRACED = (
    "open,openat,close,accept,accept4,sendto,sendmsg,ftruncate,rename,unlink,rmdir,mkdir,"
    f"{WRITES},{SYNCS}"
)
OTHER_CHANGES = (
    "creat,write,pwritev,truncate,renameat,renameat2,unlinkat,mkdirat,link,linkat,symlink,fallocate"
)
_LINE = re.compile(r"(\d+) +(.*)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_PIECE = re.compile(r'iov_base="((?:\\x[0-9a-f]{2})*)"')


@cache
def why_no_strace() -> str:
    """Returns why system calls cannot be recorded here; "" if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian: apt install strace)"
    tried = subprocess.run(
        [*strace("fdatasync", Path("/dev/null")), "true"], capture_output=True, check=False
    )
    return (
        ""
        if tried.returncode == 0 and not tried.stderr
        else f"strace may not trace here: {tried.stderr!r}"
    )


def strace(calls: str, log: Path, *options: str) -> list[str]:
    """Returns the command that records these calls of the command behind it, whose process is the
    one that was started.

    Args:
        calls: their names, with commas.
        log: where they are written, with all their bytes.
        options: more of them.
    """
    return [
        "strace",
        "-D",
        "-f",
        "--seccomp-bpf",
        "-v",
        "-xx",
        "-s",
        "5000000",
        "-o",
        str(log),
        "-e",
        f"trace={calls}",
        *options,
    ]


@dataclass
class Call:
    """One that was recorded.

    Attributes:
        name: of it.
        told: its arguments, as they were written down.
        result: what it returned; None if the process ended before.
    """

    name: str
    told: str
    result: int | None = None

    @property
    def descriptor(self) -> int:
        """Its first argument."""
        return int(self.told.partition(",")[0])

    @property
    def texts(self) -> list[bytes]:
        """Its strings: of all that are asked for them, paths."""
        return [_plain(text) for text in _TEXT.findall(self.told)]

    @property
    def data(self) -> bytes:
        """What it wrote or sent."""
        pieces = _PIECE.findall(self.told) or _TEXT.findall(self.told)
        return b"".join(map(_plain, pieces))[: self.result]


def _plain(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def recorded(lines: list[str]) -> list[tuple[bool, Call]]:
    """Returns the calls that did not fail, each twice, with whether it begins, in the order in
    which that happened.
    """
    events, begun = list[tuple[bool, Call]](), dict[str, Call]()
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None or found[2].startswith(("+++", "---")):
            continue
        process, text = found.groups()
        if resumed := _RESUMED.match(text):
            call = begun.pop(process)
            call.told += text[resumed.end() :]
        else:
            name, _, rest = text.partition("(")
            call = Call(name, rest)
            events.append((True, call))
        if call.told.endswith("<unfinished ...>"):
            call.told = call.told.removesuffix("<unfinished ...>").rstrip()
            begun[process] = call
            continue
        ended = _CALL.match(f"{call.name}({call.told}")
        assert ended is not None, line[:200]
        call.told = ended[2]
        if ended[3] != "?":
            call.result = int(ended[3])
            events.append((False, call))
    return [(begins, call) for begins, call in events if call.result is None or call.result >= 0]


class File:
    """A file: what it holds, and what of that is on the disk."""

    def __init__(self) -> None:
        self.now = self.synced = b""

    def moment(self) -> bytes:
        """What a sync that begins now will have put on the disk."""
        return self.now

    def sync(self, moment: bytes) -> None:
        """That is on the disk."""
        self.synced = moment


class Folder:
    """A folder: the names in it, and the changes of them that are not known to be on the disk."""

    def __init__(self) -> None:
        self.now: dict[str, File | Folder] = {}
        self.synced: dict[str, File | Folder] = {}
        self.changes: list[dict[str, File | Folder | None]] = []
        self._forgotten = 0

    def change(self, names: "dict[str, File | Folder | None]") -> None:
        """Give names, or, with None, take them."""
        self.changes.append(names)
        _apply(self.now, names)

    def moment(self) -> int:
        """How many changes a sync that begins now will have put on the disk."""
        return self._forgotten + len(self.changes)

    def sync(self, moment: int) -> None:
        """So many changes are on the disk."""
        count = max(moment - self._forgotten, 0)
        for names in self.changes[:count]:
            _apply(self.synced, names)
        del self.changes[:count]
        self._forgotten += count

    def cut(self, random: Random, target: Path) -> None:
        """Make a real folder of what a power cut leaves."""
        left = dict(self.synced)
        for names in self.changes[: random.randint(0, len(self.changes))]:
            _apply(left, names)
        target.mkdir()
        for name, it in left.items():
            if isinstance(it, Folder):
                it.cut(random, target / name)
            else:
                (target / name).write_bytes(torn(it.synced, it.now, random))


def _apply(names: "dict[str, File | Folder]", change: "dict[str, File | Folder | None]") -> None:
    for name, it in change.items():
        if it is None:
            names.pop(name, None)
        else:
            names[name] = it


@dataclass
class Replay:
    """The calls of one broker, made again.

    Attributes:
        root: the folder whose content is followed; it was empty, and synced.
        content: of that folder.
        told: the frames that the broker has begun to send to anyone.
    """

    root: PurePosixPath
    content: Folder = field(default_factory=Folder)
    told: list[Frame] = field(default_factory=list)
    _open: dict[int, File | Folder] = field(default_factory=dict)
    _peers: dict[int, FrameDecoder] = field(default_factory=dict)
    _moments: dict[int, object] = field(default_factory=dict)

    def run(self, events: list[tuple[bool, Call]]) -> Iterator[int]:
        """Make the calls; after each step, the number of steps so far."""
        for number, (begins, call) in enumerate(events, 1):
            (self._begin if begins else self._end)(call)
            yield number

    def _begin(self, call: Call) -> None:
        match call.name:
            case "pwrite64" if file := self._file(call):
                at = int(call.told.rpartition(", ")[2])
                file.now = (
                    file.now.ljust(at, b"\0")[:at] + call.data + file.now[at + len(call.data) :]
                )
            case "ftruncate" if file := self._file(call):
                size = int(call.told.split(", ")[1])
                file.now = file.now[:size].ljust(size, b"\0")
            case "fdatasync" | "fsync" if call.descriptor in self._open:
                self._moments[id(call)] = self._open[call.descriptor].moment()
            case "open" | "openat" if place := self._place(call.texts[0]):
                folder, name = place
                if "O_CREAT" in call.told and name not in folder.now:
                    folder.change({name: File()})
                assert "O_TRUNC" not in call.told
            case "mkdir" if place := self._place(call.texts[0]):
                place[0].change({place[1]: Folder()})
            case "unlink" | "rmdir" if place := self._place(call.texts[0]):
                place[0].change({place[1]: None})
            case "rename" if place := self._place(call.texts[0]):
                target = self._place(call.texts[1])
                assert target is not None
                assert target[0] is place[0], "a name is changed within its folder"
                place[0].change({place[1]: None, target[1]: place[0].now[place[1]]})
            case "close":
                self._open.pop(call.descriptor, None)
                self._peers.pop(call.descriptor, None)
            case "sendto" | "sendmsg" if peer := self._peers.get(call.descriptor):
                peer.receive_data(call.data)
                self.told += iter(peer.next_frame, NEED_DATA)

    def _end(self, call: Call) -> None:
        match call.name:
            case "fdatasync" | "fsync" if id(call) in self._moments:
                self._open[call.descriptor].sync(self._moments.pop(id(call)))  # type: ignore[arg-type]
            case "open" | "openat" if place := self._place(call.texts[0]):
                assert call.result is not None
                self._open[call.result] = place[0].now[place[1]] if place[1] else place[0]
            case "accept" | "accept4":
                assert call.result is not None
                self._peers[call.result] = FrameDecoder.for_client()

    def _file(self, call: Call) -> File | None:
        found = self._open.get(call.descriptor)
        return found if isinstance(found, File) else None

    def _place(self, path: bytes) -> tuple[Folder, str] | None:
        """The folder that a path is in, and its name there; None if that is none of ours."""
        place = PurePosixPath(path.decode(errors="replace"))
        if place == self.root:
            return self.content, ""
        if not place.is_relative_to(self.root):
            return None
        folder = self.content
        for name in place.relative_to(self.root).parts[:-1]:
            inner = folder.now[name]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, place.name
