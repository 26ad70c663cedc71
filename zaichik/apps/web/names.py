"""The names under which the page is reached, and how a browser writes them in a request.

A browser sends the name in `Host`, and with a POST in `Origin`, too, there behind the scheme. It
leaves out the port that is usual for the scheme. Behind a proxy, both are what the browser has in
its address bar, and not where the page's server listens: another port, and `https` if the proxy
encrypts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address

USUAL = {"http": 80, "https": 443}  # ports, which a browser leaves out

_ADDRESS = re.compile(
    r"""
    ((?P<scheme>https?)://)?
    (?P<host>\[[0-9a-f:.]+\] | [^\s/:@?#\[\]]+)
    (:(?P<port>[0-9]{1,5}))?
    /?
    """,
    re.VERBOSE,
)


class NotAName(ValueError):
    """What was given as a name of the page is none."""


@dataclass(frozen=True, slots=True)
class PageName:
    """A name of the page.

    Attributes:
        host: a name or an IP address, as a browser sends it.
        port: None if it was left out: the usual one, or the one on which the page is served.
        scheme: None if it was left out: that of the page, or the one of a proxy before it.
    """

    host: str
    port: int | None = None
    scheme: str | None = None

    @classmethod
    def of(cls, text: str) -> "PageName":
        """Returns the name that is written as HOST, HOST:PORT or http[s]://HOST[:PORT].

        Raises:
            NotAName: it is written in another way.
        """
        found = _ADDRESS.fullmatch(_in_brackets(text.lower()))
        port = int(found["port"]) if found and found["port"] else None
        host = _in_ascii(found["host"]) if found else ""
        if found is None or not host or port == 0 or (port or 0) > 65535:
            raise NotAName(
                f"{text!r} is not a name of the page; write HOST or HOST:PORT, or all that stands "
                "in the browser's address bar, such as https://broker.example"
            )
        return cls(host, port, found["scheme"])

    def hosts(self, port: int, scheme: str) -> Iterator[str]:
        """Yields how `Host` may be written, for a page that is served on that port."""
        for of, at in self._places(port, scheme):
            yield f"{self.host}:{at}"
            if at == USUAL[of]:
                yield self.host

    def origins(self, port: int, scheme: str) -> Iterator[str]:
        """Yields how `Origin` may be written, for a page that is served on that port."""
        for of, at in self._places(port, scheme):
            if at == USUAL[of]:
                yield f"{of}://{self.host}"
            else:
                yield f"{of}://{self.host}:{at}"

    def _places(self, port: int, scheme: str) -> Iterator[tuple[str, int]]:
        """Yields the schemes and ports under which a browser may have found the page."""
        schemes = [self.scheme] if self.scheme else ["https"]
        # A proxy may encrypt what is served without TLS, but nobody does the opposite.
        if self.scheme is None and scheme == "http":
            schemes.append("http")
        for of in schemes:
            if self.port is not None:
                yield of, self.port
                continue
            yield of, USUAL[of]
            if self.scheme is None:
                yield of, port


def _in_brackets(text: str) -> str:
    """Returns a bare IPv6 address as it stands in addresses, and everything else as it is."""
    try:
        IPv6Address(text)
    except AddressValueError:
        return text
    return f"[{text}]"


def _in_ascii(host: str) -> str:
    """Returns a host as a browser sends it; "" if it cannot be one."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return ""
