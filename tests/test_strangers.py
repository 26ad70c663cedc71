"""What `make test-strangers` runs is there."""

import ast
from pathlib import Path

import pytest
from offenders import each
from strangers import STRANGERS, needed

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[1]


@each("beginning", STRANGERS)
def test_what_is_listed_is_a_test(beginning):
    path, _, test = beginning.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = [node.name for node in ast.walk(tree) if isinstance(node, functions)]
    assert any(name.startswith(test or "test_") for name in names)


def test_a_test_is_found_by_its_file_or_by_its_own_name_also_in_a_class():
    assert needed("tests/chaos/test_system_calls.py::test_x[1]")
    container = "test_sigterm_ends_the_first_process_of_a_container"
    assert needed(f"tests/cli/test_interrupts.py::TestX::{container}")
    assert not needed("tests/cli/test_interrupts.py::TestX::test_y")


def test_they_are_marked_and_no_others(request):
    items = request.session.items
    marked = [item.nodeid for item in items if item.get_closest_marker("stranger")]
    assert marked == [item.nodeid for item in items if needed(item.nodeid)]
