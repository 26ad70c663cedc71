"""Do the tests of MQTT's gateway find anything? Bugs are planted, and each must be found."""

import pytest
from planted_gateway_slips import GATEWAY_SLIPS
from sampling import sampled

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = ["an identifier in flight is given out again"]
BY_NAME = {slip.name: slip for slip in GATEWAY_SLIPS}


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught_by_its_test(name, tmp_path):
    code, output = BY_NAME[name].find(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED, output
