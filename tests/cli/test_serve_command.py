"""`zaichik serve`."""

import fcntl
import importlib.util
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import termios
from contextlib import contextmanager, suppress
from importlib.metadata import version

import pytest

from zaichik import BrokerSettings
from zaichik.learn.server import free_port


def ready(process):
    return json.loads(process.stdout.readline())


def test_json_has_the_address_and_every_limit(start, zaichik):
    process = start(
        "serve", "--port", "0", "--json", "--retention", "1h", "--capacity", "7", "--no-auto-create"
    )
    told = ready(process)
    assert told["pid"] == process.pid
    assert told["limits"] == BrokerSettings(auto_create=False).limits()
    assert (told["topic_defaults"]["retention_ttl_ms"], told["topic_defaults"]["capacity"]) == (
        3_600_000,
        7,
    )
    result = zaichik("publish", "t", "x", "--connect", f"127.0.0.1:{told['port']}")
    assert result.code == 1
    assert result.err.startswith("zaichik: ")


@pytest.mark.unmeasured
def test_plainly_it_prints_address_pid_and_limits(start):
    process = start("serve", "0")
    line = process.stdout.readline()
    assert line.startswith(f"zaichik {version('zaichik')} serves at 127.0.0.1:")
    assert line.endswith(
        (f", pid {process.pid}, on asyncio\n", f", pid {process.pid}, on uvloop\n")
    )
    assert process.stdout.readline().startswith("limits ")
    limits = [process.stdout.readline() for _ in BrokerSettings().limits()]
    assert any(text.startswith("max_frame          1.125 MiB") for text in limits)
    process.terminate()
    out, err = process.communicate()
    assert (out, process.returncode) == ("", 0)
    assert "INFO zaichik.console.serve: SIGTERM: stopping" in err


@pytest.mark.unmeasured
def test_it_runs_on_uvloop_where_that_is_installed(start, zaichik):
    process = start("serve", "0", "--json")
    told = ready(process)
    assert told["loop"] == ("uvloop" if importlib.util.find_spec("uvloop") else "asyncio")
    assert zaichik("publish", "t", "x", "--connect", f"127.0.0.1:{told['port']}").code == 0
    process.terminate()
    process.communicate()
    assert process.returncode == 0


def test_a_limit_that_was_set_is_enforced(start, zaichik):
    process = start(
        "serve",
        "--port",
        "0",
        "--json",
        "--limit",
        "max_connections=2",
        "--limit",
        "max_bytes=128MiB",
    )
    told = ready(process)
    assert told["limits"] == BrokerSettings(max_connections=2, max_bytes=128 * 1024**2).limits()
    here = "127.0.0.1", told["port"]
    with socket.create_connection(here), socket.create_connection(here):
        for _ in range(2):
            assert process.stderr.readline().endswith(" connected\n")
        third = zaichik(
            "publish", "t", "x", "--reconnect", "0", "--connect", f"127.0.0.1:{told['port']}"
        )
        # It had the place of an operator meanwhile.
        assert any(" disconnected: " in line for line in process.stderr)
        operator = zaichik("topics", "--connect", f"127.0.0.1:{told['port']}")
    assert third.code == 1
    assert "the broker is full" in third.err
    assert operator.code == 0


def test_a_broker_with_the_largest_limits_can_send_them_to_its_clients(start, zaichik):
    """In Welcome they have 32 bits."""
    largest = [
        "max_message=1GiB",
        "max_batch=10000000",
        "max_frame=2GiB",
        "max_credit=1000000000",
        "idle_timeout=49d",
    ]
    process = start(
        "serve", "0", "--json", *(word for text in largest for word in ("--limit", text))
    )
    told = ready(process)
    result = zaichik("describe", "--json", "--connect", f"127.0.0.1:{told['port']}")
    assert (result.code, result.err) == (0, "")
    assert result.json["limits"] == told["limits"]
    assert told["limits"]["idle_timeout"] == 49 * 86_400


