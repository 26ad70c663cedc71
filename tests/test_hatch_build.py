"""What the build hook compiles, and when.

That what it compiles works, `make test-compiled` shows.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatch_build_file import PYPROJECT, CompiledFiles, hatch_build, settings

import zaichik
import zaichik_protocol

ROOT = Path(__file__).parent.parent
# Packages that others import the classes of their modules from.
PUBLIC = {"zaichik": zaichik, "zaichik_protocol": zaichik_protocol}

pytestmark = pytest.mark.unmeasured  # no part of what is installed


class App:
    def __init__(self):
        self.warnings = []

    def display_warning(self, text):
        self.warnings.append(text)


@pytest.fixture
def hook():
    return CompiledFiles(str(ROOT), settings(), None, None, str(ROOT / "build"), "wheel", App())


@pytest.fixture
def compiled(monkeypatch):
    """The sources that were given to the compiler, which is not run."""
    given = []
    monkeypatch.setattr(hatch_build, "compiled", lambda sources, _: given.extend(sources) or [])
    return given


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_the_variable_a_wheel_needs_nothing_and_is_pure(value, hook, compiled, monkeypatch):
    monkeypatch.delenv("ZAICHIK_COMPILE", raising=False)
    if value is not None:
        monkeypatch.setenv("ZAICHIK_COMPILE", value)
    data = {}
    hook.initialize("standard", data)
    assert (hook.dependencies(), compiled, data) == ([], [], {})


def test_with_the_variable_the_compiler_is_asked_for_and_gets_the_hot_files(
    hook, compiled, monkeypatch
):
    monkeypatch.setenv("ZAICHIK_COMPILE", "1")
    data = {"force_include": {}}
    hook.initialize("standard", data)
    assert any(requirement.startswith("mypy") for requirement in hook.dependencies())
    assert {
        "protocol/zaichik_protocol/derived.py",
        "zaichik/core/ring.py",
        "zaichik/client/producer.py",
    } <= set(compiled)
    assert data == {"force_include": {}, "pure_python": False, "infer_tag": True}


def test_an_editable_installation_stays_pure_and_says_so(hook, compiled, monkeypatch):
    """A compiled file would win over the source beside it, which is there to be changed."""
    monkeypatch.setenv("ZAICHIK_COMPILE", "1")
    hook.initialize("editable", {})
    assert not compiled
    assert hook.app.warnings == [
        "ZAICHIK_COMPILE does nothing here: an editable installation stays pure Python"
    ]


def test_types_are_those_of_the_versions_that_are_installed():
    """What zaichik runs on is what it is compiled against."""
    installed = PYPROJECT["project"]["dependencies"]
    shared = [item for item in settings()["requires"] if item.startswith(("anyio>", "construct>"))]
    assert len(shared) == 2
    assert set(shared) <= set(installed)


@pytest.mark.parametrize("folder", settings()["compile"])
def test_every_folder_has_a_file_that_is_compiled(folder):
    assert CompiledFiles.sources(ROOT, {"compile": [folder]})


@pytest.mark.parametrize(
    ("source", "is_left"),
    [
        ('"""Hot."""\n\nimport json\n', False),
        ('"""Cold."""\n\n# Not compiled: it runs once.\n\nimport json\n', True),
        ('"""Cold."""\n\n# Not compiled:\n\nimport json\n', False),  # there must be a reason
        ('"""Hot."""\n\nTEXT = "# Not compiled: it runs once."\n', False),
    ],
)
def test_a_file_stays_python_if_a_comment_says_why(source, is_left, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.py").write_text(source, encoding="utf-8")
    (tmp_path / "folder" / "__init__.py").write_text('"""Imports."""\n', encoding="utf-8")
    found = CompiledFiles.sources(tmp_path, {"compile": ["folder"]})
    assert found == ([] if is_left else ["folder/one.py"])


def home(module: str, name: str) -> str:
    """Returns the module that a class is defined in, also if it is imported from its package."""
    if module in PUBLIC:
        return getattr(PUBLIC[module], name).__module__
    return module


def parents(source: Path) -> Iterator[tuple[str, str, str]]:
    """Each class of a file, each parent that it imports, and the module of that parent."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for parent in node.bases:
                if isinstance(parent, ast.Name) and parent.id in imported:
                    module, name = imported[parent.id]
                    yield node.name, name, home(module, name)


def test_no_class_that_stays_python_inherits_from_a_compiled_one():
    """The compiler says nothing of it: making the first object raises a TypeError."""
    sources = CompiledFiles.sources(ROOT, settings())
    modules = {
        source.removeprefix("protocol/").removesuffix(".py").replace("/", ".") for source in sources
    }
    files = [*(ROOT / "zaichik").rglob("*.py"), *(ROOT / "protocol").rglob("*.py")]
    stays_python = [file for file in files if str(file.relative_to(ROOT)) not in sources]
    offenders = [
        f"{file.relative_to(ROOT)}: {name}({parent})"
        for file in stays_python
        for name, parent, module in parents(file)
        if module in modules
    ]
    assert stays_python
    assert offenders == []


def test_no_compiled_file_lies_in_the_source_tree():
    """It would win over its source, also when that has changed."""
    packages = [ROOT / "zaichik", ROOT / "protocol"]
    found = [
        path
        for package in packages
        for ending in ("so", "pyd")
        for path in package.rglob(f"*.{ending}")
    ]
    assert not found or ROOT.parent.name == "compiled", found


def test_without_a_compiler_nothing_is_tested_and_that_is_said():
    """An exit code of 0 with nothing said would look like a success."""
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "compiled.py"],
        env={**os.environ, "CC": "no-compiler-here -pthread"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "SKIPPED: nothing was compiled and nothing was tested, for want of the C compiler "
        "no-compiler-here\n"
    )
