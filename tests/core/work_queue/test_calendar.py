"""A calendar: what is due by now, and nothing else in memory."""

from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.work_queue.calendar import Calendar
from zaichik.core.work_queue.message import OpenMessage

SECOND = 1_000_000
DAY = 86_400 * SECOND
times = st.integers(1, 8 * SECOND) | st.integers(1, 400 * DAY)
steps = st.lists(
    st.tuples(st.just("add"), times)
    | st.tuples(st.just("remove"), st.integers(0, 9))
    | st.tuples(st.just("pass"), st.sampled_from([0, 1, SECOND // 2, SECOND, 3 * SECOND, DAY])),
    max_size=60,
)


@given(steps)
def test_a_message_is_due_at_its_time_and_not_before(history):
    calendar = Calendar()
    waiting = []
    now = 5 * SECOND
    for number, (word, value) in enumerate(history):
        if word == "add":
            message = OpenMessage(number, due_us=value)
            calendar.add(message)
            waiting.append(message)
        elif word == "remove" and waiting:
            calendar.remove(waiting.pop(value % len(waiting)))
        elif word == "pass":
            now += value
            due = sorted(
                (message.due_us, message.offset) for message in waiting if message.due_us <= now
            )
            taken = calendar.take_due(now)
            assert [(message.due_us, message.offset) for message in taken] == due
            waiting = [message for message in waiting if message.due_us > now]
        assert len(calendar) == len(waiting)
        assert sum(map(len, calendar._slots.values())) == len(waiting)
        assert all(calendar._slots.values()), "an empty slot is kept"


def test_a_leap_of_the_clock_costs_no_more_than_what_waits():
    """A year has 31 million seconds; this would take as many steps."""
    calendar = Calendar()
    late = OpenMessage(1, due_us=100 * 365 * DAY)
    early = OpenMessage(2, due_us=365 * DAY)
    calendar.add(late)
    calendar.add(early)
    assert calendar.take_due(50_000 * DAY - 1) == [early, late]
