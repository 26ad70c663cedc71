"""TLS in a world: what the broker says is read before it is encrypted, and what clients hear after
it was decrypted.

Nobody is asked who it is, and no failure is charged to anybody: this is about the streams. The
certificate has an RSA key, because signatures by the other kind vary in length, and then a seed
would not be one history.
"""

import functools
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from zaichik.core.rights import ANYBODY
from zaichik.net.tls import TlsStream
from zaichik.net.tls_handshake import handshake
from zaichik.net.tls_settings import client_tls, server_tls

HOST, PATIENCE = "broker", 90  # simulated seconds for a handshake, as for any answer


@functools.cache
def ends():
    """What the broker needs for TLS, and what clients do."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, HOST)])
    since, until = datetime(2020, 1, 1, tzinfo=UTC), datetime(2049, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, since, until)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    pem = serialization.Encoding.PEM
    with tempfile.TemporaryDirectory() as folder:
        certificate, secret = Path(folder) / "certificate", Path(folder) / "key"
        certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem))
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        secret.write_bytes(key.private_bytes(pem, *form))
        return server_tls(certificate, secret), client_tls(ca=certificate)


class Overheard(TlsStream):
    """The broker's end; see `SimulatedSocket`."""

    def __init__(self, stream, engine, on_said):
        super().__init__(stream, engine)
        self.number = stream.number
        self._on_said = on_said
        self._left = None

    def send_pieces_nowait(self, pieces):
        if pieces is not self._left:
            self._on_said(pieces)
        self._left = super().send_pieces_nowait(pieces)
        return self._left


class Gate:
    """Encrypts what comes."""

    def __init__(self):
        self.counters = Counter()

    def arrive(self, place, most):
        pass

    def depart(self, place):
        pass

    async def secure(self, stream, place):
        on_said, stream._on_said = stream._on_said, None
        secured = await handshake(stream, ends()[0].context)
        return Overheard(stream, secured.engine, on_said)

    def left(self, place):
        pass

    async def login(self, hello, stream, place):
        return ANYBODY

    def recheck(self, now_us):
        return False

    def may_read(self, user, topic):
        return True


class Encrypted(TlsStream):
    """A client's end, whose cable can be cut and pulled."""

    def cut(self):
        self._stream.cut()

    def pull(self):
        self._stream.pull()


async def encrypted(socket):
    """The client's end of a connection, encrypted.

    Raises:
        BrokenResourceError: it is gone.
    """
    with trio.fail_after(PATIENCE):
        secured = await ends()[1].secure(socket, HOST)
    return Encrypted(socket, secured.engine)
