"""Questions for exercise 3.1."""

from construct import ConstructError

from zaichik.learn.exercise import Exercise, Wrong, must

GOOD = bytes.fromhex("020000000100000000000000")
EXERCISE = Exercise(
    "Declare a Commit",
    hints=(
        (
            "A Struct has one line for each field, 'name' / kind, in the order of the bytes. Look at HELLO in "
            "your layouts.py."
        ),
        "'subscription' / Int32ul, 'next' / Int64ul, and what HELLO has at its end.",
    ),
)


@EXERCISE.asks("the fields of a good Commit", hint="4 bytes little-endian are Int32ul, 8 bytes are Int64ul.")
def good(answer):
    fields = answer.COMMIT.parse(GOOD)
    must((fields.get("subscription"), fields.get("next")), (2, 1), f"{GOOD.hex(' ')}: subscription and next")


@EXERCISE.asks("fields become the same bytes again", hint="One declaration serves both directions: build and parse.")
def built(answer):
    must(answer.COMMIT.build({"subscription": 2, "next": 1}), GOOD, "subscription 2, next 1")


@EXERCISE.asks("a body that is too short is refused", hint="A Struct refuses this by itself, if its fields are right.")
def short(answer):
    _refused(answer, GOOD[:-1])


@EXERCISE.asks(
    "a body that is too long is refused",
    hint="A Struct is happy once its last field is read. What must follow it, so that nothing may follow it?",
)
def long(answer):
    _refused(answer, GOOD + b"!")


def _refused(answer, body):
    try:
        fields = answer.COMMIT.parse(body)
    except ConstructError:
        return
    raise Wrong(f"a body of {len(body)} bytes: expected a refusal, came next = {fields['next']}")
