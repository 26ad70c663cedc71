"""The machine's clock: what a start knows of how it was set, and what it cannot know."""

import pytest
from made import message
from sim_disk import SimDisk, full

from zaichik.base import clock as module
from zaichik.core.jumps import MOST_JUMPS
from zaichik.storage.clock_file import CLOCK, ClockFile
from zaichik.storage.segment import seal
from zaichik.storage.state import PRODUCER_SILENCE_US, LogState

SECOND = 1_000_000
DAY = 86_400 * SECOND
YEAR = 365 * DAY
NOW_US = 1_700_000_000 * SECOND


class Machine:
    """A machine with a clock that anybody may set."""

    def __init__(self):
        self.wall_us = NOW_US
        self.boots = 1
        self.since_boot_us = 7 * SECOND

    def passes(self, span_us):
        self.wall_us += span_us
        self.since_boot_us += span_us

    def is_off(self, span_us):
        """It is started again, after that time."""
        self.wall_us += span_us
        self.boots += 1
        self.since_boot_us = 3 * SECOND


@pytest.fixture
def machine(monkeypatch, patchable):
    machine = Machine()
    monkeypatch.setattr(module.time, "time_ns", lambda: machine.wall_us * 1000)
    monkeypatch.setattr(module.time, "clock_gettime_ns", lambda _: machine.since_boot_us * 1000)
    monkeypatch.setattr(module, "boot_id", lambda: f"boot {machine.boots}")
    return machine


def start(disk, least_us=0):
    """A start that has found something of that time."""
    file = ClockFile(disk)
    return file, file.start(max(file.time_us, least_us))


def jumps_of(file):
    return [by_us for _, by_us in file.jumps]


def test_time_that_passes_is_no_jump(machine, caplog):
    disk = SimDisk()
    for pause, is_off in ((5 * SECOND, False), (20 * DAY, False), (20 * DAY, True)):
        file, clock = start(disk)
        assert (file.jumps, file.ahead_us) == ([], 0)
        machine.passes(3 * DAY)
        file.check_clock()
        file.save(clock.now_us())
        (machine.is_off if is_off else machine.passes)(pause)
    assert start(disk)[0].jumps == []
    assert caplog.text == ""


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_clock_that_was_set_forward_between_two_starts_is_noticed(machine, caplog, is_orderly):
    """The machine runs on, so that it is known how much time has passed."""
    disk = SimDisk()
    file, clock = start(disk)
    machine.passes(DAY)
    stored_us = clock.now_us()
    if is_orderly:
        file.save(stored_us)
    machine.passes(DAY)
    machine.wall_us += 2 * YEAR
    file, clock = start(disk, stored_us)
    assert file.jumps == [(clock.now_us(), 2 * YEAR)]
    assert "the machine's clock was set forward by 730.0 days since the last start" in caplog.text
    assert start(disk, clock.now_us())[0].jumps == file.jumps, "it is not forgotten"


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_clock_that_was_set_while_the_broker_ran_is_noticed(machine, caplog, is_orderly):
    """So it is known also if the machine is started anew."""
    disk = SimDisk()
    file, clock = start(disk)
    machine.passes(DAY)
    machine.wall_us += 2 * YEAR
    file.check_clock()
    assert "the machine's clock was set forward by 730.0 days: " in caplog.text
    caplog.clear()
    file.check_clock()
    assert caplog.text == ""
    machine.passes(DAY)
    stored_us = clock.now_us()
    if is_orderly:
        file.save(stored_us)
    machine.is_off(3 * DAY)
    assert jumps_of(start(disk, stored_us)[0]) == [2 * YEAR]


def test_what_cannot_be_known_is_said(machine, caplog):
    disk = SimDisk()
    file, clock = start(disk)
    file.save(clock.now_us())
    machine.is_off(2 * YEAR)
    assert start(disk)[0].jumps == []
    assert "the last time that is known here is 730.0 days ago" in caplog.text


def test_a_clock_that_was_ahead_is_said(machine, caplog):
    disk = SimDisk()
    machine.wall_us += 9 * YEAR
    _, clock = start(disk)
    machine.passes(DAY)
    stored_us = clock.now_us()
    machine.wall_us -= 9 * YEAR
    for _ in range(2):
        file, clock = start(disk, stored_us)
        assert (file.jumps, file.ahead_us, clock.now_us()) == ([], 9 * YEAR, stored_us)
    assert "the machine's clock is 3,285.0 days behind what was stored before" in caplog.text
    machine.is_off(5 * SECOND)
    assert start(disk, stored_us)[0].jumps == [], "the time for which it ran has passed"


