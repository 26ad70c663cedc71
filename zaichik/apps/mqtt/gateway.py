"""The gateway's listener: MQTT in front, the broker behind, and one state between them."""

import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Self

import anyio

from zaichik import Client, Endpoint, EpochChanged, SubscriptionLost
from zaichik.apps.gateways.claim import AlreadyServed, Claim
from zaichik.apps.gateways.strangers import NoTls, secured
from zaichik.apps.gateways.traffic import Connections, Figures
from zaichik.apps.mqtt.connection import CONNECT_US, Connection
from zaichik.apps.mqtt.counters import Counters
from zaichik.apps.mqtt.logins import Logins
from zaichik.apps.mqtt.origins import Refused
from zaichik.apps.mqtt.session import Session
from zaichik.apps.mqtt.spaces import CLAIM
from zaichik.apps.mqtt.state import Options, State
from zaichik.base.clock import Clock
from zaichik.base.escapes import shown
from zaichik.net.listener import Listener
from zaichik.net.served import Served
from zaichik.net.socket_stream import SocketStream
from zaichik.net.stream import GONE, Stream

logger = logging.getLogger("zaichik.mqtt.gateway")

# Each has at most an incomplete packet, 64 KiB of output, and a window of a MiB.
MAX_CONNECTIONS = 2000
SWEEP_SECONDS = 1.0
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WebSockets:
    """How browsers are served.

    Attributes:
        listener: accepts their connections.
        upgrade: makes a WebSocket of one, whose frames have at most so many bytes; see `Upgrade`.
    """

    listener: Listener
    upgrade: Callable[[Stream, int], Awaitable[Stream]]


