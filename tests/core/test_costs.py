"""What a message costs the broker, in numbers that are the same on any machine: calls, and work for
the collector.

A change that makes the hot path longer fails here, and says by how much. Where the longer path is
worth it, the number changes with it, openly. Times are measured by the benchmarks.
"""

import gc
import sys
from contextlib import contextmanager

import pytest

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik_protocol import (
    Batch,
    Commit,
    CreateTopic,
    FrameDecoder,
    Hello,
    Publish,
    Subscribe,
    encode,
)

CALLS_A_PUBLISH = 45  # from bytes to the reply's bytes
CALLS_A_DELIVERY = 28
CALLS_A_COMMIT = 30
ONE = Batch.of([(b"", b"m" * 100)])


class Calls:
    """Calls of functions written in Python."""

    number = 0


@contextmanager
def counted():
    """Counts the calls made inside the block."""
    calls = Calls()
    gc.collect()
    gc.disable()  # who wants to be told of a collection would be counted

    def note(frame, event, _):
        calls.number += event == "call"

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        gc.enable()
        calls.number -= 1  # the end of this block


class Connection:
    """A connection without a socket, as bytes in and pieces out."""

    def __init__(self, broker):
        self.broker = broker
        self.manager = broker.connect(lambda: None)
        self.decoder = FrameDecoder.for_broker()
        self.say(encode(Hello(1)))
        self.decoder.greeted(2**20)

    def say(self, data):
        """Carries out one request; returns the output."""
        self.decoder.receive_data(data)
        self.manager.apply(self.decoder.next_frame(), 0)
        return self.manager.next_output(0)


@pytest.fixture
def broker():
    return Broker(clock=ManualClock())


def numbered(sequence):
    return encode(Publish(3, "t", ONE, producer=7, sequence=sequence))


def test_calls_for_a_batch_that_is_published_and_acknowledged(broker):
    publisher = Connection(broker)
    for sequence in range(3):
        publisher.say(numbered(sequence))
    request = numbered(3)
    with counted() as calls:
        output = publisher.say(request)
    assert len(output) == 1
    assert calls.number <= CALLS_A_PUBLISH


def test_calls_for_a_batch_that_is_delivered_and_committed(broker):
    publisher, subscriber = Connection(broker), Connection(broker)
    subscriber.say(encode(Subscribe(2, "t", credit=10, credit_bytes=10_000)))
    for sequence in range(3):
        publisher.say(numbered(sequence))
        subscriber.manager.next_output(0)
    publisher.say(numbered(3))
    commit = encode(Commit(0, 2, 4))
    with counted() as calls:
        output = subscriber.manager.next_output(0)
    assert len(output) == 2
    assert calls.number <= CALLS_A_DELIVERY
    with counted() as calls:
        assert subscriber.say(commit) == []
    assert calls.number <= CALLS_A_COMMIT


def test_what_is_stored_and_remembered_is_no_work_for_the_garbage_collector(broker):
    """Messages, the replies that producers may ask for again, frames in flight, open compaction
    windows.
    """
    publisher, subscriber = Connection(broker), Connection(broker)
    publisher.say(encode(CreateTopic(2, "t", ((1, 2**64 - 1), (2, 60_000)))))
    subscriber.say(encode(Subscribe(2, "t", credit=10_000, credit_bytes=2**20)))
    tracked = []
    for number in range(2_000):
        batch = Batch.of([(f"{number}".encode(), b"m")])
        publisher.say(encode(Publish(3, "t", batch, producer=number % 10, sequence=number // 10)))
        subscriber.manager.next_output(0)
        if number in (999, 1_999):
            gc.collect()
            tracked.append(len(gc.get_objects()))
    assert tracked[1] - tracked[0] < 20
