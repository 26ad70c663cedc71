"""Everything that a gateway knows while it runs, and what it does once a second (G-2).

It is made from what the topics say, and made again if the broker has lost them.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup, TaskStatus

from zaichik import BrokerError, Client, EpochChanged, SubscriptionLost, ZaichikError
from zaichik.apps.mqtt import topics
from zaichik.apps.mqtt.counters import CounterLog, Counters
from zaichik.apps.mqtt.delivery import Delivery
from zaichik.apps.mqtt.filters import topic_problem
from zaichik.apps.mqtt.groups import Group
from zaichik.apps.mqtt.keeper import Keeper
from zaichik.apps.mqtt.logins import Logins, Rights
from zaichik.apps.mqtt.output import Output
from zaichik.apps.mqtt.publications import Publications
from zaichik.apps.mqtt.publisher import Publisher
from zaichik.apps.mqtt.reading import Sources, Straggler, follow
from zaichik.apps.mqtt.retained import Retained, Row, UnreadableRow
from zaichik.apps.mqtt.session import SessionId
from zaichik.apps.mqtt.session_table import GatewayRow
from zaichik.apps.mqtt.sessions import Sessions
from zaichik.apps.mqtt.spaces import RETAINED, SESSIONS, WILLS, Spaces
from zaichik.apps.mqtt.subscription import Subscription, Subscriptions
from zaichik.apps.mqtt.tail import Entry, Tail
from zaichik.apps.mqtt.wills import Wills
from zaichik.base.escapes import shown
from zaichik.client.messages import AckedBy

if TYPE_CHECKING:
    from zaichik.apps.mqtt.connection import Connection

logger = logging.getLogger("zaichik.mqtt.state")

# What a row of the retained messages has besides the payload: a header, topic and properties.
ROW_BYTES = 4 * 1024
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a gateway was told.

    Attributes:
        trees: topics of the broker that are trees of MQTT topics (MQ-2).
        max_retained: the most retained messages, if the table for them is made now.
        acked_by: what has to have messages before they are acknowledged; None: the broker alone.
    """

    trees: tuple[str, ...] = ()
    max_retained: int = topics.MAX_RETAINED
    acked_by: AckedBy | None = None


