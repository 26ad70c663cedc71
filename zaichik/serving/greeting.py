"""The greeting: from accept to a complete Hello and a login.

It is a phase of its own, because a peer without a Hello may be a browser, a port scan, or a client that never sends
anything. It costs one small buffer and has one deadline; no other part of a conversation is started for it.
"""

import anyio

from zaichik.broker.rights import User
from zaichik.net.stream import Stream
from zaichik.serving.foreign import FIRST_BYTES, recognised
from zaichik.serving.gate import Gate
from zaichik_protocol import NEED_DATA, ErrorCode, FrameDecoder, Hello, ProtocolError, Refused

STEPS = 10  # of the deadline: a stall of the broker itself uses up one of them, however long it lasts


class ForeignProtocol(Exception):
    """The peer speaks another protocol, which the text names."""


async def admit(gate: Gate, stream: Stream, decoder: FrameDecoder, peer: str, seconds: float) -> tuple[Hello, User]:
    """Returns the peer's Hello, and the user who has logged in with it. Raises what `greet` and `Gate.login` do."""
    try:
        hello = await greet(stream, decoder, seconds)
    except BaseException:
        gate.left(peer)
        raise
    try:
        return hello, await gate.login(hello, stream, peer)
    except Refused as refusal:  # it answers the Hello (error.1)
        refusal.request_id, refusal.request_type = hello.id, hello.TYPE
        raise


async def greet(stream: Stream, decoder: FrameDecoder, seconds: float) -> Hello:
    """Returns the peer's first frame, which is a Hello.

    Raises:
        ProtocolError: it is malformed, or another frame.
        Refused: `HANDSHAKE_TIMEOUT`: it was not complete within this many seconds (TIM-1).
        ForeignProtocol: the first bytes are those of another protocol.
        EndOfStream, BrokenResourceError: the peer has gone.
    """
    first, frame = b"", decoder.next_frame()
    try:
        for _ in range(STEPS):
            with anyio.move_on_after(seconds / STEPS):
                while frame is NEED_DATA:
                    data = await stream.receive()
                    first = (first + data)[:FIRST_BYTES]
                    decoder.receive_data(data)
                    frame = decoder.next_frame()
            if frame is not NEED_DATA:
                break
        else:
            # If the broker itself was stalled, the Hello may have been in the socket all the time.
            decoder.receive_data(stream.receive_nowait())
            frame = decoder.next_frame()
    except ProtocolError as error:
        if error.code is ErrorCode.FRAME_TOO_LARGE and (name := recognised(first)):
            raise ForeignProtocol(name) from error
        raise
    if not isinstance(frame, Hello):
        raise Refused(ErrorCode.HANDSHAKE_TIMEOUT, f"no complete Hello within {seconds:g} s")
    return frame
