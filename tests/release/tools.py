"""Tools that install a program into an environment of its own: pipx and uv.

Each works in a folder of its own here, so that no tool of whoever makes the release is touched.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from .environment import PIP_SECONDS, run


def with_pipx(folder: Path, wheel: Path) -> Path:
    """Install a wheel with `pipx install`. Returns the command's path."""
    folder.mkdir()
    places = {
        "PIPX_HOME": str(folder / "home"),
        "PIPX_BIN_DIR": str(folder / "bin"),
        "PIPX_MAN_DIR": str(folder / "man"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "USE_EMOJI": "0",
    }
    pipx = (sys.executable, "-m", "pipx", "install", wheel)
    run(*pipx, cwd=folder, seconds=PIP_SECONDS, **places)
    return folder / "bin" / "zaichik"


def with_uv(folder: Path, wheel: Path) -> Path:
    """Install a wheel with `uv tool install`. Returns the command's path."""
    folder.mkdir()
    places = {
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_TOOL_BIN_DIR": str(folder / "bin"),
        "UV_CACHE_DIR": str(folder / "cache"),
    }
    uv = (sys.executable, "-m", "uv", "tool", "install", "--python", sys.executable, wheel)
    run(*uv, cwd=folder, seconds=PIP_SECONDS, **places)
    return folder / "bin" / "zaichik"


TOOLS: dict[str, Callable[[Path, Path], Path]] = {"pipx": with_pipx, "uv": with_uv}
