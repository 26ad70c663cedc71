"""What the book of a connection takes for the right answer."""

from types import SimpleNamespace

import pytest

from simulation.connection_ledger import ConnectionLedger
from simulation.topic_ledger import TopicLedger
from simulation.world import World
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik_protocol import Error, ErrorCode, Hello, Subscribe, Welcome, encode

pytestmark = pytest.mark.unmeasured  # nothing of the broker

FENCED = Error(
    1, ErrorCode.TAKEN_OVER, Subscribe.TYPE, "owner", 0, "another reader has taken over the name"
)


class StillWorld(World):
    """A world in which no time passes, and whose broker says what it is told to."""

    def __init__(self):
        super().__init__(0, BrokerSettings())
        self.life = SimpleNamespace(is_dead=False, is_stopping=False, boot=1)
        self.topics["t"] = TopicLedger("t", TopicSettings())

    def time(self):
        return 0.0

    def now_us(self):
        return 0

    def reader(self, owner):
        """The book of a connection that asks for the name as that owner; 0: as none."""
        book = ConnectionLedger(self, f"reader {owner}")
        book.ask(Hello(2))
        book.say([encode(Welcome(2, 1, 0, 1, 4096, 16, 2048, 1000, 0, ""))])
        book.ask(Subscribe(1, "t", "name", owner=owner, attempt=1, owned=bool(owner)))
        return book


def test_an_owner_may_lose_its_name_to_whoever_asks_for_it_later():
    """CMT-3: a message long on its way arrives after the request of the reader that came back."""
    world = StillWorld()
    old, _new = world.reader(1), world.reader(2)
    old.say([encode(FENCED)])
    assert world.anomaly is None


@pytest.mark.parametrize(
    "owners", [[1], [1, 2], [1, 0]], ids=["alone", "the last", "without an owner"]
)
def test_whoever_asks_for_a_name_last_gets_it(owners):
    world = StillWorld()
    readers = [world.reader(owner) for owner in owners]
    readers[-1].say([encode(FENCED)])
    assert world.anomaly.promise == "ERR"


def test_a_reader_without_an_owner_is_never_refused_a_name():
    world = StillWorld()
    old, _new = world.reader(0), world.reader(2)
    old.say([encode(FENCED)])
    assert world.anomaly.promise == "ERR"
