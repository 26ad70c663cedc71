"""Acknowledgements to one client that wait for its messages to be replicated (AK-1).

Without `--acked-by` a message is acknowledged when the broker has it, before the next packet is
read. Replication takes a hundred times as long, so its packets are carried out meanwhile, and what
they are answered waits here: acknowledgements go in the order in which the messages came.
"""

from collections import deque
from collections.abc import Callable

import anyio

from zaichik import ConnectionLost, ZaichikError
from zaichik.apps.mqtt.packets import Publish, ReasonCode
from zaichik.apps.mqtt.window import MOST_MESSAGES
from zaichik.client.replication.acknowledgement import Acknowledgement

Receipt = tuple[Publish, ReasonCode, Acknowledgement | None]


class Receipts:
    """The acknowledgements that one client is still owed, in their order.

    Args:
        acknowledge: sends one.
        flush: called after those that can be sent.
        failed: called with why a message is not replicated, or not known to be; returns the reason
            code for it, or None if nothing more may be acknowledged.
    """

    def __init__(
        self,
        acknowledge: Callable[[Publish, ReasonCode], None],
        flush: Callable[[], None],
        failed: Callable[[Publish, ZaichikError], ReasonCode | None],
    ) -> None:
        self._acknowledge = acknowledge
        self._flush = flush
        self._failed = failed
        self._owed: deque[Receipt] = deque()
        self._news = anyio.Event()
        self._room = anyio.Event()

    def add(
        self, message: Publish, code: ReasonCode, acknowledgement: Acknowledgement | None
    ) -> None:
        """Acknowledge a message after those before it, and once it is replicated.

        Args:
            message: the message.
            code: how it went at the broker.
            acknowledgement: what its acknowledgement waits for; None: for nothing.
        """
        if acknowledgement is None and not self._owed:
            self._acknowledge(message, code)
            return
        self._owed.append((message, code, acknowledgement))
        self._news.set()

    async def has_room(self) -> None:
        """Wait until so few are owed that more may be.

        Clients of version 5 know that limit. Others would have the gateway hold any number.
        """
        while len(self._owed) >= MOST_MESSAGES:
            self._room = anyio.Event()
            await self._room.wait()

    async def run(self) -> None:
        """Send what is owed, until cancelled, or until nothing more may be acknowledged."""
        while True:
            while self._owed:
                message, code, acknowledgement = self._owed[0]
                outcome: ReasonCode | None = code
                if acknowledgement is not None:
                    outcome = await self._outcome(message, code, acknowledgement)
                if outcome is None:
                    return
                self._owed.popleft()
                self._acknowledge(message, outcome)
                self._room.set()
            self._flush()
            self._news = anyio.Event()
            await self._news.wait()

    async def _outcome(
        self, message: Publish, code: ReasonCode, acknowledgement: Acknowledgement
    ) -> ReasonCode | None:
        """Returns the code for a message, as soon as it is known; None: there is none."""
        if not acknowledgement.is_settled:
            self._flush()
        try:
            await acknowledgement.wait()
        except ConnectionLost:
            # The gateway ends, and the client sends everything again.
            return None
        except ZaichikError as error:
            return self._failed(message, error)
        return code
