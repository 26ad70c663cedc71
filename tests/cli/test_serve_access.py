"""What `serve` needs for access: a folder to begin with, and the refusal to serve strangers by
accident.
"""

import argparse
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from anyio import from_thread

from zaichik.base.clock import ManualClock
from zaichik.cli import serve_access
from zaichik.cli.access_folder import edited
from zaichik.cli.failure import Failure
from zaichik.cli.serve_access import check_reach, gate_of, init, outward, tls_in
from zaichik.client.endpoint import endpoint
from zaichik.core.settings import BrokerSettings
from zaichik.server.access.access_gate import Access, AccessGate
from zaichik.server.places import Place
from zaichik.server.server import Server
from zaichik_protocol import Hello

pytest.importorskip("cryptography")


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "access"
    return path, dict(init(path, "127.0.0.1", 8889))


def options(*words):
    parser = argparse.ArgumentParser()
    serve_access.OPTIONS(parser)
    return parser.parse_args(words)


@pytest.fixture
def clock():
    return ManualClock(time.time_ns() // 1000)


def test_a_ca_of_clients_without_a_folder_is_refused_and_not_ignored(clock):
    assert gate_of(options(), clock) is None
    with pytest.raises(Failure, match="--tls-client-ca needs --access DIR or --init-access DIR"):
        gate_of(options("--tls-client-ca", "ca.pem"), clock)


def test_a_folder_to_begin_with(made):
    path, _ = made
    assert sorted(file.name for file in path.iterdir()) == [
        "cert.pem",
        "key.pem",
        "rules",
        "users.json",
    ]
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o600}
    assert path.stat().st_mode & 0o777 == 0o700
    access = Access.load(path, tls_in)
    assert list(access.users.by_name) == ["admin", "class"]
    assert access.tls.not_after_s > time.time() + 700 * 86_400


def test_its_rules(made):
    of = Access.load(made[0]).rules.of
    for action in ("publish", "subscribe", "create", "delete", "describe"):
        assert of("admin").may(action, "x")
        assert of("class").may(action, "x") == (action != "delete")
        assert not of("class").may(action, "$broker")
        assert not of("else").may(action, "x")
    assert of("admin").may("describe", "$broker")
    assert of("admin").may("delete", "$broker")


@pytest.mark.anyio
@pytest.mark.parametrize("user", ["admin", "class"])
async def test_its_lines_are_what_a_client_needs(made, clock, user):
    path, lines = made
    found = endpoint(lines[user].line)
    assert (found.host, found.port, found.is_encrypted) == ("127.0.0.1", 8889, True)
    assert found.pins == (tls_in(path).pin,)
    gate = gate_of(options("--access", str(path)), clock)
    hello = Hello(
        1, auth=found.credentials.auth, user=found.credentials.user, secret=found.credentials.secret
    )
    place = Place("127.0.0.1:1", lambda: None)
    assert (await gate.login(hello, None, place)).name == user


def test_no_token_is_kept(made):
    path, lines = made
    kept = b"".join(file.read_bytes() for file in path.iterdir()).decode()
    assert not [line for line in lines.values() if line.credentials.secret[3:] in kept]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(Failure, match=f"not empty; to use what is there: --access {tmp_path}"):
        init(tmp_path, "127.0.0.1", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_without_access_there_is_no_gate(clock):
    assert gate_of(options(), clock) is None


@pytest.mark.parametrize("name", ["users.json", "rules", "key.pem"])
def test_a_broker_does_not_start_without_a_file(made, clock, name):
    path, _ = made
    (path / name).unlink()
    with pytest.raises(Failure, match=f"there is no {path / name}; .*--init-access"):
        gate_of(options("--access", str(path)), clock)


@pytest.mark.parametrize("name", ["users.json", "key.pem"])
def test_a_broker_does_not_start_with_a_secret_that_others_can_read(made, clock, name):
    path, _ = made
    (path / name).chmod(0o644)
    with pytest.raises(Failure, match=f"others may read {path / name}.*type: chmod go="):
        gate_of(options("--access", str(path)), clock)


def test_a_broker_does_not_start_with_the_key_of_another_certificate(made, clock, tmp_path):
    path, _ = made
    init(tmp_path / "other", "127.0.0.1", 1)
    (tmp_path / "other" / "key.pem").replace(path / "key.pem")
    with pytest.raises(Failure, match=r"key.pem: this is the key of another certificate"):
        gate_of(options("--access", str(path)), clock)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_served_without_asking(host):
    check_reach(host, None, is_insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "fe80::1%eth0", "::ffff:192.0.2.1"])  # noqa: S104
def test_other_machines_are_not_served_by_accident(made, clock, host):
    path, _ = made
    with pytest.raises(
        Failure, match=f"reach {host}, .*requires no login.*--host {host} --init-access"
    ):
        check_reach(host, None, is_insecure=False)
    check_reach(host, None, is_insecure=True)
    check_reach(host, gate_of(options("--access", str(path)), clock), is_insecure=False)
    (path / "cert.pem").unlink()
    without_tls = gate_of(options("--access", str(path)), clock)
    with pytest.raises(Failure, match="has no certificate, so logins could be read"):
        check_reach(host, without_tls, is_insecure=False)


def test_where_others_reach_this_machine():
    assert outward("192.0.2.7") == "192.0.2.7"
    assert outward("localhost") == "localhost"
    assert outward("0.0.0.0").count(".") == 3  # noqa: S104
    assert ":" in outward("::")


def test_a_check_looks_at_the_certificate_too(made, zaichik, monkeypatch):
    path, _ = made
    told = zaichik("access", "check", str(path)).out
    assert "2 users, 3 rules, a certificate valid for 729 days" in told
    pin = tls_in(path).pin
    assert f"?pin={pin}\n" in told
    assert (
        f"to log in, paste into `zaichik login`: zaichiks://TOKEN@HOST:PORT?pin={pin}"
        in zaichik("user", "add", "eva", "--access", str(path)).err
    )
    now = time.time()
    monkeypatch.setattr("zaichik.cli.commands.access.time.time", lambda: now + 725 * 86_400)
    assert "warning: the certificate expires in 4 days" in zaichik("access", "check", str(path)).err
    (path / "key.pem").write_text("nonsense")
    assert "no private key in PEM format" in zaichik("access", "check", str(path)).err
    made_anyway = zaichik("user", "add", "mia", "--access", str(path))
    assert made_anyway.out.startswith("zk_")  # whose hash is stored by then: it must not be lost
    assert "?pin=..." in made_anyway.err
    assert "there is no /nowhere; correct the path" in zaichik("access", "check", "/nowhere").err


@pytest.mark.anyio
async def test_a_user_who_is_removed_during_a_reload_does_not_come_back(made, clock):
    """Neither by a sweep in the middle of it, nor by one after it."""
    path, _ = made

    def read_last(_folder):
        with edited(path) as editing:
            editing.remove("class")
        with suppress(RuntimeError):  # this is no other thread, so no sweep can come now
            from_thread.run_sync(gate.recheck, 0)

    gate = AccessGate(Access.load(path), clock, path, read_last)
    gate.recheck(0)
    assert serve_access.reload(SimpleNamespace(gate=gate))
    gate.recheck(0)
    assert list(gate.access.users.by_name) == ["admin"]


@pytest.mark.anyio
async def test_the_limit_of_a_handshake_is_that_of_tls_too(made):
    """TIM-1."""
    server = await Server.listening("127.0.0.1", 0, BrokerSettings(handshake_timeout=0.5))
    serve_access.prepare(server, options("--access", str(made[0])))
    await server.aclose()
    assert server.gate._handshake_timeout == 0.5
