"""A session: what outlives a connection of its client.

Its filters, what is in flight to the client, the identifiers of messages of QoS 2 from it, and its
places: where it goes on in each topic of the broker. A session without a place in some topic is at
the end of what was read there, and gets the next message as it comes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zaichik.apps.mqtt.quota import FilterQuota
from zaichik.apps.mqtt.subscription import Subscription
from zaichik.apps.mqtt.tail import Entry, Place
from zaichik.apps.mqtt.window import Window

if TYPE_CHECKING:
    from zaichik.apps.mqtt.delivery import Delivery
    from zaichik.client.replication.acknowledgement import Acknowledgement

# Seconds; a session with this expiry never ends.
NEVER = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SessionId:
    """Names a session: two users may have clients of the same name.

    Attributes:
        client_id: as the client has sent it, or was told.
        user: the client's user; "" without access control.
    """

    client_id: str
    user: str = ""

    @property
    def text(self) -> str:
        """The key of its row; a user's name has no zero byte."""
        if not self.user:
            return self.client_id
        return f"{self.user}\0{self.client_id}"

    @classmethod
    def of(cls, text: str) -> "SessionId":
        """Returns the one that a row's key names."""
        user, separator, client_id = text.rpartition("\0")
        if not separator:
            return cls(text)
        return cls(client_id, user)


@dataclass(slots=True, eq=False)
class Session:
    """See above.

    Attributes:
        id: its name.
        expiry_s: for how many seconds it is kept after its client has left; 0: it ends with the
            connection; `NEVER`.
        left_us: when its client left, by the gateway's clock; None while it is connected.
        subscriptions: its filters, by their text.
        quota: what they take.
        window: what is in flight to the client.
        received: identifiers of messages of QoS 2 that are stored and not released yet (MQ-6).
        unreplicated: of these, what the acknowledgement of each waits for, if it does (AK-1).
        places: by the broker's topic, where it goes on; without one, at the end.
        delivery: what sends to its client; None while it is away.
        is_changed: whether it may have another position than the one that was stored.
        saved: its positions as they were stored.
    """

    id: SessionId
    expiry_s: int = 0
    left_us: int | None = None
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    quota: FilterQuota = field(default_factory=FilterQuota)
    window: Window = field(default_factory=Window)
    received: set[int] = field(default_factory=set)
    unreplicated: "dict[int, Acknowledgement]" = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    delivery: "Delivery | None" = None
    is_changed: bool = False
    saved: dict[str, int] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        """Whether it goes on when its client leaves."""
        return self.expiry_s > 0

    def expires_us(self) -> int | None:
        """Returns when it ends if its client stays away; None if it does not."""
        if self.left_us is None or self.expiry_s == NEVER:
            return None
        return self.left_us + self.expiry_s * 1_000_000

    def offer(self, entry: Entry, subscriptions: list[Subscription]) -> None:
        """Send a message that has just come, or remember it as the place where to go on."""
        if entry.space in self.places:
            return
        if self.delivery is None:
            is_taken = not _waits(entry, subscriptions)
        else:
            is_taken = self.delivery.take(entry, subscriptions)
        if not is_taken:
            self.places[entry.space] = Place(entry.number, entry.offset)
            self.is_changed = True

    def positions(self, spaces: Iterable[str]) -> dict[str, int]:
        """Returns where it goes on in these topics; those where it is at the end are left out."""
        found = {space: self.position(space) for space in spaces}
        return {space: offset for space, offset in found.items() if offset is not None}

    def position(self, space: str) -> int | None:
        """Returns the offset up to which it has everything; None if that is the end."""
        found = self.window.lowest(space)
        place = self.places.get(space)
        if place is None:
            return found
        if found is None:
            return place.offset
        return min(found, place.offset)


def _waits(entry: Entry, subscriptions: list[Subscription]) -> bool:
    """Returns whether a message is kept for a client that is away: not with QoS 0."""
    if not entry.qos:
        return False
    return any(one.qos and one.wants(entry) for one in subscriptions)
