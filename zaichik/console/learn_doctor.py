"""`zaichik learn doctor`: whether everything that learn needs is there, each thing tried out."""

import platform
import shutil
import sys
import tempfile
import time
from contextlib import aclosing
from importlib.metadata import version
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.console import learn_screen
from zaichik.console.arguments import Namespace
from zaichik.escapes import harmless
from zaichik.learn import config, files
from zaichik.learn.config import Config
from zaichik.learn.runner import ServerTrouble
from zaichik.learn.server import Launcher, free_port

FINE, NOT_FINE = "ok", "!!"
NOTICED_S = 3.0
NAPS, NAP_S, LATE_S = 10, 0.02, 0.1


async def run(arguments: Namespace, console: Console) -> int:
    """Look at everything; 0 if nothing is wrong."""
    told = [_versions(), _port(), await _watcher(), await _clock(), _terminal(console)]
    name = arguments.config.name
    try:
        settings = config.read(arguments.config)
        told += [(FINE, name, " ".join(settings.command)), _program(settings), await _server(settings)]
    except config.BadConfig as error:
        told.append((NOT_FINE, name, str(error)))
    for word, name, detail in told:
        left = Text.assemble((f"{word:>4}", "green" if word == FINE else "bold red"), f" {name:<13}")
        learn_screen.hang(console, left, Text(harmless(detail)))
    return 0 if all(word == FINE for word, _, _ in told) else 1


def _versions() -> tuple[str, str, str]:
    return FINE, "versions", f"zaichik {version('zaichik')}, Python {platform.python_version()}, {platform.system()}"


def _port() -> tuple[str, str, str]:
    try:
        return FINE, "ports", f"127.0.0.1:{free_port()} is free"
    except OSError as error:
        return NOT_FINE, "ports", f"nothing can be bound to 127.0.0.1: {error}"


async def _watcher() -> tuple[str, str, str]:
    """A file is written, and must be noticed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write_again_and_again, anyio.Path(folder / "file"))
            trouble = await _not_noticed(folder)
            tasks.cancel_scope.cancel()
    return (NOT_FINE, "file watcher", trouble) if trouble else (FINE, "file watcher", "notices changes")


async def _write_again_and_again(path: anyio.Path) -> None:
    while True:
        await path.write_text("changed", encoding="utf-8")
        await anyio.sleep(0.1)


async def _not_noticed(folder: Path) -> str:
    """Why no change is noticed; "" as soon as one is."""
    with anyio.move_on_after(NOTICED_S):
        try:
            async with aclosing(files.changes(folder)) as changes:
                async for _ in changes:
                    return ""
        except files.Unwatched as error:
            return str(error)
    return f"a file was written, and not noticed within {NOTICED_S:g} s; use: zaichik learn check"


async def _clock() -> tuple[str, str, str]:
    """How late this machine wakes somebody who sleeps."""
    worst = 0.0
    for _ in range(NAPS):
        began = time.monotonic()
        await anyio.sleep(NAP_S)
        worst = max(worst, time.monotonic() - began - NAP_S)
    if worst > LATE_S:
        return (
            NOT_FINE,
            "clock",
            f"sleepers wake up to {worst * 1000:.0f} ms late: the machine is busy; use --time-scale 2",
        )
    return FINE, "clock", f"sleepers wake at most {worst * 1000:.0f} ms late"


def _terminal(console: Console) -> tuple[str, str, str]:
    if not (console.is_terminal and sys.stdin.isatty()):
        return FINE, "terminal", "none; watch prints, and has no keys"
    return FINE, "terminal", f"{console.width} columns, {console.height} lines"


def _program(settings: Config) -> tuple[str, str, str]:
    name = settings.command[0]
    found = shutil.which(name) or shutil.which(str(settings.folder / name))
    return (FINE, "program", found) if found else (NOT_FINE, "program", f"{name} is not found")


async def _server(settings: Config) -> tuple[str, str, str]:
    launcher = Launcher(settings)
    began = time.monotonic()
    try:
        await launcher.ready()
        started = time.monotonic() - began
    except ServerTrouble as trouble:
        return NOT_FINE, "server", str(trouble)
    finally:
        await launcher.stop()
    if launcher.complaints:
        return NOT_FINE, "server", launcher.complaints[0]
    return FINE, "server", f"listened after {started:.1f} s, and ended when it was told to"
