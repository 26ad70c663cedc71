"""Bodies of requests: each of a bounded size, and all of them together in bounded memory.

A body may be chunked, so its size may be known only at its end. It is counted as it comes, and
refused when it is too large, or when all bodies that are being read have used up their memory. How
long it may take is the connection's business (see `connection`).
"""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from starlette.requests import Request

from zaichik.apps.web.topics.statuses import RETRY_S, Refusal

MOST_BYTES = 64 * 1024 * 1024  # of all bodies that are being read, or published


class Bodies:
    """Reads bodies.

    Args:
        most_bytes: of all of them together.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._free = most_bytes

    @asynccontextmanager
    async def of(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Returns the body of a request, whose memory is counted as long as the block lasts.

        Args:
            request: is read to its end.
            most: bytes that it may have.

        Raises:
            Refusal: it has more, or there is no memory for it now, or it is compressed.
            ClientDisconnect: the client has gone in the middle of it.
        """
        self._check(request, most)
        taken = 0
        chunks: list[bytes] = []
        try:
            async with aclosing(request.stream()) as stream:
                async for chunk in stream:
                    taken += len(chunk)
                    self._free -= len(chunk)
                    self._check_room(taken, most)
                    chunks.append(chunk)
            yield b"".join(chunks)
        finally:
            self._free += taken

    def _check_room(self, taken: int, most: int) -> None:
        if taken > most:
            raise _too_large(most)
        if self._free < 0:
            raise Refusal(
                "TOO_MANY_PUBLISHES",
                "as much is being published here as there is memory for; try again later",
                RETRY_S,
            )

    def _check(self, request: Request, most: int) -> None:
        """Refuse what can be refused before the first byte."""
        coding = request.headers.get("content-encoding", "identity").strip().lower()
        if coding != "identity":
            raise Refusal(
                "UNSUPPORTED_MEDIA_TYPE",
                "the body has a Content-Encoding; send it as it is to be stored",
            )
        length = request.headers.get("content-length", "0")
        # Where it is no number, the server has refused it already.
        if length.isdecimal() and (len(length) > len(str(most)) or int(length) > most):
            raise _too_large(most)


def _too_large(most: int) -> Refusal:
    return Refusal("BODY_TOO_LARGE", f"at most {most:,} bytes are read; send it in pieces")
