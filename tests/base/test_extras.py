"""What messages say about getting an extra is what works: zaichik is on no package index."""

import re
import tomllib
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from zaichik.base.extras import getting
from zaichik.learn import files

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
BARE = re.compile(
    r"pip3? install (?:-\S+ )*[\"']?zaichik\b(?!-\d)"
)  # a wheel's name goes on with its version
COMPILED = tuple(
    BYTECODE_SUFFIXES + EXTENSION_SUFFIXES
)  # not text: what Python or mypyc built of the sources
SOURCES = [
    path
    for name in ("zaichik", "examples", "deploy")
    for path in (ROOT / name).rglob("*.*")
    if path.is_file() and not path.name.endswith(COMPILED)
]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "tutorial").rglob("*.md"),
    ROOT / "Makefile",
    ROOT / "Dockerfile",
]


def test_a_clone_and_a_wheel_have_a_way_each():
    assert getting("web") == (
        "`make .venv/.installed-web` in a clone, or `pip install 'WHEEL[web]'` with the path of "
        "your wheel"
    )


def test_the_tester_which_imports_nothing_of_zaichik_says_the_same():
    assert files.MISSING.endswith(f"; get it with {getting('learn')}")


def test_every_extra_that_is_asked_for_exists():
    calls = [
        extra
        for path in (ROOT / "zaichik").rglob("*.py")
        for extra in re.findall(r"getting\(['\"](\w+)['\"]\)", path.read_text(encoding="utf-8"))
    ]
    assert len(calls) >= 7
    assert set(calls) <= set(EXTRAS)


def test_nothing_says_to_install_zaichik_from_an_index():
    assert BARE.search("pip install 'zaichik[web]'")
    assert BARE.search("pip install zaichik")
    assert not BARE.search("pip install 'zaichik-0.1.0-py3-none-any.whl[web]'")
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES + PAGES}
    assert [
        str(path) for path, text in texts.items() if BARE.search(re.sub(r"\s*\n\s*", " ", text))
    ] == []
