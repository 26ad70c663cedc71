"""A part of the time, and no more: microseconds in, microseconds out."""

import pytest

from zaichik.fair_share import FairShare

NOW = 10**12


def test_what_is_saved_up_costs_no_rest():
    share = FairShare(0.1, saved_us=100, longest_us=10**6)
    assert share.rest_us(60, NOW) == 0
    assert share.rest_us(40, NOW + 40) == pytest.approx(0)
    assert share.rest_us(20, NOW + 60) == pytest.approx(80)


def test_in_the_long_run_it_is_that_part_of_the_time():
    share, now_us, used_us = FairShare(0.1, saved_us=100, longest_us=10**6), NOW, 0
    for use_us in [7, 30, 1] * 1000:
        now_us += use_us
        used_us += use_us
        now_us += share.rest_us(use_us, now_us)
    assert (used_us - 100) / (now_us - NOW) == pytest.approx(0.1, rel=0.01)


def test_no_more_is_saved_than_may_be():
    share = FairShare(0.5, saved_us=100, longest_us=10**6)
    assert share.rest_us(100, NOW) == 0
    assert share.rest_us(210, NOW + 10**9) == pytest.approx(10)


def test_what_a_longest_rest_does_not_pay_for_is_forgotten():
    share = FairShare(0.1, saved_us=0, longest_us=1000)
    assert share.rest_us(10**9, NOW) == 1000
    assert share.rest_us(1, NOW + 1001) == pytest.approx(10, abs=1)
