"""Opens streams to a broker: the first, and another one whenever a stream is lost.

A secret is sent only to the address that it was given for: after TLS has proven that this is the
right broker, or over plain TCP if the connection stays on this machine. There is no way around
this, and no fallback from TLS.
"""

# Not compiled: it runs once in a connection, so there is nothing to gain.

import anyio
from anyio.abc import SocketAttribute

from zaichik.client.endpoint import Endpoint
from zaichik.client.errors import ConnectFailed
from zaichik.net.peers import is_loopback
from zaichik.net.socket_stream import SocketStream
from zaichik.net.stream import Stream
from zaichik.net.tls_settings import ClientTls, client_tls

PASSWORD_SECONDS = 30.0  # a broker checks passwords slowly, one at a time: others may be first


class Dialer:
    """The way to one broker.

    Args:
        endpoint: its address, and the credentials for it.
        tls: what to check with TLS, instead of what the address says; see `zaichik.client_tls`.

    Attributes:
        endpoint: see above.
        advice: what to do if nothing answers there.

    Raises:
        ValueError: `tls` is given, and the address is without TLS, or `tls` lacks its pins.
    """

    advice = "Start one with `zaichik serve`"

    def __init__(self, endpoint: Endpoint, tls: ClientTls | None = None) -> None:
        if tls is not None and not endpoint.is_encrypted:
            raise ValueError(
                f"tls is given, but {endpoint} is without TLS; write zaichiks://{endpoint}"
            )
        # One of the two would be ignored.
        if tls is not None and endpoint.pins and tls.pins != {*endpoint.pins}:
            raise ValueError(
                f"{endpoint} has a pin that tls doesn't have; pass it to "
                "zaichik.client_tls(pins=...) too"
            )
        self.endpoint = endpoint
        if tls is None and endpoint.is_encrypted:
            tls = client_tls(pins=endpoint.pins)
        self._tls = tls

    def greeting_seconds(self, timeout: float) -> float:
        """Returns how long the broker may take to answer a Hello.

        That is `timeout`, or longer if the Hello has a password.
        """
        if self.endpoint.user and self.endpoint.secret:
            return max(timeout, PASSWORD_SECONDS)
        return timeout

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt; a dialer that learns of another address waits no longer."""
        await anyio.sleep(seconds)

    async def dial(self) -> Stream:
        """Returns a stream to the broker, on which nothing was sent yet.

        Raises:
            OSError: nothing answers at the address.
            TlsFailed: TLS failed, or the broker is not the right one.
            ConnectFailed: the secret would be readable on the way.
        """
        stream = await SocketStream.connect(self.endpoint.host, self.endpoint.port)
        try:
            if self._tls is not None:
                return await self._tls.secure(stream, self.endpoint.host)
            self._check_secret(stream)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream

    def _check_secret(self, stream: SocketStream) -> None:
        if not self.endpoint.secret:
            return
        remote_host = stream.extra(SocketAttribute.remote_address)[0]
        if not is_loopback(f"{remote_host}:0"):
            raise ConnectFailed(
                f"{self.endpoint} is on another machine, and without TLS your secret could be read "
                "on the way; nothing was sent; if the broker speaks TLS, write "
                f"zaichiks://{self.endpoint}"
            )
