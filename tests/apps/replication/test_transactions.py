"""Rounds that Kafka has all or none of: what is done about each failure."""

import threading

import pytest
from confluent_kafka import KafkaError
from fake_kafka import FakeKafka, refusal

from zaichik.apps.replication import transactions as module
from zaichik.apps.replication.errors import CannotReplicate, ProducerLost, Replaced, Stopped
from zaichik.apps.replication.servers import Waiting
from zaichik.apps.replication.transactions import Transactions, identity


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setattr(module, "LAST_SECONDS", 0)


@pytest.fixture
def kafka():
    return FakeKafka()


@pytest.fixture
def stop():
    return threading.Event()


def begun(kafka, stop, timeout_s=60.0):
    found = Transactions(kafka, "orders", "cluster", 5000, Waiting(stop), timeout_s)
    found.begin()
    return found


def write(produce):
    for number in range(2):
        produce("orders", b"%d" % number, None, 0, None, None, 0, [])


def send(transactions, check=lambda: None):
    transactions.send(write, check)


def failing(kafka, call, *errors):
    left = list(errors)

    def before(name):
        if name == call and left:
            raise left.pop(0)

    kafka.before = before


def values(kafka):
    return [record.value() for record in kafka.committed()]


def test_the_id_is_that_of_the_destination():
    ids = {identity(cluster, topic) for cluster in ("a", "b") for topic in ("orders", "others")}
    assert len(ids) == 4


def test_a_round_is_there_as_a_whole(kafka, stop):
    send(begun(kafka, stop))
    assert values(kafka) == [b"0", b"1"]


def test_a_message_that_kafka_allows_is_not_refused_here(kafka, stop):
    settings = begun(kafka, stop)._producer.settings
    assert settings["message.max.bytes"] == settings["batch.size"] == 5000
    assert settings["acks"] == "all"


@pytest.mark.parametrize("call", ["begin", "produce", "flush", "commit"])
def test_after_an_abort_the_round_is_written_again(kafka, stop, call):
    transactions = begun(kafka, stop)
    error = refusal(KafkaError._MSG_TIMED_OUT, txn_requires_abort=True)
    failing(kafka, call, error, error)
    send(transactions)
    assert values(kafka) == [b"0", b"1"]
    assert kafka.calls.count("abort") == 2


@pytest.mark.parametrize("call", ["commit", "abort", "init"])
def test_a_call_that_kafka_does_not_answer_is_made_again(kafka, stop, call):
    failing(kafka, "init", *[refusal(KafkaError._TIMED_OUT, retriable=True)] * 2)
    transactions = begun(kafka, stop)
    failing(kafka, call, *[refusal(KafkaError._TIMED_OUT, retriable=True)] * 3)
    send(transactions)
    assert values(kafka) == [b"0", b"1"]


def test_a_full_queue_is_waited_for(kafka, stop):
    transactions = begun(kafka, stop)
    failing(kafka, "produce", BufferError(), BufferError())
    send(transactions)
    assert values(kafka) == [b"0", b"1"]
    assert kafka.calls.count("poll") == 2


@pytest.mark.parametrize("call", ["produce", "commit"])
@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, "raise max.message.bytes"),
        (KafkaError.INVALID_TIMESTAMP, "raise message.timestamp.after.max.ms"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "needs the right Write"),
    ],
)
def test_a_record_that_is_refused_ends_the_bridge(kafka, stop, code, hint, call):
    transactions = begun(kafka, stop)
    failing(kafka, call, refusal(code, txn_requires_abort=True))
    with pytest.raises(CannotReplicate, match=hint):
        send(transactions)
    assert values(kafka) == []


@pytest.mark.parametrize("call", ["begin", "produce", "flush", "commit", "abort"])
def test_a_bridge_that_is_fenced_is_replaced(kafka, stop, call):
    transactions = begun(kafka, stop)
    if call == "abort":
        kafka.before = lambda name: fail_twice(name)

    def fail_twice(name):
        if name == "commit":
            raise refusal(KafkaError._TIMED_OUT, txn_requires_abort=True)
        if name == "abort":
            raise refusal(KafkaError._FENCED, fatal=True)

    if call != "abort":
        failing(kafka, call, refusal(KafkaError._FENCED, fatal=True))
    with pytest.raises(Replaced, match="another bridge"):
        send(transactions)


def test_what_took_too_long_may_be_no_other_bridge(kafka, stop):
    """Kafka says the same of both, so a new producer has to look."""
    transactions = begun(kafka, stop, timeout_s=0)
    failing(kafka, "commit", refusal(KafkaError._FENCED, fatal=True))
    with pytest.raises(ProducerLost):
        send(transactions)


def test_a_producer_that_is_unknown_is_lost(kafka, stop):
    transactions = begun(kafka, stop)
    failing(kafka, "commit", refusal(KafkaError.INVALID_PRODUCER_ID_MAPPING, fatal=True))
    with pytest.raises(ProducerLost):
        send(transactions)


def test_an_abort_that_fails_loses_the_producer(kafka, stop):
    transactions = begun(kafka, stop)

    def before(name):
        if name == "commit":
            raise refusal(KafkaError._TIMED_OUT, txn_requires_abort=True)
        if name == "abort":
            raise refusal(KafkaError.UNKNOWN)

    kafka.before = before
    with pytest.raises(ProducerLost):
        send(transactions)


@pytest.mark.parametrize("call", ["flush", ""])
def test_a_topic_that_is_another_one_ends_it_after_a_commit_or_an_abort(kafka, stop, call):
    transactions = begun(kafka, stop)
    failing(kafka, call, refusal(KafkaError.UNKNOWN_TOPIC_OR_PART, txn_requires_abort=True))

    def check():
        raise CannotReplicate("the topic was made again")

    with pytest.raises(CannotReplicate, match="made again"):
        send(transactions, check)
    assert ("commit" in kafka.calls) == (call == "")


def test_a_kafka_that_is_away_does_not_keep_it_from_stopping(kafka, stop):
    transactions = begun(kafka, stop)

    def before(name):
        if name in {"commit", "abort"}:
            stop.set()
            raise refusal(KafkaError._TIMED_OUT, retriable=True)

    kafka.before = before
    with pytest.raises(Stopped):
        send(transactions)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, r"raise transaction\.max\.timeout\.ms .* 60000"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "rights Write and Describe"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "right IdempotentWrite"),
    ],
)
def test_a_kafka_that_lets_nothing_begin_ends_it(kafka, stop, code, problem):
    failing(kafka, "init", refusal(code))
    with pytest.raises(CannotReplicate, match=problem):
        begun(kafka, stop)
