"""Questions for exercise 2.1."""

import struct

from zaichik.learn.exercise import Exercise, Wrong, must

PING = struct.pack("<IBBHIQ", 16, 7, 0, 0, 8, 1)
EXERCISE = Exercise(
    "How much is missing",
    hints=(
        (
            "Three cases, in this order: the length is not all there; the length cannot be; the length is known, and "
            "says how long the frame is."
        ),
        (
            "With fewer than 4 bytes: 4 - len(buffer). Else length = int.from_bytes(buffer[:4], 'little'), and the "
            "frame is 4 + length bytes long. What's missing is that, less what's there, and never below 0."
        ),
    ),
)


@EXERCISE.asks("a whole frame lacks nothing", hint="The length counts what follows it: a frame is 4 + length bytes.")
def whole(answer):
    must(answer.missing(PING), 0, "a Ping, 20 bytes with a length of 16")


@EXERCISE.asks("a frame cut in its body", hint="Compare 4 + length with the bytes that are there.")
def cut(answer):
    for size in (4, 11, 12, 19):
        must(answer.missing(PING[:size]), 20 - size, f"the first {size} bytes of a Ping of 20")


@EXERCISE.asks(
    "a frame cut in its length",
    hint="With fewer than 4 bytes you cannot know the length. Reading it from 2 bytes gives a number, but a wrong one.",
)
def cut_in_the_length(answer):
    for size in range(4):
        must(answer.missing(PING[:size]), 4 - size, f"the first {size} bytes of a Ping")


@EXERCISE.asks("more than a frame", hint="What follows the first frame is the next one's. Missing is never negative.")
def glued(answer):
    must(answer.missing(PING + PING[:3]), 0, "a Ping, and 3 bytes of the next one")


@EXERCISE.asks("a length below 8 never becomes a frame", hint="8 bytes of header follow the length, always.")
def invalid(answer):
    try:
        came = answer.missing(bytes(4))
    except ValueError:
        return
    raise Wrong(f"4 bytes that are 0: expected ValueError, came {came!r}")
