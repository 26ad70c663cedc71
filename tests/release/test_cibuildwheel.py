"""cibuildwheel accepts the settings with which it makes wheels for machines of other kinds.

Whether the wheels are right needs containers and a Mac; what is asked for does not.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = {
    f"cp3{classifier.rpartition('.')[2]}"
    for classifier in PROJECT["classifiers"]
    if "Python :: 3." in classifier
}


@pytest.mark.parametrize(
    ("platform", "machines"),
    [
        (
            "linux",
            {
                f"{library}_{processor}"
                for library in ("manylinux", "musllinux")
                for processor in ("x86_64", "aarch64")
            },
        ),
        ("macos", {"macosx_x86_64", "macosx_arm64"}),
    ],
)
def test_it_makes_a_wheel_for_each_supported_python(platform, machines):
    pytest.importorskip("cibuildwheel")
    command = ["cibuildwheel", "--print-build-identifiers", "--platform", platform, str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=True, timeout=120
    )
    assert {"cp311", "cp314"} <= PYTHONS
    assert set(done.stdout.split()) == {
        f"{python}-{machine}" for python in PYTHONS for machine in machines
    }
