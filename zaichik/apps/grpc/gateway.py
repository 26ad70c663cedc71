"""The gateway's server: where it listens, its limits, health and reflection.

Its limits are gRPC's own, set here once:

- A request has at most the bytes of the broker's largest batch, and what its fields add.
- `MOST_CONNECTIONS` are open; one more is closed at once.
- `MOST_CALLS` run at a time; one more is RESOURCE_EXHAUSTED. What each may hold is in `service`.
- A connection that does not answer a ping is closed, and its calls end, so a client that was
  unplugged keeps nothing. One that pings too often, or has no call for long, is closed, too; so is
  one that does not greet.

Health (`grpc.health.v1`) says whether the broker answers. Reflection lets programs such as grpcurl
ask for the declaration of the service. Neither asks for a login, so what strangers hold with them
has a bound of its own (see `unasked`), and of the calls of the service no user can hold all.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

import anyio
import grpc
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from zaichik import Client, Endpoint
from zaichik.apps.gateways.traffic import Connections, Figures
from zaichik.apps.grpc import broker_pb2, broker_pb2_grpc
from zaichik.apps.grpc.logins import MOST_USERS, Logins
from zaichik.apps.grpc.service import Service
from zaichik.apps.grpc.unasked import Health, Reflection, Unasked
from zaichik.apps.users.connections import UserConnections
from zaichik.base.clock import Clock, SystemClock
from zaichik.client.messages import AckedBy
from zaichik.net.background import BackgroundTasks

logger = logging.getLogger("zaichik.grpc.gateway")

NAME = broker_pb2.DESCRIPTOR.services_by_name["Broker"].full_name

MOST_CONNECTIONS = 256
MOST_CALLS = 256  # at a time, of all connections; each Subscribe may hold some 2 MiB
MOST_CALLS_OF_ONE = 100  # of one connection; its client waits with one more
MESSAGE_OVERHEAD = 32  # bytes that a message's fields take in a request, besides key and payload
REQUEST_OVERHEAD = 1024  # and those of a request; a topic's name has at most 200
PING_MS = 30_000  # after this long without a byte, a client is asked whether it is there ...
PING_TIMEOUT_MS = 20_000  # ... and has so long to answer
LEAST_PING_MS = 10_000  # a client that pings more often than this is told to go away
IDLE_MS = 300_000  # a connection without a call is closed
GREETING_MS = 10_000  # a client that has not greeted by then is closed; gRPC would wait 2 minutes
WATCH_SECONDS = 1.0
SILENCE_SECONDS = 3.0  # a broker that does not answer for so long is not healthy
GRACE_SECONDS = 1.0  # for calls that are about to end, when the gateway stops


class CannotServe(Exception):
    """The gateway must not, or cannot, serve as it was asked to; a sentence says why."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to serve.

    Attributes:
        endpoint: the broker; credentials in it are not used.
        host: the address to listen on.
        port: 0: any free one.
        certificate: key and certificate, in PEM; None: no TLS.
        reconnect: as in `connect`, for the connections of users.
        acked_by: what has to have batches before they are answered; None: the broker alone.
        calls: where calls are counted.
    """

    endpoint: Endpoint
    host: str = "127.0.0.1"
    port: int = 0
    certificate: tuple[bytes, bytes] | None = None
    reconnect: float = 60.0
    acked_by: AckedBy | None = None
    calls: Connections = field(default_factory=Connections)

    def figures(self) -> Figures:
        """Returns what is counted, for metrics. Another thread may ask."""
        return Figures(self.calls, are_calls=True)


@asynccontextmanager
async def serving(
    client: Client, options: Options, clock: Clock | None = None
) -> AsyncIterator[tuple[str, int]]:
    """Serve for the length of the block. Returns host and port, which are numbers.

    Args:
        client: the gateway's own, which tells the broker's limits, and whether it is there.
        options: see there.
        clock: the source of time.

    Raises:
        CannotServe: this is not asyncio; or other machines could get in without a login, or read
            along.
        OSError: the address is not available.
        ExceptionGroup: of one `ConnectionLost`: the broker is gone for good.
    """
    _check_backend()
    asks = bool((await client.describe())["user"])
    host = _available(options)
    if not ip_address(host.partition("%")[0]).is_loopback:
        _check_reachable(host, options, asks=asks)
    server = aio.server(options=_limits(client), maximum_concurrent_rpcs=MOST_CALLS)
    port = _bound(server, host, options)
    unasked = Unasked()
    condition = Health(unasked)
    async with BackgroundTasks() as tasks:
        users = UserConnections(
            options.endpoint,
            "zaichik grpc",
            tasks.group,
            (clock or SystemClock()).now_us,
            reconnect_s=options.reconnect,
            most=MOST_USERS,
        )
        logins = Logins(users, asks=asks)
        add_to_server = broker_pb2_grpc.add_BrokerServicer_to_server
        service = Service(logins, options.calls, MOST_CALLS, options.acked_by)
        add_to_server(service, server)  # type: ignore[no-untyped-call]  # generated
        health_pb2_grpc.add_HealthServicer_to_server(condition, server)
        names = (NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
        add_reflection = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
        add_reflection(Reflection(names, unasked), server)
        await _tell(condition, is_well=True)
        await server.start()
        tasks.group.start_soon(_watch, client, condition)
        try:
            yield host, port
        finally:
            with anyio.CancelScope(shield=True):
                await condition.enter_graceful_shutdown()
                await server.stop(GRACE_SECONDS)


def _check_backend() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        problem = (
            "gRPC's library runs on asyncio only, and so does this gateway: it is not for trio"
        )
        raise CannotServe(problem) from None


def _available(options: Options) -> str:
    """Returns the numeric address to listen on.

    Raises:
        OSError: it is not available. gRPC would not say why, so it is tried first.
    """
    family = socket.AF_INET
    if ":" in options.host:
        family = socket.AF_INET6
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind((options.host, options.port))
        host: str = tried.getsockname()[0]
    return host


def _check_reachable(host: str, options: Options, *, asks: bool) -> None:
    """Refuse to serve other machines without TLS, or without logins."""
    if options.certificate is None:
        raise CannotServe(
            f"other machines can reach {host}, and could read logins and messages on the way: add "
            "--tls-cert and --tls-key, or leave out --host (this machine only)"
        )
    if not asks:
        raise CannotServe(
            f"other machines can reach {host}, and the broker asks nobody to log in: start a "
            "broker with access control, or leave out --host (this machine only)"
        )


def _limits(client: Client) -> list[tuple[str, int]]:
    largest = client.welcome.max_message + client.welcome.max_batch * MESSAGE_OVERHEAD
    return [
        ("grpc.max_receive_message_length", largest + REQUEST_OVERHEAD),
        ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
        ("grpc.max_concurrent_streams", MOST_CALLS_OF_ONE),
        ("grpc.max_connection_idle_ms", IDLE_MS),
        ("grpc.server_handshake_timeout_ms", GREETING_MS),
        ("grpc.keepalive_time_ms", PING_MS),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", LEAST_PING_MS),
        # Otherwise two gateways could share a port, and nobody would know which one answers.
        ("grpc.so_reuseport", 0),
    ]


def _bound(server: aio.Server, host: str, options: Options) -> int:
    """Returns the port that the server has got."""
    address = f"{host}:{options.port}"
    if ":" in host:
        address = f"[{host}]:{options.port}"
    if options.certificate is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, grpc.ssl_server_credentials([options.certificate]))


async def _watch(client: Client, condition: Health) -> None:
    """Tell whether the broker answers, until it is gone for good.

    Raises:
        ConnectionLost: it is.
    """
    while True:
        with anyio.move_on_after(SILENCE_SECONDS) as patience:
            await client.ping()
        if patience.cancelled_caught:
            logger.warning("the broker does not answer")
            await _tell(condition, is_well=False)
            await client.ping()
            logger.info("the broker answers again")
            await _tell(condition, is_well=True)
        await anyio.sleep(WATCH_SECONDS)


async def _tell(condition: Health, *, is_well: bool) -> None:
    status = health_pb2.HealthCheckResponse.NOT_SERVING
    if is_well:
        status = health_pb2.HealthCheckResponse.SERVING
    for name in ("", NAME):
        await condition.set(name, status)
