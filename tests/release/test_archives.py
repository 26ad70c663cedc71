"""A file of a release is refused for each thing that can be wrong with it, and the real wheel for
nothing.
"""

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from hatch_build_file import CompiledFiles, settings

from release.archives import differences, sdist_faults, wheel_faults
from release.project import Project, hot_files
from zaichik.base.build import is_compiled

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent.parent
PROJECT = Project(
    name="zaichik",
    version="0.1.0",
    requires_python=">=3.11",
    extras=frozenset({"web"}),
    files=frozenset(
        {"zaichik/ring.py", "protocol/zaichik_protocol/codec.py", "tests/test_ring.py", ".ci/run"}
    ),
    hot=frozenset({"protocol/zaichik_protocol/codec.py"}),
)
METADATA = (
    b"Metadata-Version: 2.4\nName: zaichik\nVersion: 0.1.0\nRequires-Python: "
    b">=3.11\nProvides-Extra: web\n"
    b"Project-URL: Source, https://forge.invalid/zaichik\n\nText\n"
)
PURE = {
    "zaichik/ring.py": b"ring",
    "zaichik_protocol/codec.py": b"hot",
    "zaichik/learn/invalid.json": b"[]",
    "zaichik-0.1.0.data/data/share/man/man1/zaichik.1": b".TH ZAICHIK 1",
    "zaichik-0.1.0.dist-info/METADATA": METADATA,
    "zaichik-0.1.0.dist-info/WHEEL": (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "zaichik-0.1.0.dist-info/entry_points.txt": b"[console_scripts]\n",
    "zaichik-0.1.0.dist-info/licenses/LICENSE": b"MIT",
}
COMPILED = PURE | {
    "zaichik_protocol/codec.cpython-311-x86_64-linux-gnu.so": b"ELF",
    "zaichik__mypyc.cpython-311-x86_64-linux-gnu.so": b"ELF",
    "zaichik-0.1.0.dist-info/WHEEL": (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_17_x86_64\n"
        b"Tag: cp311-cp311-manylinux2014_x86_64\n"
    ),
}
SDIST = {
    "zaichik-0.1.0/zaichik/ring.py": b"ring",
    "zaichik-0.1.0/protocol/zaichik_protocol/codec.py": b"hot",
    "zaichik-0.1.0/tests/test_ring.py": b"",
    "zaichik-0.1.0/PKG-INFO": METADATA,
}


MANYLINUX = "cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64"


def without(files, name):
    return {key: value for key, value in files.items() if key != name}


@pytest.fixture
def wheel(tmp_path):
    """Write a wheel and its RECORD, which may be of other files."""

    def write(files, *, tag="py3-none-any", record_of=None):
        path = tmp_path / f"zaichik-0.1.0-{tag}.whl"
        rows = "".join(
            f"{name},sha256={urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
            for name, data in (record_of or files).items()
        )
        record = "zaichik-0.1.0.dist-info/RECORD"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in (files | {record: f"{rows}{record},,\n".encode()}).items():
                archive.writestr(name, data)
        return path

    return write


@pytest.fixture
def faults(wheel):
    """What is wrong with a wheel of these files."""

    def found(files, *, compiled=False, **how):
        tag = MANYLINUX if compiled else "py3-none-any"
        return list(wheel_faults(wheel(files, **{"tag": tag, **how}), PROJECT, compiled=compiled))

    return found


def test_a_wheel_that_is_what_it_should_be_has_no_faults(faults):
    assert faults(PURE) == []
    assert faults(COMPILED, compiled=True) == []


@pytest.mark.parametrize(
    "name", [name for name in PURE if not name.endswith(("METADATA", "WHEEL"))]
)
def test_a_missing_file_is_named(name, faults):
    assert faults(without(PURE, name)) == [f"it lacks {name}"]


@pytest.mark.parametrize(
    "name", ["tests/test_ring.py", "tutorial/README.md", "zaichik/__pycache__/ring.pyc", ".ci/run"]
)
def test_a_file_that_does_not_belong_is_named(name, faults):
    assert faults(PURE | {name: b""}) == [f"it has {name}, which should not be there"]


def test_of_many_names_some_are_shown(faults):
    extra = {f"tests/test_{number}.py": b"" for number in range(7)}
    shown = ", ".join(f"tests/test_{number}.py" for number in range(5))
    assert faults(PURE | extra) == [f"it has {shown} and 2 more, which should not be there"]


@pytest.mark.parametrize(
    ("compiled", "files", "told"),
    [
        (False, PURE | {"zaichik/ring.so": b"ELF"}, "it is pure Python, but has zaichik/ring.so"),
        (
            True,
            without(COMPILED, "zaichik_protocol/codec.cpython-311-x86_64-linux-gnu.so"),
            "it lacks the extension modules zaichik_protocol.codec",
        ),
        (
            True,
            without(COMPILED, "zaichik__mypyc.cpython-311-x86_64-linux-gnu.so"),
            "it lacks the extension modules zaichik__mypyc",
        ),
        (
            True,
            COMPILED | {"zaichik/ring.so": b"ELF"},
            "it has the extension modules zaichik.ring, which should not be there",
        ),
    ],
)
def test_extension_modules_are_those_of_the_hot_files(compiled, files, told, faults):
    assert faults(files, compiled=compiled) == [told]


def test_a_file_that_was_changed_after_the_build_is_named(faults):
    assert faults(PURE, record_of=PURE | {"zaichik/ring.py": b"rang"}) == [
        "RECORD has another hash for zaichik/ring.py"
    ]
    assert faults(PURE, record_of=without(PURE, "zaichik/ring.py")) == [
        "RECORD and the wheel disagree on zaichik/ring.py"
    ]


def test_a_pure_wheel_with_the_tag_of_a_platform_is_refused_and_the_other_way_round(faults):
    assert faults(PURE, tag="cp311-cp311-linux_x86_64") == [
        "its name says cp311-cp311-linux_x86_64, and its file WHEEL says py3-none-any",
        "its tag is cp311-cp311-linux_x86_64, which the package index refuses",
        "its tag is cp311-cp311-linux_x86_64, but it should be pure Python",
    ]
    assert faults(
        COMPILED | {"zaichik-0.1.0.dist-info/WHEEL": PURE["zaichik-0.1.0.dist-info/WHEEL"]},
        compiled=True,
        tag="py3-none-any",
    ) == [
        "its tag is py3-none-any, but it should be compiled",
        "its file WHEEL says Root-Is-Purelib: true",
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            b"Version: 0.1.0",
            b"Version: 0.0.9",
            "its metadata says Version: 0.0.9, and pyproject.toml says 0.1.0",
        ),
        (
            b"Name: zaichik",
            b"Name: rabbit",
            "its metadata says Name: rabbit, and pyproject.toml says zaichik",
        ),
        (
            b">=3.11",
            b">=3.12",
            "its metadata says Requires-Python: >=3.12, and pyproject.toml says >=3.11",
        ),
        (b"Provides-Extra: web\n", b"", "its extras are nothing, and pyproject.toml has web"),
        (b"Text\n", b"", "its metadata has no description"),
        (b"Project-URL", b"Comment", "its metadata has no project URLs"),
        (
            b"Text\n",
            b"[All](docs/README.md), [here](https://forge.invalid/), ![ring](ring.svg)\n",
            "its description has links that lead nowhere from an index: docs/README.md, ring.svg",
        ),
    ],
)
def test_metadata_that_differs_from_pyproject_is_told(old, new, told, faults):
    changed = METADATA.replace(old, new)
    assert changed != METADATA
    assert faults(PURE | {"zaichik-0.1.0.dist-info/METADATA": changed}) == [told]


