"""The addresses of the page, and what each answers.

| address | answer |
| --- | --- |
| `GET /` | the page, as at `/topic`, `/connections` and `/stage`; `/static/` has its files |
| `GET /session` | who is logged in, and whether a login is needed |
| `POST /login` | a cookie, for `{"secret": TOKEN}` or with `"user"` and a password |
| `POST /logout` | ends the session |
| `GET /events` | a stream of what `view=` shows (see `events` and `interests`) |
| `GET /state` | the same once, as JSON, for programs and for pages without a stream |
| `GET /explain` | what became of a message of `topic=`: at `offset=`, or the newest of `key=` |
| `POST /publish` | what became of `{"topic": …, "key": …, "payload": …}`; only with `--write` |
| `/topics/...`, `/names/...` | for programs that publish and read: see `topics` |
| `/stage/...` | a scene for a class, step by step: see `stage.stages` |
| `GET /metrics`, `/healthz`, `/readyz` | for programs: see `scraping` |
"""

import json
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from zaichik import Credentials, Endpoint, Forbidden, ZaichikError
from zaichik.apps.watch.polling import Poller
from zaichik.apps.web.commands import Commands
from zaichik.apps.web.events import JSON, Mailbox, lean, stream
from zaichik.apps.web.guard import PAGES
from zaichik.apps.web.interests import View
from zaichik.apps.web.scraping import Scraped, Scraping
from zaichik.apps.web.sessions import PUBLISHES, Session, Sessions
from zaichik.apps.web.shown import safe, staged
from zaichik.apps.web.stage.stages import Stages
from zaichik.apps.web.topics.counts import Counts
from zaichik.apps.web.topics.front import Topics, TopicsRoute
from zaichik.base.build import VERSION
from zaichik.base.clock import Clock, SystemClock
from zaichik.base.escapes import harmless
from zaichik.client.messages import AckedBy
from zaichik.net.background import BackgroundTasks, every
from zaichik_protocol import Unencodable

logger = logging.getLogger("zaichik.web.app")

STATIC = Path(__file__).parent / "static"
MOST_STREAMS = 64
FIRST_S = 5.0  # in which a running broker has answered
PUBLISH_S = 5.0  # a full topic makes publishers wait, but a page wants an answer
GRACE_S = 0.2  # for the last event of a stream that is to end
IDLE_CHECK_S = 60.0

