"""HOST:PORT, without TLS or a login: where a broker listens, or a tested program."""

from ipaddress import ip_address
from typing import NamedTuple

from zaichik.cli.arguments import WrongUsage
from zaichik.cli.failure import restated
from zaichik.client.endpoint import NotAnAddress, endpoint
from zaichik.client.endpoint import port as parse_port


class Address(NamedTuple):
    """A host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Returns the form that `address` parses, with an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. The host must be an IP address, not a name."""
        return ip_address(self.host.partition("%")[0]).is_loopback


def address(text: str) -> Address:
    """Parses an address such as 127.0.0.1:8889 or [::1]:8889.

    Raises:
        WrongUsage: it is not an address, or one for TLS or with a login.
    """
    with restated(NotAnAddress, by=WrongUsage):
        found = endpoint(text)
    if found.is_encrypted or found.credentials:
        raise WrongUsage(f"{found} is an address for TLS or a login; here it must be HOST:PORT")
    return Address(found.host, found.port)


def port(text: str) -> int:
    """Parses a port.

    Raises:
        WrongUsage: it is not a port.
    """
    try:
        return parse_port(text)
    except NotAnAddress as error:
        raise WrongUsage(error.message) from None
