"""The interface between a server and access control: encryption and login. See `zaichik.access`."""

from collections import Counter
from typing import Protocol

from zaichik.broker.rights import ANYBODY, User
from zaichik.net.stream import Stream
from zaichik_protocol import Hello


class Gate(Protocol):
    """The way into a broker.

    Attributes:
        counters: how often each event happened, for `describe`.
    """

    counters: Counter[str]

    def turns_away(self, peer: str) -> bool:
        """Returns whether a connection from that address is to be closed at once, before it costs anything."""
        return False

    async def secure(self, stream: Stream, peer: str) -> Stream:
        """Returns the stream to speak on: after the peer's back-off, and with TLS if this port has it.

        Args:
            stream: the accepted connection.
            peer: its address, with the port.

        Raises:
            Refused: `TLS_REQUIRED`: the peer speaks plain zaichik on a port for TLS.
            EndOfStream, BrokenResourceError: the peer has gone, or TLS has failed; it was logged.
        """
        return stream

    def left(self, peer: str) -> None:
        """Charge a peer that has left, or was disconnected, after `secure` and before it could log in."""
        return

    async def login(self, hello: Hello, stream: Stream, peer: str) -> User:
        """Returns the user who logs in.

        Args:
            hello: has its credentials.
            stream: what `secure` has returned: the peer may log in by its certificate.
            peer: see above.

        Raises:
            Refused: `AUTH_FAILED`, the same for every reason; `TOO_MANY_CONNECTIONS`: too many logins wait.
        """
        return ANYBODY

    def recheck(self, now_us: int) -> bool:
        """Reload what has changed; called once a second. Returns whether rights may have changed."""
        return False

    def may_read(self, user: str, topic: str) -> bool:
        """Returns whether a user of that name could log in and subscribe to that topic."""
        return True


class _Open(Gate):  # the only subclass that inherits methods: elsewhere, a forgotten one must not allow anything
    def __init__(self) -> None:
        self.counters = Counter[str]()


OPEN: Gate = _Open()  # no TLS, and no login
