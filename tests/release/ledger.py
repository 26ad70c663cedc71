"""What goes with the files of a release: their checksums, and what an installation brings.

The second is a software bill of materials (SBOM) in CycloneDX's format: the packages that zaichik
needs, without extras, in the versions of that day, with their licences. Programs compare it with
lists of known faults.
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from .environment import COMMAND_SECONDS, Environment, run
from .project import Project

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
    command = (*cyclonedx, "--output-file", path, environment.python)
    run(*command, cwd=environment.folder, seconds=COMMAND_SECONDS)
    return path
