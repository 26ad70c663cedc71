"""What somebody on the network tries: an older version, no TLS at all, another certificate.

Nobody falls back.
"""

import datetime as dt
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress

import anyio
import pytest
import trustme
from attacked import attacked_broker
from raw_client import RawClient, hello

import zaichik
from zaichik.cli.self_signed import self_signed
from zaichik.cli.serve_access import CERTIFICATE, KEY
from zaichik.client import blocking
from zaichik.client.endpoint import Credentials, Endpoint
from zaichik.net.tls_engine import TlsFailed, pin_of
from zaichik.net.tls_settings import client_tls, server_tls
from zaichik_protocol import ErrorCode, Hello, encode

pytestmark = pytest.mark.anyio

LONG_AGO = dt.datetime(2020, 1, 1)  # noqa: DTZ001 (trustme takes it as UTC)
TOKEN = "zk_" + "C" * 43
OPENSSL_SECONDS = 20
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")


@pytest.fixture
async def broker(tmp_path):
    async with attacked_broker(tmp_path / "access") as running:
        yield running


# -- OpenSSL's own client


@needs_openssl
@pytest.mark.parametrize(
    ("options", "version", "refusals"),
    [
        (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], None, 1),
        (["-tls1_2", "-cipher", "AES256-SHA"], None, 1),
        (["-tls1_2"], "TLSv1.2", 0),
        (["-alpn", "h2"], "TLSv1.3", 0),
        (["-tls1_2", "-reconnect"], "TLSv1.2", 0),
        (["-tls1_3", "-reconnect"], "TLSv1.3", 0),
    ],
    ids=["1.1", "no forward secrecy", "1.2", "another protocol", "1.2 again", "1.3 again"],
)
async def test_openssls_own_client_at_a_broker_that_runs(broker, options, version, refusals):
    """What is too old is refused, and counted; no session is resumed that the broker would have to
    keep.
    """
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{broker.port}", *options]
    with anyio.fail_after(OPENSSL_SECONDS):
        result = await anyio.run_process(command, check=False, input=b"", stderr=subprocess.STDOUT)
    output = result.stdout.decode(errors="replace")
    assert (f"New, {version}" in output) == (version is not None)
    assert "ALPN protocol" not in output
    assert broker.gate.counters["tls_failed"] == refusals
    assert broker.gate.access.tls.context.session_stats()["number"] == 0
    if version == "TLSv1.3":
        assert "Reused" not in output


# -- the wrong language


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"EHLO x\r\n" * 3,
        bytes(64),
        b"\xff" * 64,
    ],
    ids=["HTTP", "SSH", "SMTP", "zeros", "ones"],
)
async def test_other_protocols_at_a_port_for_tls_hear_an_alert_at_most(broker, caplog, said):
    caplog.set_level("INFO")
    async with broker.plain() as stream:
        await stream.send(said)
        heard = b""
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                heard += await stream.receive()
    assert heard[:1] in {b"", b"\x15"}
    assert len(heard) <= 7
    assert broker.gate.counters["tls_failed"] == 1
    assert "tls_failed reason=" in caplog.text


async def test_a_hello_in_plain_is_told_in_plain_and_its_secret_is_in_no_log(broker, caplog):
    """tls.2."""
    caplog.set_level("DEBUG")
    async with broker.plain() as stream:
        await stream.send(encode(Hello(1, auth=1, secret=broker.tokens["ana"])))
        refusal = await RawClient(stream).read()
    assert (refusal.code, bool(refusal.flags & 2)) == (ErrorCode.TLS_REQUIRED, True)
    assert "zk_" not in caplog.text
    assert broker.gate.counters["login_ok"] == 0


@contextmanager
def recording(answer=b"", context=None):
    """A port, and what one client says there: all of it, or with a context, what it says first
    inside TLS.
    """
    heard = []

    def serve():
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.settimeout(OPENSSL_SECONDS)
            if answer:
                heard.append(connection.recv(65536))
                connection.sendall(answer)
            if context:
                with context.wrap_socket(connection, server_side=True) as end:
                    heard.extend(filter(None, [end.recv(65536)]))
            while data := connection.recv(65536):
                heard.append(data)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1], heard
        thread.join()


