"""Kafka's frames: a size, then a request's header and body.

    size 4 | key 2, version 2, number 4, client's id 2 + … | body

All requests that are decoded here have this header; the newer one, with tagged fields, belongs to
versions that are not offered. ApiVersions is the exception: its body is not needed.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer

from zaichik.apps.gateways.strangers import speaks
from zaichik.net.stream import Stream

SIZE = Struct(">i")
HEAD = Struct(">hhih")  # the last is the length of the client's id, -1 for none

# A request that is larger is answered unread, if it is known how. Each connection may hold one.
MAX_REQUEST = 4 * 1024 * 1024
# Before a login: what a client tells of itself, and the login.
MAX_LOGIN = 64 * 1024
# So much takes no memory that others may have: a heartbeat does not wait behind large batches.
MAX_SMALL = 64 * 1024
# Only Produce has records, which are not looked at one by one: others are all small elements, and
# decoding them keeps all clients waiting, half a second for a mebibyte.
MAX_OTHER = 1024 * 1024
# In one request; handlers take them one by one. 10,000 topics, with a partition each, are 20,000.
MAX_ELEMENTS = 30_000
# Kafka's limit for any request: what is larger is no request at all.
MAX_SKIPPED = 100 * 1024 * 1024
RECEIVE_BYTES = 64 * 1024


class NotARequest(Exception):
    """Bytes that are no request; a sentence says why."""


@dataclass(frozen=True, slots=True)
class Header:
    """A request's header.

    Attributes:
        key: which request it is.
        version: of that request.
        number: comes back with the response.
        client: the client's id; "" if it has none.
        size: bytes of the header itself.
    """

    key: int
    version: int
    number: int
    client: str
    size: int


def header_of(data: bytes) -> Header:
    """Returns the header that these bytes begin with.

    Raises:
        NotARequest: they are too short, or its text is none.
    """
    if len(data) < HEAD.size:
        raise NotARequest("a request without a whole header")
    key, version, number, length = HEAD.unpack_from(data)
    end = HEAD.size + max(length, 0)
    if end > len(data):
        raise NotARequest("a request without a whole header")
    try:
        client = data[HEAD.size : end].decode()
    except UnicodeDecodeError:
        raise NotARequest("a client's id that is not text") from None
    return Header(key, version, number, client, end)


def decoded(request_class: Any, body: bytes, version: int) -> Any:
    """Returns a request decoded.

    Args:
        request_class: of `kafka.protocol`.
        body: the bytes after the header.
        version: of the request.

    Raises:
        NotARequest: the bytes are no such request.
    """
    try:
        request = request_class.decode(body, version=version)
        _check_fields(request, version)
        # The decoder takes lengths at their word, and slices end where the data does. So what it
        # has read must be what was sent.
        # (Some requests have an encoder that first changes what a client has filled in.)
        again = ApiMessage.encode(request)
    except NotARequest:
        raise
    # It is made for what brokers send, and raises whatever such bytes lead to.
    except Exception as error:
        raise NotARequest(f"a malformed {request_class.__name__}") from error
    if again != body:
        raise NotARequest(f"a malformed {request_class.__name__}")
    return request


def _check_fields(request: Any, version: int) -> None:
    """Check that only those fields are null that may be, and how many elements all arrays have.

    As in Kafka, null is no request where the protocol has no null. Handlers rely on that.

    Raises:
        NotARequest: a field is null that must not be, or there are too many elements.
    """
    count = 0
    containers = [request]
    while containers:
        container = containers.pop()
        for name, declared in container.fields.items():
            value = getattr(container, name)
            if value is None:
                _check_null(declared, version)
            if not isinstance(value, list):
                continue
            count += len(value)
            if count > MAX_ELEMENTS:
                raise NotARequest(f"a request of more than {MAX_ELEMENTS} elements")
            containers.extend(item for item in value if isinstance(item, DataContainer))
            # Texts and numbers in an array are never null.
            if None in value:
                raise NotARequest(f"a request with a null in {name}")


def _check_null(declared: Any, version: int) -> None:
    # A field that this version does not have may have null for its default.
    if declared.for_version_q(version) and not declared.nullable_for_version_q(version):
        raise NotARequest(f"a request in which {declared.name} is null")


def framed(number: int, response: Any, version: int) -> bytes:
    """Returns a response as it is sent.

    ApiVersions' header never has tagged fields, and no other response here has them.
    """
    body: bytes = response.encode(version=version)
    return SIZE.pack(4 + len(body)) + SIZE.pack(number) + body


class RequestReader:
    """Reads frames from a connection; it holds one at most.

    Args:
        stream: the connection.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._data = bytearray()
        # Bytes of the frame in hand that were not taken yet.
        self._left = 0

    @property
    def is_between_frames(self) -> bool:
        """Whether nothing of another frame has come."""
        return not self._data

    async def next_size(self) -> int:
        """Returns how large the next frame is, when it begins.

        Raises:
            NotARequest: no frame is that large, or has a negative size.
            EndOfStream, BrokenResourceError, ClosedResourceError: the connection has ended.
        """
        self._left = SIZE.size
        data = await self.take(SIZE.size)
        (size,) = SIZE.unpack(data)
        if not HEAD.size <= size <= MAX_SKIPPED:
            raise NotARequest(speaks(data, "") or f"a request of {size} bytes")
        self._left = size
        return int(size)

    @property
    def left(self) -> int:
        """How many bytes of the frame in hand were not taken yet."""
        return self._left

    async def take(self, size: int) -> bytes:
        """Returns the next bytes of the frame in hand.

        Raises:
            NotARequest: it has fewer.
            EndOfStream, BrokenResourceError, ClosedResourceError: the connection has ended.
        """
        if not 0 <= size <= self._left:
            raise NotARequest("a request with a length beyond its end")
        while len(self._data) < size:
            self._data += await self._stream.receive(RECEIVE_BYTES)
        taken = bytes(memoryview(self._data)[:size])
        del self._data[:size]
        self._left -= size
        return taken

    async def receive_ahead(self) -> None:
        """Receive what follows the frame in hand, until some of it waits, or the connection ends.

        If this is cancelled, nothing is lost.

        Raises:
            EndOfStream, BrokenResourceError, ClosedResourceError: the connection has ended.
        """
        while len(self._data) < RECEIVE_BYTES:
            self._data += await self._stream.receive(RECEIVE_BYTES)

    async def skip(self, size: int) -> None:
        """Drop the next bytes of the frame in hand, as they come. Raises what `take` does."""
        while size > 0:
            piece = min(size, RECEIVE_BYTES)
            await self.take(piece)
            size -= piece
