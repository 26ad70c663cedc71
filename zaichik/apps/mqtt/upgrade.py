"""The opening handshake of a WebSocket (RFC 6455, section 4): from a request of HTTP to a stream.

    GET /mqtt HTTP/1.1                              HTTP/1.1 101 Switching Protocols
    Host: 127.0.0.1:8083                            Upgrade: websocket
    Upgrade: websocket                 ──▶  ◀──     Connection: Upgrade
    Connection: Upgrade                             Sec-WebSocket-Accept: ...
    Sec-WebSocket-Key: ...                          Sec-WebSocket-Protocol: mqtt
    Sec-WebSocket-Version: 13
    Sec-WebSocket-Protocol: mqtt

MQTT asks for the subprotocol (MQTT 5, section 6; MQTT 3.1.1, section 6), and a browser insists on
getting what it has asked for. No extension is agreed on, so nothing is compressed: a frame that
says so breaks the protocol. What is refused is answered with a status and a sentence.
"""

from contextlib import suppress

import anyio
from wsproto.connection import ConnectionType
from wsproto.events import AcceptConnection, RejectConnection, RejectData, Request
from wsproto.handshake import H11Handshake
from wsproto.typing import Headers
from wsproto.utilities import RemoteProtocolError

from zaichik.apps.gateways.strangers import speaks
from zaichik.apps.mqtt.origins import Origins, Refused
from zaichik.apps.mqtt.websocket import WebSocketStream
from zaichik.net.stream import GONE, Stream

PATH = "/mqtt"
SUBPROTOCOL = "mqtt"

# Of a request: with cookies, browsers send some KiB.
MOST_HEAD = 16 * 1024

_END = b"\r\n\r\n"


class Upgrade:
    """Makes WebSockets of connections.

    Args:
        origins: who may connect.
    """

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    async def __call__(self, stream: Stream, most_bytes: int) -> WebSocketStream:
        """Returns the WebSocket over a stream, once both ends agree.

        There is no deadline: that is the caller's. If this fails, close the stream.

        Args:
            stream: a connection on which nothing was sent.
            most_bytes: of the payload of a frame.

        Raises:
            Refused: what is wrong; the client was told.
            EndOfStream, BrokenResourceError, ClosedResourceError: it is gone.
        """
        handshake = H11Handshake(ConnectionType.SERVER)
        try:
            head, rest = await _head(stream)
            self._check(_request(handshake, head))
        except Refused as refused:
            await _answer(stream, handshake, refused)
            raise
        await stream.send(handshake.send(AcceptConnection(subprotocol=SUBPROTOCOL)))
        return WebSocketStream(stream, most_bytes, rest)

    def _check(self, request: Request) -> None:
        """Return if the request is let in; raises `Refused` if it is not."""
        if request.target.partition("?")[0] != PATH:
            raise Refused(404, f"there is nothing here but {PATH}")
        headers = [(name.lower(), value.decode("latin-1")) for name, value in request.extra_headers]
        self._origins.check(request.host, [value for name, value in headers if name == b"origin"])
        if SUBPROTOCOL not in request.subprotocols:
            raise Refused(400, f"the subprotocol must be {SUBPROTOCOL}")
        # Its bytes would be taken for frames.
        if {b"content-length", b"transfer-encoding"} & {name for name, _ in headers}:
            raise Refused(400, "the request must have no body")


async def _head(stream: Stream) -> tuple[bytes, bytes]:
    """Returns a request up to its empty line, and what has come after it."""
    received = b""
    while _END not in received:
        if len(received) >= MOST_HEAD:
            raise Refused(431, f"a request has at most {MOST_HEAD:,} bytes")
        received += await stream.receive(MOST_HEAD - len(received))
        # Otherwise it would wait for the end of a request, and the log would say no more than that.
        if foreign := speaks(received, "HTTP"):
            raise Refused(400, f"it speaks {foreign}")
    head, _, rest = received.partition(_END)
    return head + _END, rest


def _request(handshake: H11Handshake, head: bytes) -> Request:
    """Returns the request in these bytes, which asks for a WebSocket of version 13.

    Raises:
        Refused: it is another one, or none.
    """
    try:
        handshake.receive_data(head)
    except RemoteProtocolError as error:
        status = 400
        if isinstance(error.event_hint, RejectConnection):
            status = error.event_hint.status_code
        raise Refused(status, f"this is no request for a WebSocket: {error}") from None
    # The library takes them for ASCII.
    except UnicodeError:
        raise Refused(400, "a header has bytes that it may not have") from None
    for event in handshake.events():
        if isinstance(event, Request):
            return event
    raise Refused(400, "this is no request for a WebSocket")


async def _answer(stream: Stream, handshake: H11Handshake, refused: Refused) -> None:
    """Say what is wrong, and that nothing follows."""
    body = f"{refused}\n".encode()
    headers: Headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", b"%d" % len(body)),
        (b"Connection", b"close"),
    ]
    if refused.status == 426:
        headers.append((b"Sec-WebSocket-Version", b"13"))
    with suppress(anyio.EndOfStream, *GONE):
        answer = handshake.send(RejectConnection(refused.status, headers, has_body=True))
        await stream.send(answer + handshake.send(RejectData(body)))
        await stream.send_eof()
