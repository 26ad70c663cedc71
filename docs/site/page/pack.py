"""Packs what the stage imports, and nothing else, compiled for the Python of the browser.

Python is half of what a reader's browser would load, and most of that is never used: so all scenes
are played here, and only the modules that this took are packed. `pack.mjs` runs this in Pyodide.
"""

import asyncio
import importlib.util
import json
import marshal
import sys
import zipfile
from pathlib import Path

SOURCES, TARGET = Path("/sources"), Path("/target")
STANDARD_LIBRARY = Path("/lib/python314.zip")
FREE_PLAY_STEPS = 40  # of 2,000

# Read by the stage beside its modules.
DATA = ("zaichik/apps/web/stage/scenes.toml", "zaichik/apps/web/stage/program.txt")

# Python's marks of a file that is never compared with its source: there is none.
UNCHECKED = (0b01).to_bytes(4, "little") + bytes(8)


async def play() -> None:
    """Play every scene to its end."""
    import stage_here

    ready = asyncio.Event()
    serving = asyncio.ensure_future(stage_here.serve(ready.set))
    await ready.wait()

    async def post(path: str, body: object) -> dict[str, object]:
        status, text = await stage_here.request("POST", path, "width=800", json.dumps(body))
        if status != 200:
            raise RuntimeError(f"{path}: {text}")
        return dict(json.loads(text))

    _, scenes = await stage_here.request("GET", "/stage/scenes", "", "")
    for scene in json.loads(scenes):
        shown = await post("/stage", {"link": scene["slug"]})
        for _ in range(FREE_PLAY_STEPS):
            if shown["here"]["is_over"]:
                break
            shown = await post(f"/stage/{shown['id']}/step", {})
        await post(f"/stage/{shown['id']}/back", {})
        await post(f"/stage/{shown['id']}/end", {})
    # What is refused, too.
    await stage_here.request("POST", "/stage", "width=800", '{"link": "lag?capacity=many"}')
    serving.cancel()


def imported(root: str) -> list[str]:
    """Returns the files of all imported modules in a folder or an archive, by their paths."""
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    below = {file.removeprefix(root) for file in files if file.startswith(root)}
    return sorted(name for name in below if name.endswith(".py"))


def is_read_by_itself(path: str) -> bool:
    """Returns whether a module needs its source: anyio's packages do, to import late."""
    return path.startswith("anyio/") and path.endswith("/__init__.py")


def pack(name: str, sources: dict[str, bytes], data: dict[str, bytes]) -> None:
    """Write modules, compiled, and files beside them as an archive.

    It is not compressed: whoever packs it for the browser compresses it as a whole, which makes it
    smaller, and has Python open it faster.
    """
    with zipfile.ZipFile(TARGET / name, "w") as archive:
        for path, source in sources.items():
            if is_read_by_itself(path):
                archive.writestr(path, source)
                continue
            code = compile(source, path, "exec", dont_inherit=True)
            compiled = importlib.util.MAGIC_NUMBER + UNCHECKED + marshal.dumps(code)
            archive.writestr(f"{path}c", compiled)
        for path, content in data.items():
            archive.writestr(path, content)
    size = (TARGET / name).stat().st_size
    print(f"{name}: {len(sources)} modules, {size:,} bytes")


sys.path.insert(0, str(SOURCES))
await play()  # noqa: F704 - Pyodide lets it

with zipfile.ZipFile(STANDARD_LIBRARY) as library:
    names = [name for name in imported(f"{STANDARD_LIBRARY}/") if name in library.namelist()]
    pack("python.zip", {name: library.read(name) for name in names}, {})
names = imported(f"{SOURCES}/")
pack(
    "stage.zip",
    {name: (SOURCES / name).read_bytes() for name in names},
    {name: (SOURCES / name).read_bytes() for name in DATA},
)
