"""What each compiled wheel is for, and how it is compiled.

Compiling takes minutes, so real ones are what `make release` makes.
"""

import importlib
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent.parent
GNU = "zaichik-0.3.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
MUSL = "zaichik-0.3.0-cp311-cp311-musllinux_1_2_x86_64.whl"
MAC = "zaichik-0.3.0-cp311-cp311-macosx_14_0_arm64.whl"


@pytest.fixture
def wheels(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("tests.release.wheels")


@pytest.fixture
def target(wheels):
    def made(library, version="3.11"):
        return wheels.Target(Path("python"), version, library)

    return made


def test_on_linux_there_is_a_wheel_for_each_python_and_library(wheels, monkeypatch):
    monkeypatch.setattr(wheels.sys, "platform", "linux")
    there = {"3.11": Path("/a"), "3.13": Path("/b")}
    monkeypatch.setattr(wheels, "find", there.get)
    assert [str(target) for target in wheels.targets()] == [
        "Python 3.11 and manylinux",
        "Python 3.11 and musllinux",
        "Python 3.13 and manylinux",
        "Python 3.13 and musllinux",
    ]
    assert [str(target) for target in wheels.targets(["3.13"])][:1] == ["Python 3.13 and manylinux"]
    assert wheels.absent() == ["3.12", "3.14"]
    assert wheels.absent(["3.13"]) == []


def test_elsewhere_a_python_has_one_wheel(wheels, monkeypatch):
    monkeypatch.setattr(wheels.sys, "platform", "darwin")
    monkeypatch.setattr(wheels, "find", {"3.11": Path("/a")}.get)
    assert [str(target) for target in wheels.targets()] == ["Python 3.11"]
    assert wheels.variables(wheels.targets()[0]) == {"ZAICHIK_COMPILE": "1"}


@pytest.mark.parametrize("name", [GNU, MUSL, MAC])
def test_a_wheel_suits_one_target(name, wheels, target):
    suited = {GNU: wheels.GLIBC, MUSL: wheels.MUSL}
    for library in (wheels.GLIBC, wheels.MUSL):
        assert target(library).suits(Path(name)) == (suited.get(name) == library)
    assert not target(suited.get(name), "3.12").suits(Path(name))
    assert target(suited.get(name)).suits(Path(name))


def test_a_wheel_is_compiled_for_the_oldest_library_and_named_for_its_python(wheels, target):
    given = wheels.variables(target(wheels.GLIBC, "3.14"))
    assert given["ZAICHIK_COMPILE"] == "1"
    assert given["CC"].startswith(f"{sys.executable} -m ziglang cc -target ")
    assert given["CC"].endswith("-linux-gnu.2.17")
    assert given["LDSHARED"] == f"{given['CC']} -shared"
    given = wheels.variables(target(wheels.MUSL, "3.14"))
    assert given["CC"].endswith("-linux-musl")
    assert given["SETUPTOOLS_EXT_SUFFIX"].startswith(".cpython-314-")
    assert given["SETUPTOOLS_EXT_SUFFIX"].endswith("-linux-musl.so")


def test_what_auditwheel_makes_is_taken_if_it_suits(wheels, target, monkeypatch, tmp_path):
    made = [GNU]

    def run(*command, cwd, **_):
        names = made if "auditwheel" in command else ["zaichik-0.3.0-cp311-cp311-linux_x86_64.whl"]
        folder = Path(command[command.index("--wheel-dir") + 1])
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).touch()

    monkeypatch.setattr(wheels, "run", run)
    assert wheels.compile_wheel(tmp_path, tmp_path, target(wheels.GLIBC)) == tmp_path / GNU
    (tmp_path / GNU).unlink()
    with pytest.raises(wheels.Failed, match=r"this should be for Python 3\.11 and musllinux"):
        wheels.compile_wheel(tmp_path, tmp_path, target(wheels.MUSL))
