"""One subscription to the watermark of a topic, for all of a client that wait for it (AK-1).

    replicated/TOPIC ──▶ the newest watermark ──▶ acknowledgements that it passes, the lowest first
                                              └─▶ subscriptions that it holds back (AK-2)

`Published` does not say of which epoch the topic was, and offsets of another epoch mean nothing. So
before anything is acknowledged, the broker is asked once which epoch the topic has. If it is the
one that the topic had before the messages were published, they are of that epoch, because no epoch
comes back. One question serves everything that a watermark passes. While somebody waits, it is
asked once a second as well: a topic that was deleted has no watermark that could pass.

What a watermark says is true of one life of the broker: in the next one, the topic may have been
restored, and end elsewhere. So one that came over a socket that was lost passes nothing, until its
subscription is made again.

No watermark is no error: there may be no bridge yet, or the broker was restarted and the bridge has
not published again. Those who wait go on waiting.
"""

# Not compiled: it refers to others weakly, and runs once for each watermark.

import heapq
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import count
from typing import Any
from weakref import ReferenceType, WeakSet, ref

import anyio

from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import (
    ConnectionLost,
    EpochChanged,
    NoSuchTopic,
    ReplicationLost,
    SubscriptionLost,
)
from zaichik.client.inbox import end_of
from zaichik.client.outcome import Lost
from zaichik.client.replication.acknowledgement import Acknowledgement
from zaichik.client.replication.held_inbox import HeldInbox
from zaichik.client.replication.lossless import check_lossless, no_such_topic
from zaichik.client.replication.watermark import UnreadableWatermark, Watermark, topic_of
from zaichik.client.replication.watermark_inbox import WatermarkInbox
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import (
    FOREVER,
    Commit,
    Lagged,
    Messages,
    Start,
    Subscribe,
    Unsubscribe,
)

logger = logging.getLogger(__name__)

# How often the topic is looked at while somebody waits.
LOOK_SECONDS = 1.0
# Until a watermark that could not be read is looked for again.
RETRY_SECONDS = 1.0
# A follower that nobody has used for so long ends.
IDLE_SECONDS = 60.0
CREDIT = 1000
CREDIT_BYTES = 256 * 1024

# Returns the state of a topic, as `Client.topic` does.
Describing = Callable[[str], Awaitable[dict[str, Any] | None]]


class NoWatermark(Exception):
    """The watermark cannot be read now; it may be later."""


