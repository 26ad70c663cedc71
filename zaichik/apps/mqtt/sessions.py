"""All sessions and groups: opened, kept in the table `mqtt/sessions`, expired, ended (MQ-8)."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from zaichik import Client
from zaichik.apps.mqtt import session_table
from zaichik.apps.mqtt.counters import Counters
from zaichik.apps.mqtt.filters import split_share
from zaichik.apps.mqtt.groups import Group
from zaichik.apps.mqtt.quota import quota_of
from zaichik.apps.mqtt.session import Session, SessionId
from zaichik.apps.mqtt.session_table import GATEWAY, GROUP, GatewayRow
from zaichik.apps.mqtt.spaces import SESSIONS, Spaces
from zaichik.apps.mqtt.subscription import Subscription, Subscriptions
from zaichik.apps.mqtt.tail import Tail
from zaichik.base.escapes import shown

logger = logging.getLogger("zaichik.mqtt.sessions")

# Messages of a batch of rows, and bytes of several; a row that has more is stored alone.
ROWS = 500
BATCH_BYTES = 256 * 1024
# The gateway's own row says when the gateway was alive, and is stored at least this often.
OWN_ROW_US = 60_000_000


@dataclass(slots=True)
class _Opening:
    """A lock for a session, for as long as some connection uses it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


@dataclass(frozen=True, slots=True)
class _Change:
    """A reader whose positions are stored."""

    reader: Session | Group
    key: str
    positions: dict[str, int]
    row: bytes


