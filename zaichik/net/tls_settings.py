"""TLS as brokers and clients here use it.

That is versions and ciphers, what a broker shows, and what a client insists on.

Nothing here is ever reloaded: build a new object, and replace the old one with it. A file that
cannot be used is reported when it is loaded, not by the first client.
"""

# Not compiled: it runs once in a connection, or less, so there is nothing to gain.

import re
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import anyio

from zaichik.net.stream import Stream
from zaichik.net.tls import TlsStream
from zaichik.net.tls_engine import TlsEngine, TlsFailed
from zaichik.net.tls_handshake import handshake

ALPN = "zaichik/1"  # offered, never required: proxies that terminate TLS do not know it

# Of TLS 1.2. With these, a key that is stolen later does not open what was recorded.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class UnusableCertificate(Exception):
    """A certificate or a key cannot be used; a sentence says why."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a broker shows to its clients.

    Attributes:
        context: for `handshake`.
        pin: the certificate's.
        names: the hosts and IP addresses that it is for.
        not_after_s: when it expires, in seconds since 1970.
    """

    context: ssl.SSLContext
    pin: str
    names: tuple[str, ...]
    not_after_s: int


def server_tls(certificate: Path, key: Path, client_ca: Path | None = None) -> ServerTls:
    """Returns what a broker needs for TLS.

    Args:
        certificate: a file with the certificate, and with those between it and its CA, in PEM.
        key: a file with its private key, in PEM, not encrypted.
        client_ca: a file with the CA whose certificates clients may log in with; the system's CAs
            don't count.

    Raises:
        UnusableCertificate: what is wrong with it.
        OSError: a file cannot be read.
    """
    context = _strict(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Handshakes are cheap, so TLS 1.3 hands out no tickets with which to shorten the next one.
    # OP_NO_TICKET would not do: with it, OpenSSL keeps a session of every connection instead.
    context.num_tickets = 0
    peer = _strict(ssl.PROTOCOL_TLS_CLIENT)
    peer.check_hostname = False
    _trust(peer, certificate)
    _load(context, certificate, key)
    if client_ca:
        _trust(context, client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL  # or else a token or a password
    try:
        shown = _shown(context, peer)
    except TlsFailed as error:
        why = str(error)
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            why = error.__cause__.verify_message
        problem = (
            f"{certificate}: clients would not accept this certificate: {why} "
            "(docs/run/security.md has how to make a new one)"
        )
        raise UnusableCertificate(problem) from error
    names = tuple(name for _, name in shown.certificate.get("subjectAltName", ()))
    not_after_s = ssl.cert_time_to_seconds(shown.certificate["notAfter"])
    return ServerTls(context, shown.pin, names, not_after_s)


class ClientTls:
    """What a client insists on before it sends anything.

    Args:
        context: the CAs it trusts.
        pins: if there are any, the broker's certificate must have one of these.
    """

    def __init__(self, context: ssl.SSLContext, pins: Collection[str] = ()) -> None:
        self._context = context
        self._pins = frozenset(pins)

    @property
    def pins(self) -> frozenset[str]:
        """See above."""
        return self._pins

    async def secure(self, stream: Stream, host: str) -> TlsStream:
        """Returns an encrypted stream to that host.

        Raises:
            TlsFailed: why there is none; see `handshake`.
        """
        try:
            return await handshake(stream, self._context, host, self._pins)
        except TlsFailed:
            raise
        # So a connection ends if the broker has not read everything.
        except anyio.BrokenResourceError as error:
            text = (
                "the connection was reset before TLS was agreed on, as after many failed "
                "logins; try again later"
            )
            raise TlsFailed("RESET", text) from error


def client_tls(
    *,
    ca: Path | None = None,
    pins: Collection[str] = (),
    certificate: Path | None = None,
    key: Path | None = None,
) -> ClientTls:
    """Returns what a client needs for TLS. By default it trusts the CAs that the system trusts.

    Args:
        ca: a file with the CA to trust instead, or with the broker's certificate itself.
        pins: hashes of certificates to trust instead, whatever CA and name they have: "sha256:" and
            64 hexadecimal digits. While a certificate is being replaced, there are two.
        certificate: a file with the client's own certificate, in PEM; it may have the key in it,
            too.
        key: a file with its key, if that is another one.

    Raises:
        UnusableCertificate: what is wrong with the client's own, or with `ca`.
        ValueError: a pin is not one, or there are pins and a CA.
        OSError: a file cannot be read.
    """
    pins = [pin.lower() for pin in pins]
    for pin in pins:
        if not re.fullmatch("sha256:[0-9a-f]{64}", pin):
            raise ValueError(f"{pin!r} is not a pin; write sha256: and 64 hexadecimal digits")
    if pins and ca:
        raise ValueError(
            "give pins or a CA, not both: a pin stands for one certificate, whatever CA signed it"
        )
    context = _strict(ssl.PROTOCOL_TLS_CLIENT)
    if pins:
        # The broker still has to prove that it has the certificate's key. Nothing else uses this
        # context.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca:
        _trust(context, ca)
    else:
        context.load_default_certs()
    if certificate:
        _load(context, certificate, key or certificate)
    return ClientTls(context, pins)


def certificate_login(stream: TlsStream) -> tuple[str, int] | None:
    """Returns the user whom a client's certificate names, and when it expires.

    The time is in seconds since 1970. None if the client has shown no certificate.

    Raises:
        UnusableCertificate: it does not have exactly one common name (CN).
    """
    fields = stream.engine.certificate
    if not fields:
        return None
    names: list[str] = []
    for group in fields["subject"]:
        for key, value in group:
            if key == "commonName":
                names.append(value)
    if len(names) != 1:
        raise UnusableCertificate(
            f"the client's certificate has {len(names)} common names (CN); write one, the user's"
        )
    return names[0], ssl.cert_time_to_seconds(fields["notAfter"])


def _strict(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols([ALPN])
    return context


def _trust(context: ssl.SSLContext, file: Path) -> None:
    """Trust the certificates in a file, whether or not they are those of a CA."""
    file.open().close()  # `ssl` does not tell which file is missing
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        raise UnusableCertificate(f"{file}: there is no certificate in PEM format in it") from error
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    def refuse() -> str:  # without it, OpenSSL would ask on the terminal, and wait
        raise UnusableCertificate(
            f"{key}: the key is encrypted, and nobody is there to type its password; write one "
            f"without a password: openssl pkey -in {key} -out NEW-FILE"
        )

    for file in (certificate, key):
        file.open().close()
    try:
        context.load_cert_chain(certificate, key, refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"{key}: this is the key of another certificate, not of {certificate}"
            raise UnusableCertificate(problem) from error
        reason = error.reason or "PEM"
        problem = (
            f"{key}: there is no private key in PEM format in this file, or {certificate} cannot "
            f"be used ({reason})"
        )
        raise UnusableCertificate(problem) from error


def _shown(server: ssl.SSLContext, client: ssl.SSLContext) -> TlsEngine:
    """Returns the client's end of a handshake between the two, in memory."""
    one = TlsEngine(client)
    other = TlsEngine(server)
    is_done = False
    while not is_done:
        is_done = one.do_handshake()
        other.feed(one.output())
        is_done = other.do_handshake() and is_done
        one.feed(other.output())
    return one
