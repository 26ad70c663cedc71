"""What happened, in order: the simulation's memory, and what two runs of one seed are compared by.

A line is kept as it came and made into text only when somebody wants to read it: most runs end
well, and nobody does.
"""

from dataclasses import fields
from hashlib import blake2b
from zlib import crc32

from zaichik_protocol import Batch, Frame

ANOMALY = "ANOMALY"  # the actor of the line that tells of it


class Anomaly(Exception):
    """A promise that was not kept.

    Args:
        promise: its name, one of `PROMISES`.
        text: what was seen, and what should have been.
    """

    def __init__(self, promise, text):
        super().__init__(f"{promise} ({PROMISES[promise]}): {text}")
        self.promise = promise


PROMISES = {
    "P1": "one order for all",
    "P2": "nothing is lost in silence",
    "P3": "what was acknowledged is there, byte for byte",
    "P4": "what has expired is gone",
    "P5": "nobody is held up by others",
    "P6": "everything is bounded",
    "P7": "every end has its reason",
    "CLO-3": "who has left leaves nothing behind",
    "CMT-1": "no more in flight than was asked for",
    "SHR-2": "a message is with one worker at a time",
    "SHR-3": "no ticket is given twice",
    "SHR-4c": "what was handed out before is marked",
    "SHR-5": "what fails too often is dead, and nothing else",
    "SHR-7": "each message of a shared name has one fate",
    "COM-2": "of each window the first is kept",
    "ERR": "every request has one answer, and it is the right one",
    "BUG": "nobody warns of a bug of its own",
}


class Trace:
    """Lines of time, actor and what happened."""

    def __init__(self):
        self._lines = []

    def add(self, time, actor, *what):
        self._lines.append((time, actor, what))

    def __len__(self):
        return len(self._lines)

    def lines(self):
        """All of them as text."""
        return self._texts(self._lines)

    def around(self, actor, before, after):
        """Those around the first line of that actor; without one, the last."""
        at = next(
            (number for number, line in enumerate(self._lines) if line[1] == actor),
            len(self._lines),
        )
        return self._texts(self._lines[max(0, at - before) : at + after])

    def _texts(self, lines):
        for time, actor, what in lines:
            yield f"{time:12.6f} {actor:<14} {' '.join(map(_shown, what))}"

    def digest(self):
        """A hash of all lines."""
        seen = blake2b(digest_size=16)
        for line in self.lines():
            seen.update(line.encode())
        return seen.hexdigest()


def _shown(thing):
    match thing:
        case Frame():
            values = (f"{item.name}={_shown(getattr(thing, item.name))}" for item in fields(thing))
            return f"{type(thing).__name__}({', '.join(values)})"
        case Batch():
            return f"<{thing.count} of {thing.size} bytes, crc {crc32(thing.data):08x}>"
        case bytes() if len(thing) > 24:
            return f"<{len(thing)} bytes, crc {crc32(thing):08x}>"
        case _:
            return str(thing)
