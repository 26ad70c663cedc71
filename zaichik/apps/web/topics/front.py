"""The addresses for programs that publish and read, and who may ask for what.

| address | answer |
| --- | --- |
| `POST /topics/T` | where the body is stored, as one message or as a batch of lines |
| `GET /topics/T` | a stream of events or lines (see `reading`) |
| `POST /names/N/topics/T` | moves the position of a name to the offset `next` |

Every error is `{"error": NAME, "text": SENTENCE}` with the status of that name (see `statuses`).
What changes something is there only with `--write`, and so are names, which keep messages from
being dropped.
"""

import json
from collections.abc import Awaitable, Callable

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zaichik import ZaichikError
from zaichik.apps.web.events import Mailbox
from zaichik.apps.web.guard import PROGRAMS
from zaichik.apps.web.sessions import Session
from zaichik.apps.web.topics.addresses import Address, fields_of
from zaichik.apps.web.topics.bodies import Bodies
from zaichik.apps.web.topics.counts import Counts
from zaichik.apps.web.topics.forms import form_of
from zaichik.apps.web.topics.places import Places
from zaichik.apps.web.topics.positions import MOST, Position
from zaichik.apps.web.topics.publishing import Publishing
from zaichik.apps.web.topics.reading import FIRST_S, Reading, Wanted
from zaichik.apps.web.topics.settling import Settling
from zaichik.apps.web.topics.statuses import RETRY_S, Refusal
from zaichik.client.messages import AckedBy, start_written
from zaichik_protocol import Unencodable

MOST_STREAMS = 64
MOST_SETTLING = 1024  # bytes of a request that moves a position
# Headers that have one meaning. Of two, a proxy in front may take the one, and this the other.
ONCE = ("authorization", "content-encoding", "content-type", "idempotency-key", "last-event-id")
# What the page's own errors are called here.
NAMES = {401: "LOGIN_REQUIRED", 403: "AUTH_FAILED", 429: "TOO_MANY_REQUESTS", 503: "NOT_ANSWERED"}
READ_ONLY = "`zaichik web` was started without --write, so nothing is published or settled here"


class TopicsRoute(BaseRoute):
    """All paths that begin as these addresses do, whatever they have after that.

    Starlette's own routes look at paths that are decoded already, in which a slash of a name is
    like any other, and do not know names with a line end.

    Args:
        app: answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Returns whether this is such a path."""
        if scope["type"] == "http" and scope["path"].startswith(PROGRAMS):
            return Match.FULL, {}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self.app(scope, receive, send)


class Topics:
    """The ASGI application for these addresses.

    Args:
        asker: returns the session of a request.
        counts: counts what is answered.
        can_write: whether programs may publish and settle.
        acked_by: what has to have messages before they are answered; None: the broker alone.
        streams: how many may be open; None: `MOST_STREAMS`.
    """

    def __init__(
        self,
        asker: Callable[[Request], Awaitable[Session]],
        counts: Counts,
        *,
        can_write: bool,
        acked_by: AckedBy | None = None,
        streams: int | None = None,
    ) -> None:
        self._counts = counts
        self._asker = asker
        self._can_write = can_write
        self._publishing = Publishing(counts, acked_by)
        self._settling = Settling()
        self._bodies = Bodies(64 * MOST_SETTLING)
        self._places = Places(streams or MOST_STREAMS, "TOO_MANY_STREAMS", "streams")
        # Held while a stream is written as JSON; see `reading`.
        self._turn = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts.answered(message["status"])
            await send(message)

        try:
            address = Address.of(scope)
            _check_headers(request)
            if address.name:
                _check_method(request, "POST")
                response = await self._settle(request, address)
            else:
                _check_method(request, "GET", "POST")
                if request.method == "GET":
                    await self._read(request, address, send_counted)
                    return
                response = await self._publish(request, address)
        except Refusal as refusal:
            response = refusal.response
        except ZaichikError as error:
            response = Refusal.of(error).response
        except Unencodable:
            response = Refusal("BAD_REQUEST", "a name or a key is too long").response
        except HTTPException as error:
            response = _of_page(error).response
        except ClientDisconnect:
            return
        await response(scope, receive, send_counted)

    async def _publish(self, request: Request, address: Address) -> Response:
        fields = fields_of(request.scope, "key")
        self._check_write()
        session = await self._asker(request)
        async with session.link.using() as line:
            data = await self._publishing.answer(
                request, line, session.hub.user, address.topic, fields.get("key")
            )
        return Response(data, media_type="application/json")

    async def _read(self, request: Request, address: Address, send: Send) -> None:
        form = form_of(request)
        fields = fields_of(request.scope, "start", "until", "name", "after")
        if "name" in fields:
            self._check_write()
        session = await self._asker(request)
        wanted = _wanted(request, session.hub.user, address.topic, fields)
        if form.lasts and wanted.is_over:
            # With this status a browser does not come again.
            await Response(status_code=204)(request.scope, request.receive, send)
            return
        mailbox = Mailbox()
        with self._places.taking(wanted.user):
            self._counts.streams = self._places.taken
            session.readers.add(mailbox)
            try:
                reading = Reading(session.link, self._settling, wanted, form, mailbox, self._turn)
                await reading(request.scope, request.receive, send)
            finally:
                session.readers.remove(mailbox)
        self._counts.streams = self._places.taken

    async def _settle(self, request: Request, address: Address) -> Response:
        fields_of(request.scope)
        self._check_write()
        session = await self._asker(request)
        async with self._bodies.of(request, MOST_SETTLING) as body:
            following, epoch = _settled(body)
        place = session.hub.user, address.topic, address.name
        with anyio.move_on_after(FIRST_S):
            async with session.link.using() as line:
                await self._settling.settle(line.client, place, following, epoch)
            return Response(json.dumps({"next": following}) + "\n", media_type="application/json")
        raise Refusal("NOT_ANSWERED", "the broker has not answered in time", RETRY_S)

    def _check_write(self) -> None:
        if not self._can_write:
            raise Refusal("READ_ONLY", READ_ONLY)


