"""The gateway's listener: each connection gets a conversation, and all share the state."""

import logging
from collections import Counter
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict
from functools import partial
from ssl import SSLContext

import anyio

from zaichik import Client, Endpoint
from zaichik.apps.gateways.claim import Claim
from zaichik.apps.gateways.strangers import NoTls, secured
from zaichik.apps.gateways.traffic import Connections, Figures, Traffic
from zaichik.apps.kafka.connection import Connection
from zaichik.apps.kafka.names import CLAIM
from zaichik.apps.kafka.positions import Positions
from zaichik.apps.kafka.session import MAX_CONNECTIONS, Counts, Shared
from zaichik.apps.kafka.topics import DEFAULT_CAPACITY, Topics
from zaichik.apps.users.connections import UserConnections
from zaichik.base.clock import SystemClock
from zaichik.client.messages import AckedBy
from zaichik.net.background import BackgroundTasks
from zaichik.net.listener import Listener
from zaichik.net.peers import client_of
from zaichik.net.served import Served
from zaichik.net.socket_stream import SocketStream
from zaichik.net.stream import Stream

logger = logging.getLogger("zaichik.kafka.gateway")

HOST = "127.0.0.1"
PING_SECONDS = 1.0
TLS_SECONDS = 10.0


class Gateway:
    """What looks like Kafka, with our broker behind it.

    Args:
        client: the broker's client of the gateway's own user.
        listener: accepts connections; closed when `run` returns.
        claim: the gateway has it; given back when `run` returns.
        shared: the state that all connections share.
        login: the broker, where each client logs in; None: all act as the gateway's user.
        tls: what is shown to clients; None: connections are not encrypted.
        reconnect_s: for how long users' lost connections to the broker are tried again.

    Attributes:
        host, port: where it listens.
        shared: see above.
    """

    def __init__(
        self,
        client: Client,
        listener: Listener,
        claim: Claim,
        shared: Shared,
        login: Endpoint | None = None,
        tls: SSLContext | None = None,
        reconnect_s: float = 60.0,
    ) -> None:
        self.host, self.port = listener.host, listener.port
        self.shared = shared
        self._client = client
        self._listener = listener
        self._claim = claim
        self._login = login
        self._tls = tls
        self._reconnect_s = reconnect_s
        self._users: UserConnections | None = None
        self._traffic = Connections()
        self._served = Served(MAX_CONNECTIONS, logger, self._end_a_newcomer)
        # The addresses of connections that must log in and have not, the oldest one first.
        self._newcomers: dict[anyio.CancelScope, str] = {}

    @classmethod
    async def listening(
        cls,
        client: Client,
        port: int,
        *,
        host: str = HOST,
        advertise: tuple[str, int] | None = None,
        capacity: int = DEFAULT_CAPACITY,
        login: Endpoint | None = None,
        tls: SSLContext | None = None,
        reconnect_s: float = 60.0,
        acked_by: AckedBy | None = None,
    ) -> "Gateway":
        """Returns a gateway at a port, which may be reached from then on.

        Args:
            client: of the gateway's own user.
            port: where to listen; 0 takes a free one.
            host: the address to listen on.
            advertise: the host and port that clients are told; None: where it listens.
            capacity: see `Topics`.
            login: see the class.
            tls: see the class.
            reconnect_s: see the class.
            acked_by: see `Shared`. Topics that clients make lose nothing then.

        Raises:
            OSError: the port is not available.
            AlreadyServed: another gateway is at the broker.
            TopicExists: the topic of positions is something else.
            BrokerError: the gateway's user may not use it.
        """
        async with AsyncExitStack() as stack:
            # The port comes first: most often, another gateway is noticed by that.
            listener = await stack.enter_async_context(await Listener.open(host, port))
            claim = await stack.enter_async_context(Claim(client, CLAIM, "Kafka's protocol"))
            positions = Positions(client)
            await positions.load()
            stack.pop_all()
        shown_host, shown_port = advertise or (listener.host, listener.port)
        topics = Topics(capacity, is_lossless=acked_by is not None)
        shared = Shared(shown_host, shown_port, topics, positions, acked_by=acked_by)
        return cls(client, listener, claim, shared, login, tls, reconnect_s)

    @property
    def counts(self) -> Counts:
        """What was lost or refused since it began."""
        return self.shared.counts

    async def aclose(self) -> None:
        """Stop listening, without having served."""
        await self._listener.aclose()
        await self._claim.aclose()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ExceptionGroup: of one `ConnectionLost`: the broker is gone for good; or of
                `AlreadyServed`: another gateway has begun at the broker.
        """
        try:
            async with (
                aclosing(self._claim),
                BackgroundTasks() as holding,
                self._listener,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(self._claim.hold)
                if self._login is not None:
                    self._users = UserConnections(
                        self._login,
                        "zaichik kafka",
                        holding.group,
                        SystemClock().now_us,
                        reconnect_s=self._reconnect_s,
                    )
                serve_one = partial(self._served.serve, self._converse)
                tasks.start_soon(self._listener.serve, serve_one, tasks)
                while True:  # a lost broker is noticed even while no one is connected
                    await self._client.ping()
                    await anyio.sleep(PING_SECONDS)
        finally:
            counts = [f"{name} {count}" for name, count in asdict(self.counts).items() if count]
            if counts:
                logger.info("lost or refused since the start: %s", ", ".join(counts))

    async def _converse(self, stream: SocketStream, peer: str) -> str:
        with self._traffic.counted() as traffic:
            reason = await self._as_newcomer(stream, peer, traffic)
        logger.info(
            "%s disconnected: %s; %d messages and %d bytes received, %d and %d sent",
            peer,
            reason,
            traffic.received_messages,
            traffic.received_bytes,
            traffic.sent_messages,
            traffic.sent_bytes,
        )
        return ""

    async def _as_newcomer(self, stream: SocketStream, peer: str, traffic: Traffic) -> str:
        newcomer = anyio.CancelScope()
        if self._users is not None:
            self._newcomers[newcomer] = client_of(peer)
        try:
            with newcomer:
                return await self._secured_and_served(newcomer, stream, peer, traffic)
            return "it had not logged in, and a newer connection needed its place"
        finally:
            self._newcomers.pop(newcomer, None)

    async def _secured_and_served(
        self, newcomer: anyio.CancelScope, stream: SocketStream, peer: str, traffic: Traffic
    ) -> str:
        inner: Stream = stream
        if self._tls is not None:
            try:
                inner = await secured(stream, self._tls, TLS_SECONDS)
            except NoTls as error:
                return f"TLS failed: {error}"
        on_login = partial(self._newcomers.pop, newcomer, None)
        connection = Connection(
            inner, peer, self.shared, self._client, self._users, traffic, on_login
        )
        return await connection.run()

    def _end_a_newcomer(self) -> bool:
        """End a connection that has not logged in; returns whether there was one.

        It is the oldest one of the address that has most of them.
        """
        if not self._newcomers:
            return False
        ((most, _),) = Counter(self._newcomers.values()).most_common(1)
        oldest = next(it for it, address in self._newcomers.items() if address == most)
        del self._newcomers[oldest]
        oldest.cancel()
        return True

    def figures(self) -> Figures:
        """Returns what is counted, for metrics. Another thread may ask."""
        counts = self.counts
        missed = {
            "evicted": counts.evicted,
            "skipped": counts.skipped,
            "headers": counts.headers,
        }
        return Figures(
            self._traffic,
            missed,
            turned_away=self._served.turned_away,
            sessions=len(self.shared.coordinator),
        )
