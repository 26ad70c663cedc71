"""Compiles hot files into the wheel, if the environment variable ZAICHIK_COMPILE is set.

Without it, all is Python.

What is compiled is the same source: mypyc turns modules whose types mypy has checked into C. Their
sources are in the wheel, too, for tracebacks and for readers.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "ZAICHIK_COMPILE"

# A comment with which a file says that it stays Python, and why.
MARKER = re.compile(r"^# Not compiled: \S", re.MULTILINE)


def is_wanted() -> bool:
    """Returns whether the variable asks for compiled files; unset, empty and 0 do not."""
    return os.environ.get(VARIABLE, "0") not in {"", "0"}


class CompiledFiles(BuildHookInterface):  # type: ignore[type-arg]  # generic in a type of hatchling's own
    """Adds compiled files to a wheel.

    Its settings, in `pyproject.toml`:
        requires: what compiling needs: mypyc, a build library, and what the compiled files import,
            for its types.
        compile: folders whose files are compiled, except for those that `stays_python`.
    """

    _folder: Path | None = None  # where the files are until the wheel has them

    def dependencies(self) -> list[str]:
        """Returns what must be installed before `initialize` runs."""
        return list(self.config["requires"]) if is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the files to the wheel."""
        if not is_wanted():
            return
        if (
            version == "editable"
        ):  # a compiled file would win over the source beside it, which is there to be changed
            self.app.display_warning(
                f"{VARIABLE} does nothing here: an editable installation stays pure Python"
            )
            return
        self._folder = folder = Path(tempfile.mkdtemp(prefix="zaichik-"))
        for file in compiled(self.sources(Path(self.root), self.config), folder):
            build_data["force_include"][str(file)] = str(file.relative_to(folder / "lib"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True  # of this Python and this platform

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel has a copy of."""
        if self._folder is not None:
            shutil.rmtree(self._folder)

    @staticmethod
    def sources(root: Path, settings: Mapping[str, list[str]]) -> list[str]:
        """Returns the paths of the files to compile, from `root`."""
        found = [path for folder in settings["compile"] for path in (root / folder).glob("*.py")]
        return sorted(str(path.relative_to(root)) for path in found if not stays_python(path))


def stays_python(path: Path) -> bool:
    """Returns whether a file is not to be compiled.

    It has a comment that says why; or it is the `__init__.py` of a folder, which only imports.
    """
    if path.name == "__init__.py":
        return True
    return MARKER.search(path.read_text(encoding="utf-8")) is not None


def compiled(sources: list[str], folder: Path) -> list[Path]:
    """Compile sources, named from the working folder, which builds run in.

    Returns the files in `folder / "lib"`.
    """
    # Not at the top: this file is imported to ask what must be installed first.
    from mypyc.build import mypycify
    from setuptools import Distribution

    # For this Python, and not for the oldest one that the project is checked for.
    python = f"--python-version={sys.version_info.major}.{sys.version_info.minor}"
    extensions = mypycify(
        [python, *sources], group_name="zaichik", debug_level="0", target_dir=str(folder / "c")
    )
    command = Distribution({"name": "zaichik", "ext_modules": extensions}).get_command_obj(
        "build_ext"
    )
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "objects")
    command.ensure_finalized()
    command.run()
    return [Path(output) for output in command.get_outputs()]
