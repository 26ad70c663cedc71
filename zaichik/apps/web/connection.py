"""A browser's connection, which cannot keep other browsers out, whatever it does or leaves undone.

uvicorn waits for the rest of a request, and for its answer to be read, for as long as the
connection lasts. So a few hundred connections that send nothing, or a byte a minute (slow loris),
would use up all places. Here both waits have an end, and when all places are taken, the oldest
connection that owes a request makes room for a new one.
"""

import logging
import math
import socket
from asyncio import Handle, Transport
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from zaichik.apps.gateways.strangers import speaks

logger = logging.getLogger("zaichik.web.connection")

MOST_CONNECTIONS = 256  # four for each page, and room for programs
READ_BYTES = 8192  # at once: h11 parses as many before anybody else has a turn
REQUEST_S = 20.0  # for all of a request, its body included
STUCK_S = 30.0  # a browser that reads nothing for so long has gone
SILENT_S = 10.0  # between two lines about lost clients: strangers could fill a disk with them

_OWES = {h11.IDLE, h11.SEND_BODY}


class Connection(H11Protocol):
    """The HTTP/1.1 of uvicorn, with deadlines."""

    # For all of them: until then, no other lost client is logged.
    _silent_until = -math.inf

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._opened_at = self.loop.time()
        self._request: Handle | None = None  # closes a connection that still owes a request
        self._unread: Handle | None = None  # closes a connection that reads nothing
        self._has_begun = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take a place, which another connection may have to give up."""
        super().connection_made(transport)
        # An answer is written in two pieces. With Nagle's algorithm, the second one would wait for
        # the first one's acknowledgement, which the client delays by 40 ms. asyncio switches it
        # off only for sockets that say which protocol they speak, and ours does not.
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # asyncio reads 256 KiB. Of a body in chunks of a byte, h11 needs a second for that. Other
        # loops may have no such attribute.
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES
        # This connection is one of them already.
        places: list[Any] = [
            taken for taken in self.connections if not taken.transport.is_closing()
        ]
        if len(places) > MOST_CONNECTIONS:
            waiting = [place for place in places if place.owes_request]
            min(waiting, key=lambda place: place._opened_at).transport.abort()  # noqa: SLF001 (the same class)
        self._expect()

    @property
    def owes_request(self) -> bool:
        """Whether there is nothing to answer yet."""
        return self.conn.their_state in _OWES

    def _expect(self) -> None:
        """Begin to wait for a request, go on with it, or end it."""
        if self._request and not self.owes_request:
            self._request.cancel()
            self._request = None
        elif not self._request and self.owes_request:
            self._request = self.loop.call_later(REQUEST_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Read what may be the rest of a request."""
        if not self._has_begun:
            self._has_begun = True
            self._name_stranger(data)
        super().data_received(data)
        self._expect()

    def _name_stranger(self, first: bytes) -> None:
        """Log what a client speaks that is lost here: above all TLS, where the page has none."""
        foreign = speaks(first, "HTTP")
        now = self.loop.time()
        if foreign and now >= Connection._silent_until:
            Connection._silent_until = now + SILENT_S
            peer = self.transport.get_extra_info("peername") or ("unknown", 0)
            logger.info("%s:%d speaks %s", peer[0], peer[1], foreign)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._expect()

    def pause_writing(self) -> None:
        """Begin to wait until the browser reads."""
        super().pause_writing()
        self._unread = self.loop.call_later(STUCK_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop waiting: the browser has read."""
        super().resume_writing()
        if self._unread:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel both deadlines."""
        super().connection_lost(exc)
        for deadline in filter(None, (self._request, self._unread)):
            deadline.cancel()
