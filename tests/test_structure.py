"""The project's shape, as promises: layers, sizes, packaging."""

import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from code_lines import code_lines, functions
from density import density

from zaichik.base.build import is_compiled

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
PROTOCOL = ROOT / "protocol" / "zaichik_protocol"


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def test_functions_stay_small():
    """There is no limit for files: a line that packs two thoughts is worse than two lines."""
    paths = files(PROTOCOL) + files(ROOT / "zaichik")
    found = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for path in paths
        for name, lines in functions(path)
        if lines > 50
    ]
    assert found == []


def test_the_one_file_broker_stays_small():
    assert len(code_lines(ROOT / "tutorial" / "tiny_broker.py")) <= 250


def test_the_one_file_log_stays_small():
    assert len(code_lines(ROOT / "tutorial" / "tiny_log.py")) <= 120


LINES_A_MINUTE = 30  # how fast code is read, in this project's documents


def minutes(paths: list[Path]) -> float:
    """Returns how long it takes to read these files."""
    return sum(len(code_lines(path)) for path in paths) / LINES_A_MINUTE


def test_the_core_is_read_in_an_afternoon():
    """The README says so. If that is no longer so, change the README; don't pack lines."""
    assert minutes(sorted((ROOT / "zaichik" / "core").glob("*.py"))) <= 120


# A fifth more than there was when each was set. Growing beyond it is a decision, to be made here
# and to be said in the commit; packing lines gains nothing, as tokens are counted.
MOST_CORE_TOKENS = 41_400  # without what only some topics need
MOST_TOKENS = {"tables": 12_000, "following": 2_700, "work_queue": 11_000, "shared_names": 8_600}


def test_the_core_is_within_its_budget():
    core = ROOT / "zaichik" / "core"
    left = set(files(core))
    for name, most in MOST_TOKENS.items():
        room = files(core / name)
        assert density(room).tokens <= most, name
        left -= set(room)
    assert density(sorted(left)).tokens <= MOST_CORE_TOKENS


# What well-kept asynchronous libraries of Python have; see tests/density.py.
TOKENS, TOKENS_90_PERCENT, CONDITIONALS = 9.3, 17, 1.2


@pytest.mark.parametrize("folder", ["core", "server", "client", "storage"])
def test_the_code_can_breathe(folder):
    found = density(files(ROOT / "zaichik" / folder))
    assert found.mean <= TOKENS
    assert found.ninetieth <= TOKENS_90_PERCENT
    assert found.conditionals <= CONDITIONALS


def test_the_reading_order_has_true_minutes():
    page = ROOT / "docs" / "understand" / "reading.md"
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| .+ \| \[`[^`]+`\]\(([^)]+)\) \|$", text, re.MULTILINE)
    assert len(rows) == 10
    told = {name.removeprefix("../../"): int(number) for number, name in rows}
    true = {name: round(minutes([ROOT / name])) for name in told}
    wrong = {name for name in told if abs(told[name] - true[name]) > max(1, true[name] / 4)}
    assert {name: true[name] for name in wrong} == {}
    assert 60 <= sum(true.values()) <= 80  # an hour and a quarter


def test_the_readme_is_short():
    """One picture, one program, and ways on: what else there is to say has a page of its own."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 900
    assert len(re.findall(r"!\[", text)) == 1
    assert len(re.findall(r"```python", text)) == 1
    for page in ("use/archive", "use/bridge", "run/cluster"):
        assert f"(docs/{page}.md)" in text


def test_the_line_counter_counts_code_only(tmp_path):
    source = tmp_path / "sample.py"
    docstring, comment, literal = (
        '"""Doc.\n\nMore.\n"""\n',
        "\n# comment\n",
        'x = """a\nb"""  # two lines\n',
    )
    function = 'def f():\n    "doc"\n    return (\n        1\n    )\n'
    source.write_text(
        f"{docstring}{comment}{literal}\n\n{function}from a import (\n    b,\n    c,\n)\n"
    )
    assert sorted(code_lines(source)) == [7, 8, 11, 13, 14, 15, 16]
    assert functions(source) == [("f", 4)]


def test_a_wheel_holds_the_two_packages_and_nothing_else(tmp_path):
    subprocess.run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(tmp_path),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        refused = archive.read("zaichik/learn/invalid.json")
    assert {name.partition("/")[0] for name in names} == {
        "zaichik",
        "zaichik_protocol",
        f"zaichik-{VERSION}.data",
        f"zaichik-{VERSION}.dist-info",
    }
    assert {"zaichik/py.typed", "zaichik_protocol/py.typed"} <= set(names)
    assert (
        refused == (PROTOCOL.parent / "vectors" / "invalid.json").read_bytes()
    )  # `zaichik learn` sends them


