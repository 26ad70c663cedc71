"""`zaichik serve --init-access` as a process: from nothing to a login, and what files, signals and
commands change.
"""

import json
import signal
import socket
import ssl

import pytest

from zaichik import AuthFailed, ConnectFailed, Forbidden, TlsRequired, endpoint
from zaichik.client import blocking


@pytest.fixture
def served(start, tmp_path):
    """A broker that has made its folder: the process, the folder, and the addresses to log in with,
    by user.
    """
    folder = tmp_path / "access"
    process = start("serve", "--port", "0", "--init-access", str(folder), "--json")
    told = json.loads(process.stdout.readline())
    return process, folder, {name: endpoint(line) for name, line in told["logins"].items()}


def logged(process, words):
    """The first line of the log that has these words."""
    return next(line for line in process.stderr if words in line)


def test_two_commands_and_one_copied_line(served, start, zaichik):
    """ACC-1: what the broker prints is all that another user needs."""
    _, _, lines = served
    pasting = start("login")
    out, err = pasting.communicate(lines["class"].line + "\n")
    assert (pasting.returncode, err) == (0, "")
    assert out.startswith(
        f"logged in to zaichiks://127.0.0.1:{lines['class'].port} as class; the login is kept in "
    )
    assert "zk_" not in out
    assert zaichik("publish", "orders", "two apples").code == 0
    assert zaichik("describe", "orders").code == 0
    refused = zaichik("delete", "orders")
    assert refused.code == 1
    assert "user class has no right to delete 'orders'" in refused.err


def test_each_user_sees_what_is_theirs(served, zaichik, monkeypatch):
    """ACC-5: in what a person reads, too."""
    _, _, lines = served
    monkeypatch.setenv("ZAICHIK_CONNECT", lines["class"].line)
    assert zaichik("publish", "orders", "x").code == 0
    shown = zaichik("describe").out
    assert "you" in shown
    assert "class" in shown
    assert "disconnects" not in shown
    assert zaichik("describe", "--connections").out.count("class") == 1
    monkeypatch.setenv("ZAICHIK_CONNECT", lines["admin"].line)
    with blocking.connect(lines["class"]):
        shown = zaichik("describe").out
        assert "CLOSED" in shown
        assert "login_ok" in shown
        assert "class" in zaichik("describe", "--connections").out


def test_a_line_that_the_broker_does_not_accept_is_not_kept(served, start):
    _, _, lines = served
    pasting = start("login")
    out, err = pasting.communicate(
        lines["class"].line.replace(lines["class"].credentials.secret, "zk_" + 43 * "A") + "\n"
    )
    assert (pasting.returncode, out) == (1, "")
    assert "does not accept these credentials" in err
    wrong = lines["admin"].line.replace(lines["admin"].pins[0], "sha256:" + "0" * 64)
    pasting = start("login")
    assert "Nothing was sent" in pasting.communicate(wrong + "\n")[1]
    assert start("login", "--remove").communicate()[0] == "there was no login\n"


def test_who_has_no_login_is_told_nothing_but_no(served, zaichik):
    _, _, lines = served
    where = f"zaichiks://127.0.0.1:{lines['class'].port}?pin={lines['class'].pins[0]}"
    for word in (where, where.replace("//", "//boris@")):
        refused = zaichik("publish", "orders", "x", "--connect", word)
        assert refused.code == 1
        assert "the broker does not accept these credentials" in refused.err


def test_without_tls_a_client_is_told_what_to_write(served, zaichik):
    """tls.2: and in the other direction, too."""
    _, _, lines = served
    refused = zaichik("publish", "orders", "x", "--connect", f"127.0.0.1:{lines['class'].port}")
    assert refused.code == 1
    assert "this port speaks TLS; write zaichiks://" in refused.err
    with pytest.raises(TlsRequired), blocking.connect("127.0.0.1", lines["class"].port):
        pass


def test_a_tls_client_of_a_plain_port_is_told_by_an_alert(start):
    told = json.loads(start("serve", "--port", "0", "--json").stdout.readline())
    ours, port = pytest.raises(ConnectFailed, match="the port does not speak TLS"), told["port"]
    with ours, blocking.connect(f"zaichiks://127.0.0.1:{port}"):
        pass
    others = pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION")
    with socket.create_connection(("127.0.0.1", port)) as raw, others:
        ssl.create_default_context().wrap_socket(raw, server_hostname="localhost")


def test_a_broker_with_another_certificate_gets_no_hello(served):
    process, _, lines = served
    wrong = lines["class"].line.replace(lines["class"].pins[0], "sha256:" + "0" * 64)
    with (
        pytest.raises(ConnectFailed, match=r"shows another certificate .* Nothing was sent"),
        blocking.connect(wrong),
    ):
        pass
    process.terminate()
    assert "login" not in process.communicate()[1]


def test_a_user_who_is_removed_is_disconnected(served, zaichik):
    """ACC-4: without a signal."""
    _, folder, lines = served
    with blocking.connect(lines["class"], reconnect=0) as client:
        client.publish("orders", b"x")
        assert zaichik("user", "remove", "class", "--access", str(folder)).code == 0
        with (
            pytest.raises(Exception, match="login has expired, or was removed"),
            client.subscribe("orders") as orders,
        ):
            for _ in orders:
                pass
    with pytest.raises(AuthFailed), blocking.connect(lines["class"]):
        pass


def test_a_signal_has_the_rules_read_again(served):
    process, folder, lines = served
    logged(process, "reload_ok")  # a broker looks at its users once, a second after it has begun
    rules = folder / "rules"
    with blocking.connect(lines["class"]) as client:
        client.publish("orders", b"x")
        rules.write_text("user class\nallow describe *\nallow publish,subscribe,create other")
        process.send_signal(signal.SIGHUP)
        assert "the old rules stay" in logged(process, "reload_failed")
        client.publish("orders", b"x")
        rules.write_text("user class\nallow describe *\nallow publish,subscribe,create other\n")
        process.send_signal(signal.SIGHUP)
        logged(process, "reload_ok")
        with pytest.raises(Forbidden, match="no right to publish 'orders'"):
            client.publish("orders", b"x")
        client.publish("other", b"x")


def test_a_folder_that_is_there_is_used_again(served, start):
    process, folder, lines = served
    process.terminate()
    process.communicate()
    again = start("serve", "--port", str(lines["class"].port), "--access", str(folder), "--json")
    assert json.loads(again.stdout.readline())["logins"] == {}
    with blocking.connect(lines["admin"]) as client:
        client.publish("orders", b"x")
        client.delete_topic("orders")


def test_init_does_not_write_over_a_folder(served, zaichik):
    _, folder, _ = served
    result = zaichik("serve", "--port", "0", "--init-access", str(folder))
    assert result.code == 1
    assert "is not empty; to use what is there: --access" in result.err


def test_for_people_the_lines_are_printed_once(start, tmp_path):
    process = start("serve", "--port", "0", "--init-access", str(tmp_path / "access"))
    text = ""
    while "stored nowhere" not in text:
        text += process.stdout.readline()
    assert [line for line in text.splitlines() if line.startswith("zaichiks://zk_")][1:]
    process.terminate()
    assert "zk_" not in process.communicate()[1]
