"""Kafka's client itself, with the Kafka that it brings for tests: calls, their order, their errors.

That Kafka has no isolation, fences nobody and makes no topics: all of that is for the real one.
"""

import threading

import pytest
from confluent_kafka import Producer

from zaichik.apps.replication import record
from zaichik.apps.replication.position import CommittedEnd
from zaichik.apps.replication.servers import Servers, Waiting
from zaichik.apps.replication.transactions import Transactions

TOPIC = "orders"


class Silent:
    def log(self, *_):
        """Drop it."""


@pytest.fixture(scope="module")
def servers():
    """The mock belongs to a client, and ends with it."""
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "logger": Silent()})
    brokers = owner.list_topics(TOPIC, timeout=30).brokers
    yield Servers(",".join(f"{one.host}:{one.port}" for one in brokers.values()))
    del owner


@pytest.fixture
def waiting():
    return Waiting(threading.Event())


def begun(servers, waiting):
    found = Transactions(servers, TOPIC, "mock", 1_000_000, waiting)
    found.begin()
    return found


def send(transactions, offsets):
    def write(produce):
        for offset in offsets:
            fields = [record.epoch_field(5), record.offset_field(offset), record.time_field(7000)]
            produce(TOPIC, b"payload", b"key", 0, None, None, 7, fields)

    transactions.send(write, lambda: None)


def test_rounds_are_written_and_the_position_is_read(servers, waiting):
    end = CommittedEnd(servers, TOPIC, waiting, frozenset())
    assert end.position() is None
    transactions = begun(servers, waiting)
    send(transactions, range(3))
    send(transactions, range(3, 200))
    end.wait_for_others()
    found = end.position()
    assert (found.epoch, found.next, found.accepted_us) == (5, 200, 7000)
