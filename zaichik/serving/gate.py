"""What a server asks before it serves a connection: may it be encrypted, and whose is it? See `zaichik.access`."""

from collections import Counter
from typing import Protocol

from zaichik.broker.rights import ANYBODY, User
from zaichik.net.stream import Stream
from zaichik_protocol import Hello


class Gate(Protocol):
    """The way into a broker.

    Attributes:
        counters: how often what happened, for `describe`.
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
        """Charge a peer that has left, or was sent away, after `secure` and before it could log in."""
        return

    async def login(self, hello: Hello, stream: Stream, peer: str) -> User:
        """Returns who the peer is.

        Args:
            hello: has its credentials.
            stream: what `secure` has returned: a certificate may speak for the peer.
            peer: see above.

        Raises:
            Refused: `AUTH_FAILED`, the same for every reason; `TOO_MANY_CONNECTIONS`: too many wait to be asked.
        """
        return ANYBODY

    def recheck(self, now_us: int) -> bool:
        """Read again what has changed; called once a second. Returns whether rights may have changed."""
        return False

    def may_read(self, user: str, topic: str) -> bool:
        """Returns whether a user of that name could log in and subscribe to that topic."""
        return True


class _Open(Gate):  # the only one who inherits from it: for others, what is forgotten must not be allowed
    def __init__(self) -> None:
        self.counters = Counter[str]()


OPEN: Gate = _Open()  # no TLS, and nobody is asked
