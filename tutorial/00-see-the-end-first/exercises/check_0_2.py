"""Questions for exercise 0.2."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "Which messages are stored?",
    hints=(
        "Go through the times with one variable: the end of the window that is open, if any.",
        "closes = 0 at the beginning; if time >= closes, the message is stored and closes = time + window.",
    ),
)


@EXERCISE.asks("the first message is stored", hint="No window is open before it.")
def first(answer):
    must(answer.stored([3], 10), [3], "one message at 3, window 10")


@EXERCISE.asks("a repetition inside the window is dropped", hint="Compare with the end of the open window.")
def repeated(answer):
    must(answer.stored([0, 4, 30], 10), [0, 30], "messages at 0, 4 and 30, window 10")


@EXERCISE.asks("at its end the window is over", hint="The end itself is not in the window: 10 is not below 0 + 10.")
def edge(answer):
    must(answer.stored([0, 10], 10), [0, 10], "messages at 0 and 10, window 10")


@EXERCISE.asks(
    "what is dropped does not prolong the window",
    hint="Only a stored message opens a window. Does yours move its end when it drops something?",
)
def prolonged(answer):
    must(answer.stored([0, 6, 12, 18, 24], 10), [0, 12, 24], "messages at 0, 6, 12, 18 and 24, window 10")
