"""A bridge: each message once and in order, wherever it is killed, and nothing that does not
continue what is there.
"""

import threading
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError
from embedded import embedded_broker
from fake_kafka import FakeKafka, Killed, Record, Transaction, refusal

from zaichik import blocking
from zaichik.apps.replication import bridge as module
from zaichik.apps.replication.bridge import Bridge
from zaichik.apps.replication.errors import CannotReplicate, Replaced
from zaichik.apps.replication.record import header_of
from zaichik.apps.replication.servers import Waiting
from zaichik.client.replication.watermark import Watermark, topic_of

TOPIC = "orders"
LOSSLESS = {"overflow": "reject"}


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0)


@pytest.fixture
def broker(tmp_path):
    with embedded_broker(data=tmp_path) as broker:
        yield broker


@pytest.fixture
def kafka():
    return FakeKafka()


def replicate(broker, kafka, until=None, **options):
    """Run a bridge until Kafka has everything below that offset, or all there is."""
    if until is None:
        (state,) = broker.topics(TOPIC)
        until = state["next_offset"]
    stop = threading.Event()

    def tell(progress):
        if progress.next >= until:
            stop.set()

    with blocking.connect(broker.address) as client:
        waiting = Waiting(stop, patience=0)
        Bridge(client, TOPIC, kafka, TOPIC, stop=stop, tell=tell, waiting=waiting, **options).run()


def headers(kafka):
    return [header_of(record.headers()) for record in kafka.committed()]


def offsets(kafka):
    return [header.offset for header in headers(kafka)]


def watermark(broker):
    with blocking.connect(broker.address) as client:
        end = client.topic(topic_of(TOPIC))["next_offset"]
        with client.subscribe(topic_of(TOPIC), until=end) as subscription:
            *_, message = subscription
    return Watermark.of(message.payload)


def settled(broker):
    (row,) = [row for row in broker.subscriptions() if row["session"]]
    return row["committed"]


def test_a_message_is_a_record_with_its_key_payload_time_and_headers(broker, kafka):
    epoch = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(b"key", b"one"), (None, b"two"), (b"key", b"")])
    replicate(broker, kafka)
    now = broker.clock.now_us()
    first, *others = kafka.committed()
    assert [(one.key(), one.value()) for one in (first, *others)] == [
        (b"key", b"one"),
        (None, b"two"),
        (b"key", b""),
    ]
    assert {one.timestamp() for one in others} == {(1, now // 1000)}
    assert [one.headers() for one in others] == [
        [("zaichik-epoch", b"%d" % epoch), ("zaichik-offset", offset), ("zaichik-us", b"%d" % now)]
        for offset in (b"1", b"2")
    ]


def test_the_first_record_of_a_bridge_tells_the_settings(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    for _ in range(2):
        broker.publish(TOPIC, [(None, b"one")], [(None, b"two")])
        replicate(broker, kafka)
    told = [bool(header.settings) for header in headers(kafka)]
    assert told == [True, False, True, False]
    assert b'"overflow": 1' in headers(kafka)[0].settings


def test_the_watermark_and_the_name_follow(broker, kafka):
    epoch = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one"), (None, b"two")])
    replicate(broker, kafka)
    assert watermark(broker) == Watermark(epoch, 2)
    assert settled(broker) == 2


def test_the_watermark_is_published_at_every_start(broker, kafka):
    epoch = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])
    replicate(broker, kafka)
    broker.delete(topic_of(TOPIC))
    replicate(broker, kafka)
    assert watermark(broker) == Watermark(epoch, 1)


def test_a_watermark_that_a_restart_has_lost_is_published_again(broker, kafka):
    """It is in memory, also if the topic is durable: whoever waits for it would wait on."""
    epoch = broker.create(TOPIC, durable=True, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])
    stop = threading.Event()
    looks = 0

    def tell(progress):
        nonlocal looks
        if not progress.next:
            return
        if not looks:
            broker.stop()
            broker.start()
        looks += 1
        (state,) = broker.topics("replicated/") or [{"next_offset": 0}]
        # A few looks later it is there, or never will be.
        if state["next_offset"] or looks > 100:
            stop.set()

    with blocking.connect(broker.address) as client:
        Bridge(client, TOPIC, kafka, TOPIC, stop=stop, tell=tell).run()
    assert watermark(broker) == Watermark(epoch, 1)


CALLS = ["init", "begin", "produce", "flush", "commit", "committed", "close", "offsets"]


def killing(call, times):
    """Ends the process at a call, so many times each a call later than before."""
    left = list(range(1, times + 1))
    seen = 0

    def before(name):
        nonlocal seen
        if name != call or not left:
            return
        seen += 1
        if seen >= left[0]:
            left.pop(0)
            seen = 0
            raise Killed

    return before


