"""Keeps in the broker what sessions still need: a named position at the lowest of theirs (MQ-8).

A topic in the broker's memory forgets what no reader needs. The gateway's own reader has everything
at once, and its sessions may be far behind, or away. So a name stands at the lowest offset that
some session needs, and what lies above it stays.

A name can only be moved past what was delivered to it, message by message. Therefore there are two
names that take turns: the next one begins at the new offset, then the other is forgotten. One that
an earlier gateway has left resumes at its old offset, which is lower and does no harm; it is
forgotten a turn later.
"""

from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress

from zaichik import Client, Message, NoSuchSubscription, Subscription

NAMES = ("mqtt sessions 1", "mqtt sessions 2")


class Keeper:
    """The name of one topic.

    Args:
        client: the gateway's own.
        space: the topic.
    """

    def __init__(self, client: Client, space: str) -> None:
        self._client = client
        self._space = space
        self._turn = 0
        self._offset = -1
        self._held: Subscription[Message] | None = None
        # Ends the subscription that is held.
        self._stack = AsyncExitStack()

    async def hold(self, offset: int) -> None:
        """Returns when the broker keeps everything from that offset on, as far as it has it.

        Raises:
            ZaichikError: it does not.
        """
        if offset == self._offset:
            return
        # If this fails on the way, the earlier subscription is the one that is held.
        async with AsyncExitStack() as stack:
            held = await stack.enter_async_context(self._begun(NAMES[self._turn], offset))
            if self._held is not None:
                # It has ended already if another program has taken the name.
                with suppress(NoSuchSubscription):
                    await self._held.forget()
            await self._stack.aclose()
            self._stack = stack.pop_all()
        self._held = held
        self._offset = offset
        self._turn = 1 - self._turn

    def _begun(self, name: str, offset: int) -> AbstractAsyncContextManager[Subscription[Message]]:
        return self._client.subscribe(self._space, name=name, start=offset, credit=1)

    async def aclose(self) -> None:
        """Leave the name where it is: the next gateway goes on from there."""
        await self._stack.aclose()
