"""What a gateway counts, for Prometheus: a page of text, at a port of this machine.

The same metrics for all gateways, told apart by the label `protocol`. No label is the name of a
client, an address or a topic: strangers could make up any number of these.

The page is served by threads of its own, which only read numbers. There is no login, so only this
machine reaches it, under a name of this machine: a browser's page from elsewhere cannot make its
own name mean this one (DNS rebinding).
"""

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zaichik.apps.gateways.traffic import Figures, Traffic

logger = logging.getLogger("zaichik.gateways.metrics")

HOST = "127.0.0.1"
NAMES = {HOST, "localhost"}
# At a time; and a program that goes silent in the middle of one has lost it after so long.
MOST_REQUESTS = 8
REQUEST_SECONDS = 2.0
# At which the thread notices that it is to end.
POLL_SECONDS = 0.1


Read = Callable[[Figures, Traffic], int | None]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: its name; for counters, without the `_total` at the end.
        text: what it means.
        read: returns its value, None if the gateway has none.
        is_counter: whether it only grows.
    """

    name: str
    text: str
    read: Read
    is_counter: bool = True

    @property
    def full_name(self) -> str:
        """The name in queries."""
        return self.name + "_total" * self.is_counter

    @property
    def type(self) -> str:
        """Its type in Prometheus."""
        if self.is_counter:
            return "counter"
        return "gauge"


def _unless_calls(read: Read) -> Read:
    """Returns what reads nothing if a library has the connections for itself."""

    def read_own(figures: Figures, traffic: Traffic) -> int | None:
        if figures.are_calls:
            return None
        return read(figures, traffic)

    return read_own


FAMILIES = (
    Family(
        "zaichik_gateway_connections",
        "Open connections of clients. gRPC: calls.",
        lambda figures, _: len(figures.connections),
        is_counter=False,
    ),
    Family(
        "zaichik_gateway_accepted_connections",
        "Connections that were accepted. gRPC: calls.",
        lambda figures, _: figures.connections.accepted,
    ),
    Family(
        "zaichik_gateway_turned_away_connections",
        "Connections that were closed at once, because there were too many. Not gRPC.",
        _unless_calls(lambda figures, _: figures.turned_away),
    ),
    Family(
        "zaichik_gateway_received_bytes",
        "Bytes from clients, without TLS. Not gRPC.",
        _unless_calls(lambda _, traffic: traffic.received_bytes),
    ),
    Family(
        "zaichik_gateway_sent_bytes",
        "Bytes to clients, without TLS. Not gRPC.",
        _unless_calls(lambda _, traffic: traffic.sent_bytes),
    ),
    Family(
        "zaichik_gateway_received_messages",
        "Messages that clients have published, stored or not.",
        lambda _, traffic: traffic.received_messages,
    ),
    Family(
        "zaichik_gateway_refused_messages",
        "Of these, messages that were not stored.",
        lambda _, traffic: traffic.refused_messages,
    ),
    Family(
        "zaichik_gateway_sent_messages",
        "Messages to clients, those that were sent again included.",
        lambda _, traffic: traffic.sent_messages,
    ),
    Family(
        "zaichik_gateway_sessions",
        "MQTT: sessions, with and without their clients. Kafka: consumer groups with members.",
        lambda figures, _: figures.sessions,
        is_counter=False,
    ),
    Family(
        "zaichik_gateway_unacknowledged_messages",
        "MQTT: messages in flight to clients, and not acknowledged.",
        lambda figures, _: figures.unacknowledged,
        is_counter=False,
    ),
)
MISSED = Family(
    "zaichik_gateway_missed_messages",
    "What clients have missed, by the reason.",
    lambda _figures, _traffic: None,
)
LABEL = "protocol"


class Metrics(Collector):
    """All metrics of a gateway, made anew for each scrape.

    Args:
        protocol: the label's value.
        read: returns the figures; another thread calls it.
    """

    def __init__(self, protocol: str, read: Callable[[], Figures]) -> None:
        self._protocol = protocol
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Returns the metrics that have a value."""
        figures = self._read()
        traffic = figures.connections.total()
        for family in FAMILIES:
            value = family.read(figures, traffic)
            if value is None:
                continue
            kind: type[Any] = GaugeMetricFamily
            if family.is_counter:
                kind = CounterMetricFamily
            metric = kind(family.name, family.text, labels=(LABEL,))
            metric.add_metric((self._protocol,), value)
            yield metric
        missed = CounterMetricFamily(MISSED.name, MISSED.text, labels=(LABEL, "reason"))
        for reason, count in figures.missed.items():
            missed.add_metric((self._protocol, reason), count)
        yield missed

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: the registry need not collect to learn the names."""
        return ()


class _Server(ThreadingMixIn, WSGIServer):
    """Serves some requests at a time, and closes what comes beyond that."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind, and ask no name server for the machine's name."""
        TCPServer.server_bind(self)
        self.server_name = HOST
        self.server_port = int(self.server_address[1])
        self.setup_environ()

    def verify_request(self, *_: object) -> bool:
        """Take a place; returns whether there was one."""
        return self._places.acquire(blocking=False)

    def process_request_thread(self, *arguments: Any) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(*arguments)
        finally:
            self._places.release()

    def handle_error(self, *_: object) -> None:
        """Say nothing about a program that was silent, or has left in the middle."""
        error = sys.exception()
        if not isinstance(error, OSError):
            logger.error("a bug in answering a scrape", exc_info=error)


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def log_message(self, *_: object) -> None:
        """Log nothing: a scrape is no event."""


@contextmanager
def served(metrics: Metrics, port: int) -> Iterator[int]:
    """Serve metrics at `/metrics` during the block; returns the port.

    Args:
        metrics: are collected for each request.
        port: where to listen, on this machine; 0 takes a free one.

    Raises:
        OSError: the port is not available.
    """
    registry = CollectorRegistry()
    registry.register(metrics)
    application = _guarded(registry)
    with make_server(HOST, port, application, _Server, _Handler) as server:
        threading.Thread(
            target=server.serve_forever, args=(POLL_SECONDS,), name="metrics", daemon=True
        ).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def _guarded(registry: CollectorRegistry) -> Any:
    """Returns the page as an application of WSGI."""
    page = make_wsgi_app(registry)

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        host = str(environ.get("HTTP_HOST", HOST))
        if host.partition(":")[0] not in NAMES:
            return _refused(start_response, "421 Misdirected Request", f"ask for {HOST}")
        if environ.get("PATH_INFO") != "/metrics":
            return _refused(start_response, "404 Not Found", "there is only /metrics")
        try:
            return page(environ, start_response)
        except Exception:
            logger.exception("a bug in answering a scrape")
            problem = "the gateway has a bug; its log says more"
            return _refused(start_response, "500 Internal Server Error", problem)

    return application


def _refused(start_response: Any, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