@contextmanager
def forgetful(kafka):
    """A process that is killed aborts nothing."""
    before = kafka.before

    def watched(name):
        if name == "abort" and watched.is_dead:
            raise refusal(KafkaError._TRANSPORT)
        try:
            before(name)
        except Killed:
            watched.is_dead = True
            raise

    watched.is_dead = False
    kafka.before = watched
    yield


@pytest.mark.parametrize("call", CALLS)
def test_each_message_once_wherever_it_is_killed(broker, kafka, call):
    broker.create(TOPIC, **LOSSLESS)
    kafka.before = killing(call, 4)
    deaths = 0
    for number in range(5):
        broker.publish(TOPIC, [(b"key", b"%d" % number)], [(None, b"more"), (None, b"still")])
        with forgetful(kafka):
            try:
                replicate(broker, kafka)
            except Killed:
                deaths += 1
    kafka.before = lambda _name: None
    replicate(broker, kafka)
    assert deaths > 0
    assert offsets(kafka) == list(range(15))
    assert watermark(broker).next == settled(broker) == 15


def test_a_round_that_was_aborted_is_written_again(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one"), (None, b"two")])
    fails = iter([refusal(KafkaError._TIMED_OUT, txn_requires_abort=True)])

    def before(name):
        if name == "commit" and (error := next(fails, None)):
            raise error

    kafka.before = before
    replicate(broker, kafka)
    assert offsets(kafka) == [0, 1]
    assert kafka.calls.count("abort") == 1


def test_what_was_evicted_is_a_gap(broker, kafka):
    epoch = broker.create(TOPIC, capacity=2)
    broker.publish(TOPIC, *[[(None, b"%d" % number)] for number in range(5)])
    replicate(broker, kafka)
    gap, *others = headers(kafka)
    assert (gap.offset, gap.end) == (0, 3)
    assert kafka.committed()[0].key() is None
    assert kafka.committed()[0].value() == b""
    assert [header.offset for header in others] == [3, 4]
    assert watermark(broker) == Watermark(epoch, 5, ((0, 3),))


def test_gaps_outlive_the_bridge(broker, kafka):
    epoch = broker.create(TOPIC, capacity=2)
    broker.publish(TOPIC, *[[(None, b"%d" % number)] for number in range(5)])
    replicate(broker, kafka)
    broker.delete(topic_of(TOPIC))
    broker.publish(TOPIC, [(None, b"5")])
    replicate(broker, kafka)
    assert watermark(broker) == Watermark(epoch, 6, ((0, 3),))


# -- it ends rather than write what does not continue what is there -------------------------------


def test_another_epoch_ends_it_with_both(broker, kafka):
    first = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])
    replicate(broker, kafka)
    broker.delete(TOPIC)
    broker.clock.advance(1)
    second = broker.create(TOPIC, **LOSSLESS)
    kafka.calls.clear()
    with pytest.raises(CannotReplicate, match=f"epoch {first}.* is of epoch {second} now"):
        replicate(broker, kafka)
    # No bridge was fenced for it.
    assert "init" not in kafka.calls


def test_a_topic_that_is_deleted_meanwhile_ends_it(broker, kafka):
    epoch = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])
    kafka.on_commit = lambda: broker.delete(TOPIC)
    with pytest.raises(CannotReplicate, match=f"is gone.* below offset 1, of epoch {epoch}"):
        replicate(broker, kafka, until=2)


def test_a_topic_that_is_made_again_meanwhile_ends_it_with_both_epochs(broker, kafka):
    first = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])

    def again():
        broker.delete(TOPIC)
        broker.clock.advance(1)
        broker.create(TOPIC, **LOSSLESS)

    kafka.on_commit = again
    with pytest.raises(CannotReplicate, match=f"of epoch {first}, and orders is of epoch"):
        replicate(broker, kafka, until=2)


def test_a_topic_that_has_gone_back_ends_it_with_the_offsets(broker, kafka):
    epoch = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])
    put(kafka, epoch, range(7))
    with pytest.raises(CannotReplicate, match=r"up to offset 6, and .* before offset 1:"):
        replicate(broker, kafka)


def test_a_name_that_is_ahead_of_kafka_ends_it_with_the_offsets(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one"), (None, b"two"), (None, b"three")])
    replicate(broker, kafka)
    del kafka.log[1:]
    kafka.calls.clear()
    with pytest.raises(CannotReplicate, match=r"offsets 1 to 2 of orders .*--accept position"):
        replicate(broker, kafka)
    assert "init" not in kafka.calls


def test_a_name_that_is_ahead_can_be_put_up_with(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one"), (None, b"two"), (None, b"three")])
    replicate(broker, kafka)
    kafka.log.clear()
    replicate(broker, kafka, accepted=frozenset({"position"}))
    # All of it is still there.
    assert offsets(kafka) == [0, 1, 2]


def test_a_table_is_refused(broker, kafka):
    broker.create(TOPIC, table=True)
    with pytest.raises(CannotReplicate, match="orders is a table"):
        replicate(broker, kafka)
    assert kafka.calls == []


def test_a_topic_that_is_not_there_is_refused(broker, kafka):
    with pytest.raises(CannotReplicate, match="there is no topic 'orders'"):
        replicate(broker, kafka, until=0)
    assert broker.topics() == []


def test_a_topic_of_kafka_that_was_made_again_ends_it(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])

    def before(name):
        if name == "begin":
            kafka.topic_id = 2

    kafka.before = before
    with pytest.raises(CannotReplicate, match="deleted and made again"):
        replicate(broker, kafka)
    # It was committed to nobody knows which topic, so it does not count.
    assert watermark(broker).next == settled(broker) == 0


def test_a_topic_of_kafka_that_was_deleted_ends_it(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])

    def before(name):
        if name == "flush":
            kafka.log = None
            raise refusal(KafkaError.UNKNOWN_TOPIC_OR_PART, txn_requires_abort=True)

    kafka.before = before
    with pytest.raises(CannotReplicate, match="Kafka has no topic orders"):
        replicate(broker, kafka)


