"""A broker that runs already, and may ask who somebody is."""

from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute

import zaichik
from zaichik.learn import external
from zaichik.learn.external import requires_login
from zaichik.learn.layouts import ERROR_CODES, FATAL
from zaichik.learn.trial import Target
from zaichik.learn.wire import encode
from zaichik.net.background import BackgroundTasks

pytestmark = pytest.mark.anyio


def refusal(code):
    error = {
        "code": ERROR_CODES[code],
        "request_type": 0,
        "field": "",
        "retry_after_ms": 0,
        "message": "",
    }
    return encode("Error", frame_id=0, flags=FATAL, **error)


@asynccontextmanager
async def answering(*pieces):
    """A program that answers with these, one after the other, and then ends the connection."""

    async def serve(stream):
        async with stream:
            await stream.receive()
            for piece in pieces:
                await stream.send(piece)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        BackgroundTasks() as tasks,
    ):
        tasks.group.start_soon(listener.serve, serve)
        yield Target("127.0.0.1", listener.extra(SocketAttribute.local_port))


@pytest.mark.parametrize("code", ["AUTH_FAILED", "TLS_REQUIRED"])
@pytest.mark.parametrize("cut", [0, 1, 20])
async def test_a_refusal_for_want_of_a_login_is_recognised_however_it_comes(code, cut):
    data = refusal(code)
    async with answering(data[:cut] or data, data[cut:] if cut else b"") as target:
        assert await requires_login(target)


@pytest.mark.parametrize(
    "answer", [refusal("MALFORMED"), b"", b"HTTP/1.1 400 Bad Request", b"\0\0\0\0", b"\x10\0"]
)
async def test_any_other_answer_is_left_to_the_checks(answer):
    async with answering(answer) as target:
        assert not await requires_login(target)


async def test_a_broker_that_lets_everybody_in_does_not_ask():
    async with zaichik.running_broker() as broker:
        assert not await requires_login(Target("127.0.0.1", broker.port))


async def test_nobody_and_somebody_who_is_silent_do_not_ask(monkeypatch):
    monkeypatch.setattr(external, "PATIENCE_S", 0.01)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        target = Target("127.0.0.1", listener.extra(SocketAttribute.local_port))
        assert not await requires_login(target)
    assert not await requires_login(target)
