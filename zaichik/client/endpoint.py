"""A broker's address and the login for it, as one line that can be copied: zaichiks://TOKEN@HOST:PORT?pin=sha256:HEX.

    HOST:PORT                              not encrypted; without a login
    zaichik://HOST:PORT                    the same
    zaichiks://HOST:PORT                   TLS; the name and the CA of the broker's certificate are checked
    zaichiks://HOST:PORT?pin=sha256:HEX    TLS; the certificate must be this one (two pins while it is being replaced)
    ...://TOKEN@...  ...://USER@...  ...://USER:PASSWORD@...

The line may hold a secret. No error repeats it, and neither does the `repr` of what is parsed from it.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from zaichik.client.errors import Explained
from zaichik_protocol import DEFAULT_PORT

TOKEN = re.compile("zk_[A-Za-z0-9_-]{43}")
PIN = re.compile("sha256:[0-9a-f]{64}")
MOST_PINS = 2
PLAIN, ENCRYPTED = "zaichik", "zaichiks"


class NotAnAddress(Explained, ValueError):
    """A text is not an address. The message says why, and repeats no secret."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a client logs in with.

    Attributes:
        user: a user's name; "" with a token, which identifies its user.
        secret: the token or the password; "" if it is not known yet.
    """

    user: str = ""
    secret: str = ""

    @property
    def auth(self) -> int:
        """The `auth` of a Hello."""
        return 2 if self.user else 1

    def __repr__(self) -> str:
        return f"Credentials(user {self.user!r}, password ***)" if self.user else "Credentials(token ***)"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's address.

    Attributes:
        host: a name or an IP address, which has no brackets here.
        port: its port.
        is_encrypted: whether it speaks TLS.
        pins: the broker's certificate must have one of these; (): its name and CA are checked.
        credentials: for this address and no other; None: there is no login.
    """

    host: str
    port: int
    is_encrypted: bool = False
    pins: tuple[str, ...] = ()
    credentials: Credentials | None = None

    def __str__(self) -> str:
        """Returns HOST:PORT, with an IPv6 host in brackets; with TLS, with zaichiks:// before it. No secret."""
        return f"{ENCRYPTED}://{self._host_port}" if self.is_encrypted else self._host_port

    @property
    def user(self) -> str:
        """The user that its credentials name; "" if there are none, or a token."""
        return self.credentials.user if self.credentials else ""

    @property
    def secret(self) -> str:
        """The token or the password; "" if there is none, or it is not known yet."""
        return self.credentials.secret if self.credentials else ""

    @property
    def line(self) -> str:
        """The whole address, including the secret, in the form that `endpoint` parses."""
        known = self.credentials
        who = "" if known is None else known.secret if not known.user else quote(known.user, safe="")
        secret = f":{quote(known.secret, safe='')}" if known and known.user and known.secret else ""
        pins = "&".join(f"pin={pin}" for pin in self.pins)
        scheme = ENCRYPTED if self.is_encrypted else PLAIN
        return f"{scheme}://{who}{secret}{'@' if known else ''}{self._host_port}{'?' if pins else ''}{pins}"

    @property
    def _host_port(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def masked(text: str) -> str:
    """Returns a message without anything that looks like a secret: what is between // and @, and tokens' letters."""
    return re.sub("zk_[A-Za-z0-9_-]+", "zk_...", re.sub(r"//[^\s/]*@", "//...@", text))


def _shown(text: str) -> str:
    """Returns a text that is not an address, for a message, without what is before an @: that may be a secret."""
    before, at, after = text.rpartition("@")
    return repr(masked("..." * bool(before) + at + after))


def endpoint(text: str) -> Endpoint:
    """Parses an address.

    Raises:
        NotAnAddress: the text is not an address.
    """
    scheme, mark, rest = text.partition("://")
    if mark and scheme not in {PLAIN, ENCRYPTED}:
        raise NotAnAddress(f"an address begins with {PLAIN}:// or {ENCRYPTED}://, or is just HOST:PORT")
    rest, _, query = (rest if mark else text).partition("?")
    userinfo, has_credentials, place = rest.rpartition("@")
    if (has_credentials or query) and not mark:
        raise NotAnAddress(f"an address with a login or a pin begins with {ENCRYPTED}://; write that before it")
    host, port = _host_and_port(place.removesuffix("/") if mark else place, text)
    pins = _pins(query)
    if pins and scheme == PLAIN:
        raise NotAnAddress(f"a pin belongs to a certificate, so it needs TLS; write {ENCRYPTED}:// before it")
    return Endpoint(host, port, scheme == ENCRYPTED, pins, _credentials(userinfo) if has_credentials else None)


def at(host: str | Endpoint, port: int) -> Endpoint:
    """Returns the address that two arguments of a function stand for: a host and a port, or all of it in the first.

    Raises:
        NotAnAddress: the first has a :// or one colon, but is not an address.
    """
    if isinstance(host, Endpoint):
        return host
    is_address = "://" in host or host.count(":") == 1 or host.startswith("[")  # two colons are in an IPv6 address
    return endpoint(host) if is_address else Endpoint(host, port)


def _host_and_port(place: str, text: str) -> tuple[str, int]:
    host, colon, number = place.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    is_token = TOKEN.match(host)  # the system would ask others for the address of that name
    if not host or not colon or (":" in host and not is_bracketed) or is_token:
        example = f"127.0.0.1:{DEFAULT_PORT}"
        raise NotAnAddress(f"{_shown(text)} is not an address; write HOST:PORT, such as {example}")
    try:
        host.encode("idna")
    except UnicodeError:  # a label that is empty, longer than 63 letters, or has letters that are not allowed
        raise NotAnAddress(f"{_shown(host)} is not a host name") from None
    return (host[1:-1] if is_bracketed else host), port(number)


def port(text: str) -> int:
    """Parses a port.

    Raises:
        NotAnAddress: the text is not a port.
    """
    if not (text.isascii() and text.isdigit() and len(text) < 9) or int(text) > 65535:
        raise NotAnAddress(f"{_shown(text)} is not a port; it must be 0 to 65535")
    return int(text)


def _pins(query: str) -> tuple[str, ...]:
    pins = []
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        if name != "pin":
            raise NotAnAddress("only pin=sha256:... may follow the ? of an address")
        if not PIN.fullmatch(value.lower()):
            raise NotAnAddress("a pin is sha256: and 64 hexadecimal digits; perhaps the line was cut off")
        pins.append(value.lower())
    if len(pins) > MOST_PINS:
        raise NotAnAddress(f"an address has at most {MOST_PINS} pins; leave out the oldest")
    return tuple(pins)


def _credentials(userinfo: str) -> Credentials:
    user, colon, secret = userinfo.partition(":")
    if user.startswith("zk_") and not colon:
        if not TOKEN.fullmatch(user):
            raise NotAnAddress("a token is zk_ and 43 letters more; perhaps the line was cut off")
        return Credentials(secret=user)
    if not user:
        raise NotAnAddress("nothing is before the @ of the address; write a token or a user's name there")
    return Credentials(unquote(user), unquote(secret))
