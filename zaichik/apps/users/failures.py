"""Failed logins are limited here, before the broker limits the gateway itself.

To the broker, all logins of a gateway come from one address, the gateway's. It has a token bucket
of failures for each address, and delays one whose bucket is empty: guesses made at a gateway could
keep out all of its clients, and other programs on its machine.

So a gateway has buckets of its own. The one for all its clients together is half as deep as the
broker's for the gateway, and fills as fast. That leaves room for the failures of other programs on
the machine, and for attempts that are in progress when the bucket becomes empty. The one of each
address is half as deep as that: a single address cannot use it up at once.
"""

from collections import OrderedDict
from collections.abc import Callable

from zaichik.net.peers import client_of
from zaichik.server.access.backoff import A_SECOND, FAILURES, MOST_ADDRESSES, Bucket

# At once: of all addresses together, and of one.
OF_ALL = FAILURES // 2
OF_ONE = OF_ALL // 2


class Failures:
    """The buckets of a gateway and of its clients' addresses.

    Args:
        now_us: the time.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._all = Bucket(OF_ALL, A_SECOND)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def may_try(self, peer: str) -> bool:
        """Returns whether an address may have the broker check a login."""
        return not self._all.wait_us(self._now_us()) and self.may_guess(peer)

    def may_guess(self, peer: str) -> bool:
        """Returns whether an address may be told if a login is right, whoever checks it."""
        bucket = self._buckets.get(client_of(peer))
        return bucket is None or not bucket.wait_us(self._now_us())

    def failed(self, peer: str) -> None:
        """Charge an address for a login that the broker has refused."""
        self.ended()
        self.guessed(peer)

    def ended(self) -> None:
        """Count a login that the broker has refused when its connection was to be replaced.

        It was right before, so it is no fault of an address; but it is a failure to the broker.
        """
        self._all.take(self._now_us())

    def guessed(self, peer: str) -> None:
        """Charge an address for a login that was refused here, without asking the broker."""
        address = client_of(peer)
        bucket = self._buckets.setdefault(address, Bucket(OF_ONE, A_SECOND))
        bucket.take(self._now_us())
        self._buckets.move_to_end(address)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
