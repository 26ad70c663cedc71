"""Where a program that uses our client may be told to begin."""

from types import SimpleNamespace

import pytest

from simulation.our_client import OurReader
from simulation.topic_ledger import TopicLedger
from simulation.trace import Anomaly
from simulation.world import World
from zaichik.core.settings import BrokerSettings, TopicSettings

pytestmark = pytest.mark.unmeasured  # nothing of the broker


@pytest.fixture
def reader():
    """A reader that has begun at offset 18, and has left before it was given anything."""
    world = World(0, BrokerSettings())
    world.topics["t"] = TopicLedger("t", TopicSettings())
    reader = OurReader(world, "reader", "t")
    reader._begin(began(18, resumed=False))
    return reader


def began(start, *, resumed=True):
    """A subscription that begins there."""
    return SimpleNamespace(start=start, resumed=resumed)


def test_a_name_that_was_given_nothing_goes_on_where_it_began(reader):
    """CMT-3."""
    reader._begin(began(18))


def test_a_name_that_was_given_nothing_skips_nothing(reader):
    with pytest.raises(Anomaly, match="had settled 18 and was given 18, and goes on at 19"):
        reader._begin(began(19))


def test_what_was_settled_in_a_topic_that_is_lost_is_not_settled_in_the_next_one(reader):
    reader._settled = 20
    reader._read = reader._cursor = None
    reader._begin(began(0, resumed=False))
    with pytest.raises(Anomaly, match="had settled 0 and was given 0, and goes on at 18"):
        reader._begin(began(18))
