"""How connections that have not logged in are let in, one address among others.

An address has an allowance (see `backoff`): until that many of its connections have failed, each is
served at once. Beyond it, a connection is still read, because a right token costs a hash and a
lookup, and so does a wrong one. What costs more is limited:

* descriptors, by places: a few for each address, where the newest ones wait;
* TLS handshakes, by a token bucket of their own; a connection without a token waits in its place;
* passwords, by the address's allowance, as if nothing else came from there.

So a good token gets in beside any amount of junk from its own address, which may be a router's: at
once without TLS, and over TLS as soon as one of the handshakes is its own. Failures beyond the
allowance are not charged to it: the limits above are what they have cost already. They would only
keep passwords of the same address waiting.

Addresses with a recent login have places and handshakes of their own, which no other address can
use up.
"""

from collections import Counter

import anyio
from anyio.lowlevel import checkpoint

from zaichik.base.clock import Clock
from zaichik.server.access.backoff import Failures, Sleep
from zaichik.server.access.handshakes import Handshakes
from zaichik.server.places import Place, Room

# Connections beyond the allowance that have not shown what they are: of one address, and in all.
MOST_SILENT_OF_ONE = 16
MOST_SILENT = 256

# Connections beyond the allowance whose handshake has begun. With so many handshakes a second, each
# has more than a second for its round trips, whoever comes after it.
MOST_HANDSHAKING = 64

# Handshakes beyond the allowance: at once, and each second after that. One takes 0.7 ms of the
# broker's processor time with a P-256 key, 1 ms with RSA of 2,048 bits, 7 ms with 4,096.
HANDSHAKES = 50


class Newcomers:
    """Connections of all addresses that have not logged in.

    Args:
        clock: the source of time.
        sleep: waits that many seconds.
    """

    def __init__(self, clock: Clock, sleep: Sleep = anyio.sleep) -> None:
        self._failures = Failures(clock, sleep)
        self._known = _Limits(clock, sleep)
        self._unknown = _Limits(clock, sleep)
        # Those within the allowance of their address. A token is taken only when one fails, and
        # until then many could come.
        self._trusted: Counter[str] = Counter()
        self._is_trusted: set[Place] = set()

    def arrive(self, place: Place, most: int) -> Place | None:
        """Give a connection its place.

        Args:
            place: see above.
            most: how many of an address may be served at once before one has failed.

        Returns that of one that was closed for it; None if there was room.
        """
        address = place.address
        if self._failures.has_token(address) and self._trusted[address] < most:
            self._trusted[address] += 1
            self._is_trusted.add(place)
            return None
        place.is_beyond = True
        return place.enter(self._of(address).silent)

    def depart(self, place: Place) -> None:
        """Free the place of a connection that has logged in or ended."""
        place.leave()
        if place in self._is_trusted:
            self._is_trusted.remove(place)
            self._trusted[place.address] -= 1
            if not self._trusted[place.address]:
                del self._trusted[place.address]

    async def handshake(self, place: Place) -> Place | None:
        """Wait until a connection beyond the allowance may begin its TLS handshake.

        Returns that of one that was closed for it; None if there was room.
        """
        limits = self._of(place.address)
        await limits.handshakes.take()
        # It was closed for a newer one in the very moment in which its turn came.
        if place.is_lost:
            await checkpoint()
            return None
        return place.enter(limits.handshaking)

    async def password(self, place: Place) -> bool:
        """Wait until a connection may have its password checked.

        Returns whether it may: False at once if too many of its address wait already.
        """
        if not place.is_beyond:
            return True
        # It has shown what it is, and does not make room for connections that have not.
        place.leave()
        may_try = await self._failures.wait(place.address)
        # It has had its turn, and its failure is charged.
        place.is_beyond = not may_try
        return may_try

    def failed(self, place: Place) -> None:
        """Charge the address for a connection without a login."""
        if not place.is_beyond:
            self._failures.failed(place.address)

    def succeeded(self, place: Place) -> None:
        """Note a login, which costs nothing."""
        place.is_beyond = False
        self.depart(place)
        self.seen(place.address)

    def seen(self, address: str) -> None:
        """Note that an address has a login."""
        self._failures.succeeded(address)

    def _of(self, address: str) -> "_Limits":
        if self._failures.is_known(address):
            return self._known
        return self._unknown


class _Limits:
    """What addresses may cost beyond their allowance, all of them together.

    Attributes:
        silent: places of connections that have not shown what they are.
        handshaking: places of those whose handshake has begun.
        handshakes: the bucket of handshakes.
    """

    def __init__(self, clock: Clock, sleep: Sleep) -> None:
        self.silent = Room(MOST_SILENT_OF_ONE, MOST_SILENT)
        self.handshaking = Room(MOST_HANDSHAKING, MOST_HANDSHAKING)
        self.handshakes = Handshakes(HANDSHAKES, clock, sleep)