class Gateway:
    """MQTT's server, with our broker behind it.

    Args:
        client: the gateway's own client.
        endpoint: of the broker: if it has a login, so must MQTT's clients.
        listener: accepts connections; closed when the gateway's block ends.
        clock: decides what is late, and what has expired.
        options: see there.
        tls: what clients are shown; None: no TLS.
        reconnect_s: for how long users' lost connections to the broker are tried again.
        websockets: browsers are served as well, with the same TLS; the caller closes its listener.

    Attributes:
        host, port: where it listens.
        websocket_port: where it listens for browsers; None: nowhere.
        state: the current one.
    """

    def __init__(
        self,
        client: Client,
        endpoint: Endpoint,
        listener: Listener,
        clock: Clock,
        options: Options | None = None,
        tls: ssl.SSLContext | None = None,
        reconnect_s: float = 60.0,
        websockets: WebSockets | None = None,
    ) -> None:
        self.host, self.port = listener.host, listener.port
        self.websocket_port: int | None = None
        if websockets is not None:
            self.websocket_port = websockets.listener.port
        self.state: State
        self._client = client
        self._endpoint = endpoint
        self._listener = listener
        self._clock = clock
        self._options = options or Options()
        self._tls = tls
        self._reconnect_s = reconnect_s
        self._websockets = websockets
        self._served = Served(MAX_CONNECTIONS, logger)
        self._connections: dict[Connection, None] = {}
        # They outlive a state.
        self._counters = Counters()
        self._traffic = Connections()

    @classmethod
    async def listening(
        cls,
        client: Client,
        endpoint: Endpoint,
        host: str,
        port: int,
        clock: Clock,
        options: Options | None = None,
        tls: ssl.SSLContext | None = None,
        reconnect_s: float = 60.0,
        websockets: WebSockets | None = None,
    ) -> "Gateway":
        """Returns a gateway at that address; port 0 takes a free one.

        Raises:
            OSError: the address is not available.
        """
        listener = await Listener.open(host, port)
        return cls(client, endpoint, listener, clock, options, tls, reconnect_s, websockets)

    async def __aenter__(self) -> Self:
        """Returns the gateway, which listens until the block ends."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        await self._listener.aclose()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled.

        Args:
            ready: called when clients can connect.

        Raises:
            ExceptionGroup: of one `ConnectionLost`: the broker is gone for good; or of what
                `State.load` raises; or of `AlreadyServed`: another gateway is, or has begun, at
                the broker.
        """
        while True:
            try:
                await self._serve(ready)
            except* (EpochChanged, SubscriptionLost):
                logger.warning("the broker has lost its topics: all sessions begin anew")
            ready = _nothing

    async def _serve(self, ready: Callable[[], None]) -> None:
        """Serve with one state, until its topics are gone."""
        async with (
            Claim(self._client, CLAIM, "MQTT") as claim,
            anyio.create_task_group() as tasks,
        ):
            now_us = self._clock.now_us
            logins = Logins(self._endpoint, self._client, tasks, now_us, self._reconnect_s)
            state = State(self._client, self._options, logins, tasks, now_us, self._counters)
            tasks.start_soon(self._hold, claim, state)
            try:
                await state.load()
                self.state = state
                await self._serve_loaded(state, ready)
            finally:
                with anyio.move_on_after(STOP_SECONDS, shield=True):
                    await state.release()
            tasks.cancel_scope.cancel()

    async def _serve_loaded(self, state: State, ready: Callable[[], None]) -> None:
        try:
            await self._serve_all(state, ready)
        finally:
            # All connections have ended by now, and have left everything as it is to be.
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                await state.aclose()

    async def _hold(self, claim: Claim, state: State) -> None:
        """End a state that another gateway has read by now, without storing anything of it."""
        try:
            await claim.hold()
        except AlreadyServed:
            state.is_over = True
            raise

    async def _serve_all(self, state: State, ready: Callable[[], None]) -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(state.follow)
            plain = partial(self._served.serve, partial(self._serve_one, state, None))
            tasks.start_soon(self._listener.serve, plain, tasks)
            if self._websockets is not None:
                converse = partial(self._serve_one, state, self._websockets)
                framed = partial(self._served.serve, converse)
                tasks.start_soon(self._websockets.listener.serve, framed, tasks)
            ready()
            while True:
                await anyio.sleep(SWEEP_SECONDS)
                await self.sweep()
                # A lost broker is noticed even while nobody is connected.
                await self._client.ping()

    async def sweep(self) -> None:
        """End what has lasted too long, and store what must outlive the gateway."""
        now_us = self._clock.now_us()
        for connection in list(self._connections):
            connection.check_silence(now_us)
        await self.state.sweep()

    async def _serve_one(
        self, state: State, websockets: WebSockets | None, stream: SocketStream, peer: str
    ) -> str:
        """Serve one connection; returns why it has ended."""
        secured = await self._secured(stream, peer)
        if secured is not None and websockets is not None:
            secured = await self._upgraded(state, websockets, secured, peer)
        if secured is None:
            return "it has not agreed on how to speak"
        return await self._converse(state, secured, peer)

    async def _secured(self, stream: SocketStream, peer: str) -> Stream | None:
        """Returns the stream to converse over; None if TLS was not agreed on."""
        if self._tls is None:
            return stream
        try:
            return await secured(stream, self._tls, CONNECT_US / 1e6)
        except NoTls as error:
            logger.info("%s: no TLS: %s", peer, error)
            return None

    async def _upgraded(
        self, state: State, websockets: WebSockets, stream: Stream, peer: str
    ) -> Stream | None:
        """Returns the WebSocket to converse over; None if it was not agreed on."""
        try:
            with anyio.fail_after(CONNECT_US / 1e6):
                return await websockets.upgrade(stream, state.most_packet)
        except (Refused, TimeoutError, anyio.EndOfStream, *GONE) as error:
            logger.info("%s: no WebSocket: %s", peer, error)
            await stream.aclose()
            return None

    async def _converse(self, state: State, stream: Stream, peer: str) -> str:
        with self._traffic.counted() as traffic:
            connection = Connection(state, stream, peer, traffic)
            self._connections[connection] = None
            try:
                reason = await connection.run()
            finally:
                del self._connections[connection]
        logger.info(
            "%s (%s) disconnected: %s; %d messages and %d bytes received, %d and %d sent",
            peer,
            shown(connection.client),
            reason,
            traffic.received_messages,
            traffic.received_bytes,
            traffic.sent_messages,
            traffic.sent_bytes,
        )
        return ""

    def figures(self) -> Figures:
        """Returns what is counted, for metrics. Another thread may ask."""
        sessions: list[Session] = []
        # Before the first state there are none.
        if hasattr(self, "state"):
            sessions = list(self.state.sessions.all.values())
        missed = asdict(self._counters)
        # Counted with the connections, for all versions.
        del missed["refused"]
        return Figures(
            self._traffic,
            missed,
            turned_away=self._served.turned_away,
            sessions=len(sessions),
            unacknowledged=sum(len(session.window) for session in sessions),
        )


def _nothing() -> None:
    """Clients were told before that they can connect."""
