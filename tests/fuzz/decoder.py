"""The decoder under any bytes: one stream, cut in three ways, beside a reader that is too plain to
be wrong.

An input is a receiver and the bytes it gets: `client`, a client; `broker`, a broker from its first
frame on; `greeted`, one that has accepted a Hello, with a small limit.
"""

import random

from zaichik_protocol import (
    EVENTS,
    NEED_DATA,
    REPLIES,
    REQUESTS,
    Batch,
    ErrorCode,
    Frame,
    FrameDecoder,
    Hello,
    ProtocolError,
    declaration,
    encode,
)

from . import mutation

MAX_FRAME = 300
_LENGTH = 4
ACCEPTED = {"client": REPLIES + EVENTS, "broker": (Hello,), "greeted": REQUESTS}
RECEIVERS = [*ACCEPTED]


def _decoder(receiver):
    if receiver == "client":
        return FrameDecoder.for_client()
    decoder = FrameDecoder.for_broker()
    if receiver == "greeted":
        decoder.greeted(MAX_FRAME)
    return decoder


def _outcome(call, *arguments):
    try:
        return call(*arguments)
    except ProtocolError as error:
        return error.code, error.field, error.message, error.request_id, error.request_type


def _is_fatal(found):
    return not isinstance(found, Frame) and found[0].fatal


def expected(receiver, data):
    """What must be found: each outcome, where what it took ends, and the first byte with which it
    can be known.
    """
    decoder, accepted, at = _decoder(receiver), ACCEPTED[receiver], 0
    while len(data) - at >= _LENGTH:
        length = int.from_bytes(data[at : at + _LENGTH], "little")
        if not 8 <= length <= decoder._max_frame:
            yield (
                ErrorCode.MALFORMED if length < 8 else ErrorCode.FRAME_TOO_LARGE,
                None,
                at + _LENGTH,
            )
            return
        end = at + _LENGTH + length
        if end > len(data):
            return
        found = _outcome(declaration.decode, accepted, data[at:end])
        if isinstance(found, Frame):
            assert encode(found) == data[at:end], "a frame has one way to be written"
            assert declaration.encode(found) == data[at:end]
            if (batch := getattr(found, "batch", None)) is not None:
                assert Batch.of_columns(batch.keys(), batch.payloads()) == batch, (
                    "and so has a batch"
                )
        if _is_fatal(found):
            yield found, None, end
            return
        yield found, end, end
        if isinstance(found, Hello):
            decoder.greeted(MAX_FRAME)
            accepted = REQUESTS
        at = end


def read(receiver, pieces):
    """What is found: each outcome, where what it took ends, and how much had come by then."""
    decoder, fed = _decoder(receiver), 0
    for piece in pieces:
        decoder.receive_data(piece)
        fed += len(piece)
        while (found := _outcome(decoder.next_frame)) is not NEED_DATA:
            if _is_fatal(found):
                decoder.receive_data(piece)
                assert _outcome(decoder.next_frame) == found, "it is the last word"
                assert decoder.buffered == 0, "nothing is kept"
                yield found, None, fed
                return
            yield found, fed - decoder.buffered, fed
            if isinstance(found, Hello):
                decoder.greeted(MAX_FRAME)
        held = len(decoder._data) + len(decoder._later)
        assert held == decoder.buffered < decoder.needed <= decoder._max_frame + _LENGTH, (
            "memory is bounded"
        )


def _same(found, wanted):
    """Also where the plain reader knows the code of the error only, or construct has its own words
    for what does not add up.
    """
    if isinstance(wanted, ErrorCode):
        return found[0] == wanted
    if (
        isinstance(found, Frame)
        or isinstance(wanted, Frame)
        or wanted[0] is not ErrorCode.MALFORMED
    ):
        return found == wanted
    return _without_words(found) == _without_words(wanted)


def _without_words(error):
    code, field, _, *request = error
    return code, field, *request


def check(receiver, data):
    """Raises what is wrong."""
    wanted = list(expected(receiver, data))
    cuts = random.Random(data)
    pieces, at = [], 0
    while at < len(data):
        size = cuts.choice((1, 2, 3, 5, 12, 40, 1000))
        pieces.append(data[at : at + size])
        at += size
    whole = list(read(receiver, [data]))
    for found in (
        whole,
        list(read(receiver, pieces)),
        bytewise := list(read(receiver, map(bytes, zip(data)))),
    ):
        assert [one[:2] for one in found] == [one[:2] for one in whole], "pieces do not matter"
    assert len(whole) == len(wanted)
    for (found, end, known), (outcome, wanted_end, first) in zip(bytewise, wanted, strict=True):
        assert _same(found, outcome), "what is derived agrees with the declaration"
        assert (end, known) == (wanted_end, first), "nothing is waited for in vain"


def play(rng, log):
    """One input, made and tried; it is noted in the log before."""
    receiver = rng.choice(RECEIVERS)
    frames = mutation.SOUND if receiver == "client" or rng.random() < 0.1 else mutation.REQUESTS
    log.append(f"{receiver}:{mutation.stream(rng, frames).hex()}")
    replay(log)


def replay(log):
    """The inputs of a log, again."""
    for entry in log:
        receiver, _, data = entry.partition(":")
        check(receiver, bytes.fromhex(data))
