"""The stage of `zaichik web` without a server: Python, the broker and the page, as files.

Python comes from Pyodide's package on npm, of which this version is known to work. Of Python's
library, zaichik and what it needs, only what the scenes import is kept (`page/pack.py`), compiled
and compressed. The page's scripts are those that `zaichik web` serves, unchanged.
"""

import base64
import gzip
import hashlib
import shutil
import subprocess
import tarfile
from importlib.util import find_spec
from pathlib import Path

from docs.site.pages import ROOT

PYODIDE = "pyodide@314.0.7"
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="

PAGE = Path(__file__).parent / "page"
STATIC = ROOT / "zaichik" / "apps" / "web" / "static"
PICTURE = ROOT / "docs" / "pictures" / "stage.png"

# What the stage is made of: zaichik, and what it needs there.
OURS = (ROOT / "zaichik", ROOT / "protocol" / "zaichik_protocol")
PACKAGES = ("anyio", "construct", "idna", "starlette", "typing_extensions")

ON_THE_PAGE = ("index.html", "here.css", "here.js", "worker.js")
OF_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide-lock.json")
COMPRESSED = 9


class NoStage(Exception):
    """The stage cannot be built here; the message says why."""


def build(folder: Path) -> Path:
    """Returns the folder with the stage.

    Raises:
        NoStage: Pyodide, or the program that runs it, is not to be had.
    """
    pyodide = obtain(folder)
    sources, packed, stage = folder / "sources", folder / "packed", folder / "stage"
    for made in (sources, packed, stage):
        shutil.rmtree(made, ignore_errors=True)
    packed.mkdir(parents=True)
    _gather(sources)
    _run(["node", str(PAGE / "pack.mjs"), str(pyodide), str(sources), str(packed)])

    shutil.copytree(STATIC, stage / "static", ignore=shutil.ignore_patterns("index.html"))
    for name in ON_THE_PAGE:
        shutil.copy(PAGE / name, stage)
    shutil.copy(PICTURE, stage)
    python = stage / "python"
    python.mkdir()
    for name in OF_PYODIDE:
        shutil.copy(pyodide / name, python)
    for path in (packed / "python.zip", packed / "stage.zip", pyodide / "pyodide.asm.wasm"):
        # The name says nothing of gzip, or some hosts would have the browser unpack it, too.
        data = gzip.compress(path.read_bytes(), COMPRESSED, mtime=0)
        (python / f"{path.name}.packed").write_bytes(data)
    return stage


def obtain(folder: Path) -> Path:
    """Returns the folder of Pyodide's package, which is downloaded once.

    Raises:
        NoStage: there is no npm, no network, or another package than ours.
    """
    target = folder / PYODIDE
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        name = _run(["npm", "pack", "--silent", PYODIDE], folder).strip().splitlines()[-1]
        archive = folder / name
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != SHA512:
            raise NoStage(f"{archive} is not the {PYODIDE} that is known here: sha512 {found}")
        with tarfile.open(archive) as package:
            package.extractall(folder / "unpacked", filter="data")
        archive.unlink()
        (folder / "unpacked" / "package").rename(target)
    return target


def _gather(target: Path) -> None:
    """Copy all that may be imported into one folder."""
    for source in (PAGE / "python", PAGE / "absent", *OURS, *map(_installed, PACKAGES)):
        if source.is_file():
            shutil.copy(source, target)
        elif source.parent == PAGE:
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            without = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target / source.name, ignore=without)


def _installed(package: str) -> Path:
    """Returns the folder, or the file, of an installed package."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise NoStage(f"{package} is not installed; the extra `site` has all that is needed")
    path = Path(spec.origin)
    if path.name == "__init__.py":
        return path.parent
    return path


def _run(command: list[str], folder: Path | None = None) -> str:
    """Returns what a program has printed.

    Raises:
        NoStage: it is not there, or has failed.
    """
    try:
        done = subprocess.run(  # noqa: S603 - npm and node, with words of ours
            command, cwd=folder, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise NoStage(f"there is no {command[0]}; it comes with Node.js") from None
    except subprocess.CalledProcessError as error:
        raise NoStage(f"{' '.join(command)} has failed:\n{error.stderr}") from None
    return done.stdout
