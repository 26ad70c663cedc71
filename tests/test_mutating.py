"""Edits of the core are found by syntax, have ids that last, and are tried unwritten."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from mutating import Chosen, Reach, Task, equivalent, functions_of, replace_code, shown
from mutations import CHOSEN, CORE, ROOT, Function, mutants, mutants_of, sample, within

pytestmark = pytest.mark.unmeasured


def edits(text):
    """The ids of the edits of a module, without its name, and the line that each changes."""
    text = dedent(text)
    found = {}
    for mutant in mutants_of(Path("one.py"), "one", text):
        before, after = text.splitlines(), mutant.edited(text).splitlines()
        changed = [line.strip() for line in after if line not in before]
        found[mutant.id.removeprefix("one:")] = " ".join(changed)
    return found


# -- which edits there are -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a < b <= c", {"< to <=": "(a <= b <= c)", "<= to <": "(a < b < c)"}),
        ("a == b", {"== to !=": "(a != b)"}),
        ("a is b", {"is to is not": "(a is not b)"}),
        ("a not in b", {"not in to in": "(a in b)"}),
        ("a - b * c", {"- to +": "((a) + (b * c))", "* to //": "a - ((b) // (c))"}),
        ("a and b", {"and to or": "((a) or (b))"}),
        ("not a", {"not dropped": "(a)"}),
        ("min(a, b)", {"min to max": "max(a, b)"}),
        ("a + 1", {"+ to -": "((a) - (1))", "1 to 2": "a + 2", "1 to 0": "a + 0"}),
        ("a[:0]", {"0 to 1": "a[:1]", "0 to -1": "a[:(-1)]"}),
        ("call(True)", {"True to False": "call(False)"}),
        ("call('ö')", {"'ö' to 'ö_'": "call('ö_')"}),
        ("b if a else c", {"condition inverted": "b if not (a) else c"}),
        ("[b for b in a if b]", {"condition inverted": "[b for b in a if not (b)]"}),
    ],
)
def test_an_expression_is_edited_in_each_of_its_operators_and_constants(code, expected):
    found = edits(f"def get(a, b, c):\n    return {code}\n")
    by_kind = {name.split(" | ")[1]: line.removeprefix("return ") for name, line in found.items()}
    assert by_kind == expected


def test_calls_and_augmented_assignments_are_deleted():
    text = """
        def get(a):
            call(a)
            a += a
            return a
    """
    assert edits(text) == {
        "get | deleted | call(a)": "pass",
        "get | deleted | a += a": "pass",
        "get | += to -= | a += a": "a -= a",
    }


def test_a_condition_is_inverted_unless_that_is_another_edit_already():
    text = """
        def get(a, b):
            if a:
                return a
            elif not b:
                return b
            elif a is b:
                return a
    """
    assert list(edits(text)) == [
        "get | condition inverted | a",
        "get | not dropped | not b",
        "get | is to is not | a is b",
    ]


def test_constants_of_modules_and_classes_and_defaults_are_edited():
    text = """
        MOST: int = 3

        class Outer:
            least = 1

            def get(self, a=True):
                return a
    """
    assert edits(text) == {
        "MOST | 3 to 4 | MOST: int = 3": "MOST: int = 4",
        "MOST | 3 to 2 | MOST: int = 3": "MOST: int = 2",
        "Outer.least | 1 to 2 | least = 1": "least = 2",
        "Outer.least | 1 to 0 | least = 1": "least = 0",
        "Outer.get | True to False | True": "def get(self, a=False):",
    }


def test_a_chosen_number_is_edited_by_a_magnitude(monkeypatch):
    """One more would be as good, and no document says how many there are."""
    monkeypatch.setattr("mutations.CHOSEN", {"one:MOST", "one:BYTES", "two:LEAST"})
    text = """
        MOST = 3
        BYTES = 4 * 1024
        LEAST = 3
    """
    assert edits(text) == {
        "MOST | ten times | MOST = 3": "MOST = 10 * (3)",
        "MOST | a tenth | MOST = 3": "MOST = max(1, (3) // 10)",
        "BYTES | ten times | BYTES = 4 * 1024": "BYTES = (10 * (4 * 1024))",
        "BYTES | a tenth | BYTES = 4 * 1024": "BYTES = (max(1, (4 * 1024) // 10))",
        "LEAST | 3 to 4 | LEAST = 3": "LEAST = 4",
        "LEAST | 3 to 2 | LEAST = 3": "LEAST = 2",
    }


def test_every_chosen_number_is_still_one():
    edited = {mutant.id.partition(" ")[0] for mutant in mutants() if " | a tenth | " in mutant.id}
    assert sorted(CHOSEN - edited) == []


def test_what_no_test_could_notice_is_left_alone():
    text = '''
        """Text."""
        from typing import TYPE_CHECKING, Literal

        if TYPE_CHECKING:
            from a import b

        Kind = Literal["one"]
        Either = Kind | list[int] | None

        @dataclass(frozen=True)
        class Outer:
            __slots__ = ("one",)

            def get(self, a: "Kind") -> "Kind":
                """Text."""
                assert a, "text"
                raise Refused("all that is wrong", f"{a - 1}")
    '''
    assert edits(text) == {}


# -- ids -----------------------------------------------------------------------------------------


def test_an_id_survives_what_happens_around_its_code():
    before = """
        def get(a, b):
            return call(a + 1, first=b if a > 1 else None)
    """
    after = """
        OTHER = {}


        def get(a, b):
            first = None
            if a > 1:
                first = b
            return call(
                a + 1,  # one more
                first=first,
            )
    """
    assert set(edits(before)) <= set(edits(after))


def test_edits_that_look_alike_are_numbered():
    assert list(edits("def get(a):\n    call(a)\n    call(a)\n")) == [
        "get | deleted | call(a)",
        "get | deleted | call(a) | 2",
    ]


def test_a_sample_stays_when_others_come():
    text = "def get(a):\n" + "".join(f"    call{number}(a)\n" for number in range(20))
    found = list(mutants_of(Path("one.py"), "one", text))
    few = {mutant.id for mutant in sample(found, 5, seed=1)}
    assert few == {mutant.id for mutant in sample(found[::-1], 5, seed=1)}
    assert few != {mutant.id for mutant in sample(found, 5, seed=2)}
    assert few >= {mutant.id for mutant in sample(found[1:], 4, seed=1)}


def test_edits_can_be_those_of_one_module_or_folder():
    modules = {mutant.prefix for mutant in within(mutants(), "report")}
    assert {"report.rows", "report.stored"} < modules
    assert {mutant.prefix for mutant in within(mutants(), "report.rows")} == {"report.rows"}
    assert within(mutants(), "report.row") == []


def test_every_edit_that_is_said_to_change_nothing_is_still_one():
    """An id that is gone has no reason any more; that of its code as it is now may be another."""
    found = {mutant.id for mutant in mutants()}
    assert len(found) > 2000
    assert sorted(set(equivalent()) - found) == []


@pytest.mark.parametrize(
    "line", ["ring:get | < to <= | a < b", " # it changes nothing", "one # two\none # three"]
)
def test_an_edit_is_not_believed_to_change_nothing_without_one_reason(line, tmp_path, monkeypatch):
    path = tmp_path / "equivalent.txt"
    path.write_text(f"# Comment.\n\n{line}\n", encoding="utf-8")
    monkeypatch.setattr("mutating.EQUIVALENT", path)
    with pytest.raises(ValueError, match="no id and reason, or the same id again"):
        equivalent()


# -- trying them ---------------------------------------------------------------------------------


FUNCTIONS = """
    class Outer:
        @property
        def two(self):
            return min(2, 3)

        def get(self, a):
            def inner():
                return a + 1

            return inner()
