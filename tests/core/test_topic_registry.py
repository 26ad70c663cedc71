"""All topics by name."""

import pytest
from conversation import batch

from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.topic_registry import TopicRegistry
from zaichik_protocol import ErrorCode, Refused


def registry_with(**settings):
    return TopicRegistry(BrokerSettings(**settings))


def refusal(call, *arguments):
    with pytest.raises(Refused) as error:
        call(*arguments)
    return error.value.code, error.value.field


def test_a_hundred_creators_get_one_topic_that_one_of_them_created():
    """TOP-1: in the original two creators could both find nothing, and the second replaced the
    first's topic.
    """
    registry = registry_with()
    outcomes = [registry.create("t", (), now_us) for now_us in range(100)]
    assert len({id(topic) for topic, _ in outcomes}) == 1
    assert [created for _, created in outcomes] == [True] + [False] * 99
    assert registry.get_or_create("t", 100) is outcomes[0][0]


def test_first_use_creates_with_default_settings():
    """TOP-3."""
    registry = registry_with(topic=TopicSettings(capacity=7))
    topic = registry.get_or_create("t", 5)
    assert (topic.settings, topic.explicit, topic.epoch) == (TopicSettings(capacity=7), False, 5)
    assert registry.get_or_create("t", 6) is topic
    assert list(registry) == [topic]


def test_first_use_creates_nothing_without_auto_create():
    """TOP-3."""
    registry = registry_with(auto_create=False)
    assert refusal(registry.get_or_create, "t", 0) == (ErrorCode.NO_SUCH_TOPIC, "topic")
    topic, _ = registry.create("t", (), 0)
    assert registry.get_or_create("t", 0) is topic


def test_settings_not_named_take_the_brokers_defaults():
    """TOP-2."""
    registry = registry_with(topic=TopicSettings(retention_ttl_ms=9, capacity=7))
    topic, _ = registry.create("t", ((3, 8),), 0)
    assert topic.settings == TopicSettings(retention_ttl_ms=9, capacity=8)
    assert topic.explicit


def test_an_epoch_is_never_0():
    assert registry_with().get_or_create("t", 0).epoch == 1


def test_an_epoch_is_the_time_or_the_next_one_after_those_of_deleted_topics():
    """TOP-6: whichever of them was deleted last."""
    registry = registry_with()
    for name, at_us in (("a", 5), ("b", 9), ("c", 9)):
        assert registry.get_or_create(name, at_us).epoch == at_us
    for name in ("b", "a"):
        registry.delete(name, 0, 9, if_empty=False)
    assert registry.get_or_create("a", 9).epoch == 10
    assert registry.get_or_create("b", 20).epoch == 20


@pytest.mark.parametrize(
    "name", ["t", "n" * 199, "n" * 200, "ä" * 100, "a sentence, even", "a$b", "❄"]
)
def test_names_of_1_to_200_bytes_are_valid(name):
    """TOP-4."""
    assert registry_with().get_or_create(name, 0).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "n" * 201,
        "ä" * 100 + "n",
        "a\nb",
        "\x00",
        "\x1f",
        "\x7f",
        "\x80",
        "\x9f",
        "$",
        "$system",
    ],
)
def test_other_names_are_refused_and_create_nothing(name):
    """TOP-4."""
    registry = registry_with()
    assert refusal(registry.get_or_create, name, 0) == (ErrorCode.INVALID_FIELD, "topic")
    assert refusal(registry.create, name, (), 0) == (ErrorCode.INVALID_FIELD, "topic")
    assert len(registry) == 0


def test_topics_are_limited():
    """P6: one below the limit, at the limit, beyond; those that exist can still be had."""
    registry = registry_with(max_topics=2)
    registry.get_or_create("a", 0)
    registry.create("b", (), 0)
    assert refusal(registry.get_or_create, "c", 0) == (ErrorCode.TOO_MANY_TOPICS, "topic")
    assert refusal(registry.create, "c", (), 0) == (ErrorCode.TOO_MANY_TOPICS, "topic")
    assert registry.get_or_create("a", 0).name == "a"
    assert registry.create("b", (), 0)[1] is False
    assert len(registry) == 2


def test_a_topic_with_bad_settings_is_not_created():
    registry = registry_with()
    assert refusal(registry.create, "t", ((3, 0),), 0) == (ErrorCode.INVALID_FIELD, "settings")
    assert len(registry) == 0


def test_the_sweep_reaches_every_topic():
    """RET-7."""
    registry = registry_with()
    topics = [registry.create(name, ((1, 10),), 0)[0] for name in "abc"]
    for topic in topics:
        topic.retained.ring.append(batch(b""), 0)
    registry.sweep(10_000)
    assert [topic.retained.ring.expired for topic in topics] == [1, 1, 1]


def test_topics_that_come_and_go_are_logged_and_journals_are_not(caplog):
    caplog.set_level("INFO")
    registry = registry_with(topic=TopicSettings(journal_bytes=1000), topic_ttl=1)
    registry.create("a", (), 0, "10.0.0.1")
    registry.create("a", (), 0, "10.0.0.2")
    registry.get_or_create("b", 0)
    registry.delete("a", 0, 0, if_empty=False)
    registry.sweep(0)
    registry.sweep(1_000_000)
    assert caplog.messages == [
        "topic a created by 10.0.0.1",
        "topic b created by nobody",
        "topic a of 10.0.0.1 deleted: on request",
        "topic b of nobody deleted: unused",
    ]
    assert {record.name for record in caplog.records} == {"zaichik.broker.topic_registry"}