ANSWERS = {
    "an Error in plain": b"\x10\x00\x00\x00\xff\x02\x00\x00\x00\x00\x00\x00" + bytes(8),
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "SSH": b"SSH-2.0-x\r\n",
    "zeros": bytes(16),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_client_of_tls_says_nothing_else_whatever_it_is_answered(answer):
    """No fallback: its token is in nothing that it sends."""
    with recording(ANSWERS[answer]) as (port, heard):
        where = Endpoint("127.0.0.1", port, is_encrypted=True, pins=("sha256:" + "0" * 64,))
        with pytest.raises(zaichik.ConnectFailed):
            async with zaichik.connect(_as(where), reconnect=0):
                pass
    assert heard[0].startswith(b"\x16\x03")
    assert all(piece[:1] in b"\x15\x16" for piece in heard)
    assert not any(b"zk_" in piece or b"ZAIK" in piece for piece in heard)


def _as(where):
    return Endpoint(
        where.host, where.port, where.is_encrypted, where.pins, Credentials(secret=TOKEN)
    )


# -- certificates of a broker

CA, STRANGER = trustme.CA(), trustme.CA()


def shown(tmp_path, kind):
    """What somebody shows who is in between."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if kind == "self-signed":
        for name, data in zip(
            ("c", "k"), self_signed(["localhost"], dt.datetime.now(dt.UTC)), strict=True
        ):
            (tmp_path / name).write_bytes(data)
        context.load_cert_chain(tmp_path / "c", tmp_path / "k")
        return context
    authority = STRANGER if kind == "unknown CA" else CA
    options = {"not_after": LONG_AGO} if kind == "expired" else {}
    authority.issue_cert(
        "other.example" if kind == "wrong host" else "localhost", **options
    ).configure_cert(context)
    return context


async def connected(where, tls):
    async with zaichik.connect(where, tls=tls, reconnect=0):
        pass


async def connected_blocking(where, tls):
    def connect():
        with blocking.connect(where, tls=tls):
            pass

    await anyio.to_thread.run_sync(connect)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("expired", "certificate has expired"),
        ("wrong host", "Hostname mismatch, certificate is not valid for 'localhost'"),
        ("unknown CA", "unable to get local issuer certificate"),
        ("self-signed", "self-signed certificate.* needs the pin of its login line"),
        ("wrong pin", "shows another certificate .* Nothing was sent"),
    ],
)
@pytest.mark.parametrize("how", [connected, connected_blocking])
async def test_who_shows_another_certificate_gets_no_hello(tmp_path, kind, words, how):
    """tls.3: the keys are the attacker's here, so all that the client says can be read.

    It says nothing.
    """
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = (
        client_tls(pins=["sha256:" + "0" * 64])
        if kind == "wrong pin"
        else client_tls(ca=tmp_path / "ca.pem")
    )
    with recording(context=shown(tmp_path, kind)) as (port, heard):
        where = Endpoint(
            "localhost", port, is_encrypted=True, credentials=Credentials(secret=TOKEN)
        )
        with pytest.raises(zaichik.ConnectFailed, match=words):
            await how(where, tls)
    assert heard == []


async def test_who_shows_the_right_one_gets_it(tmp_path):
    """Or else the recording above would prove nothing."""
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")
    with recording(context=shown(tmp_path, "right")) as (port, heard):
        where = Endpoint(
            "localhost", port, is_encrypted=True, credentials=Credentials(secret=TOKEN)
        )
        with pytest.raises(zaichik.ConnectFailed):
            async with zaichik.connect(where, tls=client_tls(ca=tmp_path / "ca.pem"), reconnect=0):
                pass
    assert TOKEN.encode() in b"".join(heard)


# -- certificates of clients


@pytest.fixture
async def asking(tmp_path):
    """A broker that takes certificates of a CA."""
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")

    def tls(folder):
        return server_tls(folder / CERTIFICATE, folder / KEY, tmp_path / "ca.pem")

    async with attacked_broker(tmp_path / "access", tls=tls) as running:
        yield running


def issue(tmp_path, authority, *names, **options):
    authority.issue_cert(
        "x", common_name=names[0], **options
    ).private_key_and_cert_chain_pem.write_to_path(tmp_path / "mine")
    return tmp_path / "mine"


@pytest.mark.parametrize(
    ("authority", "name", "options", "error"),
    [
        (CA, "ana", {}, None),
        (CA, "nobody", {}, zaichik.AuthFailed),
        (CA, "ana\0", {}, zaichik.AuthFailed),
        (CA, "Ana", {}, zaichik.AuthFailed),
        (CA, "*", {}, zaichik.AuthFailed),
        (STRANGER, "ana", {}, zaichik.ConnectFailed),
        (CA, "ana", {"not_after": LONG_AGO}, zaichik.ConnectFailed),
    ],
    ids=["a user", "no user", "with a zero", "other letters", "a star", "another CA", "expired"],
)
async def test_a_certificate_of_a_client_speaks_for_one_user_or_nobody(
    asking, tmp_path, authority, name, options, error
):
    mine = issue(tmp_path, authority, name, **options)
    where = asking.endpoint(None)
    connecting = zaichik.connect(
        where, tls=client_tls(pins=where.pins, certificate=mine), reconnect=0
    )
    if error is None:
        async with connecting as client:
            assert (await client.describe())["user"] == "ana"
        return
    with pytest.raises(error):
        async with connecting:
            pass
    assert asking.gate.counters["login_ok"] == 0


@needs_openssl
async def test_two_names_are_none(tmp_path):
    """GHSA-3f24-pcvm-5jqc: whoever may choose a part of the subject must not choose the user."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    command += ["-keyout", "key", "-out", "cert", "-subj", "/CN=boris/CN=ana"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)  # noqa: ASYNC221 (a moment)

    def tls(folder):
        return server_tls(folder / CERTIFICATE, folder / KEY, tmp_path / "cert")

    async with attacked_broker(tmp_path / "access", tls=tls) as broker:
        mine = client_tls(pins=[broker.pin], certificate=tmp_path / "cert", key=tmp_path / "key")
        with pytest.raises(zaichik.AuthFailed):
            async with zaichik.connect(broker.endpoint(None), tls=mine, reconnect=0):
                pass


async def test_a_certificate_and_the_name_of_another_user_are_nobody(asking, tmp_path):
    mine = client_tls(pins=[asking.pin], certificate=issue(tmp_path, CA, "boris"))
    async with asking.plain() as stream:
        client = RawClient(await mine.secure(stream, "127.0.0.1"))
        answer = await client.request(1, hello(user="ana"))
        assert answer.code == ErrorCode.AUTH_FAILED
    async with asking.plain() as stream:
        client = RawClient(await mine.secure(stream, "127.0.0.1"))
        await client.hello(user="boris")


async def test_no_certificate_is_no_login(asking):
    async with asking.encrypted() as client:
        assert (await client.request(1, hello(user="ana"))).code == ErrorCode.AUTH_FAILED
    with pytest.raises(TlsFailed), anyio.fail_after(OPENSSL_SECONDS):
        async with asking.plain() as stream:
            await client_tls(pins=[pin_of(b"")]).secure(stream, "127.0.0.1")