class Sessions:
    """See above.

    Args:
        client: the gateway's own.
        spaces: where MQTT's topics are.
        tails: by the broker's topic, what was read of it lately.
        subscriptions: all filters.
        counters: of rows that cannot be read.
        now_us: the time.

    Attributes:
        all: the sessions, by their names.
        groups: the groups, by their names.
        epochs: by the broker's topic, its identity.
        on_end: called with the name of a session that has ended.
        on_group: called with a new group.
    """

    def __init__(
        self,
        client: Client,
        spaces: Spaces,
        tails: Mapping[str, Tail],
        subscriptions: Subscriptions,
        counters: Counters,
        now_us: Callable[[], int],
    ) -> None:
        self.all: dict[SessionId, Session] = {}
        self.groups: dict[str, Group] = {}
        self.epochs: dict[str, int] = {}
        self.on_end: Callable[[SessionId], None] = lambda _: None
        self.on_group: Callable[[Group], None] = lambda _: None
        self._client = client
        self._spaces = spaces
        self._tails = tails
        self._subscriptions = subscriptions
        self._counters = counters
        self._now_us = now_us
        self._openings: dict[SessionId, _Opening] = {}
        self._saved_ends: dict[str, int] = {}
        self._saved_us = 0

    # -- starting --------------------------------------------------------------------------------

    def load(self, rows: Mapping[str, bytes]) -> GatewayRow:
        """Restore all from the rows of the table; returns the gateway's own."""
        positions: dict[str, dict[str, int]] = {}
        own = GatewayRow()
        for key, data in rows.items():
            try:
                if key == GATEWAY:
                    own = GatewayRow.of(data)
                elif key.startswith(GROUP):
                    positions[key.removeprefix(GROUP)] = session_table.positions_of(data)
                else:
                    self._restore(session_table.session_of(key, data))
            except session_table.UNREADABLE as error:
                self._counters.unsaved += 1
                logger.warning("the row '%s' of %s is passed over: %s", shown(key), SESSIONS, error)
        for session in self.all.values():
            # It was there when the gateway ended.
            if session.left_us is None:
                session.left_us = own.at_us or self._now_us()
        self._saved_ends = dict(own.ends)
        for name, places in positions.items():
            group = self.groups.get(name)
            if group is not None:
                group.go_on(places)
        return own

    def _restore(self, session: Session) -> None:
        self.all[session.id] = session
        # What was in flight to its client went with the gateway that had sent it.
        session.window.forget_all()
        session.saved = session.positions(self._spaces.names)
        for subscription in session.subscriptions.values():
            self._found_by_filter(session, subscription)

    def begin_anew(self, space: str) -> None:
        """Forget all places in a topic that is not the one that they were in."""
        self._saved_ends.pop(space, None)
        for session in self.all.values():
            session.places.pop(space, None)
            session.saved.pop(space, None)
            for subscription in session.subscriptions.values():
                if space in subscription.starts:
                    subscription.starts[space] = 0
        for group in self.groups.values():
            group.places.pop(space, None)
            group.saved.pop(space, None)
            if space in group.subscription.starts:
                group.subscription.starts[space] = 0

    # -- connections -----------------------------------------------------------------------------

    @asynccontextmanager
    async def opening(self, name: SessionId) -> AsyncIterator[None]:
        """One connection at a time is in this block for a session."""
        opening = self._openings.setdefault(name, _Opening())
        opening.users += 1
        try:
            async with opening.lock:
                yield
        finally:
            opening.users -= 1
            if not opening.users:
                del self._openings[name]

    async def open(self, name: SessionId, *, is_clean: bool) -> tuple[Session, bool]:
        """Returns the session of a client that connects, and whether it went on.

        Args:
            name: the session's.
            is_clean: whether an earlier session of that name is ended.
        """
        session = self.all.get(name)
        if session is not None and is_clean:
            await self.end(session)
            session = None
        is_present = session is not None
        if session is None:
            session = Session(name)
            self.all[name] = session
        session.left_us = None
        return session, is_present

    async def keep(self, session: Session) -> None:
        """Returns when the session's row is stored (MQ-8)."""
        session.saved = session.positions(self._spaces.names)
        session.is_changed = False
        row = session_table.session_row(session, self._spaces.names)
        await self._client.publish(SESSIONS, row, session.id.text)

    async def forget(self, session: Session) -> None:
        """Remove the row of a session that ends with its connection."""
        await self._client.publish(SESSIONS, None, session.id.text)

    async def end(self, session: Session) -> None:
        """End a session: its filters and its row go."""
        for text in list(session.subscriptions):
            await self.unsubscribe(session, text)
        if self.all.get(session.id) is session:
            del self.all[session.id]
        self.on_end(session.id)
        if session.is_kept:
            await self.forget(session)

    async def expire(self) -> None:
        """End the sessions whose clients have been away for too long."""
        now_us = self._now_us()
        for session in list(self.all.values()):
            expires_us = session.expires_us()
            if session.delivery is None and expires_us is not None and expires_us <= now_us:
                async with self.opening(session.id):
                    # It may have come back meanwhile.
                    if session.left_us is not None and self.all.get(session.id) is session:
                        await self.end(session)

    # -- filters ---------------------------------------------------------------------------------

    def subscribe(self, session: Session, wanted: Subscription) -> bool:
        """Add a filter to a session, or change its options; returns whether it is new."""
        known = session.subscriptions.get(wanted.filter)
        if known is None:
            session.subscriptions[wanted.filter] = wanted
            self._found_by_filter(session, wanted)
            return True
        known.qos = wanted.qos
        known.no_local = wanted.no_local
        known.retain_as_published = wanted.retain_as_published
        known.identifier = wanted.identifier
        known.starts = wanted.starts | known.starts
        return False

    def _found_by_filter(self, session: Session, subscription: Subscription) -> None:
        name, topic_filter = split_share(subscription.filter)
        session.quota.add(quota_of(subscription.filter, self._spaces.reachable(topic_filter)))
        if name is None:
            self._subscriptions.add(topic_filter, subscription)
            return
        key = group_name(session.id.user, subscription.filter)
        group = self.groups.get(key)
        if group is None:
            group = Group(key, topic_filter, self._tails)
            self.groups[key] = group
            self._subscriptions.add(topic_filter, group.subscription)
            self.on_group(group)
        group.join(session, subscription)

    async def unsubscribe(self, session: Session, text: str) -> bool:
        """Remove a filter from a session; returns whether it was there."""
        subscription = session.subscriptions.pop(text, None)
        if subscription is None:
            return False
        name, topic_filter = split_share(text)
        session.quota.subtract(quota_of(text, self._spaces.reachable(topic_filter)))
        if name is None:
            self._subscriptions.remove(topic_filter, subscription)
            return True
        subscription.is_active = False
        group = self.groups[group_name(session.id.user, text)]
        group.remove(session)
        if not group.members:
            del self.groups[group.text]
            group.close()
            self._subscriptions.remove(topic_filter, group.subscription)
            await self._client.publish(SESSIONS, None, GROUP + group.text)
        return True

    def groups_of(self, session: Session) -> list[Group]:
        """Returns the groups that a session is a member of."""
        names = [group_name(session.id.user, text) for text in session.subscriptions]
        return [self.groups[name] for name in names if name in self.groups]

    # -- positions -------------------------------------------------------------------------------

    async def save(self) -> None:
        """Store all positions that have changed, together with what was read (MQ-8)."""
        changes = list(self._changes())
        ends = {space: tail.end for space, tail in self._tails.items()}
        now_us = self._now_us()
        is_due = now_us - self._saved_us >= OWN_ROW_US
        if ends == self._saved_ends and not changes and not is_due:
            return
        rows = [(change.key, change.row) for change in changes]
        # Last: what was read counts only once the positions of all who have less are stored.
        rows.append((GATEWAY, GatewayRow(now_us, ends, self.epochs).encoded()))
        try:
            for batch in _batches(rows, min(BATCH_BYTES, self._client.welcome.max_message)):
                await self._client.publish_batch(SESSIONS, batch)
        except BaseException:
            for change in changes:
                change.reader.is_changed = True
            raise
        for change in changes:
            change.reader.saved = change.positions
        self._saved_ends = ends
        self._saved_us = now_us

    def _changes(self) -> Iterator["_Change"]:
        names = self._spaces.names
        for session in self.all.values():
            if session.is_changed and session.is_kept:
                session.is_changed = False
                positions = session.positions(names)
                if positions != session.saved:
                    row = session_table.session_row(session, names)
                    yield _Change(session, session.id.text, positions, row)
        for group in self.groups.values():
            if group.is_changed:
                group.is_changed = False
                positions = group.positions(names)
                if positions != group.saved:
                    row = session_table.group_row(positions)
                    yield _Change(group, GROUP + group.text, positions, row)

    def lowest(self, space: str) -> int:
        """Returns the offset below which no kept session and no group needs anything.

        As far as is stored: whoever has no position there has one at the end of what was read then,
        or beyond.
        """
        offsets = [self._saved_ends.get(space, 0)]
        for session in self.all.values():
            offset = session.saved.get(space)
            if session.is_kept and offset is not None:
                offsets.append(offset)
        for group in self.groups.values():
            offset = group.saved.get(space)
            if offset is not None:
                offsets.append(offset)
        return min(offsets)

    def lowest_number(self, space: str) -> int:
        """Returns the number of the first entry of the tail that some reader still needs."""
        tail = self._tails[space]
        numbers = [tail.next]
        readers: list[Session | Group] = [*self.all.values(), *self.groups.values()]
        for reader in readers:
            place = reader.places.get(space)
            if place is not None and tail.has(place):
                numbers.append(place.number)
        return min(numbers)


def _batches(rows: list[tuple[str, bytes]], most: int) -> Iterator[list[tuple[str, bytes]]]:
    """Yields the rows in their order, in batches that have at most so many bytes."""
    batch: list[tuple[str, bytes]] = []
    size = 0
    for key, row in rows:
        row_size = len(key.encode()) + len(row)
        if batch and (len(batch) == ROWS or size + row_size > most):
            yield batch
            batch = []
            size = 0
        batch.append((key, row))
        size += row_size
    yield batch


def group_name(user: str, text: str) -> str:
    """Returns the name of a group: users have groups of their own."""
    if not user:
        return text
    return f"{user}\0{text}"
