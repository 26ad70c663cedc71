"""What goes with the files of a release: their checksums, and what an installation brings.

The second is a software bill of materials (SBOM) in CycloneDX's format: the packages that zaichik
needs, without extras, in the versions of that day, with their licences. Programs compare it with
lists of known faults.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .environment import COMMAND_SECONDS, Environment, run
from .project import Project

ROOT = Path(__file__).parent.parent.parent
PURE = "-py3-none-any.whl"


def checksums(files: Sequence[Path]) -> str:
    """Returns the lines that `sha256sum --check` reads."""
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files
    )


def write_sbom(files: Sequence[Path], project: Project, folder: Path) -> Path:
    """Install the pure wheel, and list what is then installed. Returns the list's path."""
    (wheel,) = (file for file in files if file.name.endswith(PURE))
    environment = Environment(folder / "sbom", wheel)
    environment.install()
    path = folder / f"{project.name}-{project.version}.cdx.json"
    cyclonedx = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
    options = ("--pyproject", ROOT / "pyproject.toml", "--output-file", path)
    run(*cyclonedx, *options, environment.python, cwd=environment.folder, seconds=COMMAND_SECONDS)
    listed = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(without_files(listed), indent=2) + "\n", encoding="utf-8")
    return path


def without_files(value: Any) -> Any:
    """Returns a list of packages without references to files of this machine.

    pip remembers from which file it has installed the wheel, and that is told of zaichik.
    """
    if isinstance(value, list):
        return [without_files(part) for part in value if not _is_file(part)]
    if isinstance(value, dict):
        return {name: without_files(part) for name, part in value.items()}
    return value


def _is_file(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("url", "")).startswith("file:")