def _check_method(request: Request, *allowed: str) -> None:
    if request.method not in allowed:
        methods = ", ".join(allowed)
        raise Refusal(
            "METHOD_NOT_ALLOWED", f"only {methods} is answered here", headers={"Allow": methods}
        )


def _check_headers(request: Request) -> None:
    for name in ONCE:
        if len(request.headers.getlist(name)) > 1:
            raise Refusal("BAD_REQUEST", f"the header {name} is there twice")


def _of_page(error: HTTPException) -> Refusal:
    """Returns the refusal for an error of the page's own."""
    retry_after: float | None = None
    if error.status_code in {429, 503}:
        retry_after = RETRY_S
    name = NAMES.get(error.status_code, "BAD_REQUEST")
    return Refusal(name, error.detail, retry_after)


def _wanted(request: Request, owner: str, topic: str, fields: dict[str, str]) -> Wanted:
    """Returns what a request for a stream asks for.

    Raises:
        Refusal: a field means nothing.
    """
    try:
        start = start_written(fields.get("start", "latest"))
    except ValueError as problem:
        raise Refusal("BAD_REQUEST", f"start: {problem}") from None
    if isinstance(start, int) and start > MOST:
        raise Refusal("BAD_REQUEST", f"start is at most {MOST}")
    until: int | None = None
    if "until" in fields:
        until = _offset("until", fields["until"])
    # A variable of a script that is empty must not cost it the position.
    if fields.get("name") == "":
        raise Refusal("BAD_REQUEST", "the name is empty; to read without one, leave out name=")
    after: Position | None = None
    # What a browser sends by itself is newer than what stands in its page's address.
    last = request.headers.get("last-event-id") or fields.get("after")
    if last:
        after = Position.of(last)
    return Wanted(owner, topic, start, until, fields.get("name", ""), after)


def _offset(name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= MOST:
        return int(text)
    raise Refusal("BAD_REQUEST", f"{name} must be an offset: a whole number")


def _settled(body: bytes) -> tuple[int, int | None]:
    """Returns the offset that a client wants next, and the epoch it is of.

    Raises:
        Refusal: the body is something else.
    """
    try:
        asked = json.loads(body.decode())
        following = asked.pop("next")
        epoch = asked.pop("epoch", None)
        is_right = (
            not asked and _is_number(following, 0) and (epoch is None or _is_number(epoch, 1))
        )
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        is_right = False
    if not is_right:
        raise Refusal(
            "BAD_REQUEST", 'the body must be {"next": OFFSET}, and may have the "epoch" as well'
        )
    return following, epoch


def _is_number(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= MOST
