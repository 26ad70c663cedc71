"""A self-signed certificate: enough for clients that have its pin, or the certificate itself."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from zaichik.base.extras import getting

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LONGEST_NAME = 64  # characters of a common name, by X.509


def self_signed(
    hosts: Sequence[str], now: datetime, valid: timedelta = timedelta(days=730)
) -> tuple[bytes, bytes]:
    """Returns a certificate for these hosts and its private key (ECDSA, P-256), both in PEM.

    Args:
        hosts: names and IP addresses, at least one.
        now: the time, with its time zone.
        valid: how long it is valid.

    Raises:
        ModuleNotFoundError: `cryptography` is not installed; the text has the OpenSSL command that
            makes the same.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise ModuleNotFoundError(
            "making a certificate takes the package cryptography, which is not installed; get it "
            f"with {getting('access')}. Or have OpenSSL make it: {openssl_command(hosts, valid)}",
            name="cryptography",
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(x509.CertificateBuilder(), key, hosts, now, valid)
    pem = serialization.Encoding.PEM
    pkcs8 = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


def _certificate(
    builder: "x509.CertificateBuilder",
    key: "ec.EllipticCurvePrivateKey",
    hosts: Sequence[str],
    now: datetime,
    valid: timedelta,
) -> "x509.Certificate":
    """Returns a certificate of that key, signed with it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    public = key.public_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:LONGEST_NAME])])
    builder = builder.subject_name(name)
    builder = builder.issuer_name(name)
    builder = builder.public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    # A day ago, for clients whose clocks are slow.
    builder = builder.not_valid_before(now - timedelta(days=1))
    builder = builder.not_valid_after(now + valid)

    # It signs no others.
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    builder = builder.add_extension(constraints, critical=True)
    names: list[x509.GeneralName] = []
    for host in hosts:
        if _is_address(host):
            names.append(x509.IPAddress(ip_address(host)))
        else:
            names.append(x509.DNSName(host))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(usage, critical=False)
    identity = x509.SubjectKeyIdentifier.from_public_key(public)
    builder = builder.add_extension(identity, critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity)
    builder = builder.add_extension(issuer, critical=False)
    return builder.sign(key, hashes.SHA256())


def openssl_command(hosts: Sequence[str], valid: timedelta) -> str:
    """Returns the command that makes a self-signed certificate, as cert.pem and key.pem."""
    names = []
    for host in hosts:
        kind = "IP" if _is_address(host) else "DNS"
        names.append(f"{kind}:{host}")
    return (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
        "-keyout key.pem -out cert.pem "
        f"-days {valid.days} -subj /CN={hosts[0][:LONGEST_NAME]} "
        "-addext basicConstraints=critical,CA:FALSE "
        f"-addext subjectAltName={','.join(names)}"
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
