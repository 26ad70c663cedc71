"""The addresses for programs: `/metrics`, `/healthz` (this process), `/readyz` (the broker).

The broker is asked when Prometheus asks, over a connection that is kept for that, by a `Poller`:
however often metrics are read, they take no more than a fiftieth of its time.

All who reach this address can read the metrics, so they are what one user may see: the one whose
login `zaichik web --metrics` was started with, or else nobody. There are none if that user may not
describe `$broker`.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from zaichik import (
    AuthFailed,
    Client,
    ConnectionLost,
    Endpoint,
    InvalidField,
    ZaichikError,
    connect,
)
from zaichik.apps.watch.polling import Poller
from zaichik.apps.web.metrics import Metrics, Reading, Row
from zaichik.apps.web.topics.counts import Counts
from zaichik.base.escapes import harmless
from zaichik_protocol import Kind

T = TypeVar("T")

SCRAPE_S = 8.0  # Prometheus itself waits for 10
READY_S = 2.0
OPEN_METRICS = "application/openmetrics-text"
REFUSED_S = 5.0  # during which a refused login is not tried again
MOST_PAGES = 250  # of subscriptions, most of which have no name: a tenth of a second
FORBIDDEN = (
    "metrics need the login of a user who may describe $broker: log in as one, and start "
    "`zaichik web --metrics`"
)


class Link:
    """A connection to the broker: made for the first question, kept, and replaced if it was lost.

    Args:
        endpoint: the broker, and the login.
        tasks: the connection lives there.
    """

    def __init__(self, endpoint: Endpoint, tasks: TaskGroup) -> None:
        self._endpoint, self._tasks = endpoint, tasks
        self._lock, self._lost = anyio.Lock(), anyio.Event()
        self._poller: Poller | None = None
        self._refusal: AuthFailed | None = None
        self._refused_at = 0.0

    async def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """Returns the answer to a question, after earlier ones have had theirs, and the pause.

        Raises:
            ZaichikError: the broker does not answer, or refuses to.
        """
        async with self._lock:
            # A failed login slows down every client on this machine.
            if self._refusal and anyio.current_time() < self._refused_at + REFUSED_S:
                raise self._refusal.with_traceback(None)
            try:
                if self._poller is not None:
                    with suppress(ConnectionLost):
                        return await self._poller.ask(partial(question, self._poller.client))
                poller = await self._connected()
                return await poller.ask(partial(question, poller.client))
            except AuthFailed as refusal:
                self._refusal, self._refused_at = refusal, anyio.current_time()
                raise

    async def _connected(self) -> Poller:
        """Returns a poller over a new connection."""
        self._lost.set()
        self._poller, self._lost = None, anyio.Event()
        self._poller = Poller(await self._tasks.start(self._hold))
        return self._poller

    async def _hold(self, *, task_status: TaskStatus[Client]) -> None:
        lost = self._lost
        async with connect(
            self._endpoint, name="zaichik web metrics", reconnect=0, silence_timeout=SCRAPE_S
        ) as client:
            task_status.started(client)
            await lost.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """What programs may read.

    Attributes:
        endpoint: the broker, and the login of the user whose view they get.
        topics, sessions: how many have series of their own.
        why_not: why nobody may read metrics here, in a sentence; "" if programs may.
    """

    endpoint: Endpoint
    topics: int = 200
    sessions: int = 200
    why_not: str = ""


class Scraping:
    """Answers programs.

    Args:
        scraped: what they may read.
        tasks: connections live there.
        streams: returns how many pages are open.
        counts: what programs have done; None: nothing.

    Attributes:
        metrics: the collector; other pollers may count their questions in its `polls`.
        routes: the addresses.
    """

    def __init__(
        self,
        scraped: Scraped,
        tasks: TaskGroup,
        streams: Callable[[], int] = lambda: 0,
        counts: Counts | None = None,
    ) -> None:
        self.metrics = Metrics(scraped.topics, scraped.sessions, streams, counts)
        self._scraped = scraped
        self._latest: tuple[str, float, Reading] | None = (
            None  # of which topics, asked when, and the answer
        )
        self._scrapes, self._checks = Link(scraped.endpoint, tasks), Link(scraped.endpoint, tasks)
        self.routes = [
            Route("/metrics", self._metrics),
            Route("/healthz", self._healthy),
            Route("/readyz", self._ready),
        ]

    async def _metrics(self, request: Request) -> Response:
        prefix, reading, why_not = (
            request.query_params.get("topic", ""),
            None,
            self._scraped.why_not,
        )
        now = anyio.current_time()
        if not why_not:
            try:
                with anyio.fail_after(SCRAPE_S):
                    reading = await self._scrapes.ask(
                        lambda client: self._read(client, prefix, now)
                    )
            except AuthFailed as error:
                why_not = f"{FORBIDDEN} ({error.message})"
            except PermissionError:
                why_not = FORBIDDEN
            except (ZaichikError, TimeoutError):  # the metrics say so
                pass
        if why_not:
            return PlainTextResponse(f"{harmless(why_not)}\n", 403)
        self.metrics.reading, self.metrics.prefix = reading, prefix
        encode, content_type = _encoder(request.headers.get("accept", ""))
        return Response(encode(self.metrics), headers={"Content-Type": content_type})

    async def _read(self, client: Client, prefix: str, since: float) -> Reading:
        """Returns what the broker reports now or later: requests that wait share an answer.

        Raises:
            PermissionError: the user may not describe the broker.
        """
        if self._latest and self._latest[0] == prefix and self._latest[1] >= since:
            return self._latest[2]
        now = anyio.current_time()
        broker = await self._timed("broker", client.describe())
        if "connections" not in broker:
            raise PermissionError
        topics = await self._timed("topics", _topics(client, prefix))
        has_names = broker["sessions"] and self._scraped.sessions
        sessions = await self._timed("sessions", _sessions(client, prefix)) if has_names else []
        reading = Reading(broker, topics, sessions)
        self._latest = prefix, now, reading
        return reading

    async def _timed(self, kind: str, answer: Awaitable[T]) -> T:
        with self.metrics.polls.labels(kind).time():
            return await answer

    async def _healthy(self, _: Request) -> Response:
        return PlainTextResponse("this process runs\n")

    async def _ready(self, _: Request) -> Response:
        try:
            with anyio.fail_after(READY_S):
                await self._checks.ask(lambda client: client.ping())
        except AuthFailed:  # the broker has answered, and pages have logins of their own
            pass
        except ZaichikError as error:
            return PlainTextResponse(f"{harmless(error.message)}\n", 503)
        except TimeoutError:
            return PlainTextResponse(f"the broker has not answered within {READY_S:g} s\n", 503)
        return PlainTextResponse("the broker answers\n")


def _encoder(accept: str) -> tuple[Callable[[Metrics], bytes], str]:
    """Returns the encoder of the format that was asked for, and its name."""
    # Not what was asked for, word by word: the library fails if that is a version it cannot read.
    return choose_encoder(f"{OPEN_METRICS}; version=1.0.0" if OPEN_METRICS in accept else "")


async def _topics(client: Client, prefix: str) -> list[Row]:
    with suppress(InvalidField):  # a broker that is too old to tell the counters alone
        return list(await client.counters(prefix))
    return [{**row, "capacity": row["settings"]["capacity"]} for row in await client.topics(prefix)]


async def _sessions(client: Client, prefix: str) -> list[Row]:
    """Returns the named subscriptions, in the order of their topics, up to `MOST_PAGES`."""
    found: list[dict[str, Any]] = []
    more, after = True, ""
    for _ in range(MOST_PAGES):
        page, more = await client.describe_page(Kind.SUBSCRIPTIONS, prefix, after=after)
        # A shared name has a row beside those of its workers.
        found += (row for row in page["subscriptions"] if row["session"] and "worker" not in row)
        if not more:
            break
        after = page["subscriptions"][-1]["name"]
    return list(found)
