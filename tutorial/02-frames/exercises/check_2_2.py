"""Questions for exercise 2.2."""

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "The length of an MQTT packet",
    hints=(
        (
            "Go through the first four bytes. Byte number i adds (byte & 0x7f) << (7 * i). If its top bit is 0, that "
            "was the last one."
        ),
        (
            "for i, byte in enumerate(buffer[:4]): add; if byte < 0x80: return the sum. After the loop: four bytes "
            "were there, and no end among them, is an error; fewer were there is None."
        ),
    ),
)


@EXERCISE.asks("numbers below 128 are one byte", hint="A byte without its top bit is the number.")
def one_byte(answer):
    must([answer.length(bytes([n])) for n in (0, 5, 127)], [0, 5, 127], "00, 05 and 7f")


@EXERCISE.asks("larger ones are several bytes, the lowest first", hint="The second byte counts 128 times as much.")
def several(answer):
    numbers = [answer.length(bytes.fromhex(text)) for text in ("8001", "808001", "ffffff7f")]
    must(numbers, [128, 16_384, 268_435_455], "80 01, then 80 80 01, then ff ff ff 7f")


@EXERCISE.asks("what follows is not the length's", hint="Stop at the first byte without its top bit.")
def followed(answer):
    must(answer.length(bytes.fromhex("05ffff")), 5, "05 ff ff")


@EXERCISE.asks(
    "a number whose last byte is missing is not there yet",
    hint="80 says that a byte follows. Until it has come, any number you return is a guess.",
)
def not_yet(answer):
    must([answer.length(bytes.fromhex(text)) for text in ("", "80", "8080")], [None] * 3, "nothing, 80, and 80 80")


@EXERCISE.asks("a fifth byte is an error", hint="Four bytes that all say another follows: this is never a length.")
def invalid(answer):
    try:
        came = answer.length(bytes.fromhex("80808080"))
    except ValueError:
        return
    raise Wrong(f"80 80 80 80: expected ValueError, came {came!r}")
