"""What a server asks before it serves a connection: may it be encrypted, and whose is it? See `zaichik.access`."""

from typing import Protocol

from zaichik.broker.rights import ANYBODY, User
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import Hello


class Gate(Protocol):
    """The way into a broker."""

    async def secure(self, stream: SocketStream, peer: str) -> SocketStream:
        """Returns the stream to speak on, after TLS if this port has it, and after the peer's back-off.

        Args:
            stream: the accepted connection.
            peer: its address, with the port.

        Raises:
            Refused: `TLS_REQUIRED`: the peer speaks plain zaichik on a port for TLS.
            EndOfStream, BrokenResourceError: the peer has gone, or TLS has failed; it was logged.
        """

    async def login(self, hello: Hello, stream: SocketStream, peer: str) -> User:
        """Returns who the peer is.

        Args:
            hello: has its credentials.
            stream: what `secure` has returned: a certificate may speak for the peer.
            peer: see above.

        Raises:
            Refused: `AUTH_FAILED`, the same for every reason; `TOO_MANY_CONNECTIONS`: too many wait to be asked.
        """

    def recheck(self, now_us: int) -> bool:
        """Read again what has changed; called once a second. Returns whether rights may have changed."""


class _Open:
    async def secure(self, stream: SocketStream, peer: str) -> SocketStream:
        return stream

    async def login(self, hello: Hello, stream: SocketStream, peer: str) -> User:
        return ANYBODY

    def recheck(self, now_us: int) -> bool:
        return False


OPEN: Gate = _Open()  # no TLS, and nobody is asked
