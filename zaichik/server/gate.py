"""The interface between a server and access control: encryption and login.

See `zaichik.server.access`.
"""

from collections import Counter
from typing import Protocol

from zaichik.core.rights import ANYBODY, User
from zaichik.net.stream import Stream
from zaichik.server.places import Place
from zaichik_protocol import Hello


class Gate(Protocol):
    """The way into a broker.

    Attributes:
        counters: how often each event happened, for `describe`.
    """

    counters: Counter[str]

    def arrive(self, place: Place, most: int) -> None:
        """Take a connection in, which may close another one that has not logged in.

        Args:
            place: the connection's.
            most: how many of an address may be there without a login, before any has failed.
        """
        return

    def depart(self, place: Place) -> None:
        """Free the place of a connection that has ended."""
        return

    async def secure(self, stream: Stream, place: Place) -> Stream:
        """Returns the stream to speak on, with TLS if this port has it.

        Args:
            stream: the accepted connection.
            place: the connection's; it has arrived.

        Raises:
            Refused: `TLS_REQUIRED`: the peer speaks plain zaichik on a port for TLS.
            EndOfStream, BrokenResourceError: the peer has gone, or TLS has failed; it was logged.
        """
        return stream

    def left(self, place: Place) -> None:
        """Charge a peer whose connection has ended after `secure` and before it could log in."""
        return

    async def login(self, hello: Hello, stream: Stream, place: Place) -> User:
        """Returns the user who logs in.

        Args:
            hello: has its credentials.
            stream: what `secure` has returned: the peer may log in by its certificate.
            place: see above.

        Raises:
            Refused: `AUTH_FAILED`, the same for every reason; `TOO_MANY_CONNECTIONS`: too many
                logins wait.
        """
        return ANYBODY

    def recheck(self, now_us: int) -> bool:
        """Reload what has changed; called once a second.

        Returns whether rights may have changed.
        """
        return False

    def may_read(self, user: str, topic: str) -> bool:
        """Returns whether a user of that name could log in and subscribe to that topic."""
        return True


# The only subclass that inherits methods. Any other must write all of them, so that one that is
# forgotten allows nothing.
class _Open(Gate):
    def __init__(self) -> None:
        self.counters = Counter[str]()


OPEN: Gate = _Open()  # no TLS, and no login
