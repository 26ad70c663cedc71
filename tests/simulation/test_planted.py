"""Does the simulation find anything?

Bugs are planted into the real broker, and into our client, one at a time, and it must find each. In
the suite there is a sample; `make test-long` plants the others.
"""

import re
from pathlib import Path

import pytest
from sampling import sampled

from simulation import (
    planted_bugs,
    planted_client_bugs,
    planted_disk_bugs,
    planted_share_bugs,
)
from simulation.scenario import has_crew, has_machine, has_our_client, run

pytestmark = [
    pytest.mark.unmeasured,  # a broker, or a client, with a bug
    pytest.mark.usefixtures("patchable"),
]

# Seed 0 finds most bugs; the next ones find what few others do, as of today; then come the rest.
SEEDS = list(dict.fromkeys([0, 10, 2, 3, 5, 6, 68, 32, *range(30)]))  # as in `test_simulation`
DISK_BUGS = {  # and what comes first here finds that bug, as of today
    "what_is_written_is_answered_before_it_is_synced": 174,
    "a_torn_end_is_not_cut_off": 394,
    "that_all_was_compacted_is_answered_before_what_kept_it_out_is_synced": 24,
    "offsets_that_found_no_room_are_not_given_back": 54,
    "positions_that_found_no_room_count_as_written": 314,
    "a_stop_does_not_wait_for_what_was_committed": 1224,
    "after_a_restart_what_comes_again_is_not_marked": 174,
    "after_a_restart_new_messages_are_marked_too": 224,
    "a_restart_changes_epochs": 174,
    "a_restart_closes_all_windows": 104,
    "a_restart_opens_all_windows_anew": 24,
    "a_restart_forgets_answers": 54,
    "a_restart_forgets_producers": 54,
    "our_client_takes_a_new_boot_for_a_new_epoch": 174,
    "a_restart_forgets_the_dead": 84,
    "after_a_restart_what_comes_again_to_a_worker_is_not_marked": 164,
    "a_shared_name_is_written_once": 84,
    "what_has_changed_of_names_and_found_no_room_counts_as_written": 1204,
}
SAMPLE = [
    "what_is_evicted_is_counted_twice",
    "a_wake_up_is_lost",
    "lag_is_swallowed",
    "every_commit_leaks_credit",
    "a_retry_is_stored_again",
    "a_position_is_forgotten_with_its_connection",
]
SAMPLE_OF_CLIENT_BUGS = ["what_is_sent_again_gets_a_new_number"]
SAMPLE_OF_SHARE_BUGS = ["what_is_done_comes_again"]
SAMPLE_OF_DISK_BUGS = [
    "what_is_written_is_answered_before_it_is_synced",
    "a_restart_forgets_producers",
    "a_shared_name_is_written_once",
]
WITH_MACHINE = list(filter(has_machine, range(600)))
WITH_CREW = list(filter(has_crew, range(200)))
WITH_OUR_CLIENT = list(filter(has_our_client, dict.fromkeys([9, 19, 29, 49, 44, *range(100)])))


def assert_caught(bug, seeds, monkeypatch):
    plant, promises = bug
    plant(monkeypatch)
    outcome = next(filter(lambda outcome: outcome.anomaly, map(run, seeds)), None)
    assert outcome is not None, "no seed shows anything"
    assert outcome.anomaly.promise in promises, outcome.report()


@pytest.mark.parametrize("name", sampled(planted_bugs.BUGS, SAMPLE))
def test_every_planted_bug_is_caught_and_named(name, monkeypatch):
    assert_caught(planted_bugs.BUGS[name], SEEDS, monkeypatch)


@pytest.mark.parametrize("name", sampled(planted_client_bugs.BUGS, SAMPLE_OF_CLIENT_BUGS))
def test_every_bug_planted_into_our_client_is_caught_and_named(name, monkeypatch):
    assert_caught(planted_client_bugs.BUGS[name], WITH_OUR_CLIENT, monkeypatch)


@pytest.mark.parametrize("name", sampled(planted_share_bugs.BUGS, SAMPLE_OF_SHARE_BUGS))
def test_every_bug_planted_into_shared_names_is_caught_and_named(name, monkeypatch):
    assert_caught(planted_share_bugs.BUGS[name], WITH_CREW, monkeypatch)


@pytest.mark.parametrize("name", sampled(planted_disk_bugs.BUGS, SAMPLE_OF_DISK_BUGS))
def test_every_bug_planted_into_what_outlives_a_restart_is_caught_and_named(name, monkeypatch):
    assert_caught(planted_disk_bugs.BUGS[name], [DISK_BUGS[name], *WITH_MACHINE], monkeypatch)


def test_the_document_says_how_many():
    page = Path(__file__).parents[2] / "docs" / "run" / "reliability.md"
    told = (
        r"(\d+) bugs are planted in the broker, (\d+) in the client, (\d+) in the code for "
        r"durable\s+topics and (\d+) in that for shared names"
    )
    found = re.search(told, page.read_text(encoding="utf-8"))
    tables = (
        planted_bugs.BUGS,
        planted_client_bugs.BUGS,
        planted_disk_bugs.BUGS,
        planted_share_bugs.BUGS,
    )
    assert [int(number) for number in found.groups()] == [*map(len, tables)]
