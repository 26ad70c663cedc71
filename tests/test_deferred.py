"""What `make test` leaves out is there, and its list does not outlive it."""

import ast
from pathlib import Path

import pytest
from deferred import DEFERRED, WAITING, reason
from offenders import each

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[1]


def names_of_tests(path):
    """The names of the test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in ast.walk(tree) if isinstance(node, functions)]


@each("deferred", DEFERRED, shown=lambda deferred: deferred.tests)
def test_what_is_listed_is_a_test(deferred):
    path, _, test = deferred.tests.partition("::")
    assert (ROOT / path).exists()
    begin = test.partition("[")[0]
    assert any(name.startswith(begin or "test_") for name in names_of_tests(ROOT / path))
    assert deferred.seconds > 0
    assert deferred.why


@each("path", WAITING)
def test_what_waits_is_there(path):
    assert (ROOT / path).exists()


def test_a_repetition_on_trio_is_left_out_where_nothing_waits():
    assert reason("tests/core/test_x.py::test_y[trio]", on_trio=True)
    assert not reason("tests/core/test_x.py::test_y[asyncio]", on_trio=False)
    assert not reason("tests/net/test_tls.py::test_y[trio]", on_trio=True)


def test_a_sample_stays():
    name = "tests/tutorial/test_reading.py::test_what_the_text_shows_is_what_happens_[{}-a]"
    assert reason(name.format("06"), on_trio=False)
    assert not reason(name.format("01"), on_trio=False)


@pytest.mark.parametrize("case", ["asyncio-TLS", "trio-TLS"])
def test_over_tls_bytes_are_cut_and_requests_are_not_judged(case):
    is_trio = case.startswith("trio")
    box = "tests/test_black_box.py::"
    assert reason(f"{box}test_commit_settles_everything_below[{case}]", on_trio=is_trio)
    assert bool(reason(f"{box}test_frame_may_be_split_[{case}]", on_trio=is_trio)) is is_trio
