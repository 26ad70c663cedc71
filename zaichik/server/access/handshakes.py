"""TLS handshakes at a limited rate, last come, first served.

The queue is a stack. Beside an attack, there are more connections than handshakes, whatever the
order, and most have to leave without one. First come, first served would make each wait for as long
as it may, and then close most of them shortly before their turn. A connection that came just now is
served within one interval of the bucket, or else is likely never to be.
"""

import anyio

from zaichik.base.clock import SECOND_US, Clock
from zaichik.server.access.backoff import Bucket, Sleep


class Handshakes:
    """A token bucket of handshakes, and those that wait for a token.

    Args:
        a_second: how many there are each second, and at once.
        clock: the source of time.
        sleep: waits that many seconds.
    """

    def __init__(self, a_second: int, clock: Clock, sleep: Sleep) -> None:
        self._bucket = Bucket(a_second, a_second)
        self._clock = clock
        self._sleep = sleep
        self._waiting: list[_Waiting] = []  # the newest last

    async def take(self) -> None:
        """Wait for a token, and take it."""
        own = _Waiting()
        self._waiting.append(own)
        try:
            while True:
                # Only the newest looks at the clock, so that a token wakes nobody in vain.
                while self._waiting[-1] is not own:
                    await own.is_newest.wait()
                    own.is_newest = anyio.Event()
                wait_us = self._bucket.wait_us(self._clock.now_us())
                if not wait_us:
                    break
                await self._sleep(wait_us / SECOND_US)
            self._bucket.take(self._clock.now_us())
        finally:
            self._waiting.remove(own)
            if self._waiting:
                self._waiting[-1].is_newest.set()


class _Waiting:
    """One that waits.

    Attributes:
        is_newest: set when those that came after it have gone.
    """

    def __init__(self) -> None:
        self.is_newest = anyio.Event()
