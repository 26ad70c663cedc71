"""Questions for exercise 1.3."""

from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "Say it in lines",
    hints=(
        (
            "A read may bring half a line, or three lines and a half. So keep what has come in a bytes object, add "
            "each read to it, and answer for as long as there is a line feed in it."
        ),
        (
            "bytes.partition cuts at the first line feed and returns what is before it and what is after it. The first "
            "is a message; the second you go on with, and it stays until the next read if it has no line feed."
        ),
    ),
    program="broker.py",
)


def _report(size, start):
    return f"one message, {size} bytes: {start!r}\n".encode()


def _must_say(answers, expected, asked):
    try:
        came = answers.readline()
    except TimeoutError:
        raise Wrong(f"{asked}: expected {expected!r}, and nothing came") from None
    must(came, expected, asked)


@EXERCISE.asks("the line feed is not a part of the message", hint="It marks the end. Cut it off before you report.")
def without_its_end(program):
    with running(program) as broker:
        client = broker.connect()
        client.sendall(b"hello\n")
        _must_say(client.makefile("rb"), _report(5, b"hello"), "the answer to b'hello\\n'")


@EXERCISE.asks("two lines in one read are two messages", hint="After a line, look whether there is another one.")
def glued(program):
    with running(program) as broker:
        client = broker.connect()
        client.sendall(b"one\nfour\n")
        answers = client.makefile("rb")
        _must_say(answers, _report(3, b"one"), "the first answer to b'one\\nfour\\n'")
        _must_say(answers, _report(4, b"four"), "the second answer to b'one\\nfour\\n'")


@EXERCISE.asks(
    "a line that is cut is one message",
    hint="What follows the last line feed is the beginning of a line. Keep it until a read brings the rest.",
)
def cut(program):
    with running(program) as broker:
        client = broker.connect()
        answers = client.makefile("rb")
        client.sendall(b"one\ntw")
        _must_say(answers, _report(3, b"one"), "the answer to b'one\\ntw'")
        client.sendall(b"o\n")  # in a read of its own: the one before has been answered
        _must_say(answers, _report(3, b"two"), "the answer to b'o\\n' after it")


@EXERCISE.asks(
    "the next client begins with nothing",
    hint="Where does your unfinished line live? It must be as old as the conversation, and no older.",
)
def begins_anew(program):
    with running(program) as broker:
        with broker.connect() as hasty, hasty.makefile("rb") as answers:
            hasty.sendall(b"one\ntw")
            _must_say(answers, _report(3, b"one"), "the answer to b'one\\ntw'")
        client = broker.connect()
        client.sendall(b"three\n")
        asked = "b'three\\n', after a client that left with b'tw' unfinished"
        _must_say(client.makefile("rb"), _report(5, b"three"), asked)
