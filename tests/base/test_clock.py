"""The clocks."""

import time

import pytest

from zaichik.base.clock import ManualClock, SystemClock, stopwatch_us


def test_system_clock_returns_microseconds_since_1970():
    before = time.time_ns() // 1000
    now = SystemClock().now_us()
    assert abs(now - before) < 60_000_000
    assert isinstance(now, int)


def test_setting_the_machines_clock_changes_nothing(monkeypatch):
    """RET-8: times never decrease."""
    clock = SystemClock()
    before = clock.now_us()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert before <= clock.now_us() < before + 60_000_000


@pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that counts its sleep"
)
def test_time_passes_while_a_laptop_sleeps(monkeypatch):
    """RET-8: where it did not, `start=datetime` would be wrong ever after."""
    hour_ns = 3_600 * 10**9
    boottime_ns, monotonic_ns = time.clock_gettime_ns, time.monotonic_ns()
    clock = SystemClock()
    before = clock.now_us()
    monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic_ns)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda which: boottime_ns(which) + hour_ns)
    assert 3_600_000_000 <= clock.now_us() - before < 3_660_000_000


def test_system_clock_never_decreases():
    clock = SystemClock()
    readings = [clock.now_us() for _ in range(10_000)]
    assert readings == sorted(readings)


def test_manual_clock_moves_only_when_told():
    clock = ManualClock(5)
    assert (clock.now_us(), clock.now_us()) == (5, 5)
    clock.advance(0.000_001)
    assert clock.now_us() == 6
    clock.advance(1.5)
    assert clock.now_us() == 1_500_006
    clock.move_to(1_500_006)
    clock.move_to(2_000_000)
    assert clock.now_us() == 2_000_000


def test_manual_clock_does_not_go_back():
    clock = ManualClock(10)
    with pytest.raises(ValueError, match="cannot go back to 9"):
        clock.move_to(9)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)
    assert clock.now_us() == 10


def test_the_stopwatch_counts_microseconds():
    before_us, before_ns = stopwatch_us(), time.perf_counter_ns()
    while time.perf_counter_ns() - before_ns < 1_000_000:
        pass
    assert 1_000 <= stopwatch_us() - before_us < 60_000_000
