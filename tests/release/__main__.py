"""Build the files of a release, and check each where nothing of this clone is.

The files are a source archive, a wheel of pure Python, and a wheel compiled by mypyc for this
Python and this platform. Both wheels are built out of the source archive. Each file is checked by
its names, hashes and metadata; each wheel is then installed into an empty virtual environment in a
temporary folder, where it must say its version, load the right modules, carry a message from one
program to another, and run the demo as far as it needs no Spark. What all extras need must be
installable. Only when all of that has passed are the files moved to dist.

It takes ten minutes, and needs a C compiler and a package index.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.c_compiler import missing

from .archives import differences, sdist_faults, wheel_faults
from .environment import PIP_SECONDS, Environment, Failed, run
from .installed import check_demo, check_modules, check_round_trip, check_version
from .pages import changelog_faults
from .project import Project

ROOT = Path(__file__).parent.parent.parent
COMPILE_SECONDS = 1800
INTERRUPTED = 130  # the exit code after Ctrl-C
EXAMPLES = """
examples:
  make release                                            # all of it, into dist
  .venv/bin/python -m tests.release --pure                # five minutes: without the compiled wheel
  .venv/bin/python -m tests.release --trial --out try     # with uncommitted changes, or no date
  .venv/bin/python -m tests.release --check dist/*        # build nothing; check what was built

exit codes: 0 all is well, 1 a check has failed, 2 wrong options, 130 Ctrl-C
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.release",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=ROOT / "dist", help="where the files go (dist)"
    )
    parser.add_argument(
        "--pure", action="store_true", help="leave out the compiled wheel, which needs a C compiler"
    )
    parser.add_argument(
        "--trial",
        action="store_true",
        help="also with uncommitted changes, or without a date in the changelog",
    )
    parser.add_argument(
        "--check", type=Path, metavar="FILE", nargs="+", help="build nothing, and check these files"
    )
    return parser.parse_args(arguments)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Says what is being done, and how long it took."""
    print(f"{text} ...", end=" ", flush=True)
    started = time.perf_counter()
    try:
        yield
    except BaseException:
        print("FAILED", flush=True)
        raise
    print(f"ok, {time.perf_counter() - started:.0f} s", flush=True)


def refuse(faults: Iterator[str], file: Path) -> None:
    """Raise what is wrong with a file, if anything is."""
    if found := list(faults):
        raise Failed(
            "\n".join(
                [f"{file.name} is not fit for a release:", *(f"  - {fault}" for fault in found)]
            )
        )


def check_clone(root: Path, project: Project) -> None:
    """Raise if a release would have what no commit has, or if the changelog is not ready for it."""
    faults = list(
        changelog_faults((root / "CHANGELOG.md").read_text(encoding="utf-8"), project.version)
    )
    if changed := run("git", "status", "--porcelain", cwd=root, seconds=60).splitlines():
        faults.append(
            f"the clone has {len(changed)} changes that are in no commit, as git status says"
        )
    if faults:
        raise Failed(
            "\n".join(
                [*faults, "To try it all the same: python -m tests.release --trial --out FOLDER"]
            )
        )


def build(project: Project, folder: Path, *, pure: bool) -> list[Path]:
    """Build the files. Returns their paths: the source archive, and the wheels."""
    with step("building the source archive"):
        hatchling = (
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "sdist",
            "--directory",
            folder / "built",
        )
        run(*hatchling, cwd=ROOT, seconds=PIP_SECONDS)
        (sdist,) = (folder / "built").glob("*.tar.gz")
        refuse(sdist_faults(sdist, project), sdist)
    shutil.unpack_archive(sdist, folder)
    tree = folder / project.sdist_root
    with step("building the wheel out of the source archive"):
        built = [wheel(tree, folder / "built" / "pure")]
    with step("building it out of the clone: it must be the same"):
        refuse(differences(built[0], wheel(ROOT, folder / "clone")), built[0])
    if not pure:
        with step("compiling the other wheel, which takes minutes"):
            built.append(wheel(tree, folder / "built" / "compiled", ZAICHIK_COMPILE="1"))
    return [sdist, *built]


def wheel(source: Path, folder: Path, **variables: str) -> Path:
    """Build a wheel of a folder as `pip install` does, with what the build itself asks for.

    Returns its path.
    """
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--no-deps",
    )
    run(*pip, "--wheel-dir", folder, source, cwd=source, seconds=COMPILE_SECONDS, **variables)
    (path,) = folder.glob("*.whl")
    return path


def check(file: Path, project: Project, folder: Path) -> None:
    """Check one file of a release, the wheels also in an environment of their own."""
    if file.name.endswith(".tar.gz"):
        with step(f"{file.name}: names and metadata"):
            refuse(sdist_faults(file, project), file)
        return
    compiled = not file.name.endswith("-py3-none-any.whl")
    with step(f"{file.name}: names, hashes and metadata"):
        refuse(wheel_faults(file, project, compiled=compiled), file)
    environment = Environment(folder / file.stem, file)
    with step("  installed into an empty environment"):
        environment.install()
    with step("  version, of zaichik and of python -m zaichik"):
        check_version(environment, project, compiled=compiled)
    with step(f"  {len(project.hot)} modules loaded as {'compiled' if compiled else 'Python'}"):
        check_modules(environment, project, compiled=compiled)
    with step("  a message from one program to another"):
        check_round_trip(environment)
    with step("  the demo without extras"):
        check_demo(environment, "--no-flights")
    for extra in sorted(project.extras) if not compiled else ():  # both have the same metadata
        with step(f"  extra {extra}"):
            environment.resolve(extra)
    with step("  the demo with a week of flights"):
        environment.install("flights")
        check_demo(environment, "--days", "7")


def check_description(files: Sequence[Path]) -> None:
    """The package index would take the files."""
    with step("what the package index would say (twine check --strict)"):
        run(
            sys.executable,
            "-m",
            "twine",
            "check",
            "--strict",
            *files,
            cwd=ROOT,
            seconds=PIP_SECONDS,
        )


def deliver(files: Sequence[Path], out: Path, project: Project) -> None:
    """Move the files to where they are wanted, in the place of earlier ones."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob(f"{project.name}-*.whl"), *out.glob(f"{project.name}-*.tar.gz")]:
        old.unlink()
    for file in files:
        place = Path(shutil.move(file, out / file.name))
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
        print(f"{place}  {place.stat().st_size:,} bytes\n  sha256 {digest}")


def release(options: argparse.Namespace, folder: Path) -> None:
    """Do what the options say.

    Raises:
        Failed: a check has failed.
    """
    project = Project.read(ROOT)
    if options.check:
        if gone := [str(file) for file in options.check if not file.is_file()]:
            raise Failed(f"there is no file {', '.join(gone)}")
        files = [file.resolve() for file in options.check]
    else:
        if not options.trial:
            check_clone(ROOT, project)
        if not options.pure and (needs := ", ".join(missing())):
            raise Failed(
                f"the compiled wheel needs {needs}; without it: python -m tests.release --pure"
            )
        files = build(project, folder, pure=options.pure)
    check_description(files)
    for file in files:
        check(file, project, folder)
    if not options.check:
        deliver(files, options.out, project)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    options = parse(arguments)
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="zaichik-release-") as folder:
            release(options, Path(folder))
    except (Failed, subprocess.SubprocessError) as error:
        print(f"\n{error}\n\nNothing was released.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nNothing was released.", file=sys.stderr)
        return INTERRUPTED
    print(f"All is well, after {time.perf_counter() - started:.0f} seconds.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
