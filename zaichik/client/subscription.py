"""Reading a topic: messages out of frames, and commits at the right moments.

Stepping to the next message settles the one before: a program that fails, or leaves the loop, never
settles the message it was handling. So everything below the message in hand is settled, and a step
costs no more than putting the next one there. A frame is handled in pieces of half the credit, and
everything else happens between two pieces. A program may take whole pieces, which are then settled
as messages are: each when the next one is asked for. Commits are few, and nothing waits for them.
One is sent

* when half of either credit is settled, so that the broker can send on before the reader runs dry;
* 5 ms after the reader has come to wait for more, whether or not more has come since;
* every 100 ms, for slow programs;
* when the subscription ends.

While a reader waits, more than half of its credit is free, so the broker has no use for an earlier
commit: one for each message of a conversation would cost both sides a system call. There are two
exceptions, in which the commit is sent before waiting. A message of the largest size may need more
than half of the bytes; and the messages of a named subscription that are not settled may keep a
topic full (RET-9).

After a lost connection the subscription resumes (see `inbox`). The message in hand stays valid, and
nothing is given out twice. Messages that were given out before are settled as usual: for an
anonymous subscription there is nothing left to commit, for a named one the commit follows as soon
as the broker has redelivered them.

With explicit commits a step settles nothing: only `commit` says what may be settled, and all the
rest is as above. So a program may hold as many messages as its credit allows, finish them in any
order, and commit whatever has nothing unfinished below it. What it has said counts even if its
`commit` was cancelled: it is committed with the next ones. For that an anonymous subscription, too,
resumes at the first message not settled: otherwise a program would get its credit anew with each
lost connection, while it still holds what the credit was for.

A reader of a table that has missed deletions starts over: its subscription ends, and another one,
from the earliest message, takes its place in the same object and the same inbox. Loops over it do
not notice.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import dropwhile, islice
from typing import Any, Generic, Self, TypeVar, cast, overload

import anyio
import anyio.lowlevel

import zaichik_protocol as wire
from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import (
    BrokerError,
    NoSuchSubscription,
    NotInFlight,
    SubscriptionLost,
)
from zaichik.client.inbox import Inbox, end_of
from zaichik.client.messages import (
    DeletionsMissed,
    Lagged,
    Message,
    Missed,
    messages_of,
    rest_of,
)
from zaichik.client.patterns.records import TOPICS

logger = logging.getLogger(__name__)

# A broker with more of the history sends it sooner, unless credit is held by joined frames (CMT-1).
GATHER_SECONDS = 0.005

Item = TypeVar("Item")  # Message, or Message | Missed with events=True


class Subscription(Generic[Item]):
    """An asynchronous iterator over a topic's messages; `Client.subscribe` makes one.

    Attributes:
        topic: the topic's name.
        epoch: the topic's identity, for subscribing again later.
        start: the first offset that may be delivered.
        live: the topic's next offset when the subscription began: what lies below is history
            (RET-3).
        table: whether the topic is a table, so that a message with a key and no payload deletes its
            key (TAB-5).
        lagged: the number of messages that were gone before they could be delivered.
        name: the name under which the broker keeps its position; "" if it is anonymous (CMT-4).
        resumed: whether it began where an earlier subscription of that name had stopped (CMT-3).
        redelivered: whether the message in hand was delivered to an earlier subscription of that
            name and not settled.
        in_hand: the message that the program works on, not settled; of a list, the first one. None
            between messages.
        ended: whether a `fetch` has reached the end, which is `until`.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        request: wire.Subscribe,
        reply: wire.Subscribed,
        inbox: Inbox,
        commit_soon: Callable[[], None],
        *,
        events: bool,
        explicit: bool = False,
    ) -> None:
        self.topic = request.topic
        self.epoch = reply.epoch
        self.start = reply.start
        self.live = reply.live
        self.table = reply.table
        self.lagged = 0
        self.name = request.name
        self.resumed = reply.resumed
        self.redelivered = False
        self.in_hand: Message | None = None
        self.ended = False
        self._connection = connection
        self._request = request
        self._until = request.until
        self._inbox = inbox
        self._events = events
        self._is_explicit = explicit
        self._half_credit = max(1, request.credit // 2)
        self._half_credit_bytes = max(1, request.credit_bytes // 2)
        self._commit_soon = commit_soon
        self._commits_at_once = (
            bool(request.name) or self._half_credit_bytes < connection.welcome.max_message
        )
        # Of the frame in hand, and of the piece in hand.
        self._pieces: Iterator[Iterator[Message]] = iter(())
        self._messages: Iterator[Message] = iter(())
        # The offset after the last piece that was taken whole.
        self._piece_end = 0
        # Bytes of the frame in hand, and of frames stepped past since the last commit.
        self._frame_bytes = 0
        self._stepped_bytes = 0
        # Everything below may be settled.
        self._stepped = reply.committed
        # Everything below was given out, and is no longer in hand.
        self._passed = reply.start
        # What the next `fetch` returns, and the offset after the last one that was returned.
        self._round: list[wire.Messages | Missed] = []
        self._round_count = 0
        self._round_bytes = 0
        self._fetched = 0

    @property
    def committed(self) -> int:
        """The offset below which everything is settled, or about to be.

        Nothing waits for a commit.
        """
        return self._inbox.committed

    @property
    def failure(self) -> Exception | None:
        """Why no more messages will arrive.

        None if more may arrive, or the subscription ended at `until`.

        Iterating raises it after everything that has arrived. This is for a program that is not
        iterating now.
        """
        return self._inbox.known_failure

    def __aiter__(self) -> Self:
        """Returns itself.

        Two loops over it share its messages, and each step settles what both were given.
        """
        return self

    async def __anext__(self) -> Item:
        """Returns the next message and settles the one before.

        With `events=True` it may be a `Lagged` or a `DeletionsMissed`.

        Raises:
            StopAsyncIteration: `until` was reached.
            SubscriptionLost: the broker ended the subscription; `TakenOver`: in favour of another
                one of its name.
            EpochChanged, BrokerError: the connection was lost, and the broker refused to resume the
                subscription.
            ConnectionLost: the connection is lost, and everything that had arrived was given out.
        """
        while True:
            # One step only: `for` advances the iterator without a call.
            for message in self._messages:
                self.in_hand = message
                return cast("Item", message)
            missed = await self._advance()
            if missed is not None and self._events:
                return cast("Item", missed)

    @overload
    def pieces(self: "Subscription[Message]") -> AsyncIterator[list[Message]]: ...

    @overload
    def pieces(self: "Subscription[Message | Missed]") -> AsyncIterator[list[Message] | Missed]: ...

    def pieces(self) -> AsyncIterator[Any]:
        """Returns the same messages in lists, as they arrive, twice as fast.

        A list holds at least one message and at most half the credit, and is settled as a whole,
        when the next one is asked for; `commit` settles a part of it earlier. With `events=True`
        there may be a `Lagged` or a `DeletionsMissed` between two lists. Errors and the end are
        those of iterating over messages, and a program may switch from one to the other.
        """
        return _Steps(self._next_piece)

    async def _next_piece(self) -> list[Message] | Missed:
        while True:
            if piece := [*self._messages]:
                self.in_hand, self._piece_end = piece[0], piece[-1].offset + 1
                return piece
            missed = await self._advance()
            if missed is not None and self._events:
                return missed

    async def _advance(self) -> Missed | None:
        """Advance past the piece in hand.

        Commit if it is time to, put the next piece in hand, return what was missed, or wait. It
        does one of these, and nothing after a wait: another loop over this subscription may have
        been quicker.
        """
        if self.in_hand is not None:
            self._passed = max(self.in_hand.offset + 1, self._piece_end)
            self.in_hand = None
            # As `_pass`, without a call for each message of a conversation.
            if not self._is_explicit:
                self._stepped = self._passed
        news = min(self._stepped, self._inbox.delivered) - self._inbox.committed
        is_due = news >= self._half_credit or self._stepped_bytes >= self._half_credit_bytes
        # What the broker does not have any more takes no commits, so it would be due for ever.
        if is_due and self._inbox.is_live:
            self.commit_settled()
            # Other tasks have their turn, however much is here already.
            await anyio.lowlevel.checkpoint()
        elif (piece := next(self._pieces, None)) is not None:
            self._messages = piece
        elif self._frame_bytes:
            self._stepped_bytes += self._frame_bytes
            self._frame_bytes = 0
        elif not self._inbox.events:
            if self._commits_at_once:
                self.commit_settled()
            elif news > 0:
                self._commit_soon()
            await self._inbox.wait()
        else:
            return self._take_event()
        return None

    def _pass(self, offset: int) -> None:
        """Note that the program has stepped past everything below."""
        self._passed = max(self._passed, offset)
        # Otherwise the program says what may be settled.
        if not self._is_explicit:
            self._stepped = offset

    def _take_event(self) -> Missed | None:
        event = self._inbox.events[0]
        match event:
            case wire.SubscriptionEnded(code=wire.EndCode.UNTIL) as event:
                # It stays in the inbox, for all loops to see.
                self._passed = max(self._passed, event.next)
                raise StopAsyncIteration
            case wire.SubscriptionEnded():
                raise self._inbox.failure(event)
            case wire.Messages():
                self._inbox.events.popleft()
                self._take_messages(event)
                return None
            case wire.Lagged():
                self._inbox.events.popleft()
                if (lagged := self._take_lag(event)) is not None:
                    self._pass(lagged.end)
                return lagged
            case wire.DeletionsMissed():
                self._inbox.events.popleft()
                return self._take_deletions(event)

    def _take_messages(self, frame: wire.Messages) -> None:
        inbox = self._inbox
        messages = messages_of(frame, self.topic)
        size = self._half_credit
        # Some of it was taken before the connection was lost.
        if frame.base < inbox.taken:
            taken = inbox.taken
            messages = dropwhile(lambda message: message.offset < taken, messages)
        inbox.taken = max(inbox.taken, end_of(frame))
        self._pieces = (islice(messages, size) for _ in range(0, frame.batch.count, size))
        self._frame_bytes = frame.batch.size
        self.redelivered = frame.redelivered

    def _take_lag(self, event: wire.Lagged) -> Lagged | None:
        start = max(event.from_offset, self._inbox.taken)
        # What is gone had been taken before the connection was lost.
        if start >= event.to_offset:
            return None
        lagged = Lagged(self.topic, start, event.to_offset)
        self.lagged += lagged.count
        self._inbox.taken = lagged.end
        if lagged.count == 1:
            logger.warning(
                "%s: 1 message was gone before it could be read (offset %d)",
                self.topic, lagged.start,
            )  # fmt: skip
        else:
            logger.warning(
                "%s: %d messages were gone before they could be read (offsets %d to %d)",
                self.topic, lagged.count, lagged.start, lagged.end - 1,
            )  # fmt: skip
        return lagged

    def _take_deletions(self, event: wire.DeletionsMissed) -> DeletionsMissed:
        # A program that follows topics knows what it means there, and asks for events.
        if self.topic != TOPICS or not self._events:
            logger.warning(
                "%s: keys may have been deleted unseen (before offset %d)", self.topic, event.below
            )
        return DeletionsMissed(self.topic, event.below)

    async def fetch(self, timeout: float | None = None) -> list[wire.Messages | Missed]:
        """Returns what has arrived, in the wire's own batches.

        A batch has `base`, `accepted_us`, and the columns in `batch`. That is at least one item;
        none if the end was reached (then `ended` is true) or the time is over. All of it is settled
        by the next call. Of the history, a call waits for half of either credit, unless nothing
        comes for 5 ms: few calls return much, and the broker sends the other half meanwhile.
        `zaichik.blocking` is built on this. Do not mix it with iterating: what is left of a piece
        in hand is not returned.

        Args:
            timeout: seconds after which to return what there is; None: never.

        Raises:
            SubscriptionLost, EpochChanged, BrokerError, ConnectionLost: as when iterating.
        """
        # A round left over is of a call that was cancelled: nothing of it was returned, so nothing
        # is settled.
        if not self._round:
            self.settle_fetched()
        with anyio.move_on_after(timeout):
            while self._gather():
                seconds = None
                # What has come may be all there is.
                if self._round and self._inbox.taken < self._until:
                    seconds = GATHER_SECONDS
                with anyio.move_on_after(seconds) as patience:
                    await self._inbox.wait()
                if patience.cancelled_caught:
                    break
        return self._fetched_now()

    def fetch_nowait(self) -> list[wire.Messages | Missed]:
        """Returns what has arrived by now, as `fetch` does, and settles what it has returned last.

        Empty if nothing has. A pattern's subscription is built on this.

        Raises:
            SubscriptionLost, EpochChanged, BrokerError, ConnectionLost: as when iterating.
        """
        self.settle_fetched()
        self._gather()
        if not self._round and self._inbox.lost is not None:
            raise self._inbox.lost()
        return self._fetched_now()

    def _fetched_now(self) -> list[wire.Messages | Missed]:
        items = self._round
        self._round = []
        self._round_count = 0
        self._round_bytes = 0
        self._fetched = self._inbox.taken
        return items

    def step_past(self, offset: int) -> None:
        """Note that the program has handled what was fetched, up to this offset.

        What `fetch` has returned is settled as a whole otherwise, by the next one.
        """
        self._pass(max(self._stepped, offset))
        self.in_hand = None

    def settle_fetched(self) -> None:
        """Settle all that was fetched, and commit it if it is time to."""
        self.in_hand = None
        self._pass(max(self._stepped, self._fetched))
        news = min(self._stepped, self._inbox.delivered) - self._inbox.committed
        if self._fetched < self.live or news >= self._half_credit or self._commits_at_once:
            self.commit_settled()
        elif news > 0:
            self._commit_soon()

    def _gather(self) -> bool:
        """Add what has come to the round; returns whether to wait for more."""
        inbox = self._inbox
        while inbox.events and not self.ended:
            event = inbox.events[0]
            if isinstance(event, wire.SubscriptionEnded):
                # It stays in the inbox, as in `_take_event`.
                self.ended = event.code == wire.EndCode.UNTIL
                if self.ended:
                    self._passed = max(self._passed, event.next)
                elif not self._round:
                    raise inbox.failure(event)
                return False
            inbox.events.popleft()
            if isinstance(event, wire.Lagged):
                lagged = self._take_lag(event)
                if lagged is not None:
                    self._round.append(lagged)
                continue
            if isinstance(event, wire.DeletionsMissed):
                self._round.append(self._take_deletions(event))
                continue
            frame = rest_of(event, inbox.taken)
            if frame is not None:
                inbox.taken = end_of(frame)
                self._round.append(frame)
                self._round_count += event.batch.count
                self._round_bytes += event.batch.size
        if self.ended or (self._round and inbox.lost is not None):
            return False
        if not self._round or inbox.taken >= self._until:
            return True
        # Of the history, half of either credit is worth waiting for.
        has_few = self._round_count < self._half_credit
        has_little = self._round_bytes < self._half_credit_bytes
        return inbox.taken < self.live and has_few and has_little

    async def commit(self, message: Message | int) -> None:
        """Settle this message and all before it, and wait until the broker has confirmed that.

        If something above it is committed already, this changes nothing (CMT-2). Any task may call
        it, while others step. If it is cancelled, the message may be settled or not; with explicit
        commits it will be, at the latest when the block ends.

        Args:
            message: the message, or its offset. The offset may be that of a message that is gone
                or was compacted, if a later one was given out, or a `Lagged` that includes it.

        Raises:
            NotInFlight: it was not delivered yet; or, of an offset, not given to the program yet.
                Nothing has changed.
            SubscriptionLost, EpochChanged: after a lost connection the subscription ended, or was
                refused, before the message was delivered again.
            NoSuchSubscription: `forget` or `start_over` has ended what the message was of.
            ValueError: the message is of another topic, or the offset is below 0.
        """
        if isinstance(message, int):
            next_offset = message + 1
        else:
            if message.topic != self.topic:
                raise ValueError(
                    f"a message of {message.topic!r} cannot be committed to {self.topic!r}"
                )
            next_offset = message.offset + 1
        if self._is_explicit or isinstance(message, int):
            check_given(self.topic, next_offset - 1, self._given())
        subscription = self._inbox.id
        try:
            await self._commit(subscription, next_offset)
        finally:
            # Unless another one has taken its place, whose offsets were not meant.
            if self._is_explicit and self._inbox.id == subscription:
                self._stepped = max(self._stepped, next_offset)

    def _given(self) -> int:
        """Returns the offset after the last one that was given out, or reported to be gone."""
        given = max(self._passed, self._piece_end, self._fetched)
        if self.in_hand is not None:
            given = max(given, self.in_hand.offset + 1)
        return given

    async def _commit(self, subscription: int, next_offset: int) -> None:
        """Commit up to an offset for the subscription of that number; wait for the answer."""
        while True:
            await self._inbox.wait_delivered(next_offset)
            times = self._inbox.times
            try:
                commit = wire.Commit(self._connection.next_id(), subscription, next_offset)
                await self._connection.request(commit, wire.Committed)
            except NotInFlight:
                if times == self._inbox.times:
                    raise
                # It was sent again over a new connection, which has not delivered the message yet.
                continue
            except NoSuchSubscription:
                failure = self.failure
                # It was refused after a loss.
                if self.name and failure is not None:
                    raise failure from None
                if self.name or self._inbox.is_live:
                    raise
                # It had ended before a loss and was not made again, so there is nothing left to
                # settle.
                return
            if self._inbox.id == subscription:
                self._inbox.committed = max(self._inbox.committed, next_offset)
            return

    def commit_settled(self) -> None:
        """Commit what the loop has stepped past, unless that is committed already.

        With explicit commits that is what the program has committed, should it have been lost. This
        does not wait for the broker.
        """
        self._stepped_bytes = 0
        inbox = self._inbox
        settled = self._stepped
        if self.in_hand is not None and not self._is_explicit:
            settled = self.in_hand.offset
        settled = min(settled, inbox.delivered)
        if settled > inbox.committed and inbox.is_live:
            inbox.committed = settled
            self._connection.send_now(wire.Commit(0, self._inbox.id, settled))

    async def forget(self) -> None:
        """End this subscription and have the broker forget its name.

        The next one of that name starts afresh.
        Without this, the position of a named subscription is kept for a while after it ends
        (CMT-3). Loops over it end.

        Raises:
            NoSuchSubscription: it has ended already.
        """
        inbox = self._inbox
        request = wire.Unsubscribe(self._connection.next_id(), self._inbox.id, forget=True)
        await self._connection.request(request, wire.Unsubscribed)
        self._pieces = iter(())
        self._messages = iter(())
        # Loops over it end as they would at `until`.
        inbox.finish("its name was forgotten")

    async def start_over(self) -> None:
        """Drop everything that has arrived, and begin again with the earliest message.

        A reader of a table that gets `DeletionsMissed` drops what it holds and calls this. It is
        exact again when it has read what is below `live`, which is set anew, as `start` is. Loops
        over the subscription go on with the earliest message. A name begins afresh, too.

        If this fails, or is cancelled, the subscription has ended.

        Raises:
            EpochChanged: the topic is another one by now.
            SubscriptionLost, BrokerError, ConnectionLost: as when iterating.
        """
        failure = self.failure
        if failure is not None:
            raise failure
        # So that nothing is committed meanwhile.
        self._drop()
        try:
            await self._unsubscribe()
            # Another loop may have taken something meanwhile. From here on it finds nothing until
            # the new subscription begins.
            self._drop()
            reply = await self._connection.start_over(self._inbox, self._from_the_earliest())
        except BaseException:
            ended = f"the subscription to {self.topic} has ended: it was to start over, and failed"
            self._inbox.close(partial(SubscriptionLost, ended))
            raise
        self.start = reply.start
        self.live = reply.live
        self.resumed = reply.resumed
        self._passed = max(self._passed, reply.start)

    def _drop(self) -> None:
        """Drop what is in hand and what was to be given out next."""
        self.in_hand = None
        self.redelivered = False
        self.ended = False
        self._pieces = iter(())
        self._messages = iter(())
        self._piece_end = 0
        self._frame_bytes = 0
        self._stepped_bytes = 0
        self._stepped = 0
        self._passed = 0
        self._round = []
        self._round_count = 0
        self._round_bytes = 0
        self._fetched = 0

    async def _unsubscribe(self) -> None:
        """End the subscription, and have the broker forget its name, which would resume."""
        connection = self._connection
        forget = bool(self.name)
        request = wire.Unsubscribe(connection.next_id(), self._inbox.id, forget=forget)
        # It may have ended at `until`, and is not made again then after a lost connection.
        with suppress(NoSuchSubscription):
            await connection.request(request, wire.Unsubscribed)

    def _from_the_earliest(self) -> wire.Subscribe:
        """Returns the request for another subscription to this topic, from its earliest message."""
        return replace(
            self._request,
            id=self._connection.next_subscription_id(),
            start=wire.Start.EARLIEST,
            value=0,
            epoch=self.epoch,
        )


def check_given(topic: str, offset: int, given: int) -> None:
    """Refuse to commit an offset that the program was not given.

    The broker refuses what it has not sent. What it has sent may wait here, so a program that
    commits one too many would learn of it only now and then, by the messages that it loses.

    Args:
        topic: its name.
        offset: the one to commit.
        given: the offset after the last one that the program was given.

    Raises:
        NotInFlight: it was not given yet.
        ValueError: it is below 0.
    """
    if offset < 0:
        raise ValueError(f"an offset is at least 0, not {offset}")
    if offset >= given:
        problem = (
            f"offset {offset} of {topic} cannot be committed: it was not given out yet, the next "
            f"one is {given}; commit the offset of the last message that is done, not the one "
            "after it"
        )
        error = wire.Error(0, wire.ErrorCode.NOT_IN_FLIGHT, wire.Commit.TYPE, "next", 0, problem)
        raise BrokerError.of(error)


class _Steps(Generic[Item]):
    """An asynchronous iterator whose steps are calls of a function.

    Unlike a generator it may be left at any time.
    """

    def __init__(self, step: Callable[[], Awaitable[Item]]) -> None:
        self._step = step

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Item]:
        return self._step()
