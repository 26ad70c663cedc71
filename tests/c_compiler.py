"""Whether this machine can compile extension modules for this Python."""

import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def missing() -> Iterator[str]:
    """What compiling needs and is not here."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        yield f"the C compiler {compiler}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        yield f"{header}, which comes with Python's development package"
