"""Places for connections that have not logged in: a few for each address, and a few in all.

A newcomer always finds a place. If all are taken, the connection that has waited longest is closed
for it. So a peer that stays silent costs a descriptor for as long as nobody else comes, and a peer
that says at once what it wants is heard, however many silent ones came before it.
"""

from collections.abc import Callable

from zaichik.net.peers import client_of


class Place:
    """What a gate knows about a connection, from its first turn until it ends.

    Args:
        peer: its address, with the port.
        on_lost: closes the connection: a newer one needs the place.

    Attributes:
        peer: see above.
        address: its address without the port; of IPv6, the network.
        is_beyond: whether there is more of its address than the gate lets in unseen. False once it
            has logged in.
        is_lost: whether it was closed for a newer one.
    """

    def __init__(self, peer: str, on_lost: Callable[[], None]) -> None:
        self.peer = peer
        self.address = client_of(peer)
        self.is_beyond = False
        self.is_lost = False
        self._on_lost = on_lost
        self._room: Room | None = None

    def enter(self, room: "Room") -> "Place | None":
        """Take a place in the room, and give up the one in another.

        Returns that of a connection that was closed for it; None if there was room.
        """
        self.leave()
        self._room = room
        return room.add(self)

    def leave(self) -> None:
        """Give the place up, if it has one."""
        if self._room is not None:
            self._room.remove(self)
            self._room = None

    def lose(self) -> None:
        """Give the place up, and close the connection."""
        self.leave()
        self.is_lost = True
        self._on_lost()


class Room:
    """Places of one kind.

    Args:
        most_of_one: how many one address may have.
        most: how many there are. The address that has most of them loses one first, so that an
            address with a single connection is not pushed out by those with many.
    """

    def __init__(self, most_of_one: int, most: int) -> None:
        self._most_of_one = most_of_one
        self._most = most
        self._used = 0
        # Of each address that has any, the longest-waiting one first.
        self._places: dict[str, list[Place]] = {}

    def __len__(self) -> int:
        return self._used

    def add(self, place: Place) -> Place | None:
        """See `Place.enter`."""
        own = self._places.get(place.address, [])
        lost: Place | None = None
        if len(own) >= self._most_of_one:
            lost = own[0]
        elif self._used >= self._most:
            lost = max(self._places.values(), key=len)[0]
        if lost is not None:
            lost.lose()
        # Only now: the address may have lost its last place.
        self._places.setdefault(place.address, []).append(place)
        self._used += 1
        return lost

    def remove(self, place: Place) -> None:
        """See `Place.leave`."""
        own = self._places[place.address]
        own.remove(place)
        self._used -= 1
        if not own:
            del self._places[place.address]
