"""Every code that anyone can be shown has a section, and what the sections name is there."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TypeVar

from offenders import each

import zaichik
from zaichik.cli.errors.codes import SECTIONS, find, nearest
from zaichik.cli.errors.section import CLIENT, camel
from zaichik.client.errors import BrokerError, Explained
from zaichik_protocol import EndCode, ErrorCode, GoAwayCode

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "use" / "errors.md"
WIRE = [*ErrorCode, *EndCode, *GoAwayCode]
# Never raised themselves, but for codes of a later broker.
ABSTRACT = {"ZaichikError", "BrokerError"}
by_name = each("section", SECTIONS, shown=lambda section: f"{section.frame}-{section.name}")


Kind = TypeVar("Kind", bound=ast.AST)


@cache
def trees() -> list[ast.Module]:
    """The package's sources, which are read and not imported: some need Spark."""
    return [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "zaichik").rglob("*.py"))
    ]


def nodes(kind: type[Kind], tree: ast.Module) -> list[Kind]:
    """All nodes of that kind in a module."""
    return [node for node in ast.walk(tree) if isinstance(node, kind)]


@cache
def explained_classes() -> set[str]:
    """The names of all classes that derive from `Explained`, at whatever distance.

    A base is the class of that name in the same module, if there is one: two modules may each have
    a `Malformed`. A class that says itself that its name is a code of the wire is explained there.
    """
    bases = {
        (number, node.name): {getattr(base, "id", "") for base in node.bases}
        for number, tree in enumerate(trees())
        for node in nodes(ast.ClassDef, tree)
    }
    found: set[tuple[int, str]] = set()

    def derives(number: int, base: str) -> bool:
        if (number, base) in bases:
            return base == "Explained" or (number, base) in found
        return base == "Explained" or any(name == base for _, name in found)

    def more() -> set[tuple[int, str]]:
        return {
            (number, name)
            for (number, name), parents in bases.items()
            if any(derives(number, base) for base in parents)
        } - found

    while added := more():
        found |= added
    return {name for _, name in found - _named_as_on_the_wire()}


@cache
def _named_as_on_the_wire() -> set[tuple[int, str]]:
    """The classes with a line such as `name = "TOPIC_FULL"`."""
    codes = {code.name for code in ErrorCode}
    return {
        (number, node.name)
        for number, tree in enumerate(trees())
        for node in nodes(ast.ClassDef, tree)
        for line in node.body
        if isinstance(line, ast.Assign)
        and ast.unparse(line.targets[0]) == "name"
        and ast.literal_eval(line.value) in codes
    }


def name_of_class(name: str) -> str:
    """The code with which its messages end."""
    return type(name, (Explained,), {}).name


@each("code", WIRE, shown=lambda code: f"{type(code).__name__}-{code.name}")
def test_every_code_of_the_wire_has_one_section(code):
    assert [section.code is code for section in SECTIONS].count(True) == 1


def test_every_error_of_the_client_has_one_section():
    """A new exception needs a section in zaichik/cli/errors/sections/, and one that is gone takes
    its section with it.
    """
    expected = {name_of_class(name) for name in explained_classes() - ABSTRACT} - {
        code.name for code in ErrorCode
    }
    sections = [section.name for section in SECTIONS if section.frame == CLIENT]
    assert sorted(sections) == sorted(expected)


def test_the_errors_that_the_reader_finds_are_those_there_are():
    """Else the test above would compare nothing."""
    assert {
        "TopicFull",
        "ConnectFailed",
        "NotAnAddress",
        "CannotRecord",
        "BadOption",
    } <= explained_classes()


def test_no_error_is_raised_without_a_code():
    assert not [
        call.lineno
        for tree in trees()
        for call in nodes(ast.Call, tree)
        if getattr(call.func, "id", "") in ABSTRACT | {"Explained"}
    ]


@by_name
def test_a_section_says_everything(section):
    assert 10 <= len(section.title) <= 50
    assert section.what.endswith(".")
    assert section.why.endswith(".")
    assert section.then.endswith(".")
    assert section.rules or section.page
    assert section.rules or section.frame == CLIENT


@by_name
def test_its_rules_are_rules(section):
    rules = (ROOT / "docs" / "understand" / "semantics.md").read_text(encoding="utf-8")
    for rule in section.rules.split():
        assert f"- **{rule}** " in rules or f"\n## {rule}: " in rules


@by_name
def test_its_chapter_is_written(section):
    assert section.chapter is None or section.chapter.text.exists()


@each(
    "section", [section for section in SECTIONS if section.frame != CLIENT], shown=lambda s: s.name
)
def test_its_exception_is_public(section):
    for name in re.findall(r"zaichik\.(\w+)", section.kind):
        assert name in zaichik.__all__
    if isinstance(section.code, ErrorCode):
        assert getattr(zaichik, camel(section.name)) is BrokerError._types[section.code]


@by_name
def test_a_code_is_found_by_its_name_however_it_is_written(section):
    name = section.name
    for written in (name, name.lower(), f"[{name}]", name.replace("_", "-"), camel(name)):
        assert section in find(written)


def test_a_code_is_found_by_its_number():
    assert [section.code for section in find("77")] == [ErrorCode.TOPIC_FULL]
    assert [section.code for section in find("4")] == [
        ErrorCode.UNSUPPORTED_VERSION, EndCode.DELETED, GoAwayCode.CREDENTIALS_ENDED,
    ]  # fmt: skip


def test_a_name_that_stands_for_two_codes_finds_both():
    assert {section.code for section in find("TAKEN_OVER")} == {
        ErrorCode.TAKEN_OVER,
        EndCode.TAKEN_OVER,
    }


def test_no_code_is_found_by_what_is_none():
    for text in ("", "_", "TOPIC", "orders", "999", "-1", "7.7", "7" * 5000, "\u0667\u0667"):
        assert find(text) == []


def test_the_nearest_codes_are_proposed():
    assert nearest("TOPICFUL")[0] == "TOPIC_FULL"
    assert nearest("87") == ["NO_SUCH_NAME", "TABLE_FULL", "DAMAGED"]
    assert nearest("orders-of-the-year") == []


def test_the_page_is_what_the_table_says():
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", str(PAGE)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"run `make docs`\n{result.stdout}{result.stderr}"
