"""The suite on the compiled build; `make test-compiled` runs it. Arguments are pytest's.

`--quick` runs the tests of what is compiled, without those that `make test` leaves out: that is for
continuous integration.

Nothing compiled ever lies in the source tree, where it would win over a source that has changed
since. A wheel is made out of an sdist, as an installation does it, and installed into a virtual
environment of its own. Then its two packages are moved to where their sources were in the tree that
was the sdist, and the tests run there: so whether Python looks into the working folder or asks the
environment, it finds the same files. What zaichik depends on is borrowed from the environment that
runs this.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from c_compiler import missing
from pythons import QUICK

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "compiled"
TREE, ENVIRONMENT = BUILD / "tree", BUILD / "venv"
PYTHON = ENVIRONMENT / "bin" / "python"
MARKED = "not cluster and not gateways and not soak and not full"  # includes `long`
PACKAGES = {"zaichik": TREE / "zaichik", "zaichik_protocol": TREE / "protocol" / "zaichik_protocol"}


def run(*command: str | Path, **variables: str) -> None:
    """Run a program; its failure ends this one."""
    subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=True)


def build() -> None:
    """Make the environment and the tree."""
    shutil.rmtree(BUILD, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", BUILD)
    (sdist,) = BUILD.glob("*.tar.gz")
    shutil.unpack_archive(sdist, BUILD)
    (BUILD / sdist.name.removesuffix(".tar.gz")).rename(TREE)
    venv.create(ENVIRONMENT)
    print("compiling: two minutes", flush=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", PYTHON)
    run(*pip, "install", "--quiet", "--no-deps", sdist, ZAICHIK_COMPILE="1")
    question = (PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))")
    installed = Path(
        subprocess.run(question, check=True, capture_output=True, text=True).stdout.strip()
    )
    for name, place in PACKAGES.items():
        shutil.rmtree(place)
        (installed / name).rename(place)
    # A wheel also has a file from elsewhere in the tree. There it still is, and a second one could
    # not be packed again.
    (PACKAGES["zaichik"] / "learn" / "invalid.json").unlink()
    # The last is borrowed. The editable zaichik there hangs on a .pth file of its own, which is not
    # read from here.
    paths = [*(str(place.parent) for place in PACKAGES.values()), sysconfig.get_path("platlib")]
    (installed / "tree.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Build, and run the tests. Returns the exit code."""
    if needs := ", ".join(missing()):
        print(
            f"SKIPPED: nothing was compiled and nothing was tested, for want of {needs}",
            file=sys.stderr,
        )
        return 0
    build()
    which = ["-m", MARKED, *arguments]
    if arguments[:1] == ["--quick"]:
        which = [*QUICK, "tests/storage", *arguments[1:]]
    command = [str(PYTHON), "-m", "pytest", "--compiled", "--numprocesses=auto", *which]
    return subprocess.run(command, cwd=TREE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
