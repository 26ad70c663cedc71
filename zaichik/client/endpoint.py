"""A broker's address and the login for it, as one line that can be copied.

    zaichiks://TOKEN@HOST:PORT?pin=sha256:HEX

All of its forms:

    HOST:PORT                              not encrypted; without a login
    zaichik://HOST:PORT                    the same
    zaichiks://HOST:PORT                   TLS; name and CA of the certificate are checked
    zaichiks://HOST:PORT?pin=sha256:HEX    TLS; the certificate must be this one
    ...://TOKEN@...  ...://USER@...  ...://USER:PASSWORD@...

While a certificate is being replaced, there are two pins.

The line may hold a secret. No error repeats it, and neither does the `repr` of what is parsed from
it.
"""

# Not compiled: its objects are pickled, which mypyc's frozen ones cannot be.

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from zaichik.client.errors import Explained
from zaichik_protocol import DEFAULT_PORT, Auth

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
    def auth(self) -> Auth:
        """The `auth` of a Hello."""
        if self.user:
            return Auth.PASSWORD
        return Auth.TOKEN

    def __repr__(self) -> str:
        if self.user:
            return f"Credentials(user {self.user!r}, password ***)"
        return "Credentials(token ***)"


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
        """Returns HOST:PORT, with an IPv6 host in brackets; with TLS, with zaichiks:// before it.

        No secret.
        """
        if self.is_encrypted:
            return f"{ENCRYPTED}://{self._host_port}"
        return self._host_port

    @property
    def user(self) -> str:
        """The user that its credentials name; "" if there are none, or a token."""
        if self.credentials is None:
            return ""
        return self.credentials.user

    @property
    def secret(self) -> str:
        """The token or the password; "" if there is none, or it is not known yet."""
        if self.credentials is None:
            return ""
        return self.credentials.secret

    @property
    def line(self) -> str:
        """The whole address, including the secret, in the form that `endpoint` parses."""
        scheme = PLAIN
        if self.is_encrypted:
            scheme = ENCRYPTED
        line = f"{scheme}://"
        if self.credentials is not None:
            line += f"{self._userinfo}@"
        line += self._host_port
        if self.pins:
            line += "?" + "&".join(f"pin={pin}" for pin in self.pins)
        return line

    @property
    def _userinfo(self) -> str:
        """The part of the line before the @: a token, or a user, perhaps with a password."""
        if not self.user:
            return self.secret
        name = quote(self.user, safe="")
        if not self.secret:
            return name
        return f"{name}:{quote(self.secret, safe='')}"

    @property
    def _host_port(self) -> str:
        if ":" in self.host:
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"


def masked(text: str) -> str:
    """Returns a message without anything that looks like a secret.

    That is what is between // and @, and the letters of tokens.
    """
    without_userinfo = re.sub(r"//[^\s/]*@", "//...@", text)
    return re.sub("zk_[A-Za-z0-9_-]+", "zk_...", without_userinfo)


def _shown(text: str) -> str:
    """Returns a text that is not an address, for a message.

    What is before an @ is left out, for it may be a secret.
    """
    before, at, after = text.rpartition("@")
    shown = at + after
    if before:
        shown = "..." + shown
    return repr(masked(shown))


def endpoint(text: str) -> Endpoint:
    """Parses an address.

    Raises:
        NotAnAddress: the text is not an address.
    """
    scheme, mark, rest = text.partition("://")
    if mark and scheme not in {PLAIN, ENCRYPTED}:
        raise NotAnAddress(
            f"an address begins with {PLAIN}:// or {ENCRYPTED}://, or is just HOST:PORT"
        )
    if not mark:
        rest = text
    rest, _, query = rest.partition("?")
    userinfo, has_credentials, place = rest.rpartition("@")
    if (has_credentials or query) and not mark:
        raise NotAnAddress(
            f"an address with a login or a pin begins with {ENCRYPTED}://; write that before it"
        )
    if mark:
        place = place.removesuffix("/")
    host, port = _host_and_port(place, text)
    pins = _pins(query)
    if pins and scheme == PLAIN:
        raise NotAnAddress(
            f"a pin belongs to a certificate, so it needs TLS; write {ENCRYPTED}:// before it"
        )
    credentials = None
    if has_credentials:
        credentials = _credentials(userinfo)
    return Endpoint(host, port, scheme == ENCRYPTED, pins, credentials)


def at(host: str | Endpoint, port: int) -> Endpoint:
    """Returns the address that two arguments of a function stand for.

    They are a host and a port, or all of it is in the first.

    Raises:
        NotAnAddress: the first has a :// or one colon, but is not an address.
    """
    if isinstance(host, Endpoint):
        return host
    # Two colons are in an IPv6 address.
    if "://" in host or host.count(":") == 1 or host.startswith("["):
        return endpoint(host)
    return Endpoint(host, port)


def _host_and_port(place: str, text: str) -> tuple[str, int]:
    host, colon, number = place.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    # The system would ask others for the address of that name.
    is_token = TOKEN.match(host)
    if not host or not colon or (":" in host and not is_bracketed) or is_token:
        if TOKEN.fullmatch(text):
            raise NotAnAddress(
                "a token alone does not name its broker; write "
                f"{ENCRYPTED}://TOKEN@HOST:PORT?pin=sha256:..."
            )
        example = f"127.0.0.1:{DEFAULT_PORT}"
        raise NotAnAddress(f"{_shown(text)} is not an address; write HOST:PORT, such as {example}")
    try:
        host.encode("idna")
    except UnicodeError:
        # A label is empty, longer than 63 letters, or has letters that are not allowed.
        raise NotAnAddress(f"{_shown(host)} is not a host name") from None
    if is_bracketed:
        host = host[1:-1]
    return host, port(number)


def port(text: str) -> int:
    """Parses a port.

    Raises:
        NotAnAddress: the text is not a port.
    """
    is_number = text.isascii() and text.isdigit() and len(text) < 9
    if not is_number or int(text) > 65535:
        raise NotAnAddress(f"{_shown(text)} is not a port; it must be 0 to 65535")
    return int(text)


def _pins(query: str) -> tuple[str, ...]:
    pins = []
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        if name != "pin":
            raise NotAnAddress("only pin=sha256:... may follow the ? of an address")
        if not PIN.fullmatch(value.lower()):
            raise NotAnAddress(
                "a pin is sha256: and 64 hexadecimal digits; perhaps the line was cut off"
            )
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
        raise NotAnAddress(
            "nothing is before the @ of the address; write a token or a user's name there"
        )
    return Credentials(unquote(user), unquote(secret))