def test_help_lists_the_limits_and_fits_a_terminal(zaichik, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = zaichik("serve", "--help")
    assert (result.code, result.err) == (0, "")
    before, _, listed = result.out.partition("limits, with their defaults:\n")
    assert "  zaichik serve --limit " in before
    assert [word.partition("=")[0] for word in listed.split()] == list(BrokerSettings().limits())
    assert max(map(len, listed.splitlines())) < 80


@pytest.mark.unmeasured
def test_sigterm_stops_it_gracefully_and_clients_are_told(start):
    process = start("serve", "--port", "0", "--json")
    address = f"127.0.0.1:{ready(process)['port']}"
    start("publish", "t", "hello", "--connect", address).wait()
    start("create", "u", "--retention", "forever", "--connect", address).wait()
    reader = start("subscribe", "u", "--reconnect", "0", "--connect", address)
    start("publish", "u", "hello", "--connect", address).wait()
    assert reader.stdout.readline() == "hello\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert reader.wait() == 1
    err = reader.stderr.read()
    assert err.startswith(f"zaichik: the connection to {address} was lost: ")
    assert "stopping" in err
    assert err.count("\n") == 1


@pytest.mark.unmeasured
def test_a_reader_resumes_when_the_broker_is_back_and_says_so(start):
    port = str(free_port())
    process = start("serve", "--port", port, "--json")
    ready(process)
    start("create", "u", "--retention", "forever", "--connect", f"127.0.0.1:{port}").wait()
    reader = start("subscribe", "u", "--connect", f"127.0.0.1:{port}")
    start("publish", "u", "hello", "--connect", f"127.0.0.1:{port}").wait()
    assert reader.stdout.readline() == "hello\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert "was lost (the broker is stopping" in reader.stderr.readline()
    ready(start("serve", "--port", port, "--json"))
    assert (
        reader.stderr.readline()
        == f"zaichik: reconnected to 127.0.0.1:{port}; the broker was restarted\n"
    )
    assert reader.wait() == 1
    assert "old offsets mean nothing" in reader.stderr.read(), "its topics were in memory (TOP-5)"


@pytest.mark.unmeasured
def test_ctrl_c_stops_it_gracefully_too(start):
    process = start("serve", "--port", "0", "--json", "--log-level", "warning")
    ready(process)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == ""
    assert process.returncode == 130


def test_a_second_signal_does_not_wait(start):
    process = start("serve", "--port", "0", "--json")
    # It reads nothing and ends nothing.
    silent = socket.create_connection(("127.0.0.1", ready(process)["port"]))
    with silent:
        assert "connected" in process.stderr.readline()
        process.terminate()
        assert "a second signal stops at once" in process.stderr.readline()
        process.terminate()
        assert process.wait() in (0, 143)  # 0 if the first one was done already


def test_a_taken_port_is_one_sentence(zaichik, broker):
    port = broker.rpartition(":")[2]
    result = zaichik("serve", port)
    assert (result.code, result.out) == (1, "")
    sentence = (
        f"port {port} at 127.0.0.1 is in use, perhaps by another broker; choose a free "
        "one: "
        "zaichik serve PORT"
    )
    assert result.err == f"zaichik: {sentence}\n"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            PermissionError(13, "Permission denied"),
            "port 80 needs privileges; choose one from 1024 on: zaichik serve PORT",
        ),
        (OSError(99, "Nowhere"), "cannot listen at 127.0.0.1: Nowhere"),
    ],
)
def test_an_unavailable_address_is_one_sentence(zaichik, monkeypatch, error, text):
    async def listening(*_, **__):
        raise error

    monkeypatch.setattr("zaichik.server.server.Server.listening", listening)
    result = zaichik("serve", "80")
    assert (result.code, result.err) == (1, f"zaichik: {text}\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["1", "--port", "2"], "PORT is 1, but --port is 2; give only one"),
        (["70000"], "'70000' is not a port"),
        (["--retention", "5x"], "argument --retention: '5x' is not a duration"),
        (["--log-level", "loud"], "argument --log-level: invalid choice: 'loud'"),
        (
            ["--limit", "max_topic=5"],
            "argument --limit: there is no limit 'max_topic'; did you mean max_topics?",
        ),
        (
            ["--limit", "max_topics=no"],
            "argument --limit: max_topics is 'no'; it must be a whole number from 1",
        ),
        (
            ["--limit", "max_topics=1", "--limit", "max_topics=2"],
            "--limit max_topics is given twice",
        ),
        (["--limit", "auto_create=yes", "--no-auto-create"], "give either --limit auto_create or"),
        (["--limit", "max_message=4MiB"], "set --limit max_frame=4293632, or lower the other two"),
    ],
)
def test_wrong_usage(zaichik, words, text):
    result = zaichik("serve", *words)
    assert (result.code, result.out) == (2, "")
    assert text in result.err
    assert result.err.count("\n") == 1


