"""A claim: one gateway of a kind at a broker, because two would undo each other's work.

What a gateway keeps in topics, it reads when it starts, and knows from then on. A second one would
know something else: it would hand out messages again, and write its positions over the other's.

So a gateway that keeps something reads a topic of its own, in which there is nothing, under a name.
A name has one reader (CMT-3). A gateway that starts sees in the broker's report that the name has a
reader, and does not start. If two start at once, the one that comes later takes the name over, and
the other one is told so and ends.

A gateway that was killed has left the name as soon as its connection is gone. One whose machine is
gone has it until the broker notices, or an operator ends that connection.
"""

import logging
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

from zaichik import (
    Client,
    EpochChanged,
    Forbidden,
    Message,
    Subscription,
    SubscriptionLost,
    TakenOver,
    TopicExists,
)

logger = logging.getLogger("zaichik.gateways.claim")

NAME = "the gateway"


class AlreadyServed(Exception):
    """Another gateway of the same kind is at the broker; a sentence says which, and what to do."""


class Claim:
    """Holds the claim during a block, once it has got it.

    Args:
        client: the gateway's own.
        topic: has the name, and no messages; it is made if it is not there.
        kind: what the gateway speaks, for people.
    """

    def __init__(self, client: Client, topic: str, kind: str) -> None:
        self._client = client
        self._topic = topic
        self._kind = kind
        self._stack = AsyncExitStack()
        self._held: Subscription[Message] | None = None

    async def __aenter__(self) -> Self:
        """Returns the claim, which the gateway has from now on.

        If the broker's rules do not let it have one, that is logged, and nothing is prevented.

        Raises:
            AlreadyServed: another gateway has it.
            ZaichikError: the broker has no room for it, or is gone.
        """
        try:
            await self._take()
        except Forbidden as error:
            logger.warning("another gateway of this kind would not be noticed: %s", error)
        return self

    async def _take(self) -> None:
        with suppress(TopicExists):
            await self._client.create_topic(self._topic)
        for row in await self._client.subscriptions(self._topic):
            is_claim = row["topic"] == self._topic and row["session"] == NAME
            if is_claim and row["connection"]:
                raise AlreadyServed(self._sentence(row))
        subscription = self._client.subscribe(self._topic, name=NAME, credit=1)
        self._held = await self._stack.enter_async_context(subscription)

    def _sentence(self, row: dict[str, Any]) -> str:
        number = row["connection"]
        return (
            f"another gateway for {self._kind} is at this broker (connection {number}, "
            f"{row['client']}), and two would undo each other's work: stop it first, or if it "
            f"hangs, end it with: zaichik disconnect {number}"
        )

    async def hold(self) -> None:
        """Watch over the claim until cancelled; a broker that has lost it is asked for it again.

        Raises:
            AlreadyServed: another gateway has it now.
            ZaichikError: as when the block begins.
        """
        while self._held is not None:
            held = self._held
            self._held = None
            try:
                # There is nothing in the topic, and whatever somebody puts there means nothing.
                async for _ in held:
                    pass
            except TakenOver:
                raise AlreadyServed(
                    f"another gateway for {self._kind} has begun at this broker, so this one "
                    "ends: two would undo each other's work"
                ) from None
            except (EpochChanged, SubscriptionLost):
                # The topic was in memory, and the broker has been started again.
                await self.aclose()
                await self.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        """Leave the claim to others."""
        await self.aclose()

    async def aclose(self) -> None:
        """Leave the claim to others."""
        await self._stack.aclose()
