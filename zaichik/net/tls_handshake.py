"""The handshake of TLS: two ends agree on keys, and each learns the identity of the other.

Data is sent after that.
"""

# Not compiled: it runs once in a connection, so there is nothing to gain.

from collections.abc import Collection
from contextlib import suppress
from ssl import SSLContext

import anyio

from zaichik.net.stream import GONE, Stream
from zaichik.net.tls import TlsStream
from zaichik.net.tls_engine import TlsEngine, TlsFailed

HANDSHAKE_BYTES = 16 * 1024  # received at once: everything, unless certificates are very long


async def handshake(
    stream: Stream,
    context: SSLContext,
    host: str = "",
    pins: Collection[str] = (),
    received: bytes = b"",
) -> TlsStream:
    """Returns an encrypted stream over that one, once both ends agree.

    There is no deadline: that is the caller's.

    If this fails or is cancelled, no byte of application data was sent; close the stream below.

    Args:
        stream: a connection on which nothing was sent.
        context: a server's or a client's; which one decides who begins.
        host: the name that the certificate must be for, if the context checks names.
        pins: see `pin_of`; unless empty, the certificate must have one of these.
        received: bytes that were received already.

    Raises:
        TlsFailed: what is wrong, in a sentence.
        BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
    """
    engine = TlsEngine(context, host)
    engine.feed(received)
    try:
        while not engine.do_handshake():
            await stream.send(engine.output())
            engine.feed(await stream.receive(HANDSHAKE_BYTES))
    except anyio.EndOfStream:
        raise TlsFailed("CLOSED", "the connection was closed before TLS was agreed on") from None
    except TlsFailed:
        # There is an alert, which tells the other end what was wrong.
        with suppress(*GONE):
            stream.send_pieces_nowait([engine.output()])
        raise
    # In TLS 1.3, not even the client's own certificate has left yet.
    if pins and engine.pin not in pins:
        raise TlsFailed.other_certificate(engine.pin)
    await stream.send(engine.output())
    return TlsStream(stream, engine)