def test_a_default_out_of_range_is_refused_as_a_client_would_be(zaichik):
    result = zaichik("serve", "--compaction-window", "99999999d")
    assert result.code == 1
    assert "compaction_window_ms is" in result.err


def test_an_open_address_comes_with_a_warning(start):
    process = start("serve", "--port", "0", "--host", "0.0.0.0", "--insecure", "--json")  # noqa: S104
    ready(process)
    warning = process.stderr.readline()
    assert warning.startswith("warning: 0.0.0.0:")
    assert "anyone who reaches it can write, too" in warning


def test_strangers_are_not_served_by_accident(zaichik):
    result = zaichik("serve", "--port", "0", "--host", "0.0.0.0")  # noqa: S104
    assert (result.code, result.out) == (1, "")
    assert "requires no login: type `zaichik serve --host 0.0.0.0 --init-access" in result.err


@pytest.mark.unmeasured
def test_on_a_terminal_the_log_is_coloured(on_terminal):
    code, text = on_terminal("serve", "--port", "0", interrupt_at=b"auto_create")
    assert code == 130
    assert "\x1b[34mINFO" in text
    assert "Traceback" not in text


def test_a_log_in_json_is_one_object_a_line(start, zaichik):
    process = start(
        "serve",
        "--port",
        "0",
        "--host",
        "0.0.0.0",  # noqa: S104
        "--insecure",
        "--json",
        "--log-format",
        "json",
    )
    at = f"127.0.0.1:{ready(process)['port']}"
    assert zaichik("publish", "a\u202eb", "x", "--connect", at).code == 0
    # It may notice later that the client has gone.
    text = "".join(process.stderr.readline() for _ in range(4))
    assert zaichik("delete", "a\u202eb", "--connect", at).code == 0
    text += "".join(process.stderr.readline() for _ in range(3))
    process.terminate()
    text += process.stderr.read()
    assert "\u202e" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    events = [(line["event"], line.get("topic"), line.get("reason")) for line in lines]
    connection = [("connected", None, None), ("disconnected", None, "CLOSED")]
    assert events == [
        ("unencrypted", None, None),
        connection[0],
        ("topic_created", "a\u202eb", None),
        connection[1],
        connection[0],
        ("topic_deleted", "a\u202eb", "on request"),
        connection[1],
        ("stopping", None, None),
    ]
    assert all(list(line)[:4] == ["ts", "level", "logger", "event"] for line in lines)


# -- output that is not read, or cannot be -------------------------------------------------------


