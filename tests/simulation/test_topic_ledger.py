"""What the book of a topic takes for granted, and what it does not."""

import pytest

from simulation.topic_ledger import SentBatch, TopicLedger
from simulation.trace import Anomaly
from zaichik.core.settings import TopicSettings
from zaichik_protocol import FOREVER, Published

pytestmark = pytest.mark.unmeasured  # nothing of the broker


@pytest.mark.parametrize("is_squeezed", [True, False])
def test_after_a_restart_other_topics_may_take_its_room_if_they_could_before(is_squeezed):
    """RET-10: a topic in memory is another one after a restart; the broker's limit is the same."""
    again = TopicLedger(
        "ring", TopicSettings(FOREVER, capacity=16), is_squeezed=is_squeezed
    ).successor()
    assert again.may_be_gone(0, 1, 0) is is_squeezed


def of_two_in_one_window(*, is_squeezed):
    """A topic that has stored two messages of one key, a second apart, in windows of ten."""
    topic = TopicLedger("keys", TopicSettings(FOREVER, 10_000), is_squeezed=is_squeezed)
    for offset in range(2):
        at_us = offset * 1_000_000
        batch = SentBatch([(b"key", b"%d" % offset)], 10, "a publisher", offset)
        topic.sent(batch, at_us)
        topic.published(batch, Published(1, offset, 1, 0, 0, b"", durable=False), at_us)
        batch.accepted_us = at_us
    return topic


def test_a_second_message_of_a_window_is_an_anomaly():
    with pytest.raises(Anomaly, match="COM-2"):
        of_two_in_one_window(is_squeezed=False).check_windows()


def test_a_window_may_be_forgotten_where_other_topics_may_take_its_room():
    """COM-6: windows are memory, too."""
    of_two_in_one_window(is_squeezed=True).check_windows()