class WatermarkFollower:
    """Follows one topic's watermark until nobody uses it any more.

    Args:
        connection: the client's.
        topic: the topic, not that of the watermark.
        by: what has to have the messages.
        describe: see `Describing`.

    Attributes:
        topic, by: see above.
        epoch: the one that the topic had when it was last looked at.
        is_over: whether it has ended, so that another one is needed.

    Raises:
        ValueError: the topic's name is too long.
    """

    def __init__(
        self, connection: BrokerConnection, topic: str, by: str, describe: Describing
    ) -> None:
        self.topic = topic
        self.by = by
        self.epoch = 0
        self.is_over = False
        self._connection = connection
        self._source = topic_of(topic)
        self._describe = describe
        self._watermark: Watermark | None = None
        self._begun = Wakeup()
        # How many wait for that.
        self._waiting = 0
        self._news = Wakeup()
        self._failure: Lost | None = None
        # All that somebody holds. Who has given up holds none, so nothing is kept for them.
        self._held: WeakSet[Acknowledgement] = WeakSet()
        # Those whose messages are stored, by the watermark that they wait for.
        self._expected: list[tuple[int, int, ReferenceType[Acknowledgement]]] = []
        self._numbers = count()
        self._inboxes: dict[HeldInbox, None] = {}

    # -- who waits -------------------------------------------------------------------------------

    async def begun(self) -> None:
        """Returns when the topic is known to be lossless, and its watermark is followed.

        Raises:
            NotLossless, NoSuchTopic: it is not.
            BrokerError, ConnectionLost: the watermark cannot be followed.
        """
        if not self._begun.is_set():
            self._waiting += 1
            try:
                await self._begun.wait()
            finally:
                self._waiting -= 1
        if self._failure is not None:
            raise self._failure()

    def acknowledgement(
        self, on_outcome: Callable[[Lost | None], None] | None = None
    ) -> Acknowledgement:
        """Returns what waits for messages that are going to be published. It must be held."""
        made = Acknowledgement(self, on_outcome)
        self._held.add(made)
        return made

    def add(self, one: Acknowledgement) -> None:
        """Settle an acknowledgement when the watermark has passed its messages."""
        if self._failure is not None:
            self._settle(one, self._failure)
        elif one.epoch != self.epoch:
            self._settle(one, self._another_topic(one))
        else:
            heapq.heappush(self._expected, (one.end, next(self._numbers), ref(one)))
            self._wake()

    @property
    def boot(self) -> int:
        """What is another number after each restart of the broker."""
        return self._connection.welcome.boot

    def restarted(self, end: int) -> ReplicationLost:
        """Returns the error for a message that a window dropped, before the broker was restarted.

        Args:
            end: the topic's next offset.
        """
        reason = (
            "of a message that a compaction window dropped before the broker was restarted, "
            f"nobody can tell whether {self.by} has the one that kept it out"
        )
        return ReplicationLost(self.topic, max(0, end - 1), reason)

    async def end(self) -> int:
        """Returns the topic's next offset.

        Raises:
            NoSuchTopic: it is gone.
        """
        state = await self._describe(self.topic)
        if state is None:
            raise no_such_topic(self.topic)
        return int(state["next_offset"])

    @contextmanager
    def holding_back(self, request: Subscribe, *, explicit: bool) -> Iterator[HeldInbox]:
        """Returns an inbox that gives out only what the watermark has passed.

        Args:
            request: what its subscription begins with.
            explicit: whether the program says what is settled.
        """
        inbox = HeldInbox(request, self._wake, explicit=explicit)
        self._inboxes[inbox] = None
        try:
            yield inbox
        finally:
            del self._inboxes[inbox]

    @property
    def _is_used(self) -> bool:
        return bool(self._held or self._inboxes or self._waiting)

    # -- following -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the watermark until nobody uses it, or it cannot be followed any more."""
        failure: Lost = partial(ConnectionLost, "this client was closed")
        try:
            await self._look()
            while self._is_used:
                try:
                    await self._follow()
                except NoWatermark as reason:
                    logger.info("%s cannot be read now: %s", self._source, reason)
                    self._begun.set()
                    await anyio.sleep(RETRY_SECONDS)
                    await self._look()
        except Exception as error:
            # Whatever it is, nobody must wait for ever. Each is raised a copy of its own.
            failure = partial(copy, error)
        finally:
            self._end(failure)

    def _end(self, failure: Lost) -> None:
        self.is_over = True
        self._failure = failure
        self._begun.set()
        for one in [*self._held]:
            if one.is_expected:
                self._settle(one, failure)
        for inbox in self._inboxes:
            inbox.close(failure)

    async def _follow(self) -> None:
        """Returns when nobody has used it for a while.

        Raises:
            NoWatermark: the subscription was refused, or has ended.
        """
        connection = self._connection
        # What an earlier subscription has told may be of another broker's life.
        self._watermark = None
        request = self._request()
        with connection.receiving(WatermarkInbox(request)) as inbox:
            inbox.on_news = self._wake
            try:
                await connection.subscribe(request)
            except NoSuchTopic as error:
                raise NoWatermark(str(error)) from None
            self._begun.set()
            try:
                await self._take_all(inbox)
            finally:
                if inbox.is_live:
                    connection.send_soon(Unsubscribe(0, inbox.id))

    def _request(self) -> Subscribe:
        return Subscribe(
            id=self._connection.next_subscription_id(),
            topic=self._source,
            name="",
            start=Start.EARLIEST,
            value=0,
            epoch=0,
            until=FOREVER,
            credit=CREDIT,
            credit_bytes=CREDIT_BYTES,
        )

    async def _take_all(self, inbox: WatermarkInbox) -> None:
        idle_s = 0.0
        while True:
            # News that come from here on end the wait below.
            self._news = Wakeup()
            self._check(inbox)
            is_newer = self._take(inbox)
            if inbox.is_made:
                await self._pass_on(is_newer=is_newer)
            with anyio.move_on_after(LOOK_SECONDS) as patience:
                await self._news.wait()
            if patience.cancelled_caught:
                idle_s += LOOK_SECONDS
                await self._look_after()
            if self._is_used:
                idle_s = 0.0
            elif idle_s >= IDLE_SECONDS:
                return

    def _wake(self) -> None:
        self._news.set()

    def _check(self, inbox: WatermarkInbox) -> None:
        """Raise why nothing more will come, if that is so.

        Raises:
            NoWatermark: it is the topic of the watermark that has gone.
        """
        failure = inbox.known_failure
        match failure:
            case None:
                return
            case NoSuchTopic() | EpochChanged() | SubscriptionLost():
                raise NoWatermark(str(failure))
            case _:
                raise failure

    def _take(self, inbox: WatermarkInbox) -> bool:
        """Take what has come; returns whether a newer watermark is among it."""
        newest: Watermark | None = None
        while inbox.events:
            event = inbox.events.popleft()
            match event:
                case Messages():
                    newest = self._newest(event) or newest
                    inbox.taken = max(inbox.taken, end_of(event))
                case Lagged():
                    # Only the newest watermark counts.
                    inbox.taken = max(inbox.taken, event.to_offset)
                case _:
                    # No table has it, and `_check` finds its end.
                    pass
        self._settle_taken(inbox)
        if newest is None:
            return False
        self._watermark = newest
        return True

    def _settle_taken(self, inbox: WatermarkInbox) -> None:
        """Commit what was taken, so that more is sent."""
        settled = min(inbox.taken, inbox.delivered)
        if inbox.is_live and settled - inbox.committed >= CREDIT // 2:
            inbox.committed = settled
            self._connection.send_now(Commit(0, inbox.id, settled))

    def _newest(self, frame: Messages) -> Watermark | None:
        """Returns the last watermark in a frame that can be read."""
        for payload in reversed(frame.batch.payloads()):
            try:
                watermark = Watermark.of(payload)
            except UnreadableWatermark as error:
                logger.warning("a message of %s is no watermark: %s", self._source, error)
                continue
            if watermark.by == self.by:
                return watermark
            logger.warning("a message of %s is not of %s", self._source, self.by)
        return None

    # -- what the watermark passes ---------------------------------------------------------------

    async def _pass_on(self, *, is_newer: bool) -> None:
        """Let through what the watermark has passed, and settle who waits for that."""
        watermark, boot = self._watermark, self.boot
        if watermark is None:
            return
        for inbox in self._inboxes:
            inbox.release(watermark)
        # Either the topic was made anew, or the bridge has not come to the new one yet.
        if is_newer and watermark.epoch != self.epoch:
            await self._look()
        if watermark.epoch == self.epoch:
            await self._acknowledge(watermark, boot)

    async def _acknowledge(self, watermark: Watermark, boot: int) -> None:
        """Settle everything that the watermark has passed, which the broker had in this run."""
        while due := self._due(watermark):
            await self._look()
            for one in due:
                if one.epoch == self.epoch:
                    self._settle(one, self._verdict(one, watermark, boot))

    def _due(self, watermark: Watermark) -> list[Acknowledgement]:
        """Returns those that the watermark has passed; they are not expected any more."""
        due: list[Acknowledgement] = []
        while self._expected and self._expected[0][0] <= watermark.next:
            _, _, reference = heapq.heappop(self._expected)
            one = reference()
            if one is not None and not one.is_settled:
                due.append(one)
        return due

    def _verdict(self, one: Acknowledgement, watermark: Watermark, boot: int) -> Lost | None:
        """Returns what makes the error for messages that the watermark has passed; None: none."""
        start = one.start
        if not one.stored and one.boot != boot:
            # If the topic was restored since, it has a gap up to there, and what had kept these
            # messages out may have been in it.
            start = max(0, one.end - 1)
        missing = watermark.first_missing(start, one.end)
        if missing is None:
            return None
        if not one.stored:
            return partial(self.restarted, one.end)
        reason = f"it is not in {self.by}: it was gone before the bridge could read it"
        if missing < watermark.gaps_from:
            reason = f"whether it is in {self.by} is not known any more"
        return partial(ReplicationLost, self.topic, missing, reason)

    # -- looking at the topic --------------------------------------------------------------------

    async def _look_after(self) -> None:
        """Look at the topic if somebody waits, and forget those who have given up."""
        self._expected = [entry for entry in self._expected if entry[2]() is not None]
        heapq.heapify(self._expected)
        if self._expected:
            await self._look()

    async def _look(self) -> None:
        """Find out which epoch the topic has; what waits in another one fails.

        Raises:
            NotLossless, NoSuchTopic: it may lose messages by now, or is gone.
        """
        # What comes meanwhile may be newer than the answer.
        expected = [one for entry in self._expected if (one := entry[2]()) is not None]
        state = await self._describe(self.topic)
        epoch = 0
        if state is not None:
            epoch = int(state["epoch"])
        if state is not None and epoch == self.epoch:
            self._check_end(expected, int(state["next_offset"]))
        if epoch != self.epoch:
            self.epoch = epoch
            for one in [*self._held]:
                if one.is_expected:
                    self._settle(one, self._another_topic(one))
        check_lossless(self.topic, state)

    def _check_end(self, expected: list[Acknowledgement], end: int) -> None:
        """Fail what is not in the topic any more: its offsets will be those of other messages."""
        reason = "the topic has gone back to an earlier state since, without it"
        for one in expected:
            if one.end > end and not one.is_settled:
                self._settle(one, partial(ReplicationLost, self.topic, one.start, reason))

    def _another_topic(self, one: Acknowledgement) -> Lost:
        reason = "the topic is gone, and nobody will know whether it was replicated"
        if self.epoch:
            reason = "the topic is another one by now, so that will not be replicated"
        return partial(ReplicationLost, self.topic, one.start, reason)

    def _settle(self, one: Acknowledgement, failure: Lost | None) -> None:
        self._held.discard(one)
        one.settle(failure)
