"""Serves the page on a socket until it is told to stop, and then stops soon.

uvicorn waits for open answers before it ends, and those of `/events` have no end. So they are ended
first, each with a `bye`, and the time for what is left is bounded. Its signal handlers would
replace the command's, and are not installed.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import uvicorn

from zaichik.apps.web.app import Options, serving
from zaichik.apps.web.connection import MOST_CONNECTIONS, Connection, SlowLane
from zaichik.apps.web.guard import Guard
from zaichik.apps.web.topics.front import MOST_STREAMS

MOST_HEADERS = 64 * 1024  # bytes of a request before its body
LEFT_S = 0.3  # for answers under way, the last event of streams among them


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command."""
        yield


async def run(
    listener: socket.socket,
    options: Options,
    *,
    tls: ssl.SSLContext | None,
    allowed: list[str],
    stop: anyio.Event,
    ready: Callable[[], object],
) -> None:
    """Serve the page until `stop` is set.

    Args:
        listener: is bound; it is closed at the end.
        options: what is served.
        tls: with which the page is encrypted; None: it is not.
        allowed: more names under which the page is reached.
        stop: ends it.
        ready: called when connections are accepted.
    """
    # A connection for each stream that is beyond the usual number.
    more = max((options.streams or MOST_STREAMS) - MOST_STREAMS, 0)
    most = MOST_CONNECTIONS + more
    async with serving(options) as web:
        guarded = Guard(web.app, options.port, "https" if tls else "http", allowed)
        config = uvicorn.Config(
            guarded,
            http=partial(Connection, lane=SlowLane(), more=more),  # type: ignore[arg-type]  # it is called
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # no line for each broken request: attackers could fill a disk
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=2 * most,  # one answer may outlive its connection by some seconds
            backlog=most,  # the most that are accepted at once
            timeout_graceful_shutdown=LEFT_S,  # type: ignore[arg-type]  # a fraction will do
            h11_max_incomplete_event_size=MOST_HEADERS,
            ssl_context_factory=(lambda _, __: tls) if tls else None,
        )
        server = _Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            ready()  # the socket listens already, so no connection is refused now
            await stop.wait()
            web.stop()
            server.should_exit = True
