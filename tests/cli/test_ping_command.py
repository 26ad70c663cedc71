"""`zaichik ping`."""

import re
import socket
from contextlib import contextmanager

import over_tls
import pytest
from anyio.from_thread import start_blocking_portal

from zaichik import running_broker
from zaichik.base.clock import SystemClock


@contextmanager
def address(running):
    """The address of a broker that runs meanwhile."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running) as server:
        yield f"{server.host}:{server.port}"


def test_a_broker_answers(zaichik):
    with address(running_broker()) as here:
        result = zaichik("ping", "--connect", here)
    assert (result.code, result.err) == (0, "")
    assert re.fullmatch(rf"{here} answers, after \d+\.\d ms\n", result.out)


@pytest.mark.parametrize("asks", ["for a login", "for TLS"])
def test_one_that_requires_a_login_is_alive_as_well(asks, zaichik):
    by_login = running_broker(users={"ana": "zk_" + 43 * "A"})
    with address(
        by_login if asks == "for a login" else over_tls.running_broker(SystemClock())
    ) as here:
        result = zaichik("ping", "--connect", here)
    assert result.code == 0
    assert result.out.startswith(f"{here} answers that it requires a login, after ")


def test_where_there_is_none_it_fails(zaichik):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = zaichik("ping", "--connect", f"127.0.0.1:{port}")
    assert (result.code, result.out) == (1, "")
    assert "no broker answers" in result.err


def test_one_that_is_stuck_has_not_answered_in_time(zaichik):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = zaichik("ping", "--timeout", "10ms", "--connect", f"127.0.0.1:{port}")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"zaichik: 127.0.0.1:{port} has not answered within 0.01 s\n"


@pytest.mark.parametrize("text", ["0", "forever", "soon"])
def test_a_timeout_is_a_time(text, zaichik):
    assert zaichik("ping", "--timeout", text).code == 2
