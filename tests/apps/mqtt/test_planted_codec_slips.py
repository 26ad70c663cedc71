"""Do the tests of MQTT's codec find anything? Bugs are planted, and each must be found."""

import pytest
from planted_codec_slips import CODEC_SLIPS
from sampling import sampled

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = ["a field that is cut off is read from the next packet"]
BY_NAME = {slip.name: slip for slip in CODEC_SLIPS}


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught_by_its_test(name, tmp_path):
    code, output = BY_NAME[name].find(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED, output
