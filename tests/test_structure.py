"""The project's shape, as promises: layers, sizes, packaging."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest
from code_lines import code_lines, functions

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
PROTOCOL = ROOT / "protocol" / "zaichik_protocol"
ROOMS = {name: ROOT / "zaichik" / name for name in ("broker", "sharing", "observing", "serving")}
SYNC_ROOMS = ("broker", "sharing", "observing")
LIMITS = {PROTOCOL: 701, ROOMS["broker"]: 2037, ROOMS["sharing"]: 250, ROOMS["observing"]: 267, ROOMS["serving"]: 545}
SIZES = (("log", 1311), ("repair", 267), ("access", 671), ("legacy", 286), ("flight", 743), ("learn", 6638))
LIMITS |= {ROOT / "zaichik" / name: limit for name, limit in SIZES}
LIMITS |= {ROOT / "zaichik" / "console": 5340, ROOT / "zaichik" / "views": 907}
LIMITS |= {ROOT / "zaichik" / "web": 1855, ROOT / "zaichik" / "web" / "stage": 549}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


@cache
def imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
            if node.module == "zaichik":  # what is imported from there may be a folder
                names += (f"zaichik.{alias.name}" for alias in node.names)
    return names


def packages(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


@pytest.mark.parametrize("path", files(PROTOCOL), ids=lambda path: path.name)
def test_the_protocol_knows_neither_the_broker_nor_sockets(path):
    assert packages(path).isdisjoint({"zaichik", "anyio", "socket", "asyncio", "trio"})


SYNC_CORE = [path for name in SYNC_ROOMS for path in files(ROOMS[name])] + files(ROOT / "zaichik" / "explain")


@pytest.mark.parametrize("path", SYNC_CORE, ids=lambda path: path.stem)
def test_the_core_is_synchronous(path):
    assert packages(path).isdisjoint({"anyio", "asyncio", "trio", "socket"})
    waiting = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    assert not [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, waiting)]


@pytest.mark.parametrize("path", [path for path in SYNC_CORE if path.stem != "clock"], ids=lambda path: path.stem)
def test_the_core_gets_the_time_as_an_argument(path):
    assert packages(path).isdisjoint({"time", "datetime"})


def test_no_two_modules_of_the_broker_need_each_other():
    """Not even for their types."""
    modules = {f"zaichik.{room}.{path.stem}": path for room, folder in ROOMS.items() for path in files(folder)}
    needs = {name: {used for used in imports(path) if used in modules} for name, path in modules.items()}
    while free := {name for name, used in needs.items() if not used}:
        needs = {name: used - free for name, used in needs.items() if name not in free}
    assert not needs, "import cycles"


@pytest.mark.parametrize("path", files(ROOT / "zaichik"), ids=lambda path: str(path.relative_to(ROOT)))
def test_layers_point_one_way(path):
    used = {name for name in imports(path) if name.startswith("zaichik.")}
    part = path.relative_to(ROOT / "zaichik").parts[0]
    if part != "console":
        assert "rich" not in packages(path)
        assert not [name for name in used if name.startswith("zaichik.console")] or path.name == "__main__.py"
    if part not in {"web", "console"}:
        assert not [name for name in used if name.startswith("zaichik.web")]
    if part != "web":
        assert packages(path).isdisjoint({"starlette", "uvicorn", "prometheus_client"})
    if part not in {"spark", "console"}:
        assert "pyspark" not in packages(path)
        assert not [name for name in used if name.startswith("zaichik.spark")]
    if part not in {"spark", "console", "statistics"}:
        assert not [name for name in used if name.startswith("zaichik.statistics")]
    if part in ROOMS:
        assert not [name for name in used if name.startswith("zaichik.client")]
    if part == "client":
        assert not [name for name in used if name.split(".")[1] in ROOMS]


VIEWS = ROOT / "zaichik" / "views"
WITHOUT_IO = {
    "bisect",
    "collections",
    "dataclasses",
    "functools",
    "itertools",
    "math",
    "operator",
    "shlex",
    "typing",
    "unicodedata",
    "xml",
}
OURS_WITHOUT_IO = {"zaichik", "zaichik_protocol"}


@pytest.mark.parametrize("path", files(VIEWS), ids=lambda path: path.stem)
def test_views_are_pure(path):
    """They get numbers and return marks or text: no clock, no file, no socket, and nothing of broker or client."""
    assert packages(path) <= WITHOUT_IO | OURS_WITHOUT_IO
    used = {name for name in imports(path) if name.startswith("zaichik.")}
    assert all(name.startswith("zaichik.views") or name == "zaichik.escapes" for name in used)
    called = {node.func.id for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    assert called.isdisjoint({"open", "input", "print", "__import__"})


@pytest.mark.parametrize(("folder", "limit"), LIMITS.items(), ids=[path.name for path in LIMITS])
def test_a_package_stays_within_its_lines(folder, limit):
    assert sum(len(code_lines(path)) for path in files(folder)) <= limit


@pytest.mark.parametrize(
    "path", files(PROTOCOL) + files(ROOT / "zaichik"), ids=lambda path: str(path.relative_to(ROOT))
)
def test_files_and_functions_stay_small(path):
    assert len(code_lines(path)) <= 250
    assert [name for name, lines in functions(path) if lines > 50] == []


def test_the_one_file_broker_stays_small():
    assert len(code_lines(ROOT / "tutorial" / "tiny_broker.py")) <= 250


def test_the_one_file_log_stays_small():
    assert len(code_lines(ROOT / "tutorial" / "tiny_log.py")) <= 120


def test_the_line_counter_counts_code_only(tmp_path):
    source = tmp_path / "sample.py"
    docstring, comment, literal = '"""Doc.\n\nMore.\n"""\n', "\n# comment\n", 'x = """a\nb"""  # two lines\n'
    function = 'def f():\n    "doc"\n    return (\n        1\n    )\n'
    source.write_text(f"{docstring}{comment}{literal}\n\n{function}from a import (\n    b,\n    c,\n)\n")
    assert sorted(code_lines(source)) == [7, 8, 11, 13, 14, 15, 16]
    assert functions(source) == [("f", 4)]


def test_a_wheel_holds_the_two_packages_and_nothing_else(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        refused = archive.read("zaichik/learn/invalid.json")
    assert {name.partition("/")[0] for name in names} == {"zaichik", "zaichik_protocol", f"zaichik-{VERSION}.dist-info"}
    assert {"zaichik/py.typed", "zaichik_protocol/py.typed"} <= set(names)
    assert refused == (PROTOCOL.parent / "vectors" / "invalid.json").read_bytes()  # `zaichik learn` sends them


def test_every_dependency_has_its_reason_in_the_readme_and_those_of_development_where_it_points():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    optional = [
        item
        for name in ("flights", "record", "stats", "spark", "java", "learn", "access", "speed", "web")
        for item in extras[name]
    ]
    used = {
        "README.md": [*project["dependencies"], *optional],
        "CONTRIBUTING.md": [item for name in ("test", "dev", "bench", "release") for item in extras[name]],
    }
    for page, requirements in used.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for requirement in requirements:
            name = requirement.partition(">")[0].partition("[")[0].strip()
            assert name == "zaichik" or re.search(rf"`{name}(\[\w+\])?`", text), name
    assert "(CONTRIBUTING.md#packages-for-development)" in (ROOT / "README.md").read_text(encoding="utf-8")


DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "README.ru.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "protocol").rglob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target


def test_the_index_of_the_documents_names_every_page_in_one_row():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \| .+\. \|$", index, re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert sorted(name for name in rows if "/" not in name) == sorted(pages)


def test_every_rule_is_named_by_a_test():
    rules = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    found = re.findall(r"^- \*\*([A-Z]+-\d+)\*\* (\*\(later\)\*)?", rules, re.MULTILINE)
    built = {rule for rule, later in found if not later}
    assert len(built) > 30
    tests = "".join(path.read_text(encoding="utf-8") for path in files(ROOT / "tests"))
    named = set(re.findall(r"[A-Z]{3}-\d+", tests))
    for first, last in re.findall(r"([A-Z]{3}-\d+) to (?:[A-Z]{3}-)?(\d+)", tests):
        prefix, _, number = first.partition("-")
        named |= {f"{prefix}-{n}" for n in range(int(number), int(last) + 1)}
    assert built - named == set()


def test_no_mark_is_forgotten_where_tests_are_chosen():
    """What the suite leaves out; what counts for coverage; what runs on other Pythons and compiled."""
    *_, suite = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"][
        "addopts"
    ]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"MEASURED := not unmeasured and not hypothesis and {suite}\n" in makefile
    assert suite.startswith("not long and ")
    for name in ("compiled.py", "pythons.py"):
        text = (ROOT / "tests" / name).read_text(encoding="utf-8")
        assert f'MARKED = "{suite.removeprefix("not long and ")}"' in text