def sdist(folder, files):
    path = folder / "zaichik-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_a_source_archive_is_the_repository_without_its_machines(tmp_path):
    assert list(sdist_faults(sdist(tmp_path, SDIST), PROJECT)) == []
    lacking = sdist(tmp_path, without(SDIST, "zaichik-0.1.0/tests/test_ring.py"))
    assert list(sdist_faults(lacking, PROJECT)) == ["it lacks zaichik-0.1.0/tests/test_ring.py"]
    more = sdist(tmp_path, SDIST | {"zaichik-0.1.0/.ci/run": b""})
    assert list(sdist_faults(more, PROJECT)) == [
        "it has zaichik-0.1.0/.ci/run, which should not be there"
    ]


def test_a_source_archive_of_another_version_is_refused(tmp_path):
    next_one = replace(PROJECT, version="0.2.0")
    assert "its metadata says Version: None, and pyproject.toml says 0.2.0" in list(
        sdist_faults(sdist(tmp_path, SDIST), next_one)
    )


def test_two_builds_of_a_wheel_must_be_the_same(wheel, tmp_path):
    one = wheel(PURE).rename(tmp_path / "one.whl")
    assert list(differences(one, wheel(PURE))) == []
    assert list(differences(one, wheel(PURE | {"zaichik/ring.py": b"rang"}))) == [
        "they have different bytes in zaichik-0.1.0.dist-info/RECORD, zaichik/ring.py"
    ]
    assert list(differences(one, wheel(PURE | {"a.py": b""}, record_of=PURE))) == [
        "only one of them has a.py"
    ]


def test_two_readers_of_the_hooks_settings_find_the_same_hot_files():
    assert hot_files(ROOT, settings()) == set(CompiledFiles.sources(ROOT, settings()))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The wheel of this tree, and what it should be."""
    if is_compiled() or not (ROOT / ".git").exists():
        pytest.skip("this is no clone: what the repository tracks is not known here")
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return path, Project.read(ROOT)


def test_the_real_wheel_is_what_the_repository_says(real):
    path, project = real
    assert list(wheel_faults(path, project, compiled=False)) == []


def test_the_real_wheel_without_one_of_its_files_is_refused(real, tmp_path):
    path, project = real
    broken = tmp_path / path.name
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(broken, "w") as archive:
        for name in whole.namelist():
            if name != "zaichik/py.typed":
                archive.writestr(name, whole.read(name))
    assert list(wheel_faults(broken, project, compiled=False)) == [
        "it lacks zaichik/py.typed",
        "RECORD and the wheel disagree on zaichik/py.typed",
    ]


def test_new_files_count_and_ignored_or_removed_ones_do_not(tmp_path):
    for name in ("pyproject.toml", ".gitignore"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("old.py", "gone.py"):
        (tmp_path / name).touch()
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").touch()
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "zaichik.whl").touch()
    assert Project.read(tmp_path).files == {"pyproject.toml", ".gitignore", "old.py", "new.py"}


def test_the_command_refuses_a_broken_file_with_one_sentence_and_an_exit_code(tmp_path):
    if is_compiled() or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    done = subprocess.run(
        [sys.executable, "-m", "tests.release", "--check", str(tmp_path / "gone.whl")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"\nthere is no file {tmp_path / 'gone.whl'}\n\nNothing was released.\n"