Watched = tuple[Mailbox, AsyncGenerator[bytes, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the page is served.

    Attributes:
        endpoint: the broker.
        is_reachable: whether other machines can reach the page and must not without a login.
        is_encrypted: whether it is served with TLS.
        can_write: whether pages may publish.
        port: where it listens, for the name of the cookie: cookies belong to a host, whatever the
            port.
        scraped: what programs may read at `/metrics`; None: what everybody may see.
        acked_by: what has to have messages of programs before they are answered; None: the broker
            alone.
        streams: how many streams of topics programs may have open, besides the page's own;
            None: `MOST_STREAMS`.
    """

    endpoint: Endpoint
    is_reachable: bool = False
    is_encrypted: bool = False
    can_write: bool = False
    port: int = 0
    scraped: Scraped | None = None
    acked_by: AckedBy | None = None
    streams: int | None = None


class Web:
    """The page's server; `serving` makes one.

    Attributes:
        app: the ASGI application, to be put behind a `Guard`.
        sessions: who is logged in.
    """

    def __init__(
        self, options: Options, sessions: Sessions, clock: Clock, tasks: TaskGroup
    ) -> None:
        self._options = options
        self.sessions = sessions
        self._clock = clock
        self._cookie = f"zaichik-{options.port}"
        if options.is_encrypted:
            # A browser takes a cookie with this prefix over TLS only, and for this host alone.
            self._cookie = f"__Host-{self._cookie}"
        self._cookie_options: Any = {
            "secure": options.is_encrypted,
            "httponly": True,
            "samesite": "strict",
        }
        handlers: Any = {
            HTTPException: _refused,
            ZaichikError: _refused,
            Unencodable: _refused,
            ClientDisconnect: _refused,
            Exception: _bug,
        }
        self.app = Starlette(routes=self._routes(tasks), exception_handlers=handlers)

    def _routes(self, tasks: TaskGroup) -> list[BaseRoute]:
        """Returns what can be asked for, and who answers it."""
        options = self._options
        routes: list[BaseRoute] = [Route(path, self._page) for path in PAGES]
        routes += [
            Route("/session", self._session),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            Route("/events", self._events),
            Route("/state", self._state),
            Route("/explain", self._explain),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        counts = Counts()
        topics = Topics(
            self._program,
            counts,
            can_write=options.can_write,
            acked_by=options.acked_by,
            streams=options.streams,
        )
        routes.append(TopicsRoute(topics))
        scraped = options.scraped or Scraped(endpoint=options.endpoint)
        routes += Scraping(scraped, tasks, self.sessions.pages, counts).routes
        for route in Stages(tasks, _staged).routes:
            routes.append(self._login_required(route))
        if options.can_write:
            routes.append(Route("/publish", self._publish, methods=["POST"]))
        return routes

    def stop(self) -> None:
        """End all streams, with a `bye`, so that the server has nothing to wait for."""
        self.sessions.end("the page's server has stopped")

    # -- who asks --------------------------------------------------------------------------------

    async def _asker(self, request: Request) -> Session:
        """Returns the session of a request.

        Raises:
            HTTPException: a login is needed.
        """
        found = (
            self.sessions.of(request.cookies.get(self._cookie, "")) or await self.sessions.anybody()
        )
        if found is None:
            raise HTTPException(401, "log in first; programs do with Authorization: Bearer TOKEN")
        return found

    async def _program(self, request: Request) -> Session:
        """Returns the session of a program's request, or of one by the page.

        Raises:
            HTTPException, ZaichikError: there is none.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        # Where nobody logs in, every token would be as good as another.
        if not scheme or await self.sessions.anybody() is not None:
            return await self._asker(request)
        if scheme.lower() != "bearer" or not token.strip():
            raise HTTPException(401, "programs log in with Authorization: Bearer TOKEN")
        return await self.sessions.bearing(token.strip())

    def _login_required(self, route: Route) -> Route:
        """Returns a route that answers logged-in users only, where a login is needed."""

        async def checked(request: Request) -> Response:
            await self._asker(request)
            answer: Response = await route.endpoint(request)
            return answer

        return Route(route.path, checked, methods=route.methods)

    async def _session(self, request: Request) -> Response:
        options = self._options
        told: JSON = {
            "broker": str(options.endpoint),
            "write": options.can_write,
            "version": VERSION,
        }
        try:
            session = await self._asker(request)
        except HTTPException:
            return _json(told | {"login": True})
        return _json(
            told
            | {
                "login": False,
                "user": session.hub.user,
                "can_log_out": session.credentials is not None,
            }
        )

    async def _log_in(self, request: Request) -> Response:
        body = await _body(request, "secret")
        cookie, session = await self.sessions.log_in(
            Credentials(body.get("user", ""), body["secret"])
        )
        self.sessions.log_out(request.cookies.get(self._cookie, ""), "logged in again")
        await session.hub.settled.wait()
        response = _json({"user": session.hub.user})
        response.set_cookie(self._cookie, cookie, **self._cookie_options)
        return response

    async def _log_out(self, request: Request) -> Response:
        self.sessions.log_out(request.cookies.get(self._cookie, ""))
        response = _json({})
        response.delete_cookie(self._cookie, **self._cookie_options)
        return response

    # -- what is shown ---------------------------------------------------------------------------

    async def _page(self, _: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _events(self, request: Request) -> Response:
        session, view = await self._asker(request), View.of(request.query_params)
        if request.method == "HEAD":  # nobody would read it
            return Response(media_type="text/event-stream")
        if self.sessions.pages() >= MOST_STREAMS:
            raise HTTPException(
                503, f"{MOST_STREAMS} pages are open, which is the limit; close one"
            )
        hello = {
            "version": VERSION,
            "user": session.hub.user,
            "write": self._options.can_write,
            "commands": self._commands(session).of(view.kind, view.topic),
        }
        return EventStream(partial(self._watching, session, view, hello))

    @asynccontextmanager
    async def _watching(self, session: Session, view: View, hello: JSON) -> AsyncIterator[Watched]:
        mailbox = Mailbox()
        with session.hub.watching(view, mailbox) as frame:
            session.pages.add(mailbox)
            try:
                async with aclosing(stream(mailbox, hello, frame, view.hz)) as events:
                    yield mailbox, events
            finally:
                session.pages.remove(mailbox)

    async def _state(self, request: Request) -> Response:
        session, view, mailbox = (
            await self._asker(request),
            View.of(request.query_params),
            Mailbox(),
        )
        found = None
        with session.hub.watching(view, mailbox) as frame, anyio.move_on_after(FIRST_S):
            while (found := frame()) is None and not mailbox.bye:
                await mailbox.wait(FIRST_S)
        kind, data = found or ("trouble", {"text": "the broker has not answered in time"})
        return _json(data, 503 if kind == "trouble" else 200)

    async def _explain(self, request: Request) -> Response:
        session, query = await self._asker(request), request.query_params
        offset, key = query.get("offset", ""), query.get("key", "")
        if not (offset.isascii() and offset.isdigit() and len(offset) < 20) and (offset or not key):
            raise HTTPException(400, "name an offset, which is a number, or a key")
        asked: Any = {"offset": int(offset)} if offset else {"key": key}
        with anyio.move_on_after(FIRST_S):
            poller = _poller(session)
            return _json(
                lean(
                    safe(
                        await poller.ask(
                            partial(poller.client.explain, query.get("topic", ""), **asked)
                        )
                    )
                )
            )
        raise HTTPException(504, "the broker has not answered in time")

    # -- what is done ----------------------------------------------------------------------------

    async def _publish(self, request: Request) -> Response:
        session, body = await self._asker(request), await _body(request, "topic", "payload")
        client = _poller(session).client
        now_us = self._clock.now_us()
        if session.publishes.wait_us(now_us):
            raise HTTPException(429, f"a page publishes at most {PUBLISHES} messages per second")
        session.publishes.take(now_us)
        with anyio.move_on_after(PUBLISH_S):
            result = await client.publish(
                body["topic"], body["payload"].encode(), body.get("key") or None
            )
            again = self._commands(session).publishing(
                body["topic"], body["payload"], body.get("key", "")
            )
            return _json(lean(result._asdict()) | {"commands": again})
        raise HTTPException(
            504,
            "the topic is full, and waits for a reader; whether it still takes this is not known",
        )

    def _commands(self, session: Session) -> Commands:
        return Commands(self._options.endpoint, needs_login=bool(session.hub.user))


def _poller(session: Session) -> Poller:
    """Returns the poller of a session.

    Raises:
        HTTPException: it cannot ask the broker now.
    """
    poller = session.hub.poller
    if session.hub.trouble or poller is None:
        raise HTTPException(503, session.hub.trouble)
    return poller


async def _body(request: Request, *needed: str) -> dict[str, str]:
    """Returns the members of a request's body, all of them texts."""
    try:
        body = json.loads(await request.body())
        "".join(body.values()).encode()
    # Not JSON, no object, not texts, or surrogates.
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise HTTPException(400, "the body must be a JSON object of texts") from None
    if missing := [name for name in needed if name not in body]:
        raise HTTPException(400, f"there is no {missing[0]} in the body")
    return dict(body)


def _staged(readings: Sequence[JSON], request: Request) -> JSON:
    return staged(
        readings, View.of({**request.query_params, "view": "topic", "topic": "staged"}).width
    )


def _json(data: JSON, status: int = 200) -> Response:
    return Response(json.dumps(data), status, media_type="application/json")


async def _refused(_: Request, error: Exception) -> Response:
    """Returns an error as a sentence for a person."""
    if isinstance(error, HTTPException):
        return _json({"text": harmless(error.detail)}, error.status_code)
    if isinstance(error, Unencodable):
        return _json({"text": "a name or a key is longer than a frame can carry"}, 400)
    status = 400
    if isinstance(error, ZaichikError) and error.retryable:
        status = 503
    elif isinstance(error, Forbidden):
        status = 403
    return _json({"text": harmless(str(error))}, status)


async def _bug(request: Request, error: Exception) -> Response:
    logger.error("a bug in answering %s", request.url.path, exc_info=error)
    return _json({"text": "a bug in zaichik web; its log has more"}, 500)


class EventStream(Response):
    """An answer that goes on until its events end or the browser leaves.

    `Connection` requires it to read.

    Args:
        watching: a context manager that returns the mailbox and the events.
    """

    def __init__(self, watching: Callable[[], AbstractAsyncContextManager[Watched]]) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["Content-Length"]
        self._watching = watching

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. A browser that has gone must not keep its place."""
        async with self._watching() as (mailbox, events), anyio.create_task_group() as tasks:
            tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
            tasks.start_soon(_until_over, mailbox, tasks.cancel_scope)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            tasks.cancel_scope.cancel()


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _until_over(mailbox: Mailbox, scope: anyio.CancelScope) -> None:
    """Give a stream that is to end a moment for its last event."""
    await mailbox.pause(math.inf)
    await anyio.sleep(GRACE_S)
    scope.cancel()


@asynccontextmanager
async def serving(options: Options, clock: Clock | None = None) -> AsyncIterator[Web]:
    """Returns the page's server, which talks to the broker as long as the block lasts."""
    clock = clock or SystemClock()
    async with BackgroundTasks() as tasks:
        sessions = Sessions(options.endpoint, tasks.group, clock, is_reachable=options.is_reachable)
        tasks.group.start_soon(every, IDLE_CHECK_S, sessions.drop_idle)
        yield Web(options, sessions, clock, tasks.group)
