"""The guard: the first to see a request, whatever its address.

A browser lets every page on the web send requests to this machine. These rules keep other pages
out:

- `Host` must be one of ours (see `names`), or the answer is 421. Else a page could have its own
  name point here (DNS rebinding), and then read all answers as if they were its own.
- A POST must come from a page of ours: `Origin` is compared with the same list, and never with
  `Host`, which in a rebound page is the same. It must be JSON and have `X-Zaichik: 1`, which a page
  elsewhere cannot send unasked, and nothing here answers the question whether it may (CORS).
- The addresses for programs take requests from programs as well, and from no other site's page: a
  browser says with `Origin` where a POST comes from, and with `Sec-Fetch-Site` that it is a
  browser. So what has neither was sent by a program, and an `Origin` must be one of ours, whatever
  the content type: forms and plain text need no permission to be sent elsewhere.
- A body has one length. A request with two (`Content-Length` and `Transfer-Encoding`) may be two
  requests to a proxy in front (request smuggling), so it is refused, and its connection ends.
- No request that the browser itself marks as another site's is answered with data. All that another
  site may do is link to the page.
- Answers forbid the page everything but its own files: no inline script, no frame, no other host.
"""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zaichik.apps.web.names import PageName
from zaichik.apps.web.topics.statuses import Refusal

MAX_BODY = 1024 * 1024
# What is refused here, at the addresses for programs.
NAMES_OF = {400: "BAD_REQUEST", 403: "FOREIGN_ORIGIN", 421: "MISDIRECTED_REQUEST"}
PROGRAMS = ("/topics/", "/names/")  # addresses for programs begin with one of these
# Addresses of the page, which reads there what to show.
PAGES = ("/", "/topic", "/connections", "/stage")
NAMES = ("localhost", "127.0.0.1", "[::1]")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Passes a request on, or answers it with a sentence that says what is wrong with it.

    Args:
        app: what is guarded.
        port: where it listens.
        scheme: "http" or "https".
        allowed: more names under which this page is reached, also through a proxy; see `PageName`.

    Raises:
        NotAName: one of them is written in another way.
    """

    def __init__(
        self, app: ASGIApp, port: int, scheme: str = "http", allowed: Iterable[str] = ()
    ) -> None:
        self._app = app
        names = [PageName(name, port, scheme) for name in NAMES]
        names += map(PageName.of, allowed)
        self._hosts = {host for name in names for host in name.hosts(port, scheme)}
        self._origins = {origin for name in names for origin in name.origins(port, scheme)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":  # a websocket: not answering refuses it
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        problem = self._problem(Request(scope))
        if problem is None:
            await self._app(scope, receive, send_with_headers)
        else:
            status, sentence = problem
            response: Response = PlainTextResponse(f"{sentence}\n", status)
            if scope["path"].startswith(PROGRAMS):
                response = Refusal(NAMES_OF[status], sentence).response
            if status == 400:
                response.headers["Connection"] = "close"
            await response(scope, receive, send_with_headers)

    def _problem(self, request: Request) -> tuple[int, str] | None:
        """Returns what is wrong with a request, as a status and a sentence; None: nothing."""
        headers = request.headers
        if "content-length" in headers and "transfer-encoding" in headers:
            return 400, "the body has both a Content-Length and a Transfer-Encoding"
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            problem = "this page is not at that address"
            return 421, f"{problem}; to reach it under another name, start it with --allow-host"
        site = headers.get("sec-fetch-site", "none")
        is_link = headers.get("sec-fetch-mode") == "navigate" and request.scope["path"] in PAGES
        if site not in {"same-origin", "none"} and not (is_link and request.method == "GET"):
            return 403, "another site has asked for this"
        if request.scope["path"].startswith(PROGRAMS):
            return self._problem_of_program(request)
        if request.method in {"GET", "HEAD"}:
            return None
        if request.method != "POST":
            return 405, "only GET, HEAD and POST are answered"
        return self._problem_of_post(headers)

    def _problem_of_program(self, request: Request) -> tuple[int, str] | None:
        """Returns what is wrong with a request for an address for programs."""
        origins = request.headers.getlist("origin")
        is_ours = len(origins) == 1 and origins[0].lower() in self._origins
        # All browsers send an Origin with a POST.
        is_browser = "sec-fetch-site" in request.headers and request.method not in {"GET", "HEAD"}
        if (origins or is_browser) and not is_ours:
            return 403, "only programs and the page itself may send this, not other sites"
        return None

    def _problem_of_post(self, headers: Headers) -> tuple[int, str] | None:
        if (
            headers.get("origin", "").lower() not in self._origins
            or headers.get("x-zaichik") != "1"
        ):
            problem = "only the page itself may send this: it takes its Origin, and X-Zaichik: 1"
            return 403, f"{problem}; programs publish at /topics/TOPIC"
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "the body must be application/json"
        length = headers.get("content-length", "")
        # With a transfer encoding, that would count and not the length.
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
            return 411, "the body must have a Content-Length, and no Transfer-Encoding"
        if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            return 413, f"the body has {length} bytes; at most {MAX_BODY:,} are read"
        return None
