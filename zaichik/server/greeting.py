"""The greeting: from accept to a complete Hello and a login.

It is a phase of its own, because a peer without a Hello may be a browser, a port scan, or a client
that never sends anything. It costs one small buffer and has one deadline; no other part of a
conversation is started for it.
"""

import anyio

from zaichik.core.rights import User
from zaichik.net.stream import Stream
from zaichik.server.foreign import ANSWERS, FIRST_BYTES, recognised
from zaichik.server.gate import Gate
from zaichik.server.places import Place
from zaichik_protocol import NEED_DATA, ErrorCode, FrameDecoder, Hello, ProtocolError, Refused

# The deadline passes in steps: a stall of the broker itself uses up one, however long it lasts.
STEPS = 10


class ForeignProtocol(Exception):
    """The peer speaks another protocol, which the text names.

    Attributes:
        answer: what to send it, in its own protocol; b"" if it has no use for one.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.answer = ANSWERS.get(name, b"")


async def admit(
    gate: Gate, stream: Stream, decoder: FrameDecoder, place: Place, seconds: float
) -> tuple[Hello, User]:
    """Returns the peer's Hello, and the user who has logged in with it.

    Raises what `greet` and `Gate.login` do.
    """
    try:
        hello = await greet(stream, decoder, seconds)
    except BaseException:
        gate.left(place)
        raise
    try:
        return hello, await gate.login(hello, stream, place)
    except Refused as refusal:
        # The Error answers the Hello (error.1).
        refusal.request_id = hello.id
        refusal.request_type = hello.TYPE
        raise


async def greet(stream: Stream, decoder: FrameDecoder, seconds: float) -> Hello:
    """Returns the peer's first frame, which is a Hello.

    Raises:
        ProtocolError: it is malformed, or another frame.
        Refused: `HANDSHAKE_TIMEOUT`: it was not complete within this many seconds (TIM-1).
        ForeignProtocol: the first bytes are those of another protocol.
        EndOfStream, BrokenResourceError: the peer has gone.
    """
    first = b""
    steps = 0
    try:
        # In most cases it has come while the connection waited for its turn.
        data = stream.receive_nowait()
        first = data[:FIRST_BYTES]
        decoder.receive_data(data)
        frame = decoder.next_frame()
        while frame is NEED_DATA and steps < STEPS:
            steps += 1
            with anyio.move_on_after(seconds / STEPS):
                while frame is NEED_DATA:
                    data = await stream.receive()
                    first = (first + data)[:FIRST_BYTES]
                    decoder.receive_data(data)
                    frame = decoder.next_frame()
        if frame is NEED_DATA:
            # If the broker itself was stalled, the Hello may have been in the socket all the time.
            late = stream.receive_nowait()
            first = (first + late)[:FIRST_BYTES]
            decoder.receive_data(late)
            frame = decoder.next_frame()
    except ProtocolError as error:
        if error.code is ErrorCode.FRAME_TOO_LARGE:
            name = recognised(first)
            if name:
                raise ForeignProtocol(name) from error
        raise
    if not isinstance(frame, Hello):
        raise Refused(ErrorCode.HANDSHAKE_TIMEOUT, f"no complete Hello within {seconds:g} s")
    return frame
