"""One connection of a Kafka client: a request, its response, and so on, in their order.

Kafka's clients send the next request before they have the response to the one before, and expect
the responses in that order. So a request that waits, such as a Fetch, holds up those behind it, as
it does in Kafka: clients have connections of their own for what must not wait.

What a client can make this hold is one request, one response, and what its subscriptions have
received, all bounded, and bounded for all connections together (`memory`, `readings`). A client
that does not read its responses is disconnected.

Kafka's protocol has no answer to what it does not know. As in Kafka, the connection is closed then,
and the log has the name of the request.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import anyio

from zaichik import Client, ZaichikError
from zaichik.apps.gateways.traffic import Traffic
from zaichik.apps.kafka import frames, oversized
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.frames import Header, NotARequest, RequestReader, decoded, framed, header_of
from zaichik.apps.kafka.logins import BadLogin, SaslConversation
from zaichik.apps.kafka.memory import NoMemory
from zaichik.apps.kafka.readings import Readings
from zaichik.apps.kafka.requests import (
    API_VERSIONS,
    PRODUCE,
    REQUESTS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    Offered,
    api_versions,
    name_of,
)
from zaichik.apps.kafka.session import Session, Shared
from zaichik.apps.users.connections import UserConnections
from zaichik.base.escapes import shown
from zaichik.net.background import BackgroundTasks
from zaichik.net.stream import Stream

logger = logging.getLogger("zaichik.kafka.connection")

# Kafka's limit for a connection without requests.
IDLE_SECONDS = 600.0
LOGIN_SECONDS = 30.0  # and without a request, until a user has logged in
# A request that has begun is complete by then, and a response is read.
FRAME_SECONDS = 30.0
SEND_SECONDS = 60.0
GOODBYE_SECONDS = 1.0
CLIENT_LETTERS = 80  # of a client's id, in tools and as the beginning of its members' ids

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


Value = TypeVar("Value")


class Ended(Exception):
    """The gateway ends the connection; a sentence says why."""


class Connection:
    """A conversation with one client.

    Args:
        stream: the connection to it, which is closed when `run` returns.
        peer: its address, for the log.
        shared: the gateway's state.
        client: the broker's client of the gateway's own user.
        users: the users' connections, if clients log in; None: all act as the gateway's user.
        traffic: where what it sends and is sent is counted.
        on_login: called when a user has logged in.
    """

    def __init__(
        self,
        stream: Stream,
        peer: str,
        shared: Shared,
        client: Client,
        users: UserConnections | None,
        traffic: Traffic,
        on_login: Callable[[], object] = lambda: None,
    ) -> None:
        self._stream = stream
        self._peer = peer
        self._shared = shared
        self._traffic = traffic
        self._reader = RequestReader(stream)
        self._readings = Readings(shared.subscriptions)
        self._on_login = on_login
        self._sasl: SaslConversation | None = None
        self._session: Session | None = None
        if users is None:
            self._session = Session(shared, peer, client, "", self._readings, traffic)
        else:
            self._sasl = SaslConversation(users, peer)

    async def run(self) -> str:
        """Converse until either side ends it; returns the reason, for the log."""
        async with self._stream:
            try:
                reason = await self._converse()
            finally:
                await self._release()
            await self._say_goodbye()
        return reason

    async def _release(self) -> None:
        """Give back what the broker's client holds for it."""
        with anyio.CancelScope(shield=True), suppress(ZaichikError):
            await self._readings.close()
        if self._sasl is not None:
            self._sasl.close()
            if self._session is not None:
                self._shared.connections.give_back(self._session.user)

    async def _say_goodbye(self) -> None:
        """Send no more, and wait a moment for the client to do the same.

        Closing a socket with unread bytes resets the connection, and the client may lose a response
        that it has not read yet.
        """
        with suppress(*GONE), anyio.move_on_after(GOODBYE_SECONDS):
            await self._stream.send_eof()
            while True:
                await self._stream.receive(frames.RECEIVE_BYTES)

    async def _converse(self) -> str:
        try:
            while True:
                await self._answer_one()
        except NotARequest as error:
            self._shared.counts.malformed += 1
            return f"it sent {error}"
        except (Ended, BadLogin, NoMemory) as error:
            return str(error)
        except ZaichikError as error:
            return f"the broker: {error}"
        except GONE:
            if self._reader.is_between_frames:
                return "it has left"
            return "it has left in the middle of a request"

    async def _answer_one(self) -> None:
        size = await self._next_size()
        try:
            if size > frames.MAX_REQUEST:
                response = await self._in_time(self._refuse_unread, size)
                self._traffic.received_bytes += frames.SIZE.size + size
            else:
                response = await self._taken_and_answered(size)
            if response is not None:
                await self._send(response)
        finally:
            if self._session is not None:
                self._session.response_sent()

    async def _next_size(self) -> int:
        """Returns the size of the next request, when it begins.

        Raises:
            Ended: it does not come, or a stranger sends what no login needs.
        """
        patience = IDLE_SECONDS
        if self._session is None:
            patience = LOGIN_SECONDS
        with anyio.move_on_after(patience) as idle:
            size = await self._reader.next_size()
        if idle.cancelled_caught:
            raise Ended("it was silent for too long")
        if self._session is None and size > frames.MAX_LOGIN:
            raise Ended(f"it sent a request of {size} bytes without a login")
        return size

    async def _taken_and_answered(self, size: int) -> bytes | None:
        """Returns the response to the request in hand; None if it wants none.

        Raises:
            NoMemory: the requests of others have all that there is.
        """
        if self._session is None or size <= frames.MAX_SMALL:
            return await self._response(await self._taken(size))
        async with self._shared.memory.requests.taking(self._session.user, size):
            return await self._response(await self._taken(size))

    async def _taken(self, size: int) -> bytes:
        data = await self._in_time(self._reader.take, size)
        self._traffic.received_bytes += frames.SIZE.size + size
        return data

    async def _send(self, response: bytes) -> None:
        with anyio.move_on_after(SEND_SECONDS) as unread:
            await self._stream.send(response)
        if unread.cancelled_caught:
            raise Ended("it does not read its responses")
        self._traffic.sent_bytes += len(response)

    async def _in_time(self, receive: Callable[[int], Awaitable[Value]], size: int) -> Value:
        """Returns what `receive` makes of a request of that size.

        Raises:
            Ended: the request is not complete in time.
        """
        try:
            with anyio.fail_after(FRAME_SECONDS):
                return await receive(size)
        except TimeoutError:
            raise Ended("it did not complete a request in time") from None

    async def _refuse_unread(self, size: int) -> bytes | None:
        """Returns the response to a request that is too large to be held."""
        header = await oversized.header(self._reader)
        offered = self._offered(header)
        if header.key != PRODUCE or self._session is None:
            raise Ended(f"it sent {offered.name} of {size} bytes, which is too large")
        logger.warning("%s: Produce of %d bytes is too large", self._peer, size)
        self._shared.counts.refused += 1
        response = await oversized.refused(self._reader, header.version)
        if response is None:
            return None
        return framed(header.number, response, header.version)

    async def _response(self, data: bytes) -> bytes | None:
        """Returns the response to a request; None if it wants none."""
        header = header_of(data)
        if header.key == API_VERSIONS:
            return self._versions(header)
        offered = self._offered(header)
        if header.key != PRODUCE and len(data) > frames.MAX_OTHER:
            raise Ended(f"it sent {offered.name} of {len(data)} bytes, which is too large")
        request = decoded(offered.request, data[header.size :], header.version)
        if header.key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            response = await self._log_in(header, request)
        elif self._session is None or offered.handle is None:
            raise Ended(f"it sent {offered.name} without a login")
        else:
            self._session.client_id = header.client[:CLIENT_LETTERS]
            handling = offered.handle(self._session, request, header.version)
            if offered.waits:
                response = await self._unless_gone(handling)
            else:
                response = await handling
        if response is None:
            return None
        return framed(header.number, response, header.version)

    async def _unless_gone(self, handling: Awaitable[Value]) -> Value:
        """Returns the response to a request that waits, for as long as its client does.

        Otherwise clients that are started again and again would fill the gateway with connections
        that nobody has any more.

        Raises:
            EndOfStream: the client has left.
        """
        scope = anyio.CancelScope()
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(self._cancel_when_gone, scope)
            with scope:
                return await handling
        raise anyio.EndOfStream

    async def _cancel_when_gone(self, scope: anyio.CancelScope) -> None:
        try:
            await self._reader.receive_ahead()
        except GONE:
            scope.cancel()

    def _versions(self, header: Header) -> bytes:
        """Returns what is offered; a newer client asks again in a version that it finds there."""
        if 0 <= header.version <= REQUESTS[API_VERSIONS].newest:
            return framed(header.number, api_versions(Code.NONE), header.version)
        return framed(header.number, api_versions(Code.UNSUPPORTED_VERSION), 0)

    def _offered(self, header: Header) -> Offered:
        """Returns what is offered for a request.

        Raises:
            Ended: nothing.
        """
        offered = REQUESTS.get(header.key)
        if offered is None or not offered.oldest <= header.version <= offered.newest:
            self._shared.counts.unknown += 1
            name = name_of(header.key)
            logger.warning(
                "%s: the request %s %d is not offered (client %s)",
                self._peer,
                name,
                header.version,
                shown(header.client[:CLIENT_LETTERS]),
            )
            raise Ended(f"it sent {name} {header.version}, which is not offered")
        return offered

    async def _log_in(self, header: Header, request: object) -> object:
        if self._sasl is None:
            raise Ended("it sent a login, and the gateway asks for none")
        if header.key == SASL_HANDSHAKE:
            return self._sasl.handshake(request, header.version)
        response, logged_in = await self._sasl.authenticate(request)
        if logged_in is not None:
            client, user = logged_in
            self._enter(user)
            self._session = Session(
                self._shared, self._peer, client, user, self._readings, self._traffic
            )
        return response

    def _enter(self, user: str) -> None:
        """Take a user's place.

        Raises:
            Ended: the user has as many as the others leave.
        """
        connections = self._shared.connections
        if not connections.may_take(user):
            raise Ended(
                f"user {shown(user)} has {connections.of(user)} connections, and others may need "
                f"the {connections.free} that are left"
            )
        connections.take(user)
        self._on_login()
