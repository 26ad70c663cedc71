"""Questions for exercise 11.1."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "The last one wins",
    hints=(
        (
            "What becomes of a message depends on the next one of its key. That's easy to know if you walk from the "
            "end to the beginning: a dict has, for each key, the time of the message that you saw last."
        ),
        (
            "Walk along reversed(messages). A message stays if it has no key, or if its key isn't in the dict, or if "
            "the dict's time for it is at least a window later. Note its time in any case, whether it stays or not. "
            "What you have collected is in reverse order, too."
        ),
    ),
)


def _times(answer, *messages, window=10):
    """The times of those that stay. Messages are (time, key); each has a payload of its own."""
    given = [(time, key, b"%d" % place) for place, (time, key) in enumerate(messages)]
    stay = answer.last_wins(list(given), window)
    must([each for each in stay if each not in given], [], f"what stays of {given!r}, and was not among it")
    return [time for time, _, _ in stay]


@EXERCISE.asks(
    "the last message of a key stays", hint="Look at the next message of the same key, not at the one before."
)
def last(answer):
    came = _times(answer, (0, b"a"), (1, b"b"), (4, b"a"), (5, b"b"), (6, b"c"))
    must(came, [4, 5, 6], "times that stay of a at 0 and 4, b at 1 and 5, c at 6; the window is 10")


@EXERCISE.asks(
    "a message stays if the next one comes a window later",
    hint="A later message of the key isn't enough: it has to come soon. [t, t + window): is the end inside or outside?",
)
def window(answer):
    came = _times(answer, (0, b"a"), (10, b"a"), (19, b"a"), (40, b"a"))
    must(came, [0, 19, 40], "times that stay of a at 0, 10, 19 and 40; the window is 10")


@EXERCISE.asks(
    "a message that goes still counts",
    hint="A message is followed by the next one of its key, even if that one has to go as well.",
)
def chain(answer):
    came = _times(answer, (0, b"a"), (6, b"a"), (12, b"a"), (18, b"a"))
    must(came, [18], "times that stay of a at 0, 6, 12 and 18 (first-wins: 0 and 12); the window is 10")


@EXERCISE.asks("messages without a key all stay", hint='b"" is no key, although it can be one of a dict.')
def no_key(answer):
    came = _times(answer, (0, b""), (1, b""), (1, b"a"), (2, b""), (3, b"a"))
    must(came, [0, 1, 2, 3], "times that stay of three messages without a key at 0, 1 and 2, and a at 1 and 3")
