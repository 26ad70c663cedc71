"""Positions of names, which only the client moves: written to a socket is not received.

A stream with a name settles nothing by itself. A client says how far it has come with the id of the
last event when it connects again, or by a request of its own. That goes over the stream of the name
if it is open here, and otherwise over a subscription that lasts for as long as the request.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from zaichik import Client, Subscription
from zaichik.apps.web.topics.statuses import Refusal
from zaichik.client.messages import Message, Missed

Place = tuple[str, str, str]  # a user, a topic, and a name
Named = Subscription[Message | Missed]


class Settling:
    """Moves positions."""

    def __init__(self) -> None:
        # The streams of names that are open here.
        self._open: dict[Place, Named] = {}

    @contextmanager
    def opened(self, place: Place, subscription: Named) -> Iterator[None]:
        """Let a stream's subscription settle what its client has received, during the block."""
        self._open[place] = subscription
        try:
            yield
        finally:
            # Another stream may have taken over the name.
            if self._open.get(place) is subscription:
                del self._open[place]

    async def settle(self, client: Client, place: Place, following: int, epoch: int | None) -> None:
        """Returns when everything before an offset is settled; a position never moves back.

        Args:
            client: of the user.
            place: which name.
            following: the offset that the client wants next.
            epoch: of the topic that this is an offset of; None: of the one that is there.

        Raises:
            Refusal: the offset is beyond the end of the topic.
            EpochChanged: it is another topic.
            NotInFlight: the stream that is open has not come so far.
            ZaichikError: the broker does not answer, or refuses.
        """
        subscription = self._open.get(place)
        if subscription is None or subscription.failure is not None:
            await _settle_alone(client, place, following, epoch)
            return
        if epoch not in (None, subscription.epoch):
            raise Refusal(
                "EPOCH_CHANGED",
                f"the topic has epoch {subscription.epoch}, not {epoch}: it is another one",
            )
        if following > subscription.committed:
            await subscription.commit(following - 1)


async def _settle_alone(client: Client, place: Place, following: int, epoch: int | None) -> None:
    """Settle by reading what is to be settled, all over again, and looking at none of it."""
    _, topic, name = place
    async with client.subscribe(
        topic, name=name, start=following, until=following, epoch=epoch, events=True
    ) as subscription:
        if following > subscription.live:
            raise Refusal(
                "OFFSET_AHEAD",
                f"offset {following} is beyond the end of the topic, which is {subscription.live}",
            )
        async for _ in subscription.pieces():
            pass
        if following > 0:
            await subscription.commit(following - 1)
