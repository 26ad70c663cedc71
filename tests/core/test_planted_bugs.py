"""Do the tests find anything? Bugs are planted, one at a time, and each must be found.

Those of the core by the model, which knows nothing of them; all others by the test that is named
beside them. In the suite there is a sample; `make soak` plants all.
"""

import re
from pathlib import Path

import pytest
from planted_commit_slips import COMMIT_SLIPS
from planted_durable_slips import DURABLE_SLIPS
from planted_following_slips import FOLLOWING_SLIPS
from planted_http_slips import HTTP_SLIPS
from planted_pattern_slips import PATTERN_SLIPS
from planted_promises import BUGS
from planted_replication_slips import REPLICATION_SLIPS
from planted_shared_slips import SHARED_SLIPS
from planted_slips import SLIPS
from sampling import sampled
from test_model import run_model

pytestmark = pytest.mark.usefixtures("patchable")

SAMPLE = [
    "messages_without_a_key_are_compacted",
    "one_message_too_many_is_evicted",
    "the_second_creator_replaces_the_topic",
    "a_commit_of_nothing_grants_a_message",
    "lag_is_swallowed",
    "until_is_inclusive",
    "a_retry_is_stored_twice",
    "bytes_are_evicted_from_a_lossless_topic",
    "only_readers_that_are_there_are_waited_for",
    "a_commit_does_not_move_the_position",
    "a_takeover_leaves_the_old_one_reading",
]
SAMPLE_OF_SLIPS = [
    "not all bytes that expire are given back",
    "bytes give a frame more time",
    "the longest frame is refused",
    "windows are not taken back",
    "no checksum begins with the salt",
    "a frame has records that the user may not read",
    "a close in good order is a loss",
]
ALL_SLIPS = [
    *SLIPS,
    *DURABLE_SLIPS,
    *FOLLOWING_SLIPS,
    *PATTERN_SLIPS,
    *SHARED_SLIPS,
    *COMMIT_SLIPS,
    *REPLICATION_SLIPS,
    *HTTP_SLIPS,
]
PAGE = Path(__file__).parents[2] / "docs" / "run" / "reliability.md"


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", sampled(BUGS, SAMPLE, rest=pytest.mark.soak))
def test_every_planted_bug_is_caught_by_the_model(name, monkeypatch):
    BUGS[name](monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_model(60)  # the best hidden needs 12 of them


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "name", sampled([slip.name for slip in ALL_SLIPS], SAMPLE_OF_SLIPS, rest=pytest.mark.soak)
)
def test_every_slip_is_caught_by_its_test(name, tmp_path):
    (slip,) = (slip for slip in ALL_SLIPS if slip.name == name)
    code, output = slip.find(tmp_path)
    assert code == pytest.ExitCode.TESTS_FAILED, output


def test_the_document_says_how_many():
    told = (
        r"(\d+) bugs are planted one at a time: (\d+) in the core,[^.]+, and (\d+) that a "
        r"named\s+test catches"
    )
    found = re.search(told, PAGE.read_text(encoding="utf-8"))
    counts = len(BUGS), len(ALL_SLIPS)
    assert [int(number) for number in found.groups()] == [sum(counts), *counts]
