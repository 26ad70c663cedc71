"""What is loaded is usable, strict, and of no surprise; what cannot be used is refused, with a
sentence.
"""

import contextlib
import datetime as dt
import shutil
import socket
import ssl
import subprocess

import anyio
import pytest
import trustme

from zaichik.cli.self_signed import openssl_command, self_signed
from zaichik.net.socket_stream import SocketStream
from zaichik.net.tls import GONE
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.tls_handshake import handshake
from zaichik.net.tls_settings import (
    ALPN,
    UnusableCertificate,
    certificate_login,
    client_tls,
    server_tls,
)

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass
NOW = dt.datetime.now(dt.UTC)
LONG_AGO = dt.datetime(2020, 1, 1)  # noqa: DTZ001 (trustme takes it as UTC)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")


class Folder:
    """Files as an operator has them."""

    def __init__(self, path):
        self.path = path
        self.authority = trustme.CA()
        self.ca = path / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)

    def write(self, name, data):
        (self.path / name).write_bytes(data)
        return self.path / name

    def issue(self, name, *hosts, **options):
        """The paths of a new certificate and its key."""
        made = self.authority.issue_cert(*hosts, **options)
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        return self.write(f"{name}.pem", chain), self.write(
            f"{name}.key", made.private_key_pem.bytes()
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(folder):
    return server_tls(*folder.issue("broker", "localhost", "127.0.0.1"))


@contextlib.asynccontextmanager
async def agreed(server, client, host="localhost"):
    """Both ends, encrypted, over sockets."""
    with socket.create_server(("127.0.0.1", 0)) as listening, anyio.fail_after(GUARD):
        one = await SocketStream.connect(*listening.getsockname())
        raw, _ = listening.accept()
    ends = {}

    async def accept():
        with contextlib.suppress(*GONE):
            ends["server"] = await handshake(other, server.context)

    async with one, SocketStream(raw) as other:
        with anyio.fail_after(GUARD):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(accept)
                try:
                    ends["client"] = await client.secure(one, host)
                except TlsFailed as error:
                    ends["client"] = error
                    await one.aclose()
            yield ends["client"], ends.get("server")


@contextlib.asynccontextmanager
async def serving(context):
    """The port of a server that closes once the handshake is done; and what each came to."""
    ends = []

    async def accept():
        while True:
            await anyio.wait_readable(listening)
            async with SocketStream(listening.accept()[0]) as stream:
                try:
                    async with await handshake(stream, context) as encrypted:
                        ends.append(encrypted.engine.state.version())
                except TlsFailed as error:
                    ends.append(error.reason)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept)
            yield listening.getsockname()[1], ends
            tasks.cancel_scope.cancel()


# -- brokers


def test_what_is_loaded_is_described(folder):
    certificate = folder.issue(
        "described",
        "localhost",
        "127.0.0.1",
        not_after=dt.datetime(2040, 5, 6),  # noqa: DTZ001
    )
    loaded = server_tls(*certificate)
    assert loaded.names == ("localhost", "127.0.0.1")
    assert dt.datetime.fromtimestamp(loaded.not_after_s, dt.UTC) == dt.datetime(
        2040, 5, 6, tzinfo=dt.UTC
    )
    assert loaded.pin.startswith("sha256:")


def test_old_versions_weak_ciphers_and_renegotiation_are_off(broker):
    context = broker.context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert all(name.startswith(("TLS_", "ECDHE-")) and "CBC" not in name for name in names)


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_sessions_do_not_pile_up(broker, folder, version):
    """With other settings, OpenSSL keeps one of each connection.

    In TLS 1.2 the client keeps it, as a ticket.
    """
    for _ in range(10):
        client = client_tls(ca=folder.ca)
        client._context.maximum_version = version
        async with agreed(broker, client) as (one, other):
            assert (
                one.engine.state.version()
                == other.engine.state.version()
                == version.name.replace("_", ".")
            )
            await other.send(b"after the tickets, if there were any")
            await one.receive()
            assert one.engine.state.session.has_ticket == (version == ssl.TLSVersion.TLSv1_2)
    assert broker.context.session_stats()["number"] == 0


@needs_openssl
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], ["UNSUPPORTED_PROTOCOL"]),
        (["-tls1_2", "-cipher", "AES128-SHA256:AES256-GCM-SHA384"], ["NO_SHARED_CIPHER"]),
        (["-tls1_2"], ["TLSv1.2"]),
        (["-alpn", "h2"], ["TLSv1.3"]),
        (["-tls1_3", "-reconnect"], ["TLSv1.3"] * 6),
    ],
    ids=["1.1", "no forward secrecy", "1.2", "another protocol", "again and again"],
)
async def test_openssls_own_client_at_a_broker(broker, options, wanted):
    async with serving(broker.context) as (port, ends):
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *options]
        with anyio.fail_after(GUARD):
            output = await anyio.run_process(
                command, check=False, input=b"", stderr=subprocess.STDOUT
            )
        assert ends == wanted
        assert b"Reused" not in output.stdout


