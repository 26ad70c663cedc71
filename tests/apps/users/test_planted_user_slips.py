"""Do these tests find anything? Bugs are planted, one at a time, and each must be found."""

import pytest
from planted_user_slips import USER_SLIPS
from sampling import sampled

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = ["guesses cost nothing"]
BY_NAME = {slip.name: slip for slip in USER_SLIPS}


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_slip_is_caught_by_its_test(name, tmp_path):
    code, output = BY_NAME[name].find(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED, output


@pytest.mark.parametrize("slip", USER_SLIPS, ids=lambda slip: slip.name)
def test_every_slip_can_still_be_planted(slip):
    slip.planted()
