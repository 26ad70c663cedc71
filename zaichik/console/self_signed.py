"""A self-signed certificate: enough for clients that have its pin, or the certificate itself."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

from zaichik.extras import getting

LONGEST_NAME = 64  # characters of a common name, by X.509


def self_signed(hosts: Sequence[str], now: datetime, valid: timedelta = timedelta(days=730)) -> tuple[bytes, bytes]:
    """Returns a certificate for these hosts and its private key (ECDSA, P-256), both in PEM.

    Args:
        hosts: names and IP addresses, at least one.
        now: the time, with its time zone.
        valid: how long it is valid.

    Raises:
        ModuleNotFoundError: `cryptography` is not installed; the text has the OpenSSL command that makes the same.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as error:
        raise ModuleNotFoundError(
            "making a certificate takes the package cryptography, which is not installed; get it with "
            f"{getting('access')}. Or have OpenSSL make it: {openssl_command(hosts, valid)}",
            name="cryptography",
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:LONGEST_NAME])])
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    kinds = [x509.IPAddress(ip_address(host)) if _is_address(host) else x509.DNSName(host) for host in hosts]
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # for clients whose clocks are slow
        .not_valid_after(now + valid)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)  # it signs no others
        .add_extension(x509.SubjectAlternativeName(kinds), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identity, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity), critical=False)
    )
    pem = serialization.Encoding.PEM
    return (
        builder.sign(key, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def openssl_command(hosts: Sequence[str], valid: timedelta) -> str:
    """Returns the command that makes such a certificate, as cert.pem and key.pem."""
    names = ",".join(f"{'IP' if _is_address(host) else 'DNS'}:{host}" for host in hosts)
    return (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem "
        f"-days {valid.days} -subj /CN={hosts[0][:LONGEST_NAME]} -addext basicConstraints=critical,CA:FALSE "
        f"-addext subjectAltName={names}"
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
