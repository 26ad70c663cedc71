"""What a browser sends to the page, without a socket: the ASGI application is called as a server
would call it.
"""

import json
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import anyio

import zaichik
from zaichik.apps.web.app import Options, serving
from zaichik.apps.web.guard import Guard
from zaichik.client.endpoint import Endpoint

PORT = 8080
GUARD = 60  # seconds after which a test that hangs fails
OURS = f"http://localhost:{PORT}"
POSTED = {"origin": OURS, "x-zaichik": "1", "content-type": "application/json"}


class Answer:
    """Status, headers and body of an answer."""

    def __init__(self):
        self.status, self.headers, self.body = 0, {}, b""

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]


class Browser:
    """A browser that keeps the page's cookie.

    Args:
        app: what it talks to.
    """

    def __init__(self, app):
        self._app = app
        self.cookie = ""

    async def get(self, address, method="GET", **headers):
        return await self._ask(method, address, b"", headers)

    async def post(self, address, body=None, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return await self._ask("POST", address, data, POSTED | headers)

    async def leave(self, address):
        """Leave in the middle of a request."""
        gone = {"type": "http.disconnect"}
        return await self._ask("POST", address, b"{", POSTED, gone)

    async def _ask(self, method, address, body, headers, *then):
        answer = Answer()
        sent = iter([{"type": "http.request", "body": body, "more_body": bool(then)}, *then])

        async def receive():
            return next(sent, None) or await anyio.sleep_forever()

        await self._app(self._scope(method, address, headers, len(body)), receive, answer.send)
        if cookie := answer.headers.get("set-cookie"):
            self.cookie = cookie.partition(";")[0]
        return answer

    def _scope(self, method, address, headers, length=0):
        path, _, query = address.partition("?")
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {
            "host": f"localhost:{PORT}",
            "content-length": str(length),
            "cookie": self.cookie,
        } | named
        return {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value],
            "scheme": "http",
            "server": ("127.0.0.1", PORT),
            "http_version": "1.1",
            "asgi": {"version": "3.0"},
        }

    @asynccontextmanager
    async def events(self, query):
        """Returns the events of a stream; the browser leaves when the block ends."""
        async with anyio.create_task_group() as tasks:
            stream = Stream(self._app, self._scope("GET", f"/events?{query}", {}))
            tasks.start_soon(stream.run)
            try:
                with anyio.fail_after(GUARD):
                    yield stream
            finally:
                stream.leave()


class Stream:
    """The events of one page, one after the other, and never more than have been asked for."""

    def __init__(self, app, scope):
        self._app, self._scope = app, scope
        self._left = anyio.Event()
        self._chunks, self._received = anyio.create_memory_object_stream(0)
        self.status = 0
        self.state, self.is_over = None, False

    async def run(self):
        async with self._chunks:
            await self._app(self._scope, self._receive, self._send)
        self.is_over = True

    def leave(self):
        self._left.set()
        self._received.close()

    async def _receive(self):
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["body"] and not self._left.is_set():
            with suppress(anyio.BrokenResourceError):
                await self._chunks.send(message["body"])

    async def next(self, *kinds):
        """Returns kind and data of the next event, or of the next one of these kinds."""
        while True:
            fields = dict(
                line.partition(": ")[::2]
                for line in (await self._received.receive()).decode().split("\n")
            )
            kind, data = fields["event"], json.loads(fields["data"])
            if kind in {"state", "delta"}:
                self.state = data if kind == "state" else applied(data, self.state)
            if not kinds or kind in kinds:
                return kind, data

    async def until(self, happened):
        """Returns the first state or table of which that is true."""
        while True:
            kind, data = await self.next("state", "delta", "rows")
            data = data if kind == "rows" else self.state
            if happened(data):
                return data


def applied(patch, value):
    """Returns a value with a merge patch applied, as RFC 7396 says."""
    result = dict(value) if isinstance(value, dict) else {}
    for name, member in patch.items():
        if member is None:
            result.pop(name, None)
        else:
            result[name] = applied(member, result.get(name)) if isinstance(member, dict) else member
    return result


@asynccontextmanager
async def page(port, clock=None, allowed=(), **options):
    """Returns what makes browsers, and the page's server, for the broker at that port."""
    chosen = replace(
        Options(endpoint=Endpoint("127.0.0.1", port), can_write=True, port=PORT), **options
    )
    async with serving(chosen, clock) as web:
        guarded = Guard(web.app, PORT, allowed=allowed)
        yield lambda: Browser(guarded), web


@asynccontextmanager
async def broker_and_page(**options):
    """Returns a client of a broker, what makes browsers, and the page's server."""
    async with (
        zaichik.running_broker() as server,
        zaichik.connect(port=server.port) as client,
        page(server.port, **options) as (browser, web),
    ):
        await client.create_topic("orders", retention_ttl="forever")
        yield client, browser, web
