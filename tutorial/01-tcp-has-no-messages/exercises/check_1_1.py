"""Questions for exercise 1.1."""

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "Exactly so many bytes",
    hints=(
        (
            "Keep what has come in a bytes object, and read in a loop until it has `size` bytes. In each turn ask for "
            "the number that is still missing."
        ),
        (
            "A read may bring an empty chunk: then the stream has ended, and nothing more will ever come. Say so with "
            "an EOFError, before you add anything, or the loop never ends."
        ),
    ),
)


class Pieces:
    """A connection whose reads bring what we want them to bring."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def recv(self, size: int) -> bytes:
        """The next piece, cut if it is larger than what was asked for; nothing at the end of the stream."""
        if not self.pieces:
            return b""
        piece = self.pieces.pop(0)
        if len(piece) > size:
            self.pieces.insert(0, piece[size:])
        return piece[:size]


@EXERCISE.asks("bytes that come in one piece", hint="Call connection.recv, and return what it brings.")
def in_one_piece(answer):
    must(answer.receive_exactly(Pieces(b"hello"), 5), b"hello", "5 bytes that come at once")


@EXERCISE.asks(
    "bytes that come one by one",
    hint="recv(5) brings 5 bytes at most. It may bring one, and then you have to read again.",
)
def one_by_one(answer):
    must(answer.receive_exactly(Pieces(b"h", b"e", b"l", b"l", b"o"), 5), b"hello", "5 bytes that come one by one")


@EXERCISE.asks(
    "bytes that belong to the next message stay in the connection",
    hint="Ask recv for what is missing and not for more: what it has brought, nobody else can read.",
)
def leaves_the_rest(answer):
    connection = Pieces(b"he", b"llowor", b"ld")
    must(answer.receive_exactly(connection, 5), b"hello", "the first 5 bytes")
    must(answer.receive_exactly(connection, 5), b"world", "the next 5 bytes")


@EXERCISE.asks("no bytes at all are there at once", hint="With size 0 there is nothing to wait for: do not read.")
def none(answer):
    connection = Pieces(b"later")
    must(answer.receive_exactly(connection, 0), b"", "0 bytes")
    must(answer.receive_exactly(connection, 5), b"later", "the 5 bytes after them")


@EXERCISE.asks(
    "a stream that ends too early is an EOFError",
    hint="recv returns b'' at the end of the stream, again and again. Without a check for it the loop never ends.",
)
def too_early(answer):
    try:
        came = answer.receive_exactly(Pieces(b"hel"), 5)
    except EOFError:
        return
    raise Wrong(f"5 bytes from a stream that ends after 3: expected EOFError, came {came!r}")
