"""Questions for exercise 1.2."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "Messages that end with a line feed",
    hints=(
        (
            "Keep the bytes of an unfinished line between two reads. After each read, take out every whole line, then "
            "keep what is left."
        ),
        "buffer += read; *whole, buffer = buffer.split(b'\\n'); yield from whole.",
    ),
)


@EXERCISE.asks("a read that is a line", hint="Loop over the reads, and yield what is before the line feed.")
def one(answer):
    must(list(answer.lines([b"one\n", b"two\n"])), [b"one", b"two"], "two reads, each a line")


@EXERCISE.asks("two lines in one read", hint="One read may hold several line feeds: split it at each of them.")
def glued(answer):
    must(list(answer.lines([b"one\ntwo\n"])), [b"one", b"two"], "one read, two lines")


@EXERCISE.asks(
    "a line that is torn between two reads",
    hint="What is after the last line feed of a read is the beginning of a line that the next read goes on with.",
)
def torn(answer):
    must(list(answer.lines([b"on", b"e\nt", b"wo", b"\n"])), [b"one", b"two"], "four reads, two lines")


@EXERCISE.asks("an empty line is a line", hint="Two line feeds in a row have an empty line between them.")
def empty(answer):
    must(list(answer.lines([b"\n", b"\none\n"])), [b"", b"", b"one"], "three lines, two of them empty")


@EXERCISE.asks("a line that never ends isn't a line", hint="When the reads are over, drop what was begun.")
def unfinished(answer):
    must(list(answer.lines([b"one\ntw"])), [b"one"], "a line, and the beginning of another")
