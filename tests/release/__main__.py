"""Build the files of a release, and check each where nothing of this clone is.

The files are a source archive, a wheel of pure Python, and wheels compiled by mypyc: for each
Python that is found, and on Linux for glibc and for musl. All wheels are built out of the source
archive. Each file is checked by its names, hashes and metadata; each wheel that can run here is
then installed into an empty virtual environment in a temporary folder, where it must say its
version, load the right modules, carry a message from one program to another, and run the demo as
far as it needs no Spark. The pure wheel is also installed by pipx and by uv, and what all extras
need must be installable. Only when all of that has passed are the files moved to dist, with their
checksums and a list of what an installation brings (an SBOM).

It takes five minutes for each compiled wheel, and needs a package index.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.pythons import VERSIONS

from .archives import differences, sdist_faults, wheel_faults
from .environment import PIP_SECONDS, Environment, Failed, run
from .installed import check_demo, check_modules, check_round_trip, check_tool, check_version
from .ledger import checksums, write_sbom
from .pages import changelog_faults
from .project import Project
from .tools import TOOLS
from .wheels import Target, absent, compile_wheel, targets

ROOT = Path(__file__).parent.parent.parent
PLACEHOLDER = "//example.org/"  # of addresses that are nobody's
CHECKSUMS = "SHA256SUMS"
INTERRUPTED = 130  # the exit code after Ctrl-C
EXAMPLES = """
examples:
  make release                                            # all of it, into dist
  .venv/bin/python -m tests.release --pure                # five minutes: without compiled wheels
  .venv/bin/python -m tests.release --only 3.13           # compiled for this Python only
  .venv/bin/python -m tests.release --trial --out try     # with uncommitted changes, or no date
  .venv/bin/python -m tests.release --check dist/*.whl    # build nothing; check what was built

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
        "--pure", action="store_true", help="leave out the compiled wheels, which take longest"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=VERSIONS,
        metavar="VERSION",
        default=[],
        help="compile for this Python only; may be repeated",
    )
    parser.add_argument(
        "--trial",
        action="store_true",
        help="also with uncommitted changes, without a date in the changelog, or without an "
        "address of the repository",
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
    if PLACEHOLDER in project.repository:
        faults.append(
            f"pyproject.toml has no address of the repository, but {project.repository}: links of "
            "the description would lead nowhere"
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


def build(project: Project, folder: Path, compiled: Sequence[Target]) -> list[Path]:
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
    for number, target in enumerate(compiled):
        with step(f"compiling for {target}, which takes minutes"):
            built.append(compile_wheel(tree, folder / "built" / f"compiled-{number}", target))
    return [sdist, *built]


def wheel(source: Path, folder: Path) -> Path:
    """Build a pure wheel of a folder as `pip install` does, with what the build itself asks for.

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
    run(*pip, "--wheel-dir", folder, source, cwd=source, seconds=PIP_SECONDS)
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
    target = next((it for it in targets() if it.suits(file)), None) if compiled else None
    if compiled and (target is None or not target.runs_here):
        print("  not installed: no Python here can use it")
        return
    environment = Environment(folder / file.stem, file, target.python if target else None)
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
    if compiled:  # all wheels have the same metadata
        return
    for name, install in TOOLS.items():
        with step(f"  installed by {name}"):
            check_tool(install(folder / name, file), project)
    for extra in sorted(project.extras):
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


def compilable(versions: Sequence[str]) -> list[Target]:
    """Returns what compiled wheels are for, and names the Pythons that are missing.

    Raises:
        Failed: there is none.
    """
    found = targets(versions)
    if without := ", ".join(absent(versions)):
        print(f"nothing is compiled for Python {without}, which is not here")
    if not found:
        raise Failed("compiled wheels need a Python; without them: python -m tests.release --pure")
    return found


def deliver(files: Sequence[Path], out: Path, project: Project) -> None:
    """Move the files to where they are wanted, in the place of earlier ones, with checksums."""
    out.mkdir(parents=True, exist_ok=True)
    for pattern in ("*.whl", "*.tar.gz", "*.cdx.json"):
        for old in out.glob(f"{project.name}-{pattern}"):
            old.unlink()
    places = [Path(shutil.move(file, out / file.name)) for file in files]
    text = checksums(places)
    (out / CHECKSUMS).write_text(text, encoding="utf-8")
    for place in places:
        print(f"{place}  {place.stat().st_size:,} bytes")
    print(f"{out / CHECKSUMS}\n{text}", end="")


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
        compiled = [] if options.pure else compilable(options.only)
        files = build(project, folder, compiled)
    check_description(files)
    for file in files:
        check(file, project, folder)
    if not options.check:
        with step("what an installation brings (an SBOM)"):
            sbom = write_sbom(files, project, folder)
        deliver([*files, sbom], options.out, project)


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
