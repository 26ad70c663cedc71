"""Do these tests find anything? Bugs are planted, one at a time, and each must be found."""

import inspect

import pytest
import test_durable_table
import test_loading
import test_rewriting
import test_table_log
from planted_cleaning_slips import CLEANING_SLIPS
from sampling import sampled
from table_cuts import small_steps
from test_table_cuts import cut_at_every_call, random_lives

from zaichik.storage.cleaning.rewriting import CannotRewrite

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = [
    "the files that were replaced are not known to be left over",
    "tombstones go before what they delete",
    "what has expired is superseded once more",
]
BY_NAME = {slip.name: slip for slip in CLEANING_SLIPS}
FILES = [test_durable_table, test_loading, test_rewriting, test_table_log]


def run_all(monkeypatch):
    """Run the tests that need nothing, and then the power cuts; raises what they find."""
    for file in FILES:
        for name, test in vars(file).items():
            if name.startswith("test_") and callable(test):
                run(file, test, monkeypatch)
    small_steps(monkeypatch)
    for seed in range(4):
        cut_at_every_call(seed, first=2, second=1, every=3)
        for number in range(10):
            random_lives(f"{seed} {number}")


def run(file, test, monkeypatch):
    """Run a test, with each number if it has a seed."""
    parameters = set(inspect.signature(test).parameters)
    with monkeypatch.context() as patches:
        if file is test_table_log:
            inspect.unwrap(vars(test_table_log)["_often"])(patches)
        known = {"monkeypatch": patches} if "monkeypatch" in parameters else {}
        if "seed" in parameters:
            for seed in range(10):
                test(seed=seed, **known)
        else:
            test(**known)


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught(name, monkeypatch):
    """DUR-10."""
    slip = BY_NAME[name]
    with monkeypatch.context() as patches:
        slip.plant(patches)
        with pytest.raises((AssertionError, LookupError, ValueError, CannotRewrite)):
            run_all(patches)


def test_without_a_bug_nothing_is_found(monkeypatch):
    run_all(monkeypatch)
