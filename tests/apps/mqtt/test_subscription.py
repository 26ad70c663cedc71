"""Who wants a message of some topic is remembered, and that takes little memory."""

import tracemalloc

from zaichik.apps.mqtt.filters import topic_problem
from zaichik.apps.mqtt.spaces import Spaces
from zaichik.apps.mqtt.subscription import Subscription, Subscriptions

MIB = 1024 * 1024


class Reader:
    """One that is only found."""

    def offer(self, entry, subscriptions):
        """Take nothing."""


def test_readers_are_found_whether_they_were_found_before_or_not():
    subscriptions = Subscriptions()
    first, second = (Subscription(Reader(), text, 0) for text in ("#", "a/+"))
    subscriptions.add("#", first)
    assert subscriptions.matching("a/b") == {first.reader: [first]}
    subscriptions.add("a/+", second)
    for _ in range(2):
        found = subscriptions.matching("a/b")
        assert found == {first.reader: [first], second.reader: [second]}
    subscriptions.remove("#", first)
    assert subscriptions.matching("a/b") == {second.reader: [second]}


def test_many_readers_of_many_topics_are_not_all_remembered():
    subscriptions = Subscriptions()
    for _ in range(1000):
        subscriptions.add("#", Subscription(Reader(), "#", 0))
    tracemalloc.start()
    try:
        for number in range(300):
            assert len(subscriptions.matching(f"a/{number}")) == 1000
        assert tracemalloc.get_traced_memory()[0] < 30 * MIB
    finally:
        tracemalloc.stop()


def test_long_topics_leave_nothing_behind():
    """A client may send any number of them, which are refused."""
    spaces = Spaces(["orders"])
    tracemalloc.start()
    try:
        for number in range(100):
            topic = f"{number}/" + "x" * 64_000
            assert topic_problem(topic) is None
            spaces.address(topic)
            spaces.address(str(number), b"y" * 64_000)
            spaces.topic("orders", b"%d\0" % number + b"y" * 64_000)
        assert tracemalloc.get_traced_memory()[0] < MIB
    finally:
        tracemalloc.stop()
