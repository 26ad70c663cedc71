"""Of each key, one message may go; the others follow in the order of offsets (SHR-8)."""

from zaichik.core.work_queue.key_order import KeyOrder
from zaichik.core.work_queue.message import OpenMessage


def order_of(*pairs):
    keys = KeyOrder()
    return keys, [keys.enter(OpenMessage(offset, key)) for offset, key in pairs]


def test_the_first_of_each_key_may_go():
    _, may_go = order_of((0, b"a"), (1, b"b"), (2, b"a"), (3, b"b"))
    assert may_go == [True, True, False, False]


def test_the_others_follow_by_offset_whenever_they_came():
    """One that is revived comes between those that wait."""
    keys, _ = order_of((5, b"a"), (9, b"a"), (7, b"a"))
    assert keys.leave(b"a").offset == 7
    assert keys.leave(b"a").offset == 9
    assert keys.leave(b"a") is None


def test_a_key_without_open_messages_is_forgotten():
    keys, _ = order_of((5, b"a"))
    keys.leave(b"a")
    assert keys._behind == {}


def test_the_busiest_key_is_the_one_for_which_most_wait():
    keys, _ = order_of((0, b"a"), (1, b"b"), (2, b"b"), (3, b"b"), (4, b"a"))
    assert keys.busiest() == (b"b", 2)
    assert KeyOrder().busiest() == (b"", 0)
