"""Do the tests of the gateway find anything? Bugs are planted, one at a time."""

import pytest
from planted_kafka_slips import KAFKA_SLIPS
from sampling import sampled

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("patchable")]

SAMPLE = [
    "only the last batch is remembered",
    "a zero byte in a group's name splits its key",
    "a gap in the middle sends the consumer to the head, for ever",
    "checksums are not looked at",
    "lengths are taken at their word",
]
BY_NAME = {slip.name: slip for slip in KAFKA_SLIPS}


@pytest.mark.parametrize("name", sampled(BY_NAME, SAMPLE, rest=pytest.mark.long))
def test_every_planted_bug_is_caught_by_the_test_that_it_names(name, monkeypatch, caplog, tmp_path):
    slip = BY_NAME[name]
    slip.plant(monkeypatch)
    fixtures = {"monkeypatch": monkeypatch, "caplog": caplog, "tmp_path": tmp_path}
    with pytest.raises((Exception, pytest.fail.Exception)):
        slip.run_test(fixtures)


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_without_the_bug_the_test_passes(name, monkeypatch, caplog, tmp_path):
    fixtures = {"monkeypatch": monkeypatch, "caplog": caplog, "tmp_path": tmp_path}
    BY_NAME[name].run_test(fixtures)
