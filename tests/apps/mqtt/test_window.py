"""What is in flight to a client (MQ-7)."""

from zaichik.apps.mqtt.tail import Entry
from zaichik.apps.mqtt.window import MOST_BYTES, MOST_IDENTIFIERS, InFlight, Window


def message(offset=0, size=1, space="mqtt", **options):
    entry = Entry(space, offset, 0.0, "a", b"", bytes(size), 1, False, "", {})
    return InFlight(entry, 1, False, **options)


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