@pytest.mark.anyio
async def test_both_ends_offer_the_name_of_the_protocol(broker, folder):
    async with agreed(broker, client_tls(ca=folder.ca)) as (one, other):
        assert (
            one.engine.state.selected_alpn_protocol()
            == other.engine.state.selected_alpn_protocol()
            == ALPN
        )


def unusable(folder):
    """What is wrong, the files, and words of the sentence."""
    good, key = folder.issue("good", "localhost")
    _, other_key = folder.issue("other", "localhost")
    expired = folder.issue("expired", "localhost", not_after=LONG_AGO)
    garbage = folder.write("garbage", b"garbage")
    return {
        "expired": (*expired, "expired.pem: clients would not accept .* has expired"),
        "the key of another": (
            good,
            other_key,
            "other.key: this is the key of another certificate",
        ),
        "no certificate": (garbage, key, "garbage: there is no certificate"),
        "no key": (good, garbage, "garbage: there is no private key"),
        "exchanged": (key, good, "good.key: there is no certificate"),
    }


@pytest.mark.parametrize(
    "case", ["expired", "the key of another", "no certificate", "no key", "exchanged"]
)
def test_what_cannot_be_used_is_refused_when_it_is_loaded(folder, case):
    certificate, key, words = unusable(folder)[case]
    with pytest.raises(UnusableCertificate, match=words):
        server_tls(certificate, key)


def test_a_missing_file_is_named(folder):
    certificate, key = folder.issue("there", "localhost")
    missing = folder.path / "missing"
    for files in ((missing, key), (certificate, missing), (certificate, key, missing)):
        with pytest.raises(FileNotFoundError) as caught:
            server_tls(*files)
        assert caught.value.filename == str(missing)


@needs_openssl
def test_nobody_is_asked_for_the_password_of_a_key(folder):
    """A broker that asks on its terminal at a reload would never come back."""
    certificate, key = folder.issue("locked", "localhost")
    locked = folder.path / "locked.key.aes"
    command = ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:hello", "-out", locked]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(UnusableCertificate, match="the key is encrypted"):
        server_tls(certificate, locked)


# -- clients


@pytest.mark.anyio
async def test_a_client_trusts_a_ca_that_it_is_given_and_checks_the_name(broker, folder):
    for host, words in (
        ("localhost", None),
        ("127.0.0.1", None),
        ("example.org", "not valid for 'example.org'"),
    ):
        async with agreed(broker, client_tls(ca=folder.ca), host) as (one, other):
            assert (other is not None) == (words is None)
            assert words is None or words in str(one)


@pytest.mark.anyio
async def test_a_client_trusts_the_very_certificate_that_it_is_given(broker, folder):
    """That of a broker whose CA is unknown is enough."""
    async with agreed(broker, client_tls(ca=folder.path / "broker.pem")) as (_, other):
        assert other is not None
    certificate, _ = folder.issue("another", "localhost")
    async with agreed(broker, client_tls(ca=certificate)) as (one, _):
        assert isinstance(one, TlsFailed)


@pytest.mark.anyio
async def test_by_default_a_client_trusts_whom_the_system_trusts(broker, folder, monkeypatch):
    async with agreed(broker, client_tls()) as (one, _):
        assert "unable to get local issuer certificate" in str(one)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder.ca))
    async with agreed(broker, client_tls()) as (_, other):
        assert other is not None


@pytest.mark.anyio
async def test_a_pin_stands_for_one_certificate_whatever_its_name(broker):
    wrong = "sha256:" + "0" * 64
    async with agreed(
        broker, client_tls(pins=[wrong, broker.pin.upper().replace("SHA", "sha")]), "whatever"
    ) as (
        _,
        other,
    ):
        assert other is not None
    async with agreed(broker, client_tls(pins=[wrong])) as (one, other):
        assert one.reason == "OTHER_CERTIFICATE"
        assert other is None


@pytest.mark.parametrize(
    "pin", ["", "0" * 64, "sha256:12", "sha1:" + "0" * 64, "sha256:" + "g" * 64]
)
def test_what_is_no_pin_is_refused(pin):
    with pytest.raises(ValueError, match="is not a pin"):
        client_tls(pins=[pin])


def test_a_pin_and_a_ca_are_one_too_many(folder, broker):
    with pytest.raises(ValueError, match="pins or a CA, not both"):
        client_tls(pins=[broker.pin], ca=folder.ca)


# -- certificates of clients


@pytest.fixture(scope="module")
def asking(folder):
    """A broker that lets clients log in with certificates."""
    return server_tls(*folder.issue("asking", "localhost"), folder.ca)


