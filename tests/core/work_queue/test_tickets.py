"""A ticket is never given twice, whatever the clock does, and however the broker ends (SHR-3)."""

from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.work_queue.tickets import BLOCK, Tickets
from zaichik_protocol import FOREVER


def test_tickets_follow_each_other():
    tickets = Tickets(100)
    assert [tickets.take(3), tickets.take(1), tickets.take(2)] == [100, 103, 104]


def test_without_a_folder_they_never_run_out():
    assert Tickets(100).left == FOREVER - 100


def test_none_is_given_before_the_first_is_saved():
    tickets = Tickets(100, is_saved=True)
    assert tickets.left == 0
    tickets.note_saved(tickets.next)
    assert tickets.left == BLOCK


def test_they_begin_beyond_what_may_have_been_given():
    assert Tickets(100, 70).next == 70 + BLOCK
    assert Tickets(100 + BLOCK, 70).next == 100 + BLOCK


@given(st.lists(st.tuples(st.integers(0, 2 * BLOCK), st.booleans(), st.integers(-9, 9))))
def test_no_crash_and_no_clock_makes_one_come_again(history):
    given_below, saved = 0, None
    for wanted, is_saved, clock in history:
        tickets = Tickets(max(given_below + clock, 0), saved, is_saved=True)
        saved = tickets.next
        tickets.note_saved(saved)
        for count in (wanted, 1):
            count = min(count, tickets.left)
            if count:
                assert tickets.take(count) >= given_below
                given_below = tickets.next
            if is_saved:
                saved = tickets.next
                tickets.note_saved(saved)
