"""Questions for exercise 19.1."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "Too late",
    hints=(
        (
            "Keep what is open: a dict from each ticket to the worker that has it. A message that's taken comes in. "
            "Everything else that happens takes something out, or finds that it isn't there."
        ),
        (
            "A settle counts if the dict has the ticket, and has it for this very worker. Then the ticket goes out, so "
            "that the next settle of it is late. A time-out removes one ticket, and somebody who leaves removes "
            "several: all those that this worker has."
        ),
    ),
)


@EXERCISE.asks("a job is settled once", hint="What has changed after the first of the two settles?")
def twice(answer):
    history = [("take", "Pia", 1), ("settle", "Pia", 1), ("settle", "Pia", 1)]
    must(answer.late(history), [1], f"after {history}")


@EXERCISE.asks("what has timed out is late", hint="After its time-out, nobody has this ticket.")
def timed_out(answer):
    history = [("take", "Pia", 1), ("time-out", 1), ("take", "Ted", 2), ("settle", "Pia", 1), ("settle", "Ted", 2)]
    must(answer.late(history), [1], f"after {history}")


@EXERCISE.asks("nobody settles somebody else's", hint="It isn't enough that the ticket is open. Who has it?")
def others(answer):
    history = [("take", "Pia", 1), ("take", "Ted", 2), ("settle", "Ted", 1), ("settle", "Ted", 2)]
    must(answer.late(history), [1], f"after {history}")


@EXERCISE.asks("who leaves has nothing any more", hint="All that this worker has is released, and nothing of others.")
def left(answer):
    history = [
        ("take", "Pia", 1),
        ("take", "Ted", 2),
        ("take", "Pia", 3),
        ("leave", "Pia"),
        ("settle", "Pia", 3),
        ("settle", "Ted", 2),
        ("settle", "Pia", 1),
    ]
    must(answer.late(history), [3, 1], f"after {history}")


@EXERCISE.asks("a ticket that nobody ever had is late", hint="What does your program find, where there is nothing?")
def unknown(answer):
    history = [("take", "Pia", 1), ("settle", "Ida", 9), ("settle", "Pia", 1), ("time-out", 1), ("leave", "Ida")]
    must(answer.late(history), [9], f"after {history}")
