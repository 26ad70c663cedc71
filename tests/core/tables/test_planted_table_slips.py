"""Does the naive table find anything? Bugs are planted, one at a time, and each must be found."""

import pytest
from planted_table_slips import TABLE_SLIPS
from sampling import sampled
from test_table_model import run_tables

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = [
    "within a batch the first message of a key wins",
    "dead rows stay",
    "holes are told as lag",
    "deletions are told again and again",
]
BY_NAME = {slip.name: slip for slip in TABLE_SLIPS}


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught_by_the_naive_table(name, monkeypatch):
    BY_NAME[name].plant(monkeypatch)
    with pytest.raises((AssertionError, LookupError)):
        run_tables(monkeypatch, 30)
