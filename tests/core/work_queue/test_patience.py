"""The time that counts for time-outs: at most two seconds between two sweeps (SHR-4)."""

from zaichik.core.work_queue.patience import Patience

SECOND = 1_000_000


def test_time_counts_in_full_while_the_broker_sweeps():
    patience = Patience(5 * SECOND)
    for now in range(6, 16):
        patience.sweep(now * SECOND)
    assert patience.at(15 * SECOND + 7) == 10 * SECOND + 7


def test_of_a_stall_two_seconds_count():
    patience = Patience(0)
    assert patience.at(100 * SECOND) == 2 * SECOND
    patience.sweep(100 * SECOND)
    assert patience.at(100 * SECOND) == 2 * SECOND
    assert patience.at(101 * SECOND) == 3 * SECOND


def test_it_never_goes_back():
    patience = Patience(0)
    before = 0
    for now in (1, 2, 500, 501, 502, 900):
        counted = patience.at(now * SECOND)
        assert counted >= before
        patience.sweep(now * SECOND)
        assert patience.at(now * SECOND) == counted
        before = counted


def test_a_clock_that_is_advanced_counts_in_full():
    patience = Patience(0)
    patience.advance(100 * SECOND)
    assert patience.at(100 * SECOND) == 100 * SECOND
