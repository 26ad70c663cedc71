"""The topic of a work queue: what it can lose is said."""

import pytest

from zaichik.apps.work.topic import losses, warning
from zaichik.core.settings import TopicSettings
from zaichik_protocol import FOREVER, Overflow

SAFE = {"retention_ttl_ms": FOREVER, "overflow": Overflow.REJECT, "durable": 1}


def of(**changes):
    """The losses of a topic that differs from a safe one in this."""
    return list(losses(TopicSettings(**SAFE).by_name() | changes))


def test_a_topic_that_loses_nothing():
    """SHR-9."""
    assert of() == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"retention_ttl_ms": 0}, "before the first worker comes"),
        ({"retention_ttl_ms": 5000}, "expires"),
        ({"overflow": Overflow.EVICT}, "evicted"),
        ({"compaction_window_ms": 10}, "only the first"),
        ({"durable": 0}, "restart"),
        ({"table": 1}, "takes the place"),
    ],
)
def test_what_a_topic_can_lose_is_said(changes, text):
    """SHR-9."""
    (sentence,) = of(**changes)
    assert text in sentence


def test_all_that_a_topic_as_it_comes_can_lose_is_said():
    assert len(list(losses(TopicSettings().by_name()))) == 3


def test_the_warning_names_the_topic_and_what_to_do():
    text = warning("im\x1bages", ["it burns", "it sinks"])
    assert text == (
        "im\\x1bages can lose jobs: it burns; it sinks. A topic that loses none: zaichik create "
        "NAME --durable --retention forever --overflow reject"
    )