"""


def test_a_function_gets_the_edited_code_wherever_it_is_referred_to(tmp_path):
    path = tmp_path / "one.py"
    path.write_text(dedent(FUNCTIONS), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("one", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outer, get = module.Outer(), module.Outer().get

    by_kind = {
        mutant.id.split(" | ")[1]: mutant
        for mutant in mutants_of(path, "one", path.read_text(encoding="utf-8"))
    }
    assert by_kind["+ to -"].function == Function("Outer.get", 7)
    replace_code(by_kind["+ to -"], functions_of(tmp_path))
    assert get(5) == 4
    assert outer.two == 2
    replace_code(by_kind["min to max"], functions_of(tmp_path))
    assert outer.two == 3


def test_tests_are_those_that_reach_the_line_and_the_quickest_is_first():
    mutant = next(each for each in mutants() if each.id.startswith("ring:BroadcastRing._evict"))
    file, line = "zaichik/core/ring.py", mutant.lines[0]
    reach = Reach(
        cost_s={"slow": 2.0, "quick": 1.0, "other": 0.5},
        tests={file: {line: {"slow", "quick"}, line + 100: {"other"}}},
    )
    again = Reach()
    again.load(reach.dump())
    assert again.of(mutant) == ["quick", "slow"]
    again.imported = {file: {line}}
    assert again.is_imported(mutant)


class Item:
    def __init__(self, nodeid):
        self.nodeid = nodeid


def test_the_tests_of_an_edit_are_found_though_their_ids_have_the_edited_number():
    items = [Item(name) for name in ("one", "two[4-x]", "two[6-y]", "three[1]", "three[2]")]
    mutant = next(iter(mutants()))
    names = ["three[2]", "two[5-x]", "two[5-y]", "gone"]
    chosen = Chosen(Task(mutant, names), {}, Path("failed")).choose(items)
    assert [item.nodeid for item in chosen] == ["three[2]", "two[4-x]", "two[6-y]"]


def test_what_survives_is_shown_with_its_change_and_the_command_that_tries_it_again():
    mutant = next(each for each in mutants() if "'" in each.id)
    text = shown(Task(mutant, [], why="no test reaches it"))
    assert text.startswith(f"SURVIVED (no test reaches it): {mutant.id}\n--- zaichik/core/")
    assert "\n+" in text
    assert "python tests/mutating.py --only " in text
    assert mutant.path.is_relative_to(CORE)


@pytest.mark.long
def test_a_few_edits_are_noticed_by_the_tests_of_the_core():
    """`make mutants-core` tries many."""
    command = [sys.executable, ROOT / "tests" / "mutating.py", "--near", "--sample", "10"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    # Some of them may be on the list of those that change nothing.
    killed, others = re.search(r"(\d+) of the other (\d+) are killed", result.stdout).groups()
    assert 5 <= int(killed) == int(others)
