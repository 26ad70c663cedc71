"""Bytes that are nearly frames: those of the protocol's vectors, with a few things changed."""

import json
import struct
from pathlib import Path

_VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"


def _bytes_of(name):
    return [
        bytes.fromhex(case["hex"])
        for case in json.loads((_VECTORS / name).read_text(encoding="utf-8"))
    ]


SOUND = _bytes_of("frames.json")
UNSOUND = _bytes_of("invalid.json")
REQUESTS = [data for data in SOUND if data[4] < 0x40]
EDGES = [0, 1, 7, 8, 9, 12, 127, 128, 255, 256, 4096, 65535, 2**31 - 1, 2**31, 2**32 - 1]


def _flip_a_bit(rng, data):
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _change_a_byte(rng, data):
    data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _insert(rng, data):
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.randint(1, 9))


def _remove(rng, data):
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 9)]


def _repeat(rng, data):
    at = rng.randrange(len(data))
    data[at:at] = data[at : at + rng.randint(1, 30)]


def _cut_off(rng, data):
    del data[rng.randrange(1, len(data) + 1) :]


def _set_an_integer(rng, data):
    """Where most integers lie: a multiple of four from the beginning, or from the topic's end."""
    form = rng.choice(["<H", "<I", "<I", "<Q"])
    size = struct.calcsize(form)
    if len(data) >= size:
        at = rng.randrange(len(data) - size + 1) & ~(rng.choice((0, 3)))
        struct.pack_into(form, data, at, min(rng.choice(EDGES), 256**size - 1))


def _splice(rng, data):
    """The end of another frame."""
    other = rng.choice(SOUND)
    at = rng.randrange(len(data))
    data[at:] = other[min(at, len(other) - 1) :]


# These know nothing of frames.
ANYWHERE = [_flip_a_bit, _change_a_byte, _insert, _remove, _repeat, _cut_off]
_CHANGES = [*ANYWHERE, _set_an_integer, _set_an_integer, _splice]


def mutated(rng, data):
    """These bytes with a few changes; in half of the cases with a length that is right again."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if changed:
            rng.choice(_CHANGES)(rng, changed)
    if rng.random() < 0.5 and len(changed) >= 12:
        struct.pack_into("<I", changed, 0, len(changed) - 4)
    return bytes(changed)


def glued(rng, packets, mutate):
    """Some packets glued together: as they are, mutated, or bytes that never were any."""
    pieces = []
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        kind = rng.random()
        if kind < 0.3:
            pieces.append(rng.choice(packets))
        elif kind < 0.95:
            pieces.append(mutate(rng, rng.choice(packets)))
        else:
            pieces.append(rng.randbytes(rng.randint(1, 40)))
    return b"".join(pieces)


def stream(rng, frames):
    """Some frames glued together: sound, mutated, or bytes that never were any."""
    pieces = []
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        kind = rng.random()
        if kind < 0.3:
            pieces.append(rng.choice(frames))
        elif kind < 0.9:
            pieces.append(mutated(rng, rng.choice(frames)))
        elif kind < 0.95:
            pieces.append(rng.choice(UNSOUND))
        else:
            pieces.append(rng.randbytes(rng.randint(1, 40)))
    return b"".join(pieces)
