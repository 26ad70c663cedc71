"""What the book of a topic takes for granted, and what it does not."""

import pytest

from simulation.topic_ledger import TopicLedger
from zaichik.broker.settings import TopicSettings
from zaichik_protocol import FOREVER

pytestmark = pytest.mark.unmeasured  # nothing of the broker


@pytest.mark.parametrize("is_squeezed", [True, False])
def test_after_a_restart_other_topics_may_take_its_room_if_they_could_before(is_squeezed):
    """RET-10: a topic in memory is another one after a restart, and the broker's limit is the same."""
    again = TopicLedger("ring", TopicSettings(FOREVER, capacity=16), is_squeezed=is_squeezed).successor()
    assert again.may_be_gone(0, 1, 0) is is_squeezed
