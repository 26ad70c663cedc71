"""A recording while it is made: calls, and between them the answers that the broker got."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from secrets import token_bytes
from zlib import crc32

from zaichik.apps.flight.format import CHECK, CHECKED_IF_MASKED, RECORD, FlightKind, header
from zaichik_protocol import Batch, Frame, Hello, Publish, encode_pieces

CHUNK = 128 * 1024  # bytes that are written at once; a sweep, once a second, writes what there is
FRAME = int(FlightKind.FRAME)  # it comes all the time
Call = Callable[[], None]
WriteRecords = Callable[[bytes], bool]  # takes some whole records; returns whether it can take more


def checked(pieces: list[bytes], most: int | None) -> tuple[int, int]:
    """Returns the checksum and the size of output, counting at most `most` bytes of each piece.

    None: all of them.
    """
    if most is not None:
        pieces = [piece[:most] for piece in pieces]
    data = b"".join(pieces)
    return crc32(data), len(data)


class Tape:
    """The recording while it is made.

    Attributes:
        depth: how many calls are running, one inside the other; `with` a tape, it is one more.
        taken: the connection whose output is being taken, and the reading of the clock; None while
            none is. That call is recorded by its outcome, after it; but if there are answers, there
            is a `FlightKind.TAKE` before them.
        most: bytes of each piece of output that are checked; None, that is all, unless payloads are
            masked.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.taken: tuple[int, int] | None = None
        self.most: int | None = None
        self._write: WriteRecords | None = None
        self._key = token_bytes(32)  # of fillers, so that nobody can find out payloads by trial
        self._pieces: list[bytes] = []
        self._size = 0  # bytes of these
        self._crc = 0  # checksum up to here

    def begin(self, write: WriteRecords, about: dict[str, object], *, is_masked: bool) -> None:
        """Begin with the header; see `RecordedBroker.begin`."""
        self._write = write
        self.most = None
        if is_masked:
            self.most = CHECKED_IF_MASKED
        data, self._crc = header(about | {"checked": self.most})
        self._pieces.append(data)

    def note(
        self, kind: int, number: int, payload: bytes = b"", now_us: int = 0, rest: bytes = b""
    ) -> None:
        """Write a record; its payload may be in two pieces, so that a batch is not copied."""
        if self._write is None:
            return
        size = len(payload) + len(rest)
        head = RECORD.pack(size, kind, number, now_us)
        self._crc = crc = crc32(rest, crc32(payload, crc32(head, self._crc)))
        self._pieces += (head, payload, rest, CHECK.pack(crc))
        self._size += RECORD.size + size
        if self._size >= CHUNK:
            self.flush()

    def call(self, kind: int, number: int, payload: bytes = b"", now_us: int = 0) -> "Tape":
        """Write a call if it comes from outside. Returns the context in which to carry it out."""
        if not self.depth:
            self.note(kind, number, payload, now_us)
        return self

    def answer(
        self, kind: int, number: int, payload: bytes = b"", now_us: int = 0, rest: bytes = b""
    ) -> None:
        """Write an answer, unless the question came from outside of all calls.

        Such a question only inspects the broker.
        """
        if not self.depth:
            return
        if self.taken is not None:
            taker, taken_us = self.taken
            self.taken = None
            self.note(FlightKind.TAKE, taker, b"", taken_us)
        self.note(kind, number, payload, now_us, rest)

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def outside(self, call: Call) -> Call:
        """Returns a function that makes that call as one to the outside of the broker."""

        def make() -> None:
            depth = self.depth
            taken = self.taken
            self.depth = 0
            self.taken = None
            try:
                call()
            finally:
                self.depth = depth
                self.taken = taken

        return make

    def frame(self, number: int, request: Frame, now_us: int) -> None:
        """Write a request, without what is not recorded."""
        if isinstance(request, Hello):
            # People type secrets where a name belongs.
            request = replace(request, user="", secret="")
        elif self.most is not None and isinstance(request, Publish):
            request = replace(request, batch=self.masked(request.batch))
        pieces = encode_pieces(request)
        self.note(FRAME, number, pieces[0], now_us, pieces[1] if len(pieces) > 1 else b"")

    def masked(self, batch: Batch) -> Batch:
        """Returns a batch as it is recorded: with fillers, if payloads are masked."""
        if self.most is None:
            return batch
        return Batch.of_columns(
            batch.keys(), [self._filler(payload) for payload in batch.payloads()]
        )

    def _filler(self, payload: bytes) -> bytes:
        """Returns as many bytes, which only show which payloads are equal."""
        digest = blake2b(payload, key=self._key).digest()
        return (digest * (len(payload) // len(digest) + 1))[: len(payload)]

    def flush(self) -> None:
        """Write everything that was gathered."""
        if self._write is not None and not self._write(b"".join(self._pieces)):
            self._write = None
        self._pieces = []
        self._size = 0

    def end(self) -> None:
        """Write the last record."""
        self.note(FlightKind.END, 0)
        self.flush()
        self._write = None
