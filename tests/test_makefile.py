"""What `make` does with an environment that it did not finish."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent
# What Debian's python3 without python3-venv does: the folder is made, then it fails.
WITHOUT_VENV = f"""#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
    "{sys.executable}" -m venv --without-pip "$3"
    echo "ensurepip is not available" >&2
    exit 1
fi
exec "{sys.executable}" "$@"
"""


def test_an_environment_without_pip_gets_it_from_the_next_make(tmp_path):
    python, venv = tmp_path / "python3", tmp_path / "venv"
    python.write_text(WITHOUT_VENV, encoding="utf-8")
    python.chmod(0o755)

    def make(with_python):
        return subprocess.run(
            ["make", "-C", str(ROOT), f"VENV={venv}", f"PYTHON={with_python}", f"{venv}/.pip"],
            capture_output=True,
            text=True,
            check=False,
        )

    assert "ensurepip is not available" in make(python).stderr
    assert (venv / "bin" / "python").exists()
    assert make(sys.executable).returncode == 0
    subprocess.run([venv / "bin" / "python", "-m", "pip", "--version"], check=True)
