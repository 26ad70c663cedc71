"""Questions for exercise 3.2."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "Whose fault is a name?",
    hints=(
        (
            "Two steps: first take the bytes apart, with TEXT and Terminated from construct, and let them stay bytes. "
            "Then try to decode the name."
        ),
        (
            "Struct('name' / Prefixed(Int16ul, GreedyBytes), Terminated).parse(body) raises a ConstructError for what "
            "does not add up; .name.decode() raises a UnicodeDecodeError for what is not UTF-8."
        ),
    ),
)


@EXERCISE.asks("a good name", hint="A length of 2 bytes, then as many bytes as it says.")
def good(answer):
    for name in ("t", "naïve", ""):
        must(answer.judge(_text(name.encode())), answer.GOOD, f"the name {name!r}")


@EXERCISE.asks("a body that ends inside the name", hint="Fewer bytes than the length says: the frame is bad.")
def short(answer):
    for body in (b"", b"\x05", b"\x05\x00topi"):
        must(answer.judge(body), answer.MALFORMED, f"the body {body!r}")


@EXERCISE.asks("a body that goes on after the name", hint="Bytes that no field asked for: the frame is bad.")
def long(answer):
    must(answer.judge(_text(b"topic") + b"!"), answer.MALFORMED, "a name of 5 bytes, and 6 bytes")


@EXERCISE.asks(
    "bytes that are not UTF-8",
    hint="The frame is fine here, only the name is not. Does your declaration decode while it parses? Then both kinds "
    "of trouble look alike.",
)
def not_utf8(answer):
    must(answer.judge(_text(b"\xff\xfe")), answer.INVALID_FIELD, "the name ff fe")


def _text(name):
    return len(name).to_bytes(2, "little") + name