def test_a_clock_that_is_set_back_while_the_broker_runs_is_said(machine, caplog):
    file, _ = start(SimDisk())
    machine.wall_us -= YEAR
    file.check_clock()
    assert "the machine's clock was set back by 365.0 days" in caplog.text


def test_only_the_latest_jumps_are_kept(machine):
    disk = SimDisk()
    for day in range(1, MOST_JUMPS + 3):
        start(disk)
        machine.wall_us += day * DAY
    assert jumps_of(start(disk)[0]) == [day * DAY for day in range(3, MOST_JUMPS + 3)]


def test_a_clock_that_is_given_is_not_looked_at(machine, caplog):
    """Lessons have clocks of their own."""
    disk = SimDisk()
    file = ClockFile(disk)
    machine.wall_us += YEAR
    file.check_clock()
    file.save(5)
    assert start(disk, 5)[0].jumps == []
    assert ClockFile(disk).time_us == 5


@pytest.mark.parametrize("is_noticed", [True, False], ids=["while it runs", "at the next start"])
def test_a_clock_that_was_ahead_is_forgotten_if_nothing_was_stored(machine, is_noticed):
    """Or else one such start would put the broker's clock ahead for ever."""
    disk = SimDisk()
    machine.wall_us += 70 * YEAR
    file, _ = start(disk, 7)
    machine.wall_us -= 70 * YEAR
    if is_noticed:
        file.check_clock()
    machine.is_off(DAY)
    file, clock = start(disk, 7)
    assert clock.now_us() < NOW_US + 2 * DAY
    assert file.ahead_us == 0


def test_the_file_of_an_earlier_version_has_the_time_alone(machine):
    disk = SimDisk({CLOCK: seal(b"zaichik clock 1\n", b"70")})
    assert ClockFile(disk).time_us == 70
    assert start(disk)[0].jumps == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"7",
        seal(b"zaichik clock 1\n", b"seven"),
        seal(b"zaichik clock 2\n", b"[" * 100_000),
        seal(b"zaichik clock 2\n", b"[1]"),
        seal(b"zaichik clock 2\n", b'{"time_us": 7, "jumps": [[1, "a"]]}'),
        seal(b"zaichik clock 2\n", b'{"time_us": null, "jumps": []}'),
    ],
    ids=range(7),
)
def test_a_damaged_file_is_not_needed(machine, caplog, data):
    file, _ = start(SimDisk({CLOCK: data}))
    assert (file.time_us, file.jumps) == (0, [])
    assert "clock is damaged, and not needed" in caplog.text


def test_without_room_the_old_file_has_to_do(machine, caplog):
    caplog.set_level("INFO")
    disk = SimDisk()
    start(disk)
    before = disk.content[CLOCK]
    disk.fault = lambda _: full()
    ClockFile(disk).save(machine.wall_us)
    assert disk.content[CLOCK] == before
    assert "no room for clock" in caplog.text


def test_windows_and_producers_are_not_older_after_a_jump():
    """The fold takes it over with the first record after it, and only once."""
    state = LogState(60 * SECOND, 8)
    jumps = [(2 * YEAR, 2 * YEAR - 100)]
    state.jumps = jumps
    first = message(0, producer=5, at_us=50)
    state.add(first)
    state.add(message(1, at_us=60))
    state.window.admit([b"key"], 60)
    assert state.not_passed_us == 2 * YEAR - 100
    state.add(message(2, at_us=2 * YEAR + 10 * SECOND))
    assert state.not_passed_us == 0
    assert [*state.window.opening_times()] == [(b"key", 60 + 2 * YEAR - 100)]
    assert state.producers[5].used_us == 50 + 2 * YEAR - 100
    state.add(message(3, at_us=2 * YEAR + 11 * SECOND))
    assert state.producers[5].used_us == 50 + 2 * YEAR - 100
    state.add(message(4, at_us=2 * YEAR + PRODUCER_SILENCE_US + SECOND))
    assert (len(state.window), 5 in state.producers) == (0, False)
