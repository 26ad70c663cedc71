"""A message of a shared name: what was handed out, and what the program says of it."""

import math
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from zaichik.client.messages import Duration, Message
from zaichik.client.work.verdict import (
    DONE,
    GIVEN_BACK,
    Cancellations,
    Verdict,
    extended,
    rejected,
    retried,
    verdict_of,
)

if TYPE_CHECKING:
    from zaichik.client.work.settling import Settling


class WorkMessage:
    """One message of a shared name, for this program alone until it is settled (SHR-2).

        async for message in work:
            async with message:
                ...

    Leaving the block settles the message: as done; or, if the block has raised an exception, as
    failed, to be retried, with the exception as the reason. The exception goes on, as out of any
    block. If the block was cancelled, the message is given back, and comes again after a while.
    A message that was settled inside of its block is not settled again. Leaving does not wait for
    the broker, so that many short jobs cost few requests; what comes too late is a warning in the
    log. Leaving the block of the subscription waits for all answers.

    The methods that settle return whether that counted, once the broker has answered. False: it was
    late, and changed nothing (SHR-3). The message has timed out, say, or the subscription has
    ended, and another worker may have it by now; or it was settled before. If such a call is
    cancelled, the message is settled all the same. If the connection was lost meanwhile, the call
    is made again, and True also if nobody can tell whether the first one counted. If it is lost for
    good, they raise `ConnectionLost`: whether it counted is not known.

    Attributes:
        topic: the topic's name.
        offset: its place in the topic.
        timestamp: when the broker accepted it: seconds since 1970.
        key: the key's bytes, None if it has none.
        payload: its bytes.
        delivery: which delivery of it this is, of those that count (SHR-5): 1 for the first.
        redelivered: whether it was handed out before, counted or not.
        ticket: the number of this handing-out, which is never given again.
        is_settled: whether the program has settled it, or has begun to.
        due: when its time is over, as `time.monotonic` counts; `math.inf`: never.
        is_logged: whether the log says that its time is over.
    """

    def __init__(
        self, settling: "Settling", message: Message, ticket: int, number: int, *, again: bool
    ) -> None:
        self.topic = message.topic
        self.offset = message.offset
        self.timestamp = message.timestamp
        self.key = message.key
        self.payload = message.payload
        self.delivery = number
        self.redelivered = again
        self.ticket = ticket
        self.is_settled = False
        self.due = math.inf
        self.is_logged = False
        self._settling = settling

    def __repr__(self) -> str:
        """For a log: where it is, and which delivery this is."""
        return f"<WorkMessage {self.topic}:{self.offset}, delivery {self.delivery}>"

    @property
    def is_tombstone(self) -> bool:
        """Whether it has a key and no payload: in a table, its key was deleted (TAB-5)."""
        return self.key is not None and not self.payload

    # -- settling it -----------------------------------------------------------------------------

    async def done(self) -> bool:
        """Settle it: it is done, and never comes again. Returns whether that counted."""
        return await self.settle(DONE)

    async def retry(self, after: Duration | None = None, reason: str = "") -> bool:
        """Settle it: it has failed, and comes again, or is dead (SHR-5).

        Args:
            after: how long it waits, at most 30 days; 0: it comes at once. None: 1 s, and twice as
                long with each delivery, at most 60 s (SHR-4b).
            reason: why, for people; cut to 1,024 bytes.

        Raises:
            ValueError: `after` is out of range.
        """
        return await self.settle(retried(after, reason))

    async def reject(self, reason: str = "") -> bool:
        """Settle it: it can never succeed, and is dead at once (SHR-5).

        Args:
            reason: why, for people; cut to 1,024 bytes.
        """
        return await self.settle(rejected(reason))

    async def give_back(self) -> bool:
        """Give it back: it comes again after a while, and this delivery does not count.

        It waits as long as a retry, each time longer. From the tenth time in a row on, it counts
        (SHR-4b): a message that every program gives back is dead at last.
        """
        return await self.settle(GIVEN_BACK)

    async def extend(self, by: Duration) -> bool:
        """Take longer: it times out `by` from now. Returns whether it was in time (SHR-4).

        Args:
            by: above 0 seconds, at most 24 hours.

        Raises:
            ValueError: `by` is out of range.
        """
        return await self.settle(extended(by))

    async def settle(self, verdict: Verdict) -> bool:
        """Say of it what a verdict says; what the methods above do."""
        if self.is_settled:
            return False
        return await self._settling.settle(self, verdict)

    # -- as a block ------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Returns the message, which is settled when the block ends."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Settle the message, unless that is done, and do not wait for the broker.

        Raises:
            ConnectionLost: the block has ended, and the message cannot be settled any more.
        """
        if error is not None:
            self.fail(error, (anyio.get_cancelled_exc_class(),))
        elif not self.is_settled:
            self._settling.say([self], DONE)
            await self._settling.let_send()

    def fail(self, error: BaseException, cancellations: Cancellations) -> None:
        """Settle it as the exception says that has ended its block, unless that is done.

        Args:
            error: the exception.
            cancellations: the kinds of exception that are a cancellation.
        """
        self._settling.blame(error, cancellations)
        if not self.is_settled:
            self._settling.settle_soon([self], verdict_of(error, cancellations))