@pytest.mark.anyio
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_certificate_names_a_user(asking, folder, version):
    files = folder.issue("ana", common_name="ana", not_after=dt.datetime(2040, 5, 6))  # noqa: DTZ001
    client = client_tls(ca=folder.ca, certificate=files[0], key=files[1])
    client._context.maximum_version = version
    async with agreed(asking, client) as (_, other):
        name, expires_s = certificate_login(other)
        assert name == "ana"
        assert dt.datetime.fromtimestamp(expires_s, dt.UTC) == dt.datetime(
            2040, 5, 6, tzinfo=dt.UTC
        )


@pytest.mark.anyio
async def test_a_client_may_have_no_certificate(asking, folder):
    async with agreed(asking, client_tls(ca=folder.ca)) as (_, other):
        assert certificate_login(other) is None


@pytest.mark.anyio
async def test_a_certificate_that_nobody_asked_for_names_nobody(broker, folder):
    files = folder.issue("ana", common_name="ana")
    async with agreed(broker, client_tls(ca=folder.ca, certificate=files[0], key=files[1])) as (
        _,
        other,
    ):
        assert certificate_login(other) is None


@pytest.mark.anyio
async def test_a_certificate_of_another_ca_is_refused(asking, folder, tmp_path):
    files = Folder(tmp_path).issue("ana", common_name="ana")
    async with agreed(asking, client_tls(ca=folder.ca, certificate=files[0], key=files[1])) as (
        one,
        other,
    ):
        assert other is None
        with pytest.raises(TlsFailed, match="does not accept the certificate"):
            await one.receive()


@pytest.mark.anyio
async def test_a_certificate_without_one_common_name_names_nobody(asking, folder):
    files = folder.issue("nameless", "ana.example")  # trustme's has an organization
    async with agreed(asking, client_tls(ca=folder.ca, certificate=files[0], key=files[1])) as (
        _,
        other,
    ):
        with pytest.raises(UnusableCertificate, match="has 0 common names"):
            certificate_login(other)


@pytest.fixture
def two_names(tmp_path):
    """The path of a certificate with two common names, and its key."""
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
    command += ["-keyout", "two.pem", "-out", "cert.pem", "-subj", "/CN=ana/CN=admin"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    with (tmp_path / "two.pem").open("ab") as both:
        both.write((tmp_path / "cert.pem").read_bytes())
    return tmp_path / "two.pem"


@needs_openssl
@pytest.mark.anyio
async def test_nor_does_one_with_two(folder, two_names):
    asking = server_tls(*folder.issue("asking", "localhost"), two_names)
    async with agreed(asking, client_tls(ca=folder.ca, certificate=two_names)) as (_, other):
        with pytest.raises(UnusableCertificate, match="has 2 common names"):
            certificate_login(other)


# -- certificates that sign themselves


def strict(client):
    """With the checks that are default since Python 3.13."""
    client._context.verify_flags |= ssl.VERIFY_X509_STRICT
    return client


@pytest.fixture(params=["cryptography", pytest.param("openssl", marks=needs_openssl)])
def own(request, tmp_path):
    """The paths of a certificate that signs itself, and of its key."""
    hosts, valid = ["localhost", "127.0.0.1", "::1"], dt.timedelta(days=30)
    if request.param == "openssl":
        command = openssl_command(hosts, valid).split()
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    else:
        certificate, key = self_signed(hosts, NOW, valid)
        (tmp_path / "cert.pem").write_bytes(certificate)
        (tmp_path / "key.pem").write_bytes(key)
    return tmp_path / "cert.pem", tmp_path / "key.pem"


@pytest.mark.anyio
async def test_a_certificate_that_signs_itself_serves_as_pin_and_as_ca(own):
    loaded = server_tls(*own)
    assert loaded.names[:2] == ("localhost", "127.0.0.1")
    assert abs(loaded.not_after_s - (NOW.timestamp() + 30 * 86400)) < 3600
    for client in (strict(client_tls(ca=own[0])), client_tls(pins=[loaded.pin])):
        for host in ("localhost", "127.0.0.1", "::1"):
            async with agreed(loaded, client, host) as (_, other):
                assert other is not None
    async with agreed(loaded, client_tls(ca=own[0]), "example.org") as (one, _):
        assert "not valid for" in str(one)


@needs_openssl
def test_it_cannot_vouch_for_others(own):
    text = subprocess.run(
        ["openssl", "x509", "-in", own[0], "-noout", "-text"], capture_output=True, text=True
    ).stdout
    assert "CA:FALSE" in text
    assert "CA:TRUE" not in text
    assert "P-256" in text


def test_without_the_package_the_command_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"WHEEL\[access\].* openssl req -x509 .*IP:10\.0\.0\.7"
    ):
        self_signed(["10.0.0.7"], NOW)
