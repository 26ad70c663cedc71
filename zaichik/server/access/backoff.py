"""Limits on what peers without a login may cost.

There is a token bucket of failed logins for each address, and a queue of passwords to check.

A failure is any connection that ends before a login: an unknown token, a port scan, half a
handshake. Each address has a token bucket of failures. `newcomers` says what its connections may do
while it is empty. A success costs nothing, so a class behind one router, or a hundred tasks of one
program, get in at once.
"""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

from zaichik.base.clock import SECOND_US, Clock
from zaichik_protocol import ErrorCode, Refused

# Of one address: at once, and each second after that.
FAILURES = 20
A_SECOND = 1

# Of all addresses without a recent login together: at once, and each second after that.
UNKNOWN_FAILURES = 50

# How long a login is recent.
LATELY_US = 600 * SECOND_US

# The longest wait, even if an address has failed a thousand times at once.
MOST_OWED_US = 60 * SECOND_US

# How many are remembered: of the latest failed logins, and of the latest successful ones.
MOST_ADDRESSES = 4096

MOST_WAITING = 16  # connections that wait for one bucket

# Passwords that wait to be checked: from all addresses, and from one.
MOST_PASSWORDS = 64
MOST_PASSWORDS_OF_ONE = 2

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
        self._interval_us = SECOND_US // a_second
        self._depth_us = (tokens - 1) * self._interval_us
        self._full_us = 0
        self.waiting = 0

    def wait_us(self, now_us: int) -> int:
        """Returns µs until there is a token for one more connection; 0 if there is one now."""
        until_us = self._full_us - self._depth_us - now_us
        if until_us <= 0:
            return 0
        return until_us + self.waiting * self._interval_us

    def take(self, now_us: int) -> None:
        """Take a token, even if there is none.

        No more is owed than comes back in `MOST_OWED_US`.
        """
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
        self._unknown = Bucket(UNKNOWN_FAILURES, UNKNOWN_FAILURES)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        # Apart from the buckets, so that no failed login pushes a successful one out.
        self._logins: OrderedDict[str, int] = OrderedDict()

    def has_token(self, address: str) -> bool:
        """Returns whether `wait` would return True at once."""
        now_us = self._clock.now_us()
        return not any(bucket.wait_us(now_us) for bucket in self._of(address))

    def is_known(self, address: str) -> bool:
        """Returns whether there was a login from the address lately."""
        login_us = self._logins.get(address)
        return login_us is not None and self._clock.now_us() - login_us < LATELY_US

    async def wait(self, address: str) -> bool:
        """Wait until the address has a token.

        Returns whether it has one: False at once if too many wait already.
        """
        for bucket in self._of(address):
            wait_us = bucket.wait_us(self._clock.now_us())
            if wait_us:
                if bucket.waiting >= MOST_WAITING:
                    return False
                bucket.waiting += 1
                try:
                    await self._sleep(wait_us / SECOND_US)
                finally:
                    bucket.waiting -= 1
        return True

    def failed(self, address: str) -> None:
        """Charge the address for a connection without a login."""
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = Bucket(FAILURES, A_SECOND)
        _remember(self._buckets, address, bucket)
        for bucket in self._of(address):
            bucket.take(self._clock.now_us())

    def succeeded(self, address: str) -> None:
        """Note a login from the address.

        For a while, failures of addresses without one do not delay it.
        """
        _remember(self._logins, address, self._clock.now_us())

    def _of(self, address: str) -> list[Bucket]:
        """Returns the buckets that an address must have a token from."""
        buckets: list[Bucket] = []
        if address in self._buckets:
            buckets.append(self._buckets[address])
        if not self.is_known(address):
            buckets.append(self._unknown)
        return buckets


def _remember(known: OrderedDict[str, Result], address: str, value: Result) -> None:
    known[address] = value
    known.move_to_end(address)
    if len(known) > MOST_ADDRESSES:
        known.popitem(last=False)


class OneByOne:
    """Runs functions in a thread, one after the other, with a pause as long as each took.

    So checking passwords takes at most half of one core, and the memory of one check, however many
    are sent. Addresses wait in one queue; none is in it more than `MOST_PASSWORDS_OF_ONE` times, so
    none can keep the others waiting long.

    Args:
        clock: the source of time.
        sleep: waits that many seconds.
    """

    def __init__(self, clock: Clock, sleep: Sleep = anyio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._line = anyio.Lock()
        self._in_line: Counter[str] = Counter()
        self._pause_until_us = 0

    async def run(self, address: str, function: Callable[[], Result]) -> Result:
        """Returns what the function returns.

        Raises:
            Refused: `TOO_MANY_CONNECTIONS`: too many are waiting, from all addresses or
                from this one.
        """
        own = self._in_line[address]
        if own >= MOST_PASSWORDS_OF_ONE or self._in_line.total() >= MOST_PASSWORDS:
            raise too_many_passwords()
        self._in_line[address] += 1
        try:
            async with self._line:
                pause_us = max(0, self._pause_until_us - self._clock.now_us())
                await self._sleep(pause_us / SECOND_US)
                began_us = self._clock.now_us()
                try:
                    return await run_sync(function)
                finally:
                    ended_us = self._clock.now_us()
                    self._pause_until_us = ended_us + (ended_us - began_us)
        finally:
            self._in_line -= Counter([address])  # which removes it at 0


def too_many_passwords() -> Refused:
    """Returns the Error for a password that cannot wait to be checked."""
    problem = "too many passwords wait to be checked; try again later"
    return Refused(ErrorCode.TOO_MANY_CONNECTIONS, problem)
