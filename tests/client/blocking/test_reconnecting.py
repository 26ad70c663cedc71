"""What was promised holds wherever the connection is cut, for a program without an event loop as
well.
"""

import random

import pytest
from background import in_the_background
from blocking_brokers import cut_broker, restartable_broker
from proxy import DOWN, UP

import zaichik
from zaichik.client import blocking
from zaichik.client import client as client_module
from zaichik.client import sequencer as sequencer_module
from zaichik.client import transport as transport_module
from zaichik_protocol import Batch

GUARD = 60  # seconds after which a client gives up; nothing ever waits for it to pass


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(transport_module, "LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(sequencer_module, "FIRST_RETRY_SECONDS", 0.001)


def cuts(seed):
    """A few connections that last for a few bytes each, the first long enough for its greeting."""
    chance = random.Random(seed)
    later = [
        (chance.choice((UP, DOWN)), chance.randrange(1, 1500)) for _ in range(chance.randrange(8))
    ]
    return [(chance.choice((UP, DOWN)), chance.randrange(200, 1500)), *later]


def stored(client, topic):
    """The payloads of a topic, in order."""
    end = client.topic(topic)["next_offset"]
    with client.subscribe(topic, start=0, until=end) as subscription:
        return [message.payload for message in subscription]


def publish(client, payload):
    client.publish("t", payload)


def publish_batch(client, payload):
    client.publish_batch("t", [(None, payload)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("call", [publish, publish_batch])
def test_wherever_it_is_cut_calls_are_stored_once_and_in_order(call, seed):
    """PUB-4."""
    payloads = [b"%d" % number for number in range(40)]
    with cut_broker(cuts(seed)) as (port, proxy), blocking.connect(port=port) as other:
        other.create_topic("t", retention_ttl="forever")
        with blocking.connect(port=proxy.port, reconnect=GUARD) as client:
            for payload in payloads:
                call(client, payload)
        assert stored(other, "t") == payloads
        assert proxy.connections > 1


@pytest.mark.parametrize("seed", range(6))
def test_wherever_it_is_cut_a_stream_is_stored_once_and_in_order(seed):
    """PUB-4."""
    payloads = [b"%d" % number for number in range(3000)]
    with cut_broker(cuts(seed)) as (port, proxy), blocking.connect(port=port) as other:
        other.create_topic("t", retention_ttl="forever")
        with (
            blocking.connect(port=proxy.port, reconnect=GUARD) as client,
            client.producer("t") as producer,
        ):
            for payload in payloads:
                producer.send(payload)
        assert stored(other, "t") == payloads
        assert producer.stored == 3000


@pytest.mark.parametrize("seed", range(6))
def test_wherever_it_is_cut_batches_that_the_program_numbers_are_stored_once(seed):
    """PUB-4."""
    with cut_broker(cuts(seed)) as (port, proxy), blocking.connect(port=port) as other:
        other.create_topic("t", retention_ttl="forever")
        with blocking.connect(port=proxy.port, reconnect=GUARD) as client:
            for number in range(40):
                batch = Batch.of([(b"", b"%d" % number)])
                first = client.publish_batch("t", batch, producer=7, number=number)
                assert client.publish_batch("t", batch, producer=7, number=number) == first
        assert stored(other, "t") == [b"%d" % number for number in range(40)]


@pytest.mark.parametrize("way", ["messages", "pieces", "batches"])
@pytest.mark.parametrize("name", ["", "n"])
@pytest.mark.parametrize("seed", range(3))
def test_wherever_it_is_cut_a_reader_is_given_everything_once_and_in_order(seed, name, way):
    """CMT-3."""
    with cut_broker([(DOWN, 400 + 300 * seed), (DOWN, 900), (UP, 150), *cuts(seed)]) as (
        port,
        proxy,
    ):
        with blocking.connect(port=port) as other:
            other.create_topic("t", retention_ttl="forever")
            for number in range(0, 200, 4):
                other.publish_batch("t", [(None, b"%d" % one) for one in range(number, number + 4)])
        with (
            blocking.connect(port=proxy.port, reconnect=GUARD) as client,
            client.subscribe("t", until=200, name=name, credit=20) as subscription,
        ):
            match way:
                case "messages":
                    payloads = [message.payload for message in subscription]
                case "pieces":
                    payloads = [
                        message.payload for piece in subscription.pieces() for message in piece
                    ]
                case _:
                    payloads = [
                        payload
                        for frame in subscription.batches()
                        for payload in frame.batch.each_payload()
                    ]
        assert payloads == [b"%d" % number for number in range(200)]
        assert subscription.ended
        assert proxy.connections > 1


# -- a broker that was restarted -----------------------------------------------------------------


def test_a_call_waits_for_a_broker_that_is_started_again_and_reports_what_was_lost():
    """TOP-5."""
    with (
        restartable_broker() as broker,
        blocking.connect(port=broker.port, reconnect=GUARD) as client,
    ):
        client.create_topic("t", retention_ttl="forever", capacity=7)
        assert client.publish("t", b"a").offset == 0
        assert client.publish("t", b"b").offset == 1
        broker.stop()
        finished = in_the_background(lambda: client.publish("t", b"c"))
        broker.start()
        assert finished().offset == 0
        assert [(lost.topic, lost.refusal) for lost in client.lost_topics] == [("t", "")]
        assert client.topic("t")["settings"]["capacity"] == 7
        assert stored(client, "t") == [b"c"]


def test_publishing_fails_after_a_new_epoch_if_configured_so():
    """TOP-5."""
    with (
        restartable_broker() as broker,
        blocking.connect(port=broker.port, reconnect=GUARD, on_new_epoch="raise") as client,
        client.producer("t") as producer,
    ):
        producer.send(b"a")
        producer.flush()
        broker.stop()
        broker.start()
        client.ping()
        with pytest.raises(
            zaichik.EpochChanged, match=r"lost what was published before.*Connect again"
        ):
            client.publish("t", b"b")
        with pytest.raises(zaichik.EpochChanged):
            client.publish_batch("t", [(None, b"b")])
        with pytest.raises(zaichik.EpochChanged):
            client.publish_batch("t", [(None, b"b")], producer=7)
        assert client.topic("t")["next_offset"] == 0
        assert client.publish("another", b"b").offset == 0


def test_a_numbered_batch_that_waits_is_not_stored_in_the_new_topic():
    with (
        restartable_broker() as broker,
        blocking.connect(port=broker.port, reconnect=GUARD, on_new_epoch="raise") as client,
    ):
        client.publish_batch("t", [(None, b"a")], producer=7, number=0)
        broker.stop()
        finished = in_the_background(
            lambda: client.publish_batch("t", [(None, b"b")], producer=7, number=1)
        )
        broker.start()
        assert isinstance(finished(), zaichik.EpochChanged)
        assert client.topic("t")["next_offset"] == 0


def test_a_subscription_to_a_topic_that_is_another_one_ends_after_what_had_come():
    """TOP-5."""
    with (
        restartable_broker() as broker,
        blocking.connect(port=broker.port, reconnect=GUARD) as client,
    ):
        client.create_topic("t", retention_ttl="forever")
        client.publish_batch("t", [(None, b"a"), (None, b"b")])
        with client.subscribe("t") as subscription:
            messages = iter(subscription)
            assert next(messages).payload == b"a"
            broker.stop()
            broker.start()
            assert next(messages).payload == b"b"
            with pytest.raises(zaichik.EpochChanged):
                next(messages)


def test_without_reconnecting_a_stopped_broker_is_an_error_at_once():
    with restartable_broker() as broker, blocking.connect(port=broker.port, reconnect=0) as client:
        client.ping()
        with client.subscribe("t") as subscription:
            broker.stop()
            with pytest.raises(zaichik.ConnectionLost):
                subscription.fetch()
        with pytest.raises(zaichik.ConnectionLost):
            client.publish("t", b"a")
        broker.start()


def test_lag_during_the_loss_is_reported_exactly(monkeypatch):
    """LAG-1."""
    monkeypatch.setattr(
        client_module, "COMMIT_SECONDS", 3600
    )  # a commit would have more delivered before the loss
    with cut_broker([]) as (port, proxy), blocking.connect(port=port) as other:
        other.create_topic("t", retention_ttl="forever", capacity=10)
        other.publish_batch("t", [(None, b"old")] * 4)
        with (
            blocking.connect(port=proxy.port, reconnect=GUARD) as client,
            client.subscribe("t", credit=2, until=24, events=True) as subscription,
        ):
            items = iter(subscription)
            assert [next(items).offset for _ in range(2)] == [0, 1]
            for _ in range(2):
                other.publish_batch("t", [(None, b"new")] * 10)
            proxy.cut()
            rest = list(items)
        lags = [item for item in rest if isinstance(item, zaichik.Lagged)]
        offsets = [item.offset for item in rest if isinstance(item, zaichik.Message)]
        assert lags == [zaichik.Lagged("t", 2, 14)]
        assert offsets == list(range(14, 24))
        assert subscription.lagged == 12
