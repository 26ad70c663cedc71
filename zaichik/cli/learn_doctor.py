"""`zaichik learn doctor`: finds out, by trying, whether everything that learn needs is there."""

import platform
import shutil
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.base.build import VERSION
from zaichik.base.escapes import harmless
from zaichik.cli import learn_screen
from zaichik.cli.arguments import Namespace
from zaichik.learn import config, files
from zaichik.learn.config import Config
from zaichik.learn.runner import ServerError
from zaichik.learn.server import Launcher, free_port

NOTICED_S = 3.0
NAPS, NAP_S, LATE_S = 10, 0.02, 0.1


class Wrong(str):
    """Something is not as learn needs it; a plain string says that it is."""

    __slots__ = ()


async def run(arguments: Namespace, console: Console) -> int:
    """Try everything. Returns 0 if nothing is wrong."""
    found = {
        "versions": f"zaichik {VERSION}, Python {platform.python_version()}, {platform.system()}",
        "ports": _port(),
        "file watcher": await _watcher(),
        "clock": await _clock(),
        "terminal": _terminal(console),
    }
    name = arguments.config.name
    try:
        settings = config.read(arguments.config)
        found |= {
            name: " ".join(settings.command),
            "program": _program(settings),
            "server": await _server(settings),
        }
    except config.BadConfig as error:
        found[name] = Wrong(error)
    for name, detail in found.items():
        word, style = ("!!", "bold red") if isinstance(detail, Wrong) else ("ok", "green")
        learn_screen.hang(
            console,
            Text.assemble((f"{word:>4}", style), f" {name:<13}"),
            Text("\n".join(map(harmless, detail.split("\n")))),
        )
    return int(any(isinstance(detail, Wrong) for detail in found.values()))


def _port() -> str:
    try:
        return f"127.0.0.1:{free_port()} is free"
    except OSError as error:
        return Wrong(f"cannot bind to 127.0.0.1: {error}")


async def _watcher() -> str:
    """Write a file, and notice that."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write_again_and_again, anyio.Path(folder / "file"))
            noticed = await _noticed(folder)
            tasks.cancel_scope.cancel()
    return noticed


async def _write_again_and_again(path: anyio.Path) -> None:
    while True:
        await path.write_text("changed", encoding="utf-8")
        await anyio.sleep(0.1)


async def _noticed(folder: Path) -> str:
    with anyio.move_on_after(NOTICED_S):
        try:
            async with aclosing(files.changes(folder)) as changes:
                async for _ in changes:
                    return "notices changes"
        except files.Unwatched as error:
            return Wrong(error)
    return Wrong(f"no change noticed within {NOTICED_S:g} s; use: zaichik learn check")


async def _clock() -> str:
    """How late this machine wakes sleepers up."""
    worst = 0.0
    for _ in range(NAPS):
        began = time.monotonic()
        await anyio.sleep(NAP_S)
        worst = max(worst, time.monotonic() - began - NAP_S)
    ms = f"{worst * 1000:.0f} ms late"
    if worst > LATE_S:
        return Wrong(f"sleepers wake up to {ms}: the machine is busy; use --time-scale 2")
    return f"sleepers wake at most {ms}"


def _terminal(console: Console) -> str:
    if not (console.is_terminal and sys.stdin.isatty()):
        return "none; watch prints its results, and has no keys"
    return f"{console.width} columns, {console.height} lines"


def _program(settings: Config) -> str:
    name = settings.command[0]
    return (
        shutil.which(name)
        or shutil.which(str(settings.folder / name))
        or Wrong(f"{name} was not found")
    )


async def _server(settings: Config) -> str:
    launcher = Launcher(settings)
    began = time.monotonic()
    try:
        await launcher.ready()
        started = time.monotonic() - began
    except ServerError as error:
        return Wrong(error)
    finally:
        await launcher.stop()
    if launcher.complaints:
        return Wrong(launcher.complaints[0])
    return f"listened after {started:.1f} s, and stopped when it was told to"
