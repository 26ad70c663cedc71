"""Follows `$topics`, and subscribes to each topic that matches, when it comes.

This is *list and watch*. First the follower has a look: it reads the table up to its end, and
subscribes to all that match. From there on it follows the changes. It has another look, and then
follows again, when it cannot know what has changed meanwhile: records have gone that it had not
reached, or the broker has made `$topics` anew (PAT-5).

A topic is always subscribed to with the epoch that was announced. Without it, a reader that is late
would create the topic that has just been deleted, which would be announced, and deleted, and so on.

    announced ──▶ wanted ──▶ pending ──▶ member ──▶ gone
                    ▲           │          │
                    └───────────┴──────────┘
                 no room, or no right to read it

A program that does not read holds the follower up: records wait, and in the worst case go early,
which is reported. So what is reported and not read yet has a bound.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from zaichik.client.backoff import backoff
from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import (
    BrokerError,
    ConnectionLost,
    Damaged,
    EpochChanged,
    Forbidden,
    NoMemory,
    NoSuchTopic,
    SubscriptionLost,
    TooManySubscriptions,
    ZaichikError,
)
from zaichik.client.messages import (
    DeletionsMissed,
    Message,
    PatternEvent,
    TopicGone,
    TopicMissed,
    TopicUnread,
)
from zaichik.client.outcome import Lost, unexpected
from zaichik.client.patterns.connection_pool import ConnectionPool, PooledConnection
from zaichik.client.patterns.credit import DividedCredit
from zaichik.client.patterns.member import Member, PendingMember, Wanted
from zaichik.client.patterns.news import News
from zaichik.client.patterns.pattern import Pattern
from zaichik.client.patterns.records import TOPICS, KnownTopics, Record, record_of
from zaichik.client.patterns.turns import Turns
from zaichik.net.background import every
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import (
    EndCode,
    Error,
    ErrorCode,
    Frame,
    Start,
    Subscribe,
    Subscribed,
    encode,
)

if TYPE_CHECKING:
    from zaichik.client.client import Client

# Events, and topics that are over, which the program has not read yet: with more of them, no record
# is taken. Enough to report many at once, and little memory.
MOST_UNREAD = 1000
# Of the records that arrive at once: they are small.
RECORDS_CREDIT = 10_000
# What the broker has no room for is tried again: nothing tells the client that other clients have
# left. Soon enough for a person, and cheap, because it is one topic, or one connection.
RETRY_SECONDS = 5.0
# Between two looks. The broker makes `$topics` anew when rights change, and all followers look
# again. One that does so again and again must not keep them busy.
FIRST_PAUSE_SECONDS = 0.01
MOST_PAUSE_SECONDS = 5.0
# If `$topics` has lasted for so long, the pauses begin with the first one again.
CALM_SECONDS = 60.0

_GONE = {ErrorCode.EPOCH_CHANGED, ErrorCode.NO_SUCH_TOPIC}


@dataclass(frozen=True, slots=True)
class Terms:
    """How each topic is read.

    Attributes:
        name: of its position; "": none is kept.
        start, value: where to begin in topics that are there at first.
        credit, credit_bytes: of all topics together.

    Raises:
        Unencodable: a value does not fit its field.
    """

    name: str
    start: Start
    value: int
    credit: int
    credit_bytes: int

    def __post_init__(self) -> None:
        """Refuse here, where the program has named it, what could not be sent to any topic."""
        encode(
            Subscribe(
                1,
                TOPICS,
                name=self.name,
                start=self.start,
                value=self.value,
                credit=self.credit,
                credit_bytes=self.credit_bytes,
            )
        )


class Follower:
    """Subscribes to the topics that match.

    Args:
        client: reads `$topics`, and has the first topics.
        another: opens one more connection, for as long as its block lasts.
        commit_soon: has what is settled committed within milliseconds.
        pattern: what must match.
        terms: how to read.
        events: whether what becomes of topics is reported to the program; if not, it is logged.
        news: see `Turns`.

    Attributes:
        turns: the topics that are read.
        pool: the connections that they are read over.
    """

    def __init__(
        self,
        client: "Client",
        another: Callable[[], AbstractAsyncContextManager[BrokerConnection]],
        commit_soon: Callable[[], None],
        pattern: Pattern,
        terms: Terms,
        *,
        events: bool,
        news: News | None = None,
    ) -> None:
        self.turns = Turns(events=events, on_end=self._ended, on_round=self._progressed, news=news)
        self.pool = ConnectionPool(client.connection, another, self._subscribe, self._unread)
        self._client = client
        self._commit_soon = commit_soon
        self._pattern = pattern
        self._terms = terms
        self._credit = DividedCredit(terms.credit, terms.credit_bytes)
        self._known = KnownTopics()
        # By their names: what waits for a connection with room.
        self._waiting: dict[str, Wanted] = {}
        # What the broker has no memory for, or no more names, the oldest refusal first: see
        # `_try_cramped`. And what was refused for another reason. After a look, all are tried
        # again.
        self._cramped: dict[str, Wanted] = {}
        self._refused: dict[str, Wanted] = {}
        # Those among all these that were reported as unread.
        self._reported: set[str] = set()
        # By name and epoch.
        self._pending: dict[tuple[str, int], PendingMember] = {}
        self._members: dict[tuple[str, int], Member] = {}
        # Members that are over, and have something that the program has not read.
        self._over = 0
        # Where the last look ended, and when it began.
        self._epoch = 0
        self._end = 0
        self._looked = 0.0
        self._pauses = backoff(FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS)
        self._is_first = True
        # Otherwise nothing is subscribed to: a topic could take the room of `$topics` itself.
        self._is_following = False
        self._is_closed = False
        self._begun = Wakeup()
        self._failure: Exception | None = None
        # Something has changed that the follower may wait for.
        self._progress = Wakeup()

    async def begun(self) -> None:
        """Returns when all topics that were there are read.

        Raises:
            BrokerError, ConnectionLost: `$topics` cannot be read.
        """
        await self._begun.wait()
        if self._failure is not None:
            raise self._failure

    async def run(self) -> None:
        """Follow `$topics` until cancelled, or until it cannot be read any more."""
        try:
            while True:
                if await self._look():
                    await self._follow()
                await self._pause()
        except ZaichikError as failure:
            self._fail(failure)
        finally:
            self._begun.set()

    async def retry(self) -> None:
        """Try again, now and then, what the broker has no room for, until cancelled."""
        await every(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._try_cramped()
        if self._waiting:
            self.pool.try_again()
            self._subscribe()

    def close(self) -> None:
        """Leave all topics, and subscribe to no other.

        The tasks end later: what is settled has to be sent while the connections are open. Until
        then they may be given a record, or a connection.
        """
        self._is_closed = True
        for member in self._members.values():
            member.leave()
        for pending in self._pending.values():
            pending.leave()
        self._members.clear()
        self._pending.clear()
        self.turns.close()

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        self.turns.fail(failure)
        self._progressed()

    # -- reading `$topics` -----------------------------------------------------------------------

    async def _look(self) -> bool:
        """Read the whole table, and note what matches and is not read yet.

        One subscription at a time: a connection that is full has room for one, that of `_follow`.

        Returns whether this is complete. It is not if the broker has made `$topics` anew meanwhile.
        """
        self._looked = anyio.current_time()
        is_first = self._is_first
        async with self._client.subscribe(TOPICS, start="latest", credit=1) as now:
            epoch, end = now.epoch, now.start
        if self._epoch and epoch != self._epoch:
            self.turns.report(DeletionsMissed(TOPICS, end))
        self._epoch, self._end = epoch, end
        try:
            table = self._client.subscribe(TOPICS, until=end, epoch=epoch, credit=RECORDS_CREDIT)
            async with table as records:
                async for message in records:
                    self._take(message, is_first=is_first)
        except (EpochChanged, SubscriptionLost) as error:
            _check_anew(error)
            return False
        self._is_first = False
        self._waiting |= self._refused | self._cramped
        self._refused.clear()
        self._cramped.clear()
        return True

    async def _pause(self) -> None:
        """Wait before another look, for the program and for a while."""
        await self._has_read()
        if anyio.current_time() - self._looked > CALM_SECONDS:
            self._pauses = backoff(FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS)
        await anyio.sleep(next(self._pauses))

    async def _follow(self) -> None:
        """Subscribe to what was found, and to what comes, until another look is needed."""
        try:
            following = self._client.subscribe(
                TOPICS,
                start=self._end,
                epoch=self._epoch,
                credit=RECORDS_CREDIT,
                events=True,
            )
            async with following as changes:
                self._is_following = True
                self._subscribe()
                if not self._begun.is_set():
                    await self._none_pending()
                    self._begun.set()
                async for change in changes:
                    if not isinstance(change, Message):
                        self.turns.report(DeletionsMissed(TOPICS, self._end))
                        return
                    self._take(change, is_first=False)
                    self._subscribe()
                    await self._has_read()
        except (EpochChanged, SubscriptionLost) as error:
            _check_anew(error)
        finally:
            self._is_following = False

    async def _has_read(self) -> None:
        """Wait until the program has read enough of what was reported."""
        while self.turns.waiting_events + self._over >= MOST_UNREAD:
            await self._progresses()

    async def _none_pending(self) -> None:
        """Wait until everything that is wanted is read, or reported as unread."""
        while self._pending or not self._waiting.keys() <= self._reported:
            await self._progresses()
            if self._failure is not None:
                raise self._failure

    async def _progresses(self) -> None:
        if self._progress.is_set():
            self._progress = Wakeup()
        await self._progress.wait()

    def _progressed(self) -> None:
        self._progress.set()

    # -- from an announcement to a member --------------------------------------------------------

    def _take(self, message: Message, *, is_first: bool) -> None:
        """Take a record."""
        record = record_of(message)
        if not self._pattern.matches(record.topic):
            return
        change = self._known.take(record, is_first=is_first)
        missed = change.missed
        if change.over and self._is_over(record.topic, change.over):
            missed += 1
        if missed:
            self.turns.report(TopicMissed(record.topic, missed))
        if change.is_new:
            # One that has waited longer goes before it.
            self._try_cramped()
            self._want(record, is_first=is_first)

    def _is_over(self, topic: str, epoch: int) -> bool:
        """Note that this topic is there no more; returns whether nothing of it was read."""
        member = self._members.get((topic, epoch))
        if member is not None:
            member.is_over = True
            self._over += 1
        self._reported.discard(topic)
        for unread in (self._waiting, self._cramped, self._refused):
            if topic in unread:
                del unread[topic]
                return True
        return False

    def _want(self, record: Record, *, is_first: bool) -> None:
        start, value = Start.OFFSET, 0
        if is_first:
            start, value = self._terms.start, self._terms.value
        if start == Start.EARLIEST and self._terms.name:
            # A topic without retention may hold something for this name (PAT-3), and `earliest`
            # passes over that (RET-1). "Since 1970" is whatever is there.
            start = Start.TIME
        self._waiting[record.topic] = Wanted(record.topic, record.epoch, start, value)

    def _try_cramped(self) -> None:
        """Have the topic tried again for which there was no room for the longest time.

        Only one, because there may be room for none. If there is room, the next one follows.
        """
        for topic in self._cramped:
            self._waiting[topic] = self._cramped.pop(topic)
            break

    @property
    def _may_subscribe(self) -> bool:
        return self._is_following and not self._is_closed and self._failure is None

    def _subscribe(self) -> None:
        """Subscribe to what waits, as far as there is room, and have room made for the others."""
        readers = len(self._members) + len(self._pending) + len(self._waiting)
        while self._waiting and self._may_subscribe:
            pooled = self.pool.with_room()
            if pooled is None:
                self.pool.open_if_full()
                return
            topic = next(iter(self._waiting))
            self._ask(self._waiting.pop(topic), pooled, readers)

    def _ask(self, wanted: Wanted, pooled: PooledConnection, readers: int) -> None:
        share = self._credit.take(readers)
        try:
            pending = PendingMember(wanted, self._terms.name, share, pooled, self._replied)
        except ConnectionLost as lost:
            self._fail(lost)
            return
        self._pending[wanted.topic, wanted.epoch] = pending

    def _unread(self, reason: str) -> None:
        """Report what waits in vain."""
        for topic in self._waiting:
            if topic not in self._reported:
                self._reported.add(topic)
                self.turns.report(TopicUnread(topic, reason))
        self._progressed()

    def _replied(self, pending: PendingMember, outcome: Frame | Lost) -> None:
        """Handle the outcome of a Subscribe."""
        wanted = pending.wanted
        # It is not there if the block has ended meanwhile.
        if self._pending.pop((wanted.topic, wanted.epoch), None) is None:
            return
        pending.pooled.answered()
        match outcome:
            case Subscribed():
                member = Member(pending, outcome, self._commit_soon)
                self._members[wanted.topic, wanted.epoch] = member
                self.turns.add(member)
                if wanted.topic in self._reported:
                    self._reported.discard(wanted.topic)
                    self._try_cramped()
            case Error():
                self._refuse(pending, outcome)
            case Frame():
                self._fail(unexpected(Subscribe, outcome))
            case lost:
                self._fail(lost())
        self._subscribe()
        self._progressed()

    def _refuse(self, pending: PendingMember, error: Error) -> None:
        """Handle a refusal."""
        wanted = pending.wanted
        pending.leave()
        self._credit.give_back(pending.share)
        is_full = error.code == ErrorCode.TOO_MANY_SUBSCRIPTIONS and not error.field
        if is_full:
            pending.refused_for_room()
        else:
            pending.pooled.left()
        if error.code in _GONE or not self._known.has(wanted.topic, wanted.epoch):
            self._known.note_gone(wanted.topic, wanted.epoch)
            self._reported.discard(wanted.topic)
            self.turns.report(TopicMissed(wanted.topic, 1))
        elif is_full:
            self._waiting[wanted.topic] = wanted
        elif error.code == ErrorCode.INVALID_FIELD:
            # It would be so for each topic.
            self._fail(BrokerError.of(error))
        else:
            unread = self._put_off(wanted, BrokerError.of(error))
            if unread is not None:
                self.turns.report(unread)

    def _put_off(self, wanted: Wanted, reason: ZaichikError) -> TopicUnread | None:
        """Try again later; returns what is to be reported, unless that was done before."""
        if isinstance(reason, TooManySubscriptions | NoMemory):
            self._cramped[wanted.topic] = wanted
        else:
            self._refused[wanted.topic] = wanted
        if wanted.topic in self._reported:
            return None
        self._reported.add(wanted.topic)
        return TopicUnread(wanted.topic, reason.message)

    def _ended(self, member: Member, failure: Exception) -> PatternEvent | None:
        """Leave a topic that has ended; returns what is to be reported."""
        wanted = member.wanted
        del self._members[wanted.topic, wanted.epoch]
        self.turns.remove(member)
        if member.is_over:
            self._over -= 1
        following = Wanted(wanted.topic, wanted.epoch, Start.OFFSET, member.next)
        member.leave()
        self._credit.give_back(member.share)
        member.pooled.left()
        event = self._event(following, failure)
        # There may be memory for another one now.
        self._try_cramped()
        self._subscribe()
        self._progressed()
        return event

    def _event(self, wanted: Wanted, failure: Exception) -> PatternEvent | None:
        """Returns what is to be reported of a topic that has ended."""
        topic, epoch = wanted.topic, wanted.epoch
        match failure:
            case EpochChanged() | NoSuchTopic() | SubscriptionLost(name="DELETED"):
                self._known.note_gone(topic, epoch)
                return TopicGone(topic, epoch, wanted.value)
            case Forbidden() | Damaged() | SubscriptionLost(name="FORBIDDEN" | "DAMAGED"):
                return self._put_off(wanted, failure)
            case TooManySubscriptions() | NoMemory():
                return self._put_off(wanted, failure)
            case _:
                self._fail(failure)
                return None


def _check_anew(error: EpochChanged | SubscriptionLost) -> None:
    """Raise the error unless the broker has made `$topics` anew, so that another look helps."""
    if isinstance(error, SubscriptionLost) and error.name != EndCode.DELETED.name:
        raise error
