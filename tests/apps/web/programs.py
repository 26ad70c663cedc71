"""What programs send without a socket, and what they read of a stream."""

import json
from contextlib import asynccontextmanager, suppress
from urllib.parse import unquote

import anyio
from browsing import GUARD, Answer, Browser, page

import zaichik

LINES = "application/x-ndjson"


class Program(Browser):
    """A program: it sends no Origin, no cookie, and paths that are encoded."""

    async def post(self, address, body=b"", **headers):
        data = body if isinstance(body, bytes) else body.encode()
        return await self._ask("POST", address, data, headers)

    async def chunked(self, address, *chunks, **headers):
        """Sends a body whose length is not told."""
        answer = Answer()
        messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
        sent = iter([*messages, {"type": "http.request", "body": b"", "more_body": False}])

        async def receive():
            return next(sent, None) or await anyio.sleep_forever()

        scope = self._scope("POST", address, {"content-length": "", **headers})
        await self._app(scope, receive, answer.send)
        return answer

    async def _ask(self, *asked):
        with anyio.fail_after(GUARD):  # where a stream comes instead of an answer
            return await super()._ask(*asked)

    def _scope(self, method, address, headers, length=0):
        scope = super()._scope(method, address, headers, length)
        return scope | {"path": unquote(scope["path"])}

    @asynccontextmanager
    async def reading(self, address, **headers):
        """Returns a stream of events; the program leaves when the block ends."""
        async with self._stream(address, headers, Events) as stream:
            yield stream

    @asynccontextmanager
    async def lines(self, address, **headers):
        """Returns a stream of lines; as above."""
        async with self._stream(address, {"accept": LINES} | headers, Lines) as stream:
            yield stream

    @asynccontextmanager
    async def _stream(self, address, headers, kind):
        with anyio.fail_after(GUARD):
            async with anyio.create_task_group() as tasks:
                stream = kind(self._app, self._scope("GET", address, headers))
                tasks.start_soon(stream.run)
                try:
                    yield stream
                finally:
                    stream.leave()


class Streamed:
    """An answer that goes on, and is read when somebody asks for more of it.

    Attributes:
        status, headers: of the answer; 0 before it has begun.
        is_over: whether it has ended.
        chunks: how many were taken.
        largest: how many bytes one of them had at most.
    """

    def __init__(self, app, scope):
        self._app, self._scope = app, scope
        self._left = anyio.Event()
        self._send, self._received = anyio.create_memory_object_stream(0)
        self._buffer = b""
        self.begun, self.over = anyio.Event(), anyio.Event()
        self.status, self.headers, self.chunks, self.largest = 0, {}, 0, 0

    async def run(self):
        async with self._send:
            await self._app(self._scope, self._receive, self._take)
        self.over.set()

    def leave(self):
        self._left.set()
        self._received.close()

    async def _receive(self):
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self.begun.set()
        elif message["body"] and not self._left.is_set():
            self.chunks += 1
            self.largest = max(self.largest, len(message["body"]))
            with suppress(anyio.BrokenResourceError):
                await self._send.send(message["body"])

    async def until(self, mark):
        """Returns what comes before a mark."""
        while mark not in self._buffer:
            self._buffer += await self._received.receive()
        part, _, self._buffer = self._buffer.partition(mark)
        return part.decode()

    async def rest(self):
        """Returns all that comes until it ends."""
        with suppress(anyio.EndOfStream):
            while True:
                self._buffer += await self._received.receive()
        return self._buffer.decode()


class Events(Streamed):
    """Server-sent events.

    Attributes:
        last_id: what a browser would send if it connected again.
    """

    last_id = ""

    async def next(self, *kinds):
        """Returns kind and data of the next event, or of the next one of these kinds."""
        while True:
            block = await self.until(b"\n\n")
            fields = dict(line.partition(": ")[::2] for line in block.split("\n"))
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields:
                kind = fields.get("event", "message")
                if not kinds or kind in kinds:
                    return kind, json.loads(fields["data"])

    async def began(self):
        """Wait for the place where it begins."""
        while not self.last_id:
            block = await self.until(b"\n\n")
            fields = dict(line.partition(": ")[::2] for line in block.split("\n"))
            self.last_id = fields.get("id", self.last_id)

    async def payloads(self, count):
        return [(await self.next("message"))[1]["payload"] for _ in range(count)]


class Lines(Streamed):
    """Lines of JSON."""

    async def next(self):
        return json.loads(await self.until(b"\n"))

    async def payloads(self, count):
        return [(await self.next())["payload"] for _ in range(count)]


@asynccontextmanager
async def programs(port, **options):
    """Returns a program, and the page's server, for the broker at that port."""
    async with page(port, **options) as (browser, web):
        yield Program(browser()._app), web


@asynccontextmanager
async def broker_and_program(settings=None, **options):
    """Returns a client of a broker, a program, and the page's server."""
    async with (
        zaichik.running_broker(settings=settings) as server,
        zaichik.connect(port=server.port) as client,
        programs(server.port, **options) as (program, web),
    ):
        await client.create_topic("orders", retention_ttl="forever")
        yield client, program, web
