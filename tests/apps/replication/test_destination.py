"""The topic of Kafka: made so that it loses nothing, or checked for what would."""

import threading
from concurrent.futures import Future
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError
from fake_kafka import CLUSTER, SETTINGS, FakeKafka, refusal

from zaichik.apps.replication.destination import Destination
from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.servers import Waiting

MESSAGE = 1_000_000


@pytest.fixture
def kafka():
    return FakeKafka()


def destination(kafka, **options):
    return Destination(kafka, "orders", Waiting(threading.Event()), max_message=MESSAGE, **options)


@pytest.mark.parametrize(("replication", "synced"), [(1, "1"), (2, "1"), (3, "2"), (5, "4")])
def test_a_topic_is_made_that_loses_nothing(kafka, replication, synced):
    kafka.log = None
    place = destination(kafka, replication=replication)
    assert place.create()
    assert kafka.created.num_partitions == 1
    assert kafka.created.replication_factor == replication
    assert kafka.settings == SETTINGS | {
        "min.insync.replicas": synced,
        "max.message.bytes": "1008192",
    }
    found = place.checked()
    assert (found.cluster, found.most_bytes) == (CLUSTER, 1_008_192)


def test_a_topic_that_is_there_is_left_as_it_is(kafka):
    assert not destination(kafka).create()
    assert kafka.settings == SETTINGS


def test_what_is_there_is_enough(kafka):
    kafka.settings |= {"min.insync.replicas": "3", "max.message.bytes": "9000000"}
    assert destination(kafka).checked().most_bytes == 9_000_000


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("cleanup.policy", "compact", "must be delete"),
        ("cleanup.policy", "compact,delete", "must be delete"),
        ("max.message.bytes", "1048588", ""),
        ("max.message.bytes", "1008191", "must be at least 1008192"),
        ("min.insync.replicas", "1", "must be at least 2"),
        ("retention.ms", "604800000", "must be -1"),
        ("retention.bytes", "1", "must be -1"),
        ("unclean.leader.election.enable", "true", "must be false"),
    ],
)
def test_what_differs_is_refused_by_name_and_accepted_by_name(kafka, name, value, problem):
    kafka.settings[name] = value
    if problem:
        words = f"{name} is {value}, and {problem}.*--accept {name}"
        with pytest.raises(CannotReplicate, match=words):
            destination(kafka).checked()
    destination(kafka, accepted=frozenset({name})).checked()


def test_a_batch_is_no_larger_than_what_was_accepted(kafka):
    kafka.settings["max.message.bytes"] = "5000"
    accepted = frozenset({"max.message.bytes"})
    assert destination(kafka, accepted=accepted).checked().most_bytes == 5000


def test_all_that_differs_is_told_at_once(kafka):
    kafka.settings |= {"retention.ms": "1", "retention.bytes": "1"}
    with pytest.raises(CannotReplicate, match=r"--accept retention.bytes --accept retention.ms"):
        destination(kafka).checked()


def test_a_topic_of_one_replica_is_refused_until_that_is_said(kafka):
    kafka.replicas, kafka.settings["min.insync.replicas"] = 1, "1"
    with pytest.raises(CannotReplicate, match=r"no more replicas, --replication 1$"):
        destination(kafka).checked()
    destination(kafka, replication=1).checked()


def test_nobody_is_told_to_ask_for_as_many_replicas_as_there_are(kafka):
    kafka.settings["min.insync.replicas"] = "1"
    with pytest.raises(CannotReplicate, match=r"--accept min.insync.replicas$"):
        destination(kafka).checked()


def test_a_setting_that_this_kafka_does_not_have_is_not_asked_for(kafka):
    del kafka.settings["unclean.leader.election.enable"]
    destination(kafka).checked()


def test_several_partitions_are_refused(kafka):
    kafka.partitions = 4
    with pytest.raises(CannotReplicate, match="has 4 partitions, and only one keeps the order"):
        destination(kafka).checked()


def test_a_topic_that_is_not_there(kafka):
    kafka.log = None
    with pytest.raises(CannotReplicate, match="has no topic orders; --create makes it"):
        destination(kafka).checked()


@pytest.mark.parametrize(
    ("call", "code", "problem"),
    [
        ("create", KafkaError.INVALID_REPLICATION_FACTOR, "say how many with --replication"),
        ("create", KafkaError.TOPIC_AUTHORIZATION_FAILED, "does not make the topic orders"),
        ("describe", KafkaError.TOPIC_AUTHORIZATION_FAILED, "does not describe its topic orders"),
        ("configs", KafkaError.TOPIC_AUTHORIZATION_FAILED, "needs the right DescribeConfigs"),
    ],
)
def test_what_kafka_refuses_is_a_sentence(kafka, call, code, problem):
    def before(name):
        if name == call:
            raise refusal(code)

    kafka.before = before
    place = destination(kafka)
    begin = {"create": place.create}.get(call, place.checked)
    with pytest.raises(CannotReplicate, match=problem):
        begin()


def test_a_topic_that_was_just_made_is_waited_for(kafka):
    """Not all of Kafka's servers know it at once."""
    kafka.log = None
    place = destination(kafka)
    place.create()
    left = 2

    def before(name):
        nonlocal left
        if name in {"describe", "configs"} and left:
            left -= 1
            raise refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)

    kafka.before = before
    assert place.checked().cluster == CLUSTER


def test_a_client_that_waits_for_a_lost_controller_is_replaced(kafka, monkeypatch):
    """It would wait until that very server is back, though others could answer."""
    makes = kafka.admin
    made = []

    def admin():
        made.append(makes())
        if len(made) == 1:
            waits = Future()
            waits.set_exception(refusal(KafkaError._TIMED_OUT))
            made[0].describe_topics = Mock(side_effect=[{"orders": waits}])
        return made[-1]

    monkeypatch.setattr(kafka, "admin", admin)
    assert destination(kafka).topic_id()
    assert len(made) == 2