class State:
    """See above; `load` before anything else.

    Args:
        client: the gateway's own.
        options: see there.
        logins: the connections of users.
        tasks: run for as long as the state lasts.
        now_us: the time.
        counters: of what is not delivered; an earlier state may have counted in them.

    Attributes:
        client, logins, now_us: see above.
        spaces, tails, sessions, wills, retained, publisher, rights, counters: see their classes.
        connected: the connections of sessions.
        most_packet: bytes of the largest packet that a client may send.
        is_over: whether nothing is stored any more: the broker has lost the topics, or another
            gateway has read them.
    """

    def __init__(
        self,
        client: Client,
        options: Options,
        logins: Logins,
        tasks: TaskGroup,
        now_us: Callable[[], int],
        counters: Counters,
    ) -> None:
        self.client = client
        self.logins = logins
        self.now_us = now_us
        self.connected: dict[SessionId, Connection] = {}
        self.most_packet = client.welcome.max_message - ROW_BYTES
        self.is_over = False
        self.spaces = Spaces(options.trees)
        self.counters = counters
        self.tails = {space: Tail(space) for space in self.spaces.names}
        self.rights = Rights(now_us, are_checked=logins.are_required)
        publications = {space: Publications() for space in self.spaces.names}
        subscriptions = Subscriptions()
        self.sources = Sources(self.spaces, subscriptions, publications, self.counters)
        self.retained = Retained()
        self.publisher = Publisher(
            client, self.spaces, publications, self.retained, now_us, options.acked_by
        )
        self.sessions = Sessions(
            client, self.spaces, self.tails, subscriptions, self.counters, now_us
        )
        self.wills = Wills(client, self.publisher, self.counters, now_us)
        self.sessions.on_end = self.wills.session_ended
        self.sessions.on_group = self._watch_group
        self._options = options
        self._tasks = tasks
        self._log = CounterLog(self.counters)
        self._keepers = {space: Keeper(client, space) for space in self.spaces.names}
        # To be flushed when what has come together was handed out.
        self._written: dict[Output, None] = {}
        self._stragglers: dict[tuple[object, str], Straggler] = {}
        self._flushed = 0

    # -- starting --------------------------------------------------------------------------------

    async def load(self) -> None:
        """Make the topics, and take over what they hold.

        Raises:
            NotATable, ZaichikError: see `topics.prepare`.
        """
        await topics.prepare(
            self.client,
            self.spaces.names[1:],
            self._options.max_retained,
            is_lossless=self._options.acked_by is not None,
        )
        rows = await topics.rows(self.client, (RETAINED, SESSIONS, WILLS))
        for offset, (topic, data) in enumerate(rows[RETAINED].items()):
            self._restore_retained(topic, data, offset)
        own = self.sessions.load(rows[SESSIONS])
        self.wills.load(rows[WILLS], self.sessions.all)
        for space in self.spaces.names:
            await self._begin_in(space, own)
        await self.save()

    async def _begin_in(self, space: str, own: GatewayRow) -> None:
        """Find out where to begin in a topic."""
        report = await self.client.topic(space)
        live = 0
        if report is not None:
            live = int(report["next_offset"])
            self.sessions.epochs[space] = int(report["epoch"])
        end = own.ends.get(space, live)
        was_there = space in own.epochs
        # It was made anew, or it is an older copy of itself.
        if was_there and (own.epochs[space] != self.sessions.epochs.get(space) or live < end):
            self.sessions.begin_anew(space)
            end = 0
        self.tails[space].end = end
        self.publisher.ends[space] = live

    def _restore_retained(self, topic: str, data: bytes, offset: int) -> None:
        try:
            row = Row.of(data)
            _check_topic(topic)
        except UnreadableRow as error:
            self.counters.unsaved += 1
            logger.warning("the row '%s' of %s is passed over: %s", shown(topic), RETAINED, error)
            return
        # Any offset below those to come will do, for rows come once each.
        self.retained.note(topic, row, offset)

    async def follow(self, *, task_status: TaskStatus[None]) -> None:
        """Read all topics until cancelled; started when all are subscribed to.

        Raises:
            ExceptionGroup: of `EpochChanged` or `SubscriptionLost`: the broker has lost a topic.
        """
        try:
            async with anyio.create_task_group() as tasks:
                for tail in self.tails.values():
                    await tasks.start(follow, self.client, tail, self.sources, self.flush)
                task_status.started()
        except* (EpochChanged, SubscriptionLost):
            self.is_over = True
            raise

    # -- what is written -------------------------------------------------------------------------

    def attend(self, delivery: Delivery, tasks: TaskGroup) -> None:
        """Have what a delivery writes be flushed, and its lost places be looked after.

        Args:
            delivery: what sends to a client.
            tasks: end with the connection.
        """
        delivery.on_written = self._note_written
        delivery.newest = self.retained.newest
        delivery.on_pause = partial(tasks.start_soon, delivery.go_on)
        delivery.on_lost_place = partial(self._late_session, delivery, tasks)

    def _note_written(self, output: Output) -> None:
        self._written[output] = None

    def flush(self) -> None:
        """Send what was written to clients."""
        written = self._written
        self._written = {}
        for output in written:
            output.flush()

    # -- who is late -----------------------------------------------------------------------------

    def _late_session(self, delivery: Delivery, tasks: TaskGroup, space: str) -> None:
        """Have a session catch up whose place the tail does not reach back to.

        Args:
            delivery: what sends to its client.
            tasks: end with the connection.
            space: the topic.
        """
        session = delivery.session
        self._catch_up(
            (delivery, space),
            Straggler(session, self.tails[space], delivery.take, self.flush),
            tasks,
            session.id.client_id,
            delivery.pump,
        )

    def _watch_group(self, group: Group) -> None:
        group.on_lost_place = self._late_group

    def _late_group(self, group: Group, space: str) -> None:
        known = self._stragglers.get((group, space))
        if known is not None:
            known.wake()
            return
        # Only with a member that could take something.
        if not any(session.delivery is not None for session in group.members):
            return

        def take(entry: Entry, subscriptions: list[Subscription]) -> bool:
            return not subscriptions[0].wants(entry) or group.deal(entry)

        straggler = Straggler(group, self.tails[space], take, self.flush)
        self._catch_up((group, space), straggler, self._tasks, group.text, group.pump)

    def _catch_up(
        self,
        key: tuple[object, str],
        straggler: Straggler,
        tasks: TaskGroup,
        name: str,
        pump: Callable[[], None],
    ) -> None:
        known = self._stragglers.get(key)
        if known is not None:
            known.wake()
            return
        self._stragglers[key] = straggler
        tasks.start_soon(partial(self._run_straggler, key, straggler, shown(name), pump))

    async def _run_straggler(
        self,
        key: tuple[object, str],
        straggler: Straggler,
        name: str,
        pump: Callable[[], None],
    ) -> None:
        try:
            await straggler.run(self.client, self.sources, name)
        except BrokerError as error:
            # There may be too many others.
            logger.warning("%s cannot catch up now: %s", name, error)
            await anyio.sleep(RETRY_SECONDS)
        finally:
            del self._stragglers[key]
        pump()
        self.flush()

    # -- once a second ---------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Expire what is due, and store where all sessions are.

        A refusal by the broker is logged, and the next sweep tries again.

        Raises:
            ConnectionLost: the broker is gone.
        """
        try:
            await self.sessions.expire()
            await self.wills.publish_due()
            await self._expire_retained()
            await self.save()
        except BrokerError as error:
            logger.error("the gateway's state could not be stored: %s", error)  # noqa: TRY400
        for space, tail in self.tails.items():
            tail.forget(self.sessions.lowest_number(space))
        self._log.say()

    async def _expire_retained(self) -> None:
        for topic in self.retained.expired(self.now_us()):
            if not self.retained.has_expired(topic, self.now_us()):
                continue
            result = await self.client.publish(RETAINED, None, topic)
            if result.offset is not None:
                self.retained.note(topic, None, result.offset)
        self.retained.forget_deletions()

    async def save(self) -> None:
        """Store where all sessions are, and have the broker keep what they need."""
        await self.sessions.save()
        for space, keeper in self._keepers.items():
            await keeper.hold(self.sessions.lowest(space))

    async def aclose(self) -> None:
        """Store everything a last time."""
        if self.is_over:
            return
        try:
            await self.wills.publish_due()
            await self.save()
        except ZaichikError as error:
            logger.warning("the gateway's state could not be stored: %s", error)

    async def release(self) -> None:
        """Leave the broker's names where they are. A state that was not loaded has some, too."""
        for keeper in self._keepers.values():
            # The broker may be gone, or has lost them.
            with suppress(ZaichikError):
                await keeper.aclose()


def _check_topic(topic: str) -> None:
    """The row of a topic that is none would end the connection of each subscriber."""
    problem = topic_problem(topic)
    if problem is not None:
        raise UnreadableRow(problem)
