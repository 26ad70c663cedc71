"""The dead are kept, and listed by offset, a page at a time (SHR-5)."""

from zaichik.core.work_queue.dead import DeadMessage, DeadMessages


def dead_at(*offsets):
    dead = DeadMessages()
    for offset in offsets:
        dead.add(DeadMessage(offset, b"", 3, "ö" * offset, 10))
    return dead


def test_a_page_is_in_the_order_of_offsets():
    dead = dead_at(7, 2, 5)
    assert [each.offset for each in dead.page(0, 2)] == [2, 5]
    assert [each.offset for each in dead.page(6, 2)] == [7]
    assert dead.page(8, 2) == []


def test_what_is_removed_is_in_no_page():
    dead = dead_at(7, 2, 5)
    assert dead.remove(5).offset == 5
    assert dead.remove(5) is None
    assert [each.offset for each in dead.page(0, 9)] == [2, 7]
    assert len(dead) == 2


def test_the_bytes_of_reasons_are_counted():
    dead = dead_at(7, 2)
    assert dead.reason_bytes == 2 * (7 + 2)
    dead.remove(7)
    assert dead.reason_bytes == 2 * 2
