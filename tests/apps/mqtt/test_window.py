"""What is in flight to a client (MQ-7)."""

from zaichik.apps.mqtt.tail import Entry
from zaichik.apps.mqtt.window import (
    CLEARED_AT_ONCE,
    MOST_BYTES,
    MOST_CLEARED,
    MOST_IDENTIFIERS,
    MOST_MESSAGES,
    InFlight,
    Window,
)


def message(offset=0, size=1, space="mqtt", qos=1, **options):
    entry = Entry(space, offset, 0.0, "a", b"", bytes(size), 1, False, "", {})
    return InFlight(entry, qos, False, **options)


def test_an_identifier_in_flight_is_not_given_out_again():
    window = Window()
    assert window.add(message()) == 1
    for number in range(2, MOST_IDENTIFIERS + 1):
        assert window.add(message()) == number
        window.settle(number)
    assert window.add(message()) == 2


def test_it_is_full_by_messages_or_by_bytes():
    window = Window()
    window.most = 2
    window.add(message())
    assert not window.is_full
    second = window.add(message())
    assert window.is_full
    window.settle(second)
    assert not window.is_full
    window.most = 10
    window.add(message(size=MOST_BYTES))
    assert window.is_full


def test_the_lowest_offset_is_that_of_the_sessions_own_messages():
    window = Window()
    for offset in (7, 5, 6):
        window.add(message(offset))
    window.add(message(1, space="orders"))
    window.add(message(2, is_retained=True))
    assert window.lowest("mqtt") == 5
    window.settle(2)
    assert window.lowest("mqtt") == 6
    assert window.lowest("other") is None


# -- a client of which nothing is known ------------------------------------------------------------


def unknown() -> Window:
    """The window of a session that is restored."""
    window = Window()
    window.forget_all()
    return window


def clear(window: Window) -> list[int]:
    """The client forgets what it is told to."""
    identifiers = window.clear_more()
    for identifier in identifiers:
        assert window.cleared(identifier)
    return identifiers


def test_qos_2_waits_for_identifiers_that_the_client_has_forgotten():
    window = unknown()
    assert window.lacks_identifiers
    assert window.clear_more() == list(range(1, CLEARED_AT_ONCE + 1))
    assert window.clear_more() == []
    for identifier in range(1, CLEARED_AT_ONCE):
        assert window.cleared(identifier)
        assert window.lacks_identifiers
    assert window.cleared(CLEARED_AT_ONCE)
    assert not window.lacks_identifiers
    assert not window.cleared(1)


def test_they_serve_again_and_again_and_more_are_cleared_when_all_are_in_flight():
    window = unknown()
    clear(window)
    for _ in range(3):
        identifiers = [window.add(message(qos=2)) for _ in range(CLEARED_AT_ONCE)]
        assert sorted(identifiers) == list(range(1, CLEARED_AT_ONCE + 1))
        assert window.lacks_identifiers
        for identifier in identifiers:
            window.settle(identifier)
        assert not window.lacks_identifiers
    for _ in range(CLEARED_AT_ONCE):
        window.add(message(qos=2))
    assert clear(window)[0] == CLEARED_AT_ONCE + 1
    assert window.add(message(qos=2)) == CLEARED_AT_ONCE + 1


def test_qos_1_takes_identifiers_that_are_never_cleared():
    window = unknown()
    assert window.add(message(qos=1)) == MOST_CLEARED + 1
    clear(window)
    assert window.add(message(qos=2)) == 1
    assert window.add(message(qos=1)) == MOST_CLEARED + 2
    for _ in range(MOST_MESSAGES // CLEARED_AT_ONCE):
        assert clear(window)[-1] <= MOST_CLEARED
