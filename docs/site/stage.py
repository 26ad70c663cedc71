"""The stage of `zaichik web` without a server: Python, the broker and the page, as files.

Python comes from Pyodide's package on npm, of which this version is known to work. Of Python's
library, zaichik and what it needs, only what the scenes import is kept (`page/pack.py`), compiled
and compressed. The page's scripts are those that `zaichik web` serves, unchanged.
"""

import base64
import gzip
import hashlib
import json
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
# Many hosts don't know that .mjs is JavaScript, and then browsers refuse to load it as a module.
OF_PYODIDE = {"pyodide.mjs": "pyodide.js", "pyodide.asm.mjs": "pyodide.asm.js"}
LOCK = "pyodide-lock.json"  # which packages could be loaded: none is
COMPRESSED = 9
DOWNLOAD_S = 180  # npm would try for a quarter of an hour


class NoPyodide(Exception):
    """Python for browsers is not to be had here; the message says why."""


def build(pyodide: Path, scratch: Path, stage: Path) -> None:
    """Make the folder of the stage.

    Args:
        pyodide: see `obtain`.
        scratch: a folder for what is needed meanwhile.
        stage: the folder, which is not there yet.

    Raises:
        CalledProcessError: a scene cannot be played, and Node has printed why.
    """
    sources, packed = scratch / "sources", scratch / "packed"
    for made in (sources, packed):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    _gather(sources)
    packing = ["node", PAGE / "pack.mjs", pyodide, sources, packed]
    subprocess.run(packing, stdout=subprocess.DEVNULL, check=True)

    shutil.copytree(STATIC, stage / "static", ignore=shutil.ignore_patterns("index.html"))
    for name in ON_THE_PAGE:
        shutil.copy(PAGE / name, stage)
    shutil.copy(PICTURE, stage)
    python = stage / "python"
    python.mkdir()
    for name, name_here in OF_PYODIDE.items():
        shutil.copy(pyodide / name, python / name_here)
    lock = json.loads((pyodide / LOCK).read_text(encoding="utf-8")) | {"packages": {}}
    (python / LOCK).write_text(json.dumps(lock), encoding="utf-8")
    for path in (packed / "python.zip", packed / "stage.zip", pyodide / "pyodide.asm.wasm"):
        # The name says nothing of gzip, or some hosts would have the browser unpack it, too.
        data = gzip.compress(path.read_bytes(), COMPRESSED, mtime=0)
        (python / f"{path.name}.packed").write_bytes(data)


def obtain(folder: Path) -> Path:
    """Returns the folder of Pyodide's package, which is downloaded once.

    Raises:
        NoPyodide: there is no npm or no network, or the package is another than ours.
    """
    target = folder / PYODIDE
    if shutil.which("node") is None:
        raise NoPyodide("there is no Node.js, which packs it")
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / _downloaded(folder)
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != SHA512:
        raise NoPyodide(f"{archive} is not the {PYODIDE} that is known here: sha512 {found}")
    with tarfile.open(archive) as package:
        package.extractall(folder / "unpacked", filter="data")
    archive.unlink()
    (folder / "unpacked" / "package").rename(target)
    return target


def _downloaded(folder: Path) -> str:
    """Returns the name of the package's archive, which is now in the folder."""
    command = ["npm", "pack", "--silent", PYODIDE]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=DOWNLOAD_S
        )
    except FileNotFoundError:
        raise NoPyodide("there is no npm, which downloads it; it comes with Node.js") from None
    except subprocess.TimeoutExpired:
        late = f"{' '.join(command)} did not end within {DOWNLOAD_S} s"
        raise NoPyodide(late) from None
    except subprocess.CalledProcessError as error:
        raise NoPyodide(f"{' '.join(command)} has failed:\n{error.stderr}") from None
    return str(done.stdout.split()[-1])


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
        raise ModuleNotFoundError(package)
    path = Path(spec.origin)
    if path.name == "__init__.py":
        return path.parent
    return path
