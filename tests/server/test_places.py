"""Places: who is closed for whom."""

import pytest

from zaichik.server.places import Place, Room


class Guests:
    """Connections, by address; which were closed is noted."""

    def __init__(self, room):
        self.room = room
        self.closed = []
        self.places = {}

    def enter(self, client, port):
        peer = f"{client}:{port}"
        self.places[peer] = Place(peer, lambda: self.closed.append(peer))
        return self.places[peer].enter(self.room)

    def leave(self, peer):
        self.places[peer].leave()


@pytest.fixture
def guests():
    return Guests(Room(3, 6))


def test_the_longest_waiting_of_an_address_is_closed_for_a_newer_one(guests):
    for port in range(5):
        lost = guests.enter("a", port)
        assert (lost is not None) == (port >= 3)
    assert guests.closed == ["a:0", "a:1"]
    assert lost.peer == "a:1"
    assert lost.is_lost
    assert not guests.places["a:2"].is_lost
    assert len(guests.room) == 3


def test_one_that_leaves_makes_room(guests):
    for port in range(3):
        guests.enter("a", port)
    guests.leave("a:1")
    guests.leave("a:1")
    assert guests.enter("a", 3) is None
    guests.enter("a", 4)
    assert guests.closed == ["a:0"]


def test_if_all_places_are_taken_the_address_with_most_of_them_loses_one(guests):
    guests.enter("c", 0)
    for client in ("a", "b"):
        for port in range(3):
            guests.enter(client, port)
    assert guests.closed == ["a:0"]
    guests.enter("d", 0)
    assert guests.closed == ["a:0", "b:0"]
    assert len(guests.room) == 6
    assert not guests.places["c:0"].is_lost


def test_a_place_in_another_room_takes_the_place_of_the_first(guests):
    other = Room(1, 1)
    guests.enter("a", 0)
    place = guests.places["a:0"]
    assert place.enter(other) is None
    assert (len(guests.room), len(other)) == (0, 1)
    place.leave()
    assert len(other) == 0


def test_an_address_can_lose_its_only_place_to_itself():
    guests = Guests(Room(1, 1))
    for port in range(3):
        guests.enter("a", port)
    assert guests.closed == ["a:0", "a:1"]
    guests.enter("b", 0)
    assert guests.closed == ["a:0", "a:1", "a:2"]
    assert len(guests.room) == 1


def test_an_ipv6_network_is_one_address():
    guests = Guests(Room(1, 9))
    guests.enter("2001:db8::1", 5000)
    guests.enter("2001:db8::2", 5000)
    guests.enter("2001:db8:0:1::2", 5000)
    assert guests.closed == ["2001:db8::1:5000"]