@contextmanager
def small_pipe():
    """A pipe that holds some forty lines of the log, and nobody reads them."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    try:
        yield reading, writing
    finally:
        for descriptor in (reading, writing):
            with suppress(OSError):
                os.close(descriptor)


@contextmanager
def terminal():
    """A terminal: the side of its user, and the side of programs."""
    user, programs = pty.openpty()
    try:
        yield user, programs
    finally:
        for descriptor in (user, programs):
            with suppress(OSError):
                os.close(descriptor)


def connect_often(port, times=150):
    for _ in range(times):
        socket.create_connection(("127.0.0.1", port), timeout=60).close()


def answers(zaichik, port):
    result = zaichik("describe", "--json", "--connect", f"127.0.0.1:{port}")
    return (result.code, result.err) == (0, "")


def ends_in_order(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=60) == 0


needs_small_pipes = pytest.mark.skipif(
    not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes cannot be made small here"
)


@pytest.mark.unmeasured
@needs_small_pipes
@pytest.mark.parametrize("format_", ["text", "json"])
def test_a_log_that_is_not_read_does_not_stop_it(start, zaichik, format_):
    with small_pipe() as (_, writing):
        process = start("serve", "--port", "0", "--json", "--log-format", format_, stderr=writing)
        port = ready(process)["port"]
        connect_often(port)
        assert answers(zaichik, port)
        assert ends_in_order(process)


@pytest.mark.unmeasured
@needs_small_pipes
def test_an_announcement_that_is_not_read_does_not_stop_it(start, zaichik):
    with small_pipe() as (_, writing):
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, bytes(4096))
        os.set_blocking(writing, True)
        port = free_port()
        process = start("serve", str(port), stdout=writing)
        assert "connected" in first_connection(process, port)
        assert answers(zaichik, port)
        assert ends_in_order(process)


def first_connection(process, port):
    """What the log says when a connection has come; a broker that has just been started may not
    listen yet.
    """
    while True:
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return process.stderr.readline() if process.stderr else ""
        assert process.poll() is None


@pytest.mark.unmeasured
def test_a_paused_terminal_does_not_stop_it(start, zaichik):
    """Ctrl-S."""
    with terminal() as (_, programs):
        process = start(
            "serve",
            "--port",
            "0",
            "--json",
            stdout=subprocess.PIPE,
            stdin=programs,
            stderr=programs,
        )
        port = ready(process)["port"]
        termios.tcflow(programs, termios.TCOOFF)
        connect_often(port)
        assert answers(zaichik, port)
        assert ends_in_order(process)


@pytest.mark.unmeasured
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_is_gone_does_not_stop_it(start, zaichik, stream):
    """`zaichik serve | head -1`, and the same for the log."""
    reading, writing = os.pipe()
    os.close(reading)
    port = free_port()
    process = start("serve", str(port), **{stream: writing})
    os.close(writing)
    first_connection(process, port)
    connect_often(port, 5)
    assert answers(zaichik, port)
    assert ends_in_order(process)


def test_it_serves_without_standard_output_and_error(start, zaichik):
    port = free_port()
    process = start(
        "serve",
        str(port),
        before=["sh", "-c", 'exec "$@" >&- 2>&-', "sh"],
        stdout=None,
        stderr=None,
    )
    first_connection(process, port)
    assert answers(zaichik, port)
    assert ends_in_order(process)


def test_sighup_is_logged_and_does_not_stop_it(start, zaichik):
    process = start("serve", "--port", "0", "--json")
    port = ready(process)["port"]
    process.send_signal(signal.SIGHUP)
    assert process.stderr.readline().endswith("SIGHUP is ignored; SIGTERM stops the broker\n")
    assert answers(zaichik, port)
    assert ends_in_order(process)


@pytest.mark.skipif(
    shutil.which("setsid") is None,
    reason="there is no way to give the broker a terminal of its own",
)
def test_a_terminal_that_is_gone_does_not_stop_it(start, zaichik):
    """As when an ssh session ends: SIGHUP, and from then on every write fails."""
    port = free_port()
    with terminal() as (user, programs):
        process = start(
            "serve",
            str(port),
            before=["setsid", "--ctty"],
            stdin=programs,
            stdout=programs,
            stderr=programs,
        )
        os.close(programs)
        seen = b""
        while b"auto_create" not in seen:
            seen += os.read(user, 4096)
    connect_often(port, 5)
    assert answers(zaichik, port)
    assert ends_in_order(process)
