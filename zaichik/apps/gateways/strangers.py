"""Clients that speak something else than the port: above all TLS where there is none, or no TLS.

It is the most common mistake of all, and neither protocol has words for it: each side sees bytes
that make no sense. So the log says what the client speaks.
"""

from ssl import SSLContext

import anyio

from zaichik.net.stream import GONE, Stream
from zaichik.net.tls_engine import TlsFailed
from zaichik.net.tls_handshake import HANDSHAKE_BYTES, handshake
from zaichik.server.foreign import FIRST_BYTES, recognised

# The first byte of every handshake of TLS.
HANDSHAKE = b"\x16"


class NoTls(Exception):
    """A client and the gateway have not agreed on TLS; a sentence says why."""


def speaks(first: bytes, own: str) -> str:
    """Returns what a client speaks, and that it is wrong here; "" if that is not known.

    Args:
        first: the first bytes that it has sent.
        own: what the port speaks.
    """
    name = recognised(first[:FIRST_BYTES])
    if name in {"", own}:
        return ""
    if name == "TLS":
        return "TLS, which is not spoken at this port: see --tls-cert"
    return f"{name}, which is not spoken at this port"


async def secured(stream: Stream, context: SSLContext, seconds: float) -> Stream:
    """Returns the stream over TLS, agreed on in so many seconds.

    Raises:
        NoTls: why not; the stream is closed.
    """
    try:
        with anyio.fail_after(seconds):
            return await _agreed(stream, context)
    except TimeoutError:
        problem = "it did not agree on TLS in time"
    except anyio.EndOfStream:
        problem = "it has left"
    except (NoTls, TlsFailed, *GONE) as error:
        problem = str(error) or "it has left"
    await stream.aclose()
    raise NoTls(problem)


async def _agreed(stream: Stream, context: SSLContext) -> Stream:
    first = await stream.receive(HANDSHAKE_BYTES)
    if not first.startswith(HANDSHAKE):
        name = recognised(first[:FIRST_BYTES]) or "something"
        raise NoTls(f"it speaks {name} without TLS, and this port speaks TLS only")
    return await handshake(stream, context, received=first)
