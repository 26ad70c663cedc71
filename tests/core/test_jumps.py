"""Jumps of the clock: time that has not passed makes nothing older."""

from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.jumps import least_kept_us, not_passed_us

JUMPS = [(1_000, 500), (2_000, 300)]


def test_time_that_was_jumped_over_has_not_passed():
    times = (400, 999, 1_000, 1_699, 1_999, 2_000, 9_000)
    assert [not_passed_us(JUMPS, at_us) for at_us in times] == [800, 800, 300, 300, 300, 0, 0]
    assert not_passed_us([], 5) == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=4), st.data())
def test_what_is_as_old_as_the_limit_is_the_same_by_both_rules(gaps, data):
    """Whatever was stored, its age is what has passed, and the limit tells the same."""
    jumps, stored, now_us = [], [], 0
    for run_us, by_us in gaps:
        stored += range(now_us, now_us + run_us + 1)
        now_us += run_us + by_us
        jumps.append((now_us, by_us))
    stored += range(now_us, now_us + 20)
    now_us += 20
    ttl_us = data.draw(st.integers(0, 200))
    limit_us = least_kept_us(jumps, now_us - ttl_us)
    for at_us in stored:
        age_us = now_us - at_us - not_passed_us(jumps, at_us)
        assert (at_us <= limit_us) == (age_us >= ttl_us)
