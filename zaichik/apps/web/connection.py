"""A browser's connection, which cannot keep other browsers out, whatever it does or leaves undone.

uvicorn waits for the rest of a request, and for its answer to be read, for as long as the
connection lasts. So a few hundred connections that send nothing, or a byte a minute (slow loris),
would use up all places. Here both waits have an end, and when all places are taken, the oldest
connection that owes a request makes room for a new one.

Nor can it take all of the time. A body in chunks of a byte takes a hundred times as long to parse
as one in large chunks: a single client that sent such a body kept all others waiting. So what is
read is parsed in slices, small ones at first, and slices that take long are paid for: the
connection waits before the next one. All that wait have a tenth of the time together.
"""

import logging
import math
import socket
from asyncio import Handle, Transport
from time import thread_time
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from zaichik.apps.gateways.strangers import speaks

logger = logging.getLogger("zaichik.web.connection")

MOST_CONNECTIONS = 256  # four for each page, and room for programs
READ_BYTES = 8192  # at once: h11 parses as many before anybody else has a turn
# The first slice, and the one after a dear one. Each cheap one doubles it, up to `READ_BYTES`.
SLICE_BYTES = 1024
CHEAP_S = 0.0005  # of processor time: a slice of an ordinary request takes less than half of it
# What dear slices of a connection may take for nothing, and what each cheap one adds to that.
# Python looks after its memory now and then, and that falls on anybody.
FREE_S = 0.01
EARNED_S = 0.0001
SLOW_SHARE = 0.1  # of the time, for what all connections take beyond that
REQUEST_S = 20.0  # for all of a request, its body included
STUCK_S = 30.0  # a browser that reads nothing for so long has gone
SILENT_S = 10.0  # between two lines about lost clients: strangers could fill a disk with them

_OWES = {h11.IDLE, h11.SEND_BODY}


class SlowLane:
    """The connections that wait because their bytes take long to parse.

    Attributes:
        count: how many there are.
    """

    def __init__(self) -> None:
        self.count = 0

    def wait_s(self, took_s: float) -> float:
        """Returns how long one more waits that has kept the others waiting for so long."""
        return took_s * (self.count + 1) / SLOW_SHARE


class _Flow(FlowControl):
    """Reads while the application is ready for more, and all that was read is parsed."""

    is_held = False

    def hold(self) -> None:
        """Read no more until `release`."""
        self.is_held = True
        self._transport.pause_reading()

    def release(self) -> None:
        """Read as before."""
        self.is_held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """The application is ready for more."""
        if self.is_held:
            self.read_paused = False
        else:
            super().resume_reading()


class Connection(H11Protocol):
    """The HTTP/1.1 of uvicorn, with deadlines, and a price for slow parsing.

    Args:
        lane: of the server.
        more: places besides `MOST_CONNECTIONS`.
        args, kwargs: of uvicorn.
    """

    # For all of them: until then, no other lost client is logged.
    _silent_until = -math.inf

    def __init__(self, *args: Any, lane: SlowLane, more: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most = MOST_CONNECTIONS + more
        self._lane = lane
        self._unparsed = b""
        self._parsing: Handle | None = None  # parses the next slice
        self._slice_bytes = SLICE_BYTES
        self._is_slow = False  # whether it waits in the lane
        self._debt_s = 0.0  # what its dear slices have taken for nothing
        self._opened_at = self.loop.time()
        self._request: Handle | None = None  # closes a connection that still owes a request
        self._unread: Handle | None = None  # closes a connection that reads nothing
        self._closing: Handle | None = None  # aborts one that is closed, and does not end
        self._has_begun = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take a place, which another connection may have to give up."""
        super().connection_made(transport)
        self.flow: _Flow = _Flow(transport)
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
        if len(places) > self._most:
            waiting = [place for place in places if place.owes_request]
            min(waiting, key=lambda place: place._opened_at).transport.abort()  # noqa: SLF001 (the same class)
        self._drop_closed()
        self._expect()

    def _drop_closed(self) -> None:
        """End the oldest of those that were closed and are not read to the end, if they are many.

        uvicorn counts them, too, and answers nobody once there are twice as many as places.
        """
        closed: list[Any] = [taken for taken in self.connections if taken.transport.is_closing()]
        if len(closed) > self._most // 2:
            oldest = min(closed, key=lambda one: one._opened_at)  # noqa: SLF001 (the same class)
            oldest.transport.abort()
            # It is lost in the next round of the loop, and others may come in this one.
            self.connections.discard(oldest)

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

    def _expect_end(self) -> None:
        """Begin to wait for the end of a connection that was closed.

        Closing waits until the browser has read all, and asyncio says that it reads nothing from
        64 KiB on only. To uvicorn the connection is there until then.
        """
        if self._closing is None and self.transport.is_closing():
            self._closing = self.loop.call_later(STUCK_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Read what may be the rest of a request."""
        if not self._has_begun:
            self._has_begun = True
            self._name_stranger(data)
        self._unparsed += data
        if self._parsing is None:
            self._parse()

    def _parse(self) -> None:
        """Parse a slice of what was read."""
        data = self._unparsed[: self._slice_bytes]
        self._unparsed = self._unparsed[self._slice_bytes :]
        used_s, now = thread_time(), self.loop.time()
        super().data_received(data)
        self._expect()
        self._expect_end()
        wait_s = self._price_s(thread_time() - used_s, self.loop.time() - now)
        if wait_s:
            self._is_slow = True
            self._lane.count += 1
            self._parsing = self.loop.call_later(wait_s, self._parse_on)
        elif self._unparsed:
            self._parsing = self.loop.call_soon(self._parse_on)
        if self._parsing is not None:
            self.flow.hold()

    def _price_s(self, used_s: float, took_s: float) -> float:
        """Returns how long to wait before the next slice.

        Args:
            used_s: the processor time that the last one has used, which says whether it was dear.
            took_s: how long it took, which is more on a busy machine.
        """
        if used_s <= CHEAP_S:
            self._slice_bytes = min(2 * self._slice_bytes, READ_BYTES)
            self._debt_s = max(self._debt_s - EARNED_S, 0.0)
            return 0.0
        self._slice_bytes = SLICE_BYTES
        if self._debt_s + used_s <= FREE_S:
            self._debt_s += used_s
            return 0.0
        return self._lane.wait_s(took_s)

    def _parse_on(self) -> None:
        self._parsing = None
        self._leave_lane()
        if self.transport.is_closing():
            # It was refused, and what has come after that is no request.
            self._unparsed = b""
        if self._unparsed:
            self._parse()
        if self._parsing is None:
            self.flow.release()

    def _leave_lane(self) -> None:
        if self._is_slow:
            self._is_slow = False
            self._lane.count -= 1

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
        self._expect_end()

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
        """Cancel what was to come."""
        self._leave_lane()
        super().connection_lost(exc)
        handles = self._request, self._unread, self._closing, self._parsing
        for handle in filter(None, handles):
            handle.cancel()
