"""What of a recording to read: of each object, the offsets that no object before it has.

Two recorders may write to one place in an object store at once, or one that was thought to be
dead. Then some messages are in two objects. Nobody locks or deletes anything there: a reader cuts.
Sorted by their first offsets, each object contributes only what comes after those before it:

    1000 ──────────── 2000                     all of it
            1500 ──────────── 2500             from 2000 on
              1600 ── 1900                     nothing, and is left out

What is in two objects is the same in both, so it does not matter which of them is cut.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zaichik.apps.recording.folders import folder_of
from zaichik.apps.recording.parts import Part
from zaichik.apps.recording.stores import Store, name_of


@dataclass(frozen=True, order=True, slots=True)
class Piece:
    """What to read of an object: offsets `start` up to `end` of the topic with that epoch."""

    epoch: int
    start: int
    end: int
    path: str


def pieces(paths: Iterable[str]) -> list[Piece]:
    """Returns what to read of these objects, in the order of messages.

    Raises:
        CannotRecord: one of them is not part of a recording.
    """
    named = [(Part.of(name_of(path)), path) for path in paths]
    found: list[Piece] = []
    for part, path in sorted(named, key=lambda one: (one[0].epoch, one[0].start, -one[0].end)):
        start = part.start
        if found and found[-1].epoch == part.epoch:
            start = max(start, found[-1].end)
        if start < part.end:
            found.append(Piece(part.epoch, start, part.end, path))
    return found


def pieces_of(store: Store, topic: str, epoch: int | None = None) -> list[Piece]:
    """Returns what to read of a recorded topic.

    Args:
        store: where the recording is.
        topic: the topic's name.
        epoch: which one; None: all, one after the other.

    Raises:
        CannotRecord: an object of one of the topic's days is not part of a recording.
        StoreUnavailable: the store cannot be listed.
    """
    folder = folder_of(topic)
    listed = [(one.path, name_of(one.path)) for one in store.listing(folder)]
    paths = [
        path for path, name in listed if name.match("day=*/*.parquet") and name.parts[-3] == folder
    ]
    return [piece for piece in pieces(paths) if epoch in (None, piece.epoch)]
