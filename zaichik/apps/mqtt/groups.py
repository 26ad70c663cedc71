"""Shared subscriptions, `$share/NAME/FILTER`: each message goes to one member of the group (MQ-12).

To the tail, a group is a reader like a session: it has a place in each topic, and gets the next
message when it is at the end. It gives the message to the member whose turn it is, of those that
are connected and have room; if none has, the place stays. So a member that answers nothing holds up
nobody, and a group whose members are all away loses nothing that the broker keeps.

What a member leaves unacknowledged goes to another one, if it is QoS 1. QoS 2 stays with its member
until it is complete, and is never given to another, even if the session ends.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from zaichik.apps.mqtt.session import Session
from zaichik.apps.mqtt.subscription import Subscription
from zaichik.apps.mqtt.tail import NOT_IN_TAIL, Entry, Place, Tail
from zaichik.apps.mqtt.window import InFlight


class Group:
    """The members of one shared subscription.

    Args:
        text: names it: `$share/NAME/FILTER`, and before that its user.
        topic_filter: the filter alone.
        tails: by the broker's topic, what was read of it lately.

    Attributes:
        text, topic_filter: see above.
        subscription: what the filter finds.
        members: the sessions that have it, connected or not, each with its own options; the one
            whose turn it is comes first.
        places: by the broker's topic, where it goes on; without one, at the end.
        is_changed: whether it may have another position than the one that was stored.
        saved: its positions as they were stored.
        on_lost_place: called with the group and a topic, if the tail of that does not reach back to
            the group's place.
    """

    def __init__(self, text: str, topic_filter: str, tails: Mapping[str, Tail]) -> None:
        self.text = text
        self.topic_filter = topic_filter
        self.subscription = Subscription(self, text, 2)
        self.members: dict[Session, Subscription] = {}
        self.places: dict[str, Place] = {}
        self.is_changed = False
        self.saved: dict[str, int] = {}
        self.on_lost_place: Callable[[Group, str], None] = lambda _group, _space: None
        self._tails = tails
        # What members have left unacknowledged, to be given to others.
        self._returned: deque[Entry] = deque()
        self._in_flight: dict[InFlight, None] = {}

    def offer(self, entry: Entry, subscriptions: list[Subscription]) -> None:
        """Give a message that has just come to a member, or remember it as the place to go on."""
        if entry.space in self.places or not subscriptions[0].wants(entry):
            return
        if not self._waits_for(entry):
            return
        if self._returned or not self.deal(entry):
            self.places[entry.space] = Place(entry.number, entry.offset)
            self.is_changed = True

    def _waits_for(self, entry: Entry) -> bool:
        """Returns whether a message is worth keeping: with QoS 0, not if all members are away."""
        if any(session.delivery is not None for session in self.members):
            return True
        return bool(entry.qos) and any(options.qos for options in self.members.values())

    def deal(self, entry: Entry) -> bool:
        """Give a message to the next member that has room; returns False if none has."""
        for session in list(self.members):
            options = self.members[session]
            delivery = session.delivery
            if delivery is None:
                continue
            qos = min(options.qos, entry.qos)
            if not delivery.has_room(qos):
                continue
            self._give(entry, qos, session, options)
            # Its next turn comes after all others'.
            del self.members[session]
            self.members[session] = options
            return True
        return False

    def _give(self, entry: Entry, qos: int, session: Session, options: Subscription) -> None:
        identifiers: tuple[int, ...] = ()
        if options.identifier:
            identifiers = (options.identifier,)
        retain = options.retain_as_published and entry.retain
        message = InFlight(entry, qos, retain, identifiers, group=self)
        if session.delivery is not None:
            session.delivery.send(message)

    # -- members ---------------------------------------------------------------------------------

    def join(self, session: Session, options: Subscription) -> None:
        """Add a member, or change its options."""
        self.members[session] = options
        self._begin_by(options.starts)
        self.connected(session)

    def go_on(self, positions: dict[str, int]) -> None:
        """Go on where an earlier gateway has stored that the group was."""
        self.saved = positions
        self.places = {space: Place(NOT_IN_TAIL, at) for space, at in positions.items()}
        self._begin_by(positions)

    def _begin_by(self, starts: Mapping[str, int]) -> None:
        """Count messages from these offsets on: a later member does not move the beginning."""
        known = self.subscription.starts
        for space, start in starts.items():
            known[space] = min(start, known.get(space, start))

    def connected(self, session: Session) -> None:
        """Note that a member is there: it is given something whenever it has room."""
        if session.delivery is not None:
            session.delivery.on_room[self] = self.pump

    def left(self, session: Session) -> None:
        """Take back what a member has not acknowledged, when its connection has ended."""
        for identifier, message in session.window.items():
            if message.group is self and message.qos == 1:
                session.window.settle(identifier)
                self._in_flight.pop(message, None)
                self._returned.append(message.entry)
        self.pump()

    def remove(self, session: Session) -> None:
        """Remove a member."""
        if session.delivery is not None:
            session.delivery.on_room.pop(self, None)
        self.members.pop(session, None)
        # Nobody else is given its messages of QoS 2, so the group does not wait for them.
        for message in session.window.messages():
            if message.group is self and message.qos > 1:
                self._in_flight.pop(message, None)
                self.is_changed = True
        self.left(session)

    def close(self) -> None:
        """Forget all places: the last member has gone."""
        spaces = list(self.places)
        self.places.clear()
        # What catches up for it stops waiting for room.
        for space in spaces:
            self.on_lost_place(self, space)

    # -- going on --------------------------------------------------------------------------------

    def sent(self, message: InFlight) -> None:
        """Note that a message is in flight to a member."""
        self._in_flight[message] = None
        self.is_changed = True

    def settled(self, message: InFlight) -> None:
        """Note that a member has acknowledged a message."""
        self._in_flight.pop(message, None)
        self.is_changed = True

    def pump(self) -> None:
        """Give out what waits, as far as members have room."""
        while self._returned:
            if not self.deal(self._returned[0]):
                return
            self._returned.popleft()
        for space in list(self.places):
            self._catch_up(space)

    def _catch_up(self, space: str) -> None:
        tail = self._tails[space]
        place = self.places[space]
        if not tail.has(place):
            self.on_lost_place(self, space)
            return
        while place.number < tail.next:
            entry = tail[place.number]
            found = entry.readers.get(self)
            if found is not None and found[0].wants(entry) and not self.deal(entry):
                place.offset = entry.offset
                return
            place.number += 1
        del self.places[space]
        self.is_changed = True

    def positions(self, spaces: Iterable[str]) -> dict[str, int]:
        """Returns where it goes on in these topics; those where it is at the end are left out."""
        found = {space: self.position(space) for space in spaces}
        return {space: offset for space, offset in found.items() if offset is not None}

    def position(self, space: str) -> int | None:
        """Returns the offset up to which everything is done; None if that is the end."""
        offsets = [entry.offset for entry in self._returned if entry.space == space]
        offsets += [one.entry.offset for one in self._in_flight if one.entry.space == space]
        place = self.places.get(space)
        if place is not None:
            offsets.append(place.offset)
        return min(offsets, default=None)
