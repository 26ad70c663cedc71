"""Questions for exercise 0.1."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "Read a frame by hand",
    hints=(
        "Count the bytes from 0: length 0 to 3, type 4, flags 5, zero 6 and 7, request 8 to 11, value 12 to 19.",
        (
            "e8 03 is e8 + 256 times 03 in hexadecimal: 232 + 256 * 3. Python can check you: "
            "int.from_bytes(FRAME[12:20], 'little')."
        ),
    ),
)


@EXERCISE.asks("the length", hint="10 in hexadecimal is 16: one times sixteen, and nothing.")
def length(answer):
    must(answer.LENGTH, 16, "LENGTH")


@EXERCISE.asks("the type", hint="The fifth byte. You may write it as 0x87.")
def kind(answer):
    must(answer.TYPE, 0x87, "TYPE")


@EXERCISE.asks("the number of the request", hint="0a 01 00 00: the first byte counts 1, the second one 256.")
def request(answer):
    must(answer.REQUEST, 266, "REQUEST")


@EXERCISE.asks("the value", hint="e8 03 and six zeros: the first byte counts 1, the second one 256.")
def value(answer):
    must(answer.VALUE, 1000, "VALUE")
