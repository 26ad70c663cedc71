"""`zaichik web`, and `zaichik serve --web`: how the page begins and ends; what is on it is tested
in tests/apps/web.
"""

import json
import os
import signal
import socket
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from zaichik.cli import main, serve_beside
from zaichik.cli.commands import web
from zaichik.server.gate import OPEN

GUARD = 60  # seconds after which a test that hangs fails


@pytest.fixture
def events():
    """Ask a page for a stream: kind and data of each event until it ends."""
    with ExitStack() as stack:

        def stream(url, query):
            place = urlsplit(url)
            connection = stack.enter_context(
                socket.create_connection((place.hostname, place.port), timeout=GUARD)
            )
            connection.sendall(
                f"GET /events?{query} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
            )
            for line in stack.enter_context(connection.makefile("rb")):
                if line.startswith(b"event: "):
                    kind = line.split()[1].decode()
                elif line.startswith(b"data: "):
                    yield kind, json.loads(line.removeprefix(b"data: "))

        yield stream


def test_ctrl_c_ends_open_pages_with_a_bye_and_says_nothing(start, events):
    process = start("web", "--port", "0", "--json", "--connect", "127.0.0.1:1", stdin=None)
    ready = json.loads(process.stdout.readline())
    assert (ready["broker"], ready["pid"]) == ("127.0.0.1:1", process.pid)
    streams = [events(ready["url"], "view=topics") for _ in range(3)]
    for stream in streams:
        assert next(stream)[0] == "hello"
        kind, trouble = next(stream)
        assert (kind, trouble["text"].startswith("no broker answers at 127.0.0.1:1")) == (
            "trouble",
            True,
        )
    process.send_signal(signal.SIGINT)
    assert [list(stream)[-1][0] for stream in streams] == ["bye"] * 3
    assert process.wait() == main.INTERRUPTED
    assert process.stderr.read() == ""


@pytest.mark.parametrize("end", [True, False])
def test_stages_come_and_go_without_a_word(start, end):
    process = start(
        "web",
        "--port",
        "0",
        "--json",
        "--log-level",
        "info",
        "--connect",
        "127.0.0.1:1",
        stdin=None,
    )
    url = json.loads(process.stdout.readline())["url"]
    headers = {"Origin": url, "X-Zaichik": "1", "Content-Type": "application/json"}

    def post(path, body):
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=GUARD) as answer:  # noqa: S310
            return json.load(answer)

    stage = post("/stage", {"link": "lag"})["id"]
    post(f"/stage/{stage}/step", {})
    if end:
        post(f"/stage/{stage}/end", {})
    process.send_signal(signal.SIGINT)
    assert process.wait() == main.INTERRUPTED
    assert process.stderr.read() == ""


def test_a_broker_has_its_page_and_takes_it_along(start, events):
    secrets = {
        "ZAICHIK_TOKEN": f"zk_{'s' * 43}",
        "ZAICHIK_CONNECT": f"zaichik://zk_{'s' * 43}@127.0.0.1:1",
    }
    process = start(
        "serve",
        "--port",
        "0",
        "--web",
        "0",
        "--json",
        "--log-level",
        "error",
        env=os.environ | secrets,
    )
    broker = json.loads(process.stdout.readline())
    said = process.stderr.readline()
    assert said.endswith(f"for the broker at 127.0.0.1:{broker['port']}\n")
    stream = events(said.split()[4].rstrip(","), "view=connections")
    kind, hello = next(stream)
    assert (kind, hello["write"]) == ("hello", False)
    kind, table = next(stream)
    assert {row["client"] for row in table["connections"]["rows"]} == {"zaichik web"}
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        assert b"zk_" not in Path(f"/proc/{child}/environ").read_bytes()
        assert b"zk_" not in Path(f"/proc/{child}/cmdline").read_bytes()
    process.send_signal(signal.SIGKILL)
    assert list(stream)[-1][0] == "bye"
    assert process.stderr.read() == ""  # which ends when the page's program has ended


def test_a_page_that_fails_does_not_take_the_broker_along(capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = SimpleNamespace(
            web=port,
            mqtt=None,
            kafka=None,
            grpc=None,
            beside=[],
            log_format="text",
            log_level="info",
        )
        server = SimpleNamespace(host="0.0.0.0", port=1, gate=OPEN)  # noqa: S104
        with serve_beside.Beside().running(server, arguments):
            said, until = "", time.monotonic() + GUARD
            while f"port {port} at 127.0.0.1 is in use" not in said:
                assert time.monotonic() < until
                time.sleep(0.01)
                said += capfd.readouterr().err


def test_with_a_log_for_programs_what_the_page_says_is_json_too(start):
    words = ("serve", "--port", "0", "--json", "--log-format", "json")
    with start(*words, "--web", "0") as process:
        ready = json.loads(process.stderr.readline())
        assert ready["event"] == "page_ready"
        with start(*words, "--web", str(urlsplit(ready["url"]).port)) as other:
            failed, ended = json.loads(other.stderr.readline()), json.loads(other.stderr.readline())
            other.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
    assert (failed["event"], "is in use" in failed["reason"]) == ("page_failed", True)
    assert (ended["event"], ended["code"]) == ("page_ended", main.FAILED)


def test_a_page_that_is_killed_is_told_and_not_started_again(start):
    process = start("serve", "--port", "0", "--json", "--log-format", "json", "--web", "0")
    json.loads(process.stderr.readline())
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGKILL)
    ended = json.loads(process.stderr.readline())
    assert (ended["event"], ended["code"]) == ("page_ended", -signal.SIGKILL)
    assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split() == []
    process.send_signal(signal.SIGTERM)
    assert process.wait() == main.OK


@pytest.fixture
def zaichik_web(zaichik):
    return lambda *words: zaichik("web", "--connect", "127.0.0.1:1", *words)


def test_a_port_in_use_is_one_sentence(zaichik_web):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = zaichik_web("--port", port)
    assert (result.code, result.out) == (main.FAILED, "")
    assert result.err == (
        f"zaichik: port {port} at 127.0.0.1 is in use, perhaps by another page; choose a free one: "
        "zaichik web --port PORT, or zaichik serve --web PORT\n"
    )


def test_other_machines_are_served_with_tls_only(zaichik_web):
    result = zaichik_web("--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert result.code == main.FAILED
    assert "other machines can reach 0.0.0.0" in result.err
    assert "--tls-cert" in result.err


def test_a_certificate_needs_its_key(zaichik_web, tmp_path):
    assert zaichik_web("--tls-cert", "c.pem").code == main.WRONG_USAGE
    missing = zaichik_web(
        "--tls-cert", str(tmp_path / "c.pem"), "--tls-key", str(tmp_path / "k.pem")
    )
    assert (missing.code, "No such file" in missing.err) == (main.FAILED, True)


def test_without_the_extra_it_says_what_to_install(zaichik_web, monkeypatch):
    monkeypatch.setitem(sys.modules, "zaichik.apps.web.app", None)
    result = zaichik_web("--port", "0")
    assert (result.code, result.err) == (main.FAILED, f"zaichik: {web.MISSING}\n")
