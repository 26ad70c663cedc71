"""Each offset has one fate; memory is what is open or dead (SHR-7)."""

from zaichik.core.work_queue.ledger import Ledger
from zaichik.core.work_queue.message import Place

NOW = 10**9


def opened(count, key=b""):
    ledger = Ledger(0)
    return ledger, [ledger.open_next(offset, key) for offset in range(count)]


def test_what_lies_between_two_messages_was_holes():
    ledger = Ledger(5)
    ledger.open_next(7)
    ledger.open_next(10)
    assert (ledger.next, ledger.passed, ledger.open) == (11, 4, 2)


def test_what_is_gone_is_skipped():
    ledger = Ledger(5)
    ledger.skip_to(9)
    ledger.wait(ledger.open_next(9), 0, NOW)
    ledger.close_skipped(ledger.waiting(9))
    assert (ledger.skipped, ledger.passed, ledger.open, ledger.ready) == (5, 0, 0, {})


def test_the_oldest_that_is_open_or_dead_is_needed():
    """SHR-9."""
    ledger, messages = opened(4)
    assert ledger.needed == 0
    ledger.close_done(messages[1])
    ledger.bury(messages[0], "", NOW)
    ledger.close_done(messages[2])
    assert ledger.needed == 0
    ledger.revive(0)
    assert ledger.needed == 0
    ledger.close_passed(ledger.waiting(0))
    assert ledger.needed == 3
    ledger.close_done(messages[3])
    assert ledger.needed == 4


def test_what_waits_for_its_time_is_not_active():
    ledger, messages = opened(2)
    ledger.wait(messages[0], NOW + 1, NOW)
    assert (ledger.open, ledger.active, messages[0].place) == (2, 1, Place.DELAYED)
    ledger.end_delays(NOW)
    assert ledger.active == 1
    ledger.end_delays(NOW + 1)
    assert (ledger.active, list(ledger.ready)) == (2, [0])


def test_suspects_wait_apart():
    ledger, messages = opened(2)
    messages[1].is_suspect = True
    for message in messages:
        ledger.wait(message, NOW, NOW)
    assert (list(ledger.ready), list(ledger.suspects)) == ([0], [1])
    ledger.stop_waiting(ledger.waiting(1))
    assert not ledger.suspects


def test_of_a_key_the_next_goes_when_the_first_is_settled():
    """SHR-8."""
    ledger, messages = opened(4, b"k")
    assert [message.place for message in messages] == [Place.HELD] + [Place.BLOCKED] * 3
    ledger.close_done(messages[0])
    assert list(ledger.ready) == [1]
    ledger.stop_waiting(messages[1])
    ledger.bury(messages[1], "", NOW)
    assert list(ledger.ready) == [2]
    # It is behind the one that was let go, and before the last one.
    assert ledger.revive(1)
    ledger.stop_waiting(messages[2])
    ledger.close_done(messages[2])
    assert list(ledger.ready) == [1]


def test_only_the_dead_are_revived_or_forgotten():
    ledger, messages = opened(3)
    ledger.bury(messages[0], "", NOW)
    ledger.bury(messages[1], "", NOW)
    assert (ledger.forget(0), ledger.forget(0), ledger.forget(2)) == (True, False, False)
    assert (ledger.revive(1), ledger.revive(1), ledger.revive(2)) == (True, False, False)
    assert (ledger.forgotten, len(ledger.dead), ledger.open) == (1, 0, 2)


def test_what_is_done_leaves_nothing():
    ledger, messages = opened(1)
    for offset in range(1, 5_000):
        ledger.close_done(ledger.open_next(offset))
    assert len(ledger._unsettled) == 1
    assert ledger.needed == 0
    assert ledger.done == 4_999
    assert messages[0].place == Place.HELD