# -- two bridges ----------------------------------------------------------------------------------


def test_a_bridge_that_is_fenced_ends(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])

    def before(name):
        if name == "commit":
            kafka.before = lambda _name: None
            replicate(broker, kafka)

    kafka.before = before
    with pytest.raises(Replaced, match="another bridge writes to Kafka's topic orders"):
        replicate(broker, kafka)
    assert offsets(kafka) == [0]


def test_a_bridge_whose_name_was_taken_over_ends(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])
    other = FakeKafka()

    def begins():
        kafka.on_commit = lambda: None
        replicate(broker, other)

    kafka.on_commit = begins
    with pytest.raises(Replaced, match="reads orders as replica/kafka"):
        replicate(broker, kafka, until=2)


def lose(kafka, call, times=1):
    """Kafka forgets the producer at a call."""
    left = times

    def before(name):
        nonlocal left
        if name == call and left:
            left -= 1
            raise refusal(KafkaError.INVALID_PRODUCER_ID_MAPPING, fatal=True)

    kafka.before = before


@pytest.mark.parametrize("call", ["begin", "produce", "commit", "committed"])
def test_a_producer_that_kafka_has_forgotten_is_replaced(broker, kafka, call):
    """After a transaction that took too long, or a week without one; the round may be there."""
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")], [(None, b"two")])
    lose(kafka, call)
    replicate(broker, kafka)
    assert offsets(kafka) == [0, 1]
    assert watermark(broker).next == 2


def test_a_producer_that_was_lost_does_not_come_back_if_another_bridge_has_written(broker, kafka):
    epoch = broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one"), (None, b"two"), (None, b"three")])

    def before(name):
        if name == "commit":
            kafka.before = lambda _name: None
            put(kafka, epoch, [0, 1])
            raise refusal(KafkaError.INVALID_PRODUCER_ID_MAPPING, fatal=True)

    kafka.before = before
    inits = kafka.calls.count("init")
    with pytest.raises(Replaced, match="which is at offset 2 now"):
        replicate(broker, kafka)
    assert kafka.calls.count("init") == inits + 1


def put(kafka, epoch, numbers):
    """Records as another bridge writes them."""
    other = Transaction()
    for number in numbers:
        names = ("epoch", "offset", "us")
        values = zip(names, (epoch, number, epoch), strict=True)
        fields = [(f"zaichik-{name}", b"%d" % value) for name, value in values]
        # Before what is open here.
        kafka.log.insert(0, None)
        kafka.log[0] = Record(0, other, b"x", None, 0, fields)
    other.state = "committed"
    kafka.log[: len(list(numbers))] = reversed(kafka.log[: len(list(numbers))])
    for place, one in enumerate(kafka.log):
        one._offset = place


# -- Kafka away -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["describe", "configs", "watermarks", "init", "offsets", "commit"])
def test_a_kafka_that_is_away_is_waited_for_and_told_of_once(broker, kafka, caplog, call):
    broker.create(TOPIC, **LOSSLESS)
    broker.publish(TOPIC, [(None, b"one")])
    left = 3

    def before(name):
        nonlocal left
        if name == call and left:
            left -= 1
            raise refusal(KafkaError._TRANSPORT, retriable=True)

    kafka.before = before
    replicate(broker, kafka)
    assert offsets(kafka) == [0]
    told = [one.getMessage() for one in caplog.records if one.name.endswith("servers")]
    assert [line.partition(",")[0] for line in told] == [
        "Kafka does not answer",
        "Kafka answers again",
    ]


def test_it_can_be_stopped_while_kafka_is_away(broker, kafka):
    broker.create(TOPIC, **LOSSLESS)
    stop = threading.Event()

    def before(_name):
        stop.set()
        raise refusal(KafkaError._ALL_BROKERS_DOWN)

    kafka.before = before
    with blocking.connect(broker.address) as client:
        Bridge(client, TOPIC, kafka, TOPIC, stop=stop).run()
    assert kafka.committed() == []