def test_every_dependency_has_its_reason_in_the_readme_and_those_of_development_where_it_points():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_development = ("test", "dev", "bench", "release", "site")
    optional = [item for name in extras if name not in of_development for item in extras[name]]
    used = {
        "README.md": [*project["dependencies"], *optional],
        "CONTRIBUTING.md": [item for name in of_development for item in extras[name]],
    }
    for page, requirements in used.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for requirement in requirements:
            name = requirement.partition(">")[0].partition("[")[0].strip()
            assert name == "zaichik" or re.search(rf"`{name}(\[\w+\])?`", text), name
    assert "(CONTRIBUTING.md#packages-for-development)" in (ROOT / "README.md").read_text(
        encoding="utf-8"
    )


DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "README.ru.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "protocol").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def broken_links(path):
    """Returns the links of a document that lead nowhere."""
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"{path.relative_to(ROOT)}: {target}"
        elif anchor and anchor not in anchors(file):
            yield f"{path.relative_to(ROOT)}: {target} has no such heading"


@cache
def anchors(file):
    """Returns the anchors of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere():
    assert [broken for path in DOCUMENTS for broken in broken_links(path)] == []


# Names modules as they were before they moved.
OLD_NAMES = {"CHANGELOG.md"}
# Commands, pages, programs within tests: what may hold a program as text.
TEXTS = ["*.py", "*.md", "*.yml", "Makefile", "Dockerfile", ".ci/run"]


def imports_named():
    """Yields the file and the module of each import of ours in a text, also of those in quotes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *TEXTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.split("\0"):
        if name and name not in OLD_NAMES:
            text = (ROOT / name).read_text(encoding="utf-8")
            # An import may name several modules, each with another name.
            for modules, java in re.findall(r"\b(?:from|import) ([\w., ]+)(\*;)?", text):
                # No import of Python ends like this, and Java's are of other packages.
                if java:
                    continue
                for module in re.findall(r"\bzaichik(?:_protocol)?(?:\.\w+)*", modules):
                    yield name, module


@pytest.mark.skipif(is_compiled(), reason="the compiled tree has not all files of the clone")
def test_every_module_that_a_text_imports_is_there():
    """Also where no linter looks: a command of the Makefile, a program within a test."""
    named = set(imports_named())
    assert ("Makefile", "zaichik.apps.spark.session") in named
    assert ("tests/apps/demo/test_departures.py", "zaichik.demo.departures") in named
    offenders = []
    for name, module in sorted(named):
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            offenders.append(f"{name}: {module}")
    assert not offenders, "\n".join(offenders)


def test_the_index_of_the_documents_names_every_page_in_one_row():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \| .+[.?] \|$", index, re.MULTILINE)
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md")} - {"README.md"}
    assert sorted(name for name in rows if not name.startswith("../")) == sorted(pages)


def test_the_tables_of_the_architecture_are_those_of_the_code():
    page = "docs/understand/architecture.md"
    done = subprocess.run(
        [sys.executable, "-m", "cogapp", "--check", "--diff", page],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"run `make docs`\n{done.stdout}{done.stderr}"


def test_every_rule_is_named_by_a_test():
    rules = (ROOT / "docs" / "understand" / "semantics.md").read_text(encoding="utf-8")
    found = re.findall(r"^- \*\*([A-Z]+-\d+)\*\* (\*\(later\)\*)?", rules, re.MULTILINE)
    built = {rule for rule, later in found if not later}
    assert len(built) > 30
    tests = "".join(path.read_text(encoding="utf-8") for path in files(ROOT / "tests"))
    named = set(re.findall(r"[A-Z]{2,3}-\d+", tests))
    for first, last in re.findall(r"([A-Z]{2,3}-\d+) to (?:[A-Z]{2,3}-)?(\d+)", tests):
        prefix, _, number = first.partition("-")
        named |= {f"{prefix}-{n}" for n in range(int(number), int(last) + 1)}
    assert built - named == set()


def test_no_mark_is_forgotten_where_tests_are_chosen():
    """What the suite leaves out, what counts for coverage, what runs on other Pythons, compiled."""
    *_, suite = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "pytest"
    ]["ini_options"]["addopts"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    suite = suite.removeprefix(
        "not deferred and "
    )  # coverage counts those, and all others run them
    assert f"MEASURED := not unmeasured and not hypothesis and {suite}\n" in makefile
    assert suite.startswith("not long and ")
    assert f"LONG := (long or deferred) and {suite.removeprefix('not long and ')}\n" in makefile
    for name in ("compiled.py", "pythons.py"):
        text = (ROOT / "tests" / name).read_text(encoding="utf-8")
        assert f'MARKED = "{suite.removeprefix("not long and ")}"' in text
