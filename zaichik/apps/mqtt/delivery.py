"""What one connected client is sent, and when: as much as its window and its socket take.

A message that has just come is written at once if there is room (`take`). Otherwise the session has
a place in the tail, and `pump` goes on from there whenever there is room again: when the client has
acknowledged something, or has read what the socket did not take. So nothing is queued but what the
window allows (G-4).

What is larger than the client takes, has expired, or was published by the session itself and is not
wanted back counts as delivered (MQ-7).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from zaichik.apps.mqtt import forwarding
from zaichik.apps.mqtt.aliases import NO_ALIAS, Alias, Aliases
from zaichik.apps.mqtt.output import Output
from zaichik.apps.mqtt.packets import (
    PubComp,
    PublishTemplate,
    PubRel,
    ReasonCode,
    Version,
    encode,
)
from zaichik.apps.mqtt.session import Session
from zaichik.apps.mqtt.subscription import Subscription
from zaichik.apps.mqtt.tail import Entry, Tail
from zaichik.apps.mqtt.window import InFlight, Stage

if TYPE_CHECKING:
    from zaichik.apps.mqtt.counters import Counters


class Delivery:
    """What sends to the client of one session, for as long as it is connected.

    Args:
        session: the session.
        output: takes the bytes.
        version: of the protocol.
        most_bytes: of the largest packet that the client takes.
        tails: by the broker's topic, what was read of it lately.
        now_us: the time.
        counters: of what is not delivered.
        most_aliases: how many numbers for topics the client can remember.

    Attributes:
        on_written: called when something was written that must be flushed.
        newest: returns the retained message that a topic has now, given one that it had.
        on_pause: called when `go_on` must be run, as a task of the connection.
        on_lost_place: called with a topic whose tail does not reach back to the session's place.
    """

    def __init__(
        self,
        session: Session,
        output: Output,
        version: Version,
        most_bytes: int,
        tails: Mapping[str, Tail],
        now_us: Callable[[], int],
        counters: "Counters",
        most_aliases: int = 0,
    ) -> None:
        self.on_written: Callable[[Output], None] = lambda _: None
        self.newest: Callable[[Entry], Entry | None] = lambda entry: entry
        self.on_pause: Callable[[], object] = lambda: None
        self.on_lost_place: Callable[[str], None] = lambda _: None
        self._session = session
        self._output = output
        self._version = version
        self._most_bytes = most_bytes
        self._tails = tails
        self._now_us = now_us
        self._counters = counters
        self._aliases = Aliases(most_aliases)
        # What an earlier connection has left in flight, and this one has not sent again yet.
        self._again: deque[tuple[int, InFlight]] = deque()
        # Retained messages for filters that are new, in the order of the filters.
        self._retained: dict[Subscription, Iterator[tuple[Entry, Subscription] | None]] = {}
        # Whether `on_pause` was called, and what it promises has not come yet.
        self._is_paused = False
        # The one that there was no room for.
        self._next_retained: tuple[Entry, Subscription] | None = None
        # Called when there may be room again, for groups.
        self.on_room: dict[object, Callable[[], None]] = {}

    @property
    def session(self) -> Session:
        """The session that it sends to."""
        return self._session

    # -- one message -----------------------------------------------------------------------------

    def take(self, entry: Entry, subscriptions: list[Subscription]) -> bool:
        """Send a message for all filters that want it, once; returns False if there is no room."""
        publisher = self._session.id.text
        qos = 0
        retain = False
        identifiers: tuple[int, ...] = ()
        is_wanted = False
        for one in subscriptions:
            if not one.wants(entry) or (one.no_local and entry.publisher == publisher):
                continue
            is_wanted = True
            qos = max(qos, one.qos)
            retain = retain or (one.retain_as_published and entry.retain)
            if one.identifier:
                identifiers = (*identifiers, one.identifier)
        if not is_wanted:
            return True
        return self.send(InFlight(entry, min(qos, entry.qos), retain, identifiers))

    def send(self, message: InFlight) -> bool:
        """Send a message; returns False if there is no room for it."""
        if not self.has_room(message.qos):
            return False
        template = self._template(message.entry)
        if template is None:
            self._counters.expired += 1
            return True
        identifier = 0
        if message.qos:
            identifier = self._session.window.add(message)
            self._session.is_changed = True
            if message.group is not None:
                message.group.sent(message)
        data = self._packet(template, message, identifier)
        if len(data) > self._most_bytes:
            self.settled(identifier)
            self._counters.too_large += 1
            return True
        self._write(data)
        self._output.traffic.sent_messages += 1
        return True

    def _packet(self, template: PublishTemplate, message: InFlight, identifier: int) -> bytes:
        """Returns the packet, in which a number stands for its topic if the client takes any.

        If it is larger than the client takes, it is not to be sent.
        """
        alias = self._aliases.of(message.entry.topic)
        data = _encoded(template, message, identifier, alias)
        if not alias.number or alias.is_known:
            return data
        if len(data) > self._most_bytes:
            # Without the number it may fit.
            return _encoded(template, message, identifier)
        self._aliases.tell(message.entry.topic, alias)
        return data

    def has_room(self, qos: int) -> bool:
        """Returns whether a message of that QoS can be sent now."""
        if self._output.is_full:
            # The socket may take all of it.
            self._output.flush()
        if self._output.is_full:
            return False
        window = self._session.window
        if qos and window.is_full:
            return False
        if qos == 2 and window.lacks_identifiers:
            self._clear(window.clear_more())
            return False
        return True

    def _clear(self, identifiers: Iterable[int]) -> None:
        """Have the client forget identifiers that an earlier gateway may have used."""
        for identifier in identifiers:
            self._write(encode(PubRel(identifier), self._version))
        # There may be nothing else to send: that is what this is for.
        self._output.flush()

    def _template(self, entry: Entry) -> PublishTemplate | None:
        """Returns what makes the packets of a message; None if it has expired.

        All clients of a version share it, unless the packet says how much time is left.
        """
        template = entry.templates.get(self._version)
        if template is not None:
            return template
        if not entry.properties:
            template = PublishTemplate(entry.topic, entry.payload, self._version)
            # For one reader it is not worth its memory, nor the collector's time.
            if len(entry.readers) > 1:
                entry.templates[self._version] = template
            return template
        properties = forwarding.restored(entry.properties)
        told = forwarding.as_of(properties, entry.timestamp, self._now_us() / 1e6)
        if told is None:
            return None
        template = PublishTemplate(entry.topic, entry.payload, self._version, told)
        if told is properties:
            entry.templates[self._version] = template
        return template

    def _write(self, data: bytes) -> None:
        self._output.write(data)
        self.on_written(self._output)

    # -- going on --------------------------------------------------------------------------------

    def resume(self) -> None:
        """Send again what an earlier connection has left in flight, under the same identifiers."""
        self._clear(sorted(self._session.window.clearing))
        self._again.extend(self._session.window.items())
        self._pump_again()

    def _pump_again(self) -> None:
        """Send again as much as the client takes now: it may take less than it did (MQ-7)."""
        window = self._session.window
        while self._again and len(window) - len(self._again) < window.most:
            identifier, message = self._again.popleft()
            if message.stage is Stage.RELEASED:
                self._write(encode(PubRel(identifier), self._version))
            elif window.get(identifier) is message:
                self._send_again(identifier, message)

    def _send_again(self, identifier: int, message: InFlight) -> None:
        template = self._template(message.entry)
        if template is None:
            # It may have been received, so it is not withdrawn, though its time is over.
            entry = message.entry
            template = PublishTemplate(entry.topic, entry.payload, self._version)
        data = _encoded(template, message, identifier, dup=True)
        if len(data) > self._most_bytes:
            self.settled(identifier)
            self._counters.too_large += 1
            return
        self._write(data)
        self._output.traffic.sent_messages += 1

    def send_retained(
        self, subscription: Subscription, messages: Iterator[tuple[Entry, Subscription] | None]
    ) -> None:
        """Send the retained messages of a filter, as fast as there is room (MQ-10).

        If some still wait for that filter, they are sent once. So no more filters wait than the
        session has, however often a client that acknowledges nothing subscribes.

        Args:
            subscription: has the filter.
            messages: None among them is a pause in the search for the next one.
        """
        self._retained.pop(subscription, None)
        if self._next_retained is not None and self._next_retained[1] is subscription:
            self._next_retained = None
        self._retained[subscription] = messages
        if len(self._retained) > len(self._session.subscriptions):
            for one in list(self._retained):
                if not one.is_active:
                    del self._retained[one]

    def pump(self) -> None:
        """Send what waits, as far as there is room."""
        self._pump_again()
        self._pump_retained()
        for space in list(self._session.places):
            self._catch_up(space)
        for call in list(self.on_room.values()):
            call()
        self._output.flush()

    def _pump_retained(self) -> None:
        while self._retained:
            if self._next_retained is None:
                first = next(iter(self._retained))
                try:
                    self._next_retained = next(self._retained[first])
                except StopIteration:
                    del self._retained[first]
            # A pause in the search, or the end of what one filter has: others have their turn.
            if self._next_retained is None:
                self._pause()
                return
            waiting, subscription = self._next_retained
            # A newer one may have been sent live while this one waited: the older must not follow.
            entry = self.newest(waiting)
            if entry is None:
                self._next_retained = None
                continue
            identifiers: tuple[int, ...] = ()
            if subscription.identifier:
                identifiers = (subscription.identifier,)
            qos = min(entry.qos, subscription.qos)
            message = InFlight(entry, qos, True, identifiers, is_retained=True)
            if subscription.is_active and not self.send(message):
                return
            self._next_retained = None

    def _pause(self) -> None:
        """Have `go_on` run, if there is anything left to look for."""
        if not self._retained:
            return
        if not self._is_paused:
            self._is_paused = True
            self.on_pause()

    async def go_on(self) -> None:
        """Pump again, after others have had their turn."""
        await checkpoint()
        self._is_paused = False
        self.pump()

    def _catch_up(self, space: str) -> None:
        """Go on from the session's place in a topic."""
        session = self._session
        tail = self._tails[space]
        place = session.places[space]
        if not tail.has(place):
            self.on_lost_place(space)
            return
        while place.number < tail.next:
            entry = tail[place.number]
            subscriptions = entry.readers.get(session)
            if subscriptions is not None and not self.take(entry, subscriptions):
                place.offset = entry.offset
                return
            place.number += 1
        # It is at the end again.
        del session.places[space]
        session.is_changed = True

    # -- what the client answers -----------------------------------------------------------------

    def settled(self, identifier: int) -> None:
        """Take PUBACK, PUBCOMP, or a refusal: the message is done with."""
        message = self._session.window.settle(identifier)
        if message is None:
            return
        self._session.is_changed = True
        if message.group is not None:
            message.group.settled(message)

    def completed(self, identifier: int) -> None:
        """Take PUBCOMP: the client has forgotten the identifier."""
        window = self._session.window
        message = window.get(identifier)
        if (
            not window.cleared(identifier)
            and message is not None
            and message.stage is Stage.RELEASED
        ):
            self.settled(identifier)

    def received(self, identifier: int, code: ReasonCode) -> None:
        """Take PUBREC."""
        message = self._session.window.get(identifier)
        if message is not None and code.is_failure:
            self.settled(identifier)
            return
        answer = PubRel(identifier)
        if message is None and self._version is Version.MQTT_5:
            answer = PubRel(identifier, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
        elif message is not None:
            message.stage = Stage.RELEASED
        self._write(encode(answer, self._version))

    def released(self, identifier: int) -> None:
        """Take PUBREL: the client has forgotten that identifier, and so does the session (MQ-6)."""
        answer = PubComp(identifier)
        if identifier not in self._session.received and self._version is Version.MQTT_5:
            answer = PubComp(identifier, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
        self._session.received.discard(identifier)
        self._write(encode(answer, self._version))


def _encoded(
    template: PublishTemplate,
    message: InFlight,
    identifier: int,
    alias: Alias = NO_ALIAS,
    *,
    dup: bool = False,
) -> bytes:
    return template.encode(
        qos=message.qos,
        packet_id=identifier,
        retain=message.retain,
        dup=dup,
        subscription_identifiers=message.identifiers,
        alias=alias.number,
        is_alias_known=alias.is_known,
    )
