"""Limits on what strangers may cost: a token bucket of failed logins for each address, and a queue of passwords.

A failure is any connection that ends before a login: an unknown token, a port scan, half a handshake. Each address
has a token bucket of failures. While it is empty, a few of its connections wait for their turn, and the others are
closed unread. A success costs nothing, so a class behind one router, or a hundred tasks of one program, get in at once.
"""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

from zaichik.broker.clock import MICROSECONDS, Clock
from zaichik_protocol import ErrorCode, Refused

FAILURES, A_SECOND = 20, 1  # of one address: at once, and each second after that
STRANGERS_FAILURES = 50  # of all addresses without a recent login together: at once, and each second after that
LATELY_US = 600 * MICROSECONDS
MOST_OWED_US = 60 * MICROSECONDS  # the longest wait, even if somebody at the address failed a thousand times at once
MOST_ADDRESSES = 4096  # that are remembered: those of the latest failed, and of the latest successful logins
MOST_WAITING = 16  # connections that wait for one bucket
MOST_PASSWORDS, MOST_PASSWORDS_OF_ONE = 64, 2  # that wait to be checked: from all addresses, from one

Sleep = Callable[[float], Awaitable[object]]
Result = TypeVar("Result")


class Bucket:
    """A token bucket, kept as the time when it is full again (GCRA).

    Args:
        tokens: how many a full one has.
        a_second: how many come back each second.

    Attributes:
        waiting: connections that wait for a token.
    """

    def __init__(self, tokens: int, a_second: int) -> None:
        self._interval_us = MICROSECONDS // a_second
        self._depth_us = (tokens - 1) * self._interval_us
        self._full_us = 0
        self.waiting = 0

    def wait_us(self, now_us: int) -> int:
        """Returns µs until there is a token for one more connection; 0 if there is one now."""
        until_us = self._full_us - self._depth_us - now_us
        return until_us + self.waiting * self._interval_us if until_us > 0 else 0

    def take(self, now_us: int) -> None:
        """Take a token, even if there is none, but leave no more owed than comes back in `MOST_OWED_US`."""
        full_us = max(self._full_us, now_us) + self._interval_us
        self._full_us = min(full_us, now_us + self._depth_us + MOST_OWED_US)


class Failures:
    """The buckets of all addresses.

    Args:
        clock: the source of time.
        sleep: waits that many seconds.
    """

    def __init__(self, clock: Clock, sleep: Sleep = anyio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._strangers = Bucket(STRANGERS_FAILURES, STRANGERS_FAILURES)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._logins: OrderedDict[str, int] = OrderedDict()  # apart from the buckets: no stranger pushes one out

    def is_crowded(self, client: str) -> bool:
        """Returns whether `wait` would return False now."""
        now_us = self._clock.now_us()
        return any(bucket.waiting >= MOST_WAITING and bucket.wait_us(now_us) for bucket in self._of(client))

    async def wait(self, client: str) -> bool:
        """Wait until the client has a token. Returns whether it has one: False at once if too many wait already."""
        for bucket in self._of(client):
            if wait_us := bucket.wait_us(self._clock.now_us()):
                if bucket.waiting >= MOST_WAITING:
                    return False
                bucket.waiting += 1
                try:
                    await self._sleep(wait_us / MICROSECONDS)
                finally:
                    bucket.waiting -= 1
        return True

    def failed(self, client: str) -> None:
        """Charge the client for a connection without a login."""
        _remember(self._buckets, client, self._buckets.get(client) or Bucket(FAILURES, A_SECOND))
        for bucket in self._of(client):
            bucket.take(self._clock.now_us())

    def succeeded(self, client: str) -> None:
        """Note a login from the client: for a while, failures of strangers do not delay it."""
        _remember(self._logins, client, self._clock.now_us())

    def _of(self, client: str) -> list[Bucket]:
        own = [self._buckets[client]] if client in self._buckets else []
        is_known = client in self._logins and self._clock.now_us() - self._logins[client] < LATELY_US
        return own if is_known else [*own, self._strangers]


def _remember(known: OrderedDict[str, Result], client: str, value: Result) -> None:
    known[client] = value
    known.move_to_end(client)
    if len(known) > MOST_ADDRESSES:
        known.popitem(last=False)


class OneByOne:
    """Runs functions in a thread, one after the other, and pauses after each for as long as it took.

    So checking passwords takes at most half of one core, and the memory of one check, however many are sent. Clients
    wait in one queue; none is in it more than `MOST_PASSWORDS_OF_ONE` times, so none can keep the others waiting long.

    Args:
        clock: the source of time.
        sleep: waits that many seconds.
    """

    def __init__(self, clock: Clock, sleep: Sleep = anyio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._line = anyio.Lock()
        self._in_line: Counter[str] = Counter()
        self._rested_us = 0

    async def run(self, client: str, function: Callable[[], Result]) -> Result:
        """Returns what the function returns.

        Raises:
            Refused: `TOO_MANY_CONNECTIONS`: too many are waiting, from all clients or from this one.
        """
        if self._in_line[client] >= MOST_PASSWORDS_OF_ONE or self._in_line.total() >= MOST_PASSWORDS:
            raise Refused(ErrorCode.TOO_MANY_CONNECTIONS, "too many passwords wait to be checked; try again later")
        self._in_line[client] += 1
        try:
            async with self._line:
                await self._sleep(max(0, self._rested_us - self._clock.now_us()) / MICROSECONDS)
                began_us = self._clock.now_us()
                try:
                    return await run_sync(function)
                finally:
                    self._rested_us = 2 * self._clock.now_us() - began_us
        finally:
            self._in_line -= Counter([client])  # which removes it at 0
