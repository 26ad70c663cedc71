"""Which of a host's addresses to try when: Happy Eyeballs (RFC 8305).

A name may stand for several addresses, and the first may be one that never answers: IPv6 without a
route, a machine that is gone. So the next attempt begins when the one before has failed, or has
taken `DELAY_SECONDS`, and all of them go on until the first has succeeded. Addresses of the two
families take turns, because mostly it is a family that does not work.

Nothing here waits: whoever drives the attempts begins the next one when it is due, and ends each
whose socket has become writable.
"""

import math
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Any

DELAY_SECONDS = 0.25

# A family, a kind and a protocol, for a socket, and what to connect it to.
Address = tuple[int, int, int, Any]


class Attempts:
    """The attempts to connect to one of these addresses.

    Args:
        addresses: in the order of preference.

    Attributes:
        winner: the socket that is connected; None while there is none.
        failure: why the last attempt that failed did so; None while none has.
    """

    def __init__(self, addresses: Iterable[Address]) -> None:
        self.winner: socket.socket | None = None
        self.failure: OSError | None = None
        self._left = deque(interleaved(addresses))
        self._begun: list[socket.socket] = []
        # When the next one is due, even if none of those before has ended.
        self._due = -math.inf

    @property
    def is_over(self) -> bool:
        """Whether one has succeeded, or all have failed."""
        if self.winner is not None:
            return True
        return not self._left and not self._begun

    def seconds_left(self, now: float) -> float:
        """Returns the time until the next attempt is due; infinite if there is none."""
        if not self._left:
            return math.inf
        return max(0.0, self._due - now)

    def begin(self, now: float) -> socket.socket | None:
        """Begin the next attempt.

        Returns its socket, which is writable when it has ended; None if it has ended at once.
        """
        family, kind, proto, address = self._left.popleft()
        self._due = now + DELAY_SECONDS
        try:
            raw = socket.socket(family, kind, proto)
        except OSError as error:
            # The system has no such family.
            self._failed(error)
            return None
        self._begun.append(raw)
        raw.setblocking(False)
        try:
            raw.connect(address)
        except BlockingIOError:
            return raw
        except OSError as error:
            self._close(raw)
            self._failed(error)
            return None
        self.end(raw)
        return None

    def end(self, raw: socket.socket) -> None:
        """Note the outcome of an attempt whose socket is writable."""
        # Another one was quicker.
        if self.winner is not None:
            self._close(raw)
            return
        code = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._close(raw)
            self._failed(OSError(code, os.strerror(code)))
            return
        self._begun.remove(raw)
        self.winner = raw

    def close(self) -> None:
        """Close the sockets of all attempts that have not ended."""
        for raw in self._begun:
            raw.close()
        self._begun.clear()

    def _failed(self, error: OSError) -> None:
        self.failure = error
        self._due = -math.inf

    def _close(self, raw: socket.socket) -> None:
        self._begun.remove(raw)
        raw.close()


def interleaved(addresses: Iterable[Address]) -> list[Address]:
    """Returns the addresses with the families taking turns, in the order in which they come."""
    families: dict[int, deque[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], deque()).append(address)
    turns: list[Address] = []
    while families:
        for family in list(families):
            turns.append(families[family].popleft())
            if not families[family]:
                del families[family]
    return turns
