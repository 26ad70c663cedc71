"""What clients make the broker hold is counted at about what it takes."""

import gc
import tracemalloc

import pytest
from conversation import Conversation, batch, broker_with

from zaichik.core.producers import REMEMBERED_ANSWERS
from zaichik.core.settings import TopicSettings
from zaichik.core.sharing import prices
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER, Publish, Subscribe, Unsubscribe


def test_a_topic_costs_1500_bytes_a_batch_128_and_an_open_window_200_and_its_key():
    """RET-10: beside the bytes of its batches."""
    settings = TopicSettings(FOREVER, compaction_window_ms=FOREVER)
    topic = TopicController("t", settings, 1, explicit=True)
    assert topic.memory == 1_500
    sent = batch((b"key", b"x"), b"y")
    topic.publish(sent, 0)
    assert topic.memory == 1_500 + 128 + len(sent.data) + 200 + 3


def connect(client, number):
    return Conversation(client.broker)


def subscribe(client, number):
    client.ask(Subscribe(2 + number, "t"))


def leave_a_name(client, number):
    client.ask(Subscribe(2 + number, "t", f"name {number}"), Unsubscribe(0, 2 + number))


def be_a_producer(client, number):
    for sequence in range(REMEMBERED_ANSWERS):
        client.ask(Publish(0, "t", batch(b"x"), producer=1 + number, sequence=sequence))


# Not of compiled code, whose objects are smaller: prices are those of plain Python, the dearer one.
@pytest.mark.usefixtures("patchable")
@pytest.mark.parametrize(
    ("make", "price"),
    [
        (connect, "CONNECTION"),
        (subscribe, "SUBSCRIPTION"),
        (leave_a_name, "NAME"),
        (be_a_producer, "PRODUCER"),
    ],
)
def test_what_clients_make_the_core_hold_is_priced_at_its_magnitude(make, price):
    """LAG-6: the price includes what the server holds beside it, a connection's socket say."""
    price = getattr(prices, price)
    client = Conversation(broker_with(topic=TopicSettings(capacity=1)))
    make(client, 0)
    before = client.broker.memory.used
    tracemalloc.start()
    gc.collect()
    before_held, _ = tracemalloc.get_traced_memory()
    kept = [make(client, number) for number in range(1, 9)]
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert client.broker.memory.used - before == len(kept) * price
    assert price / 10 < (held - before_held) / len(kept) < 2 * price
