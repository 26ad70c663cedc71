"""A topic's shard follows from its name alone, and never changes."""

from collections import Counter

import pytest

from zaichik.client.cluster.hashing import shard_of


@pytest.mark.parametrize(
    ("topic", "of_eight", "of_three"),
    [("orders", 5, 1), ("prices", 2, 2), ("заказы", 3, 2), ("a.b.c", 6, 2)],
)
def test_a_topic_stays_at_its_shard(topic, of_eight, of_three):
    """These numbers are a part of the format: with others, topics would be looked for elsewhere."""
    assert (shard_of(topic, 8), shard_of(topic, 3)) == (of_eight, of_three)


def test_topics_are_spread_evenly():
    counts = Counter(shard_of(f"sensor-{number}", 8) for number in range(8000))
    assert sorted(counts) == list(range(8))
    assert max(counts.values()) < 1.15 * min(counts.values())


@pytest.mark.parametrize("prefix", ["$journal/", "replicated/", "replicated/replicated/"])
def test_what_lies_beside_a_topic_has_its_shard(prefix):
    for topic in ("orders", "prices", "a/b"):
        assert shard_of(prefix + topic, 64) == shard_of(topic, 64)


def test_a_prefix_alone_is_a_name_as_any_other():
    assert 0 <= shard_of("replicated/", 64) < 64
    assert shard_of("replicated", 1) == 0
