"""The suite on every Python that is installed; `make test-pythons` runs it. Arguments are pytest's.

Each Python gets a virtual environment in build/pythons, of 2 GB, which is kept for the next time. A
Python that is missing is named, and is no failure. `--quick` runs a part of the suite on the newest
Python but this one, in an environment without Spark: that is for continuous integration.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "pythons"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"
QUICK = ("tests/core", "tests/client", "tests/net", "tests/protocol", "tests/server")
MARKED = "not cluster and not gateways and not soak and not full"  # includes `long`
INTERRUPTED = 130  # the exit code after Ctrl-C
WHICH = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
EXAMPLES = """
examples:
  make test-pythons                                          # everything, on all of them
  .venv/bin/python tests/pythons.py tests/core -n 2        # a part of it
  .venv/bin/python tests/pythons.py --only 3.12 --only 3.13
  .venv/bin/python tests/pythons.py --quick                  # a few minutes

exit codes: 0 all is well, 1 tests have failed or could not be run, 2 wrong options, 130 Ctrl-C
"""


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the options, and those that are pytest's."""
    parser = argparse.ArgumentParser(
        prog="tests/pythons.py",
        usage="%(prog)s [--only VERSION] [--quick] [pytest's arguments ...]",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # what is short is pytest's
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=VERSIONS,
        metavar="VERSION",
        help="only this one; may be repeated",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a part, on the newest Python but the one that runs this",
    )
    return parser.parse_known_args(arguments)


def candidates(version: str) -> Iterator[Path]:
    """Yield where a Python may be: on PATH, and where pyenv keeps those that are not on it."""
    name = f"python{version}"
    yield from (
        Path(folder) / name for folder in os.environ.get("PATH", "").split(os.pathsep) if folder
    )
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"), reverse=True)


def find(version: str) -> Path | None:
    """Returns the first that runs and is what its name says; a shim of pyenv may be there and not
    run.
    """
    for path in candidates(version):
        if path.exists():
            done = subprocess.run(
                [path, "-c", WHICH], capture_output=True, text=True, timeout=60, check=False
            )
            if done.returncode == 0 and done.stdout.strip() == version:
                return path
    return None


def prepare(python: Path, folder: Path, extra: str) -> Path:
    """Bring an environment with what the tests need up to date. Returns its Python.

    Raises:
        subprocess.CalledProcessError: something could not be installed.
    """
    inside = folder / "bin" / "python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [
        str(inside),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--editable",
    ]
    subprocess.run([*pip, f".[{extra}]"], cwd=ROOT, check=True)
    if extra == "dev":
        looks = "from zaichik.apps.spark.session import find_java; find_java()"
        has_java = [str(inside), "-c", looks]
        if subprocess.run(has_java, cwd=ROOT, capture_output=True, check=False).returncode:
            subprocess.run([*pip, ".[java]"], cwd=ROOT, check=True)
    return inside


def test(version: str, python: Path, arguments: Sequence[str], *, quick: bool) -> str:
    """Run the tests on one Python. Returns what failed, or nothing."""
    print(f"\n== Python {version}: {python}", flush=True)
    try:
        inside = prepare(
            python, BUILD / (f"{version}-quick" if quick else version), "test" if quick else "dev"
        )
    except subprocess.CalledProcessError as error:
        return f"could not be prepared: {error}"
    variables = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    which = [] if quick else ["-m", MARKED]
    command = [str(inside), "-m", "pytest", "--numprocesses=auto", *which, *arguments]
    code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    return f"failed, with exit code {code}" if code else ""


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    options, rest = parse(arguments)
    asked = options.only or VERSIONS
    found = {version: path for version in asked if (path := find(version))}
    missing = [version for version in asked if version not in found]
    if options.quick:
        others = [version for version in found if version != THIS]
        found = {version: found[version] for version in others[-1:]}
        rest = [*QUICK, *rest]
    results = []
    for version, path in found.items():
        started = time.perf_counter()
        fault = test(version, path, rest, quick=options.quick)
        results.append((version, fault, (time.perf_counter() - started) / 60))
    print()
    for version, fault, minutes in results:
        print(f"Python {version}: {fault or 'all tests passed'}, after {minutes:.1f} minutes")
    for version in missing:
        print(f"Python {version} is missing: nothing was tested there")
    if not found:
        print(
            "No other Python was found: nothing was tested"
            if options.quick
            else "No Python was found",
            flush=True,
        )
    return int(any(fault for _, fault, _ in results) or not (found or options.quick))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
