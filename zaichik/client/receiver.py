"""What receives the events of one subscription, over one socket after the other.

A subscription is made again, under its number, after a lost connection. What it asks for then, and
which events may come, is up to its kind: an `Inbox` has messages in the order of their offsets, a
`WorkInbox` has those of a shared name, in any order.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from zaichik.client.errors import BrokerError, SubscriptionLost, TakenOver, name_of
from zaichik.client.outcome import Lost
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import (
    OWNER,
    DeletionsMissed,
    EndCode,
    Error,
    ErrorCode,
    Frame,
    Lagged,
    Messages,
    ProtocolError,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

Event = Messages | Lagged | DeletionsMissed | SubscriptionEnded

NOT_NOW = "has events before it was made, or after its end"


class Receiver(ABC):
    """One subscription, as its connection sees it.

    Args:
        request: the Subscribe that was sent, or is about to be.

    Attributes:
        times: how often the subscription was made: once, and once more after each loss.
        is_live: whether the broker has it, or will once there is a connection again.
        lost: makes the error that says why no more events will come.
        on_news: called when an event has come, or no more will come; it must not fail. None: the
            tasks that wait are woken, and that is all.
    """

    def __init__(self, request: Subscribe) -> None:
        self.times = 0
        self.is_live = True
        self.lost: Lost | None = None
        self.on_news: Callable[[], None] | None = None
        self._request = request
        # The request that was sent last.
        self._asked = request
        self._epoch = request.epoch
        # The owner of its name, and how often it tried to get the name.
        self._owner = secrets.randbelow(2**64 - 1) + 1
        self._attempts = 0
        # An end that the program did not ask for.
        self._end: SubscriptionEnded | None = None
        self._arrived = Wakeup()

    @property
    def id(self) -> int:
        """The number of the subscription."""
        return self._request.id

    # -- events ----------------------------------------------------------------------------------

    @abstractmethod
    def put(self, event: Event) -> None:
        """Add an event and wake the tasks that wait for one.

        Raises:
            ProtocolError: it is not what comes next, or nothing may come.
        """

    @abstractmethod
    def drop(self) -> None:
        """Drop the events that were not read."""

    def close(self, lost: Lost) -> None:
        """Note that no more events will come, and wake the tasks that wait for one."""
        self.lost = self.lost or lost
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()
        if self.on_news is not None:
            self.on_news()

    async def _arrival(self) -> None:
        # If it is not set, another task waits for it already: share it.
        if self._arrived.is_set():
            self._arrived = Wakeup()
        await self._arrived.wait()

    @property
    def known_failure(self) -> Exception | None:
        """Why no more will come, if that is known already and the program did not ask for it."""
        if self._end is not None:
            return self.failure(self._end)
        if self.lost is not None:
            return self.lost()
        return None

    def failure(self, end: SubscriptionEnded) -> SubscriptionLost:
        """Returns the error for an end that the program did not ask for."""
        topic, name = self._request.topic, self._request.name
        if end.code == EndCode.TAKEN_OVER:
            taken_over = f"another subscription has taken over the name {name!r} in {topic}"
            problem = f"{taken_over}: {end.text}"
            return TakenOver(Error(end.id, ErrorCode.TAKEN_OVER, Subscribe.TYPE, "", 0, problem))
        ended = f"the subscription to {topic} was ended: {end.text}"
        return SubscriptionLost(ended, name_of(EndCode, end.code))

    def _wrong(self, what: str) -> ProtocolError:
        request = self._request
        problem = f"subscription {request.id}, to {request.topic}, {what}"
        return ProtocolError(ErrorCode.MALFORMED, problem, request_id=request.id)

    # -- being made, and made again --------------------------------------------------------------

    @abstractmethod
    def interrupted(self) -> None:
        """Note that the socket was lost: until it is made again, no event may come."""

    def owned(self, request: Subscribe, features: int) -> Subscribe:
        """Returns the request as its owner's next attempt to get the name (CMT-3).

        If it has no name, or the broker does not know owners, it is one without an owner.
        """
        if not request.name or not features & OWNER:
            return replace(request, owner=0, attempt=0, owned=False)
        self._attempts += 1
        return replace(request, owner=self._owner, attempt=self._attempts, owned=True)

    def again(self) -> Subscribe | None:
        """Returns the request that makes the subscription again; None if it has ended."""
        if self.times == 0:
            # The first request still waits for its reply, and will be sent again as it was.
            return None
        if self._has_ended():
            self.is_live = False
        if not self.is_live:
            return None
        self._asked = self._next_request()
        return self._asked

    @abstractmethod
    def _has_ended(self) -> bool:
        """Returns whether nothing more will come, and the broker has no use for it any more."""

    @abstractmethod
    def _next_request(self) -> Subscribe:
        """Returns what to ask for over a new connection."""

    def check(self, reply: Subscribed) -> None:
        """Refuse a reply that is not about what was asked for.

        Raises:
            ProtocolError: it is about another topic, or begins elsewhere.
        """
        epoch = self._asked.epoch
        if epoch and reply.epoch != epoch:
            raise self._wrong(f"is to be of epoch {epoch}, and was made of {reply.epoch}")

    def answer(self, reply: Frame | Lost) -> None:
        """Handle the outcome of a Subscribe.

        What waits here is given out even if one after a loss is refused.
        """
        match reply:
            case Subscribed():
                self._made(reply)
                self.times += 1
                self._epoch = reply.epoch
                self._arrived.set()
            case Error():
                self.is_live = False
                # A first refusal is raised where it was asked for.
                if self.times:
                    self.close(lambda: BrokerError.of(reply))
            case _:
                # A loss is raised everywhere.
                pass

    @abstractmethod
    def _made(self, reply: Subscribed) -> None:
        """Expect events from now on: the broker has made it. The first time, `times` is 0."""
