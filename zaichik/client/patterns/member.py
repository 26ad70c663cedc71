"""One topic of a pattern: what is wanted of it, what is pending, and the one that is read.

A topic is subscribed to without waiting for the reply, so that ten thousand take as long as their
replies need to arrive, and not as many round trips.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from zaichik.client.inbox import Inbox
from zaichik.client.outcome import Lost
from zaichik.client.patterns.connection_pool import PooledConnection
from zaichik.client.patterns.credit import CreditShare
from zaichik.client.subscription import Subscription
from zaichik_protocol import FOREVER, Frame, Start, Subscribe, Subscribed, Unsubscribe


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic to subscribe to.

    Attributes:
        topic, epoch: which one; never another one of that name.
        start, value: where to begin, as in a Subscribe.
    """

    topic: str
    epoch: int
    start: Start
    value: int


class PendingMember:
    """A topic whose subscription was asked for.

    Args:
        wanted: which topic, and from where.
        name: the name of its position; "": none.
        share: its credit.
        pooled: the connection to ask.
        on_reply: called once, with this and the outcome.

    Raises:
        ConnectionLost: the connection is lost.
    """

    def __init__(
        self,
        wanted: Wanted,
        name: str,
        share: CreditShare,
        pooled: PooledConnection,
        on_reply: Callable[["PendingMember", Frame | Lost], None],
    ) -> None:
        self.wanted = wanted
        self.share = share
        self.pooled = pooled
        self.request = Subscribe(
            id=pooled.connection.next_subscription_id(),
            topic=wanted.topic,
            name=name,
            start=wanted.start,
            value=wanted.value,
            epoch=wanted.epoch,
            until=FOREVER,
            credit=share.messages,
            credit_bytes=share.size,
        )
        self._blocks = ExitStack()
        receiving = pooled.connection.receiving(Inbox(self.request))
        self.inbox: Inbox = self._blocks.enter_context(receiving)
        pooled.connection.subscribe_nowait(self.request, partial(on_reply, self))
        self._left = pooled.ask()

    def refused_for_room(self) -> None:
        """Note that the connection has no room for it."""
        self.pooled.refused(self._left)

    def leave(self) -> None:
        """Unsubscribe, if the broker has it or may have it, and take no more events."""
        if self.inbox.is_live:
            self.pooled.connection.send_soon(Unsubscribe(0, self.inbox.id))
        self.inbox.on_news = None
        self._blocks.close()


class Member:
    """A topic that is read.

    Args:
        pending: what was asked for.
        reply: the broker's answer.
        commit_soon: called when something is to be committed within milliseconds.

    Attributes:
        subscription: reads it.
        is_ready: whether it waits for its turn.
        is_over: whether there is a later topic of that name, or none.
    """

    def __init__(
        self, pending: PendingMember, reply: Subscribed, commit_soon: Callable[[], None]
    ) -> None:
        self._pending = pending
        self.subscription = Subscription[Any](
            pending.pooled.connection,
            pending.request,
            reply,
            pending.inbox,
            commit_soon,
            events=True,
        )
        self.is_ready = False
        self.is_over = False

    @property
    def wanted(self) -> Wanted:
        """Which topic it is."""
        return self._pending.wanted

    @property
    def share(self) -> CreditShare:
        """Its credit."""
        return self._pending.share

    @property
    def pooled(self) -> PooledConnection:
        """The connection that it is read over."""
        return self._pending.pooled

    @property
    def next(self) -> int:
        """The offset after the last one that was delivered."""
        return self._pending.inbox.taken

    @property
    def has_news(self) -> bool:
        """Whether something has come of it, or nothing more will."""
        return bool(self._pending.inbox.events) or self._pending.inbox.lost is not None

    def listen(self, on_news: Callable[["Member"], None]) -> None:
        """Call a function with this whenever something has come of it."""
        self._pending.inbox.on_news = partial(on_news, self)

    def leave(self) -> None:
        """Commit what is settled, and unsubscribe: until then, the broker counts what has ended."""
        self.subscription.commit_settled()
        self._pending.leave()
