"""The stage of `zaichik web`, without a server: its ASGI application is called as a server would.

The worker of the page (`worker.js`) calls `serve` once and `request` for each request.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import anyio
import in_memory
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from zaichik.apps.web.shown import staged
from zaichik.apps.web.stage.script import JSON
from zaichik.apps.web.stage.stages import Stages

IS_IN_BROWSER = sys.platform == "emscripten"

Message = MutableMapping[str, Any]

app: Starlette


async def serve(ready: Callable[[], object]) -> None:
    """Keep the stages until cancelled."""
    global app
    in_memory.install()
    if IS_IN_BROWSER:
        # That a reader has lagged is part of a scene, and not news for the browser's console.
        logging.getLogger("zaichik").setLevel(logging.ERROR)
        _let_late_be_now(asyncio.get_running_loop())
    async with anyio.create_task_group() as tasks:
        app = Starlette(
            routes=Stages(tasks, _shown).routes, exception_handlers={HTTPException: _refused}
        )
        ready()
        await anyio.sleep_forever()


async def request(method: str, path: str, query: str, body: str) -> tuple[int, str]:
    """Returns the status and the body of the answer to one request."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"content-type", b"application/json")],
        "client": ("page", 1),
        "server": ("page", 80),
    }
    status, answer = 0, b""

    async def receive() -> Message:
        return {"type": "http.request", "body": body.encode(), "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, answer
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            answer += message["body"]

    await app(scope, receive, send)
    return status, answer.decode()


def _let_late_be_now(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop call at once what should have been called before.

    asyncio's own does. Pyodide's refuses it, and a deadline may be over by a millisecond.
    """
    call_later = loop.call_later

    def call_in_time(delay: float, *args: Any, **options: Any) -> asyncio.TimerHandle:
        return call_later(max(delay, 0), *args, **options)

    loop.call_later = call_in_time  # type: ignore[method-assign, assignment]


def _shown(readings: Sequence[JSON], request: Request) -> JSON:
    """Returns what the page draws, as wide as it asks for."""
    return staged(readings, float(request.query_params["width"]))


async def _refused(_: Request, error: Exception) -> Response:
    """Returns a refusal as a sentence."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is handled for no other
    return JSONResponse({"text": error.detail}, error.status_code)
