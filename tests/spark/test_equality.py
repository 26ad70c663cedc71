"""The oracle, a broker, the table and the stream: asked about the same messages, all four tell the same numbers."""

import tempfile
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import oracle
import pytest
from embedded import embedded_broker
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from oracle import Event, histories

import zaichik
from zaichik.departures import read_departures
from zaichik.spark import live, outcomes, windows
from zaichik.spark.carry import RAN_US
from zaichik.spark.events import JOURNAL_PREFIX, from_journal
from zaichik.spark.sources import at_broker
from zaichik.spark.windows import SUMS, length_us

pytestmark = pytest.mark.unmeasured  # nothing that the tests of each of the four do not run

NUMBERS = (*SUMS, "max_delay_us")


def all_four_agree(spark, topics, window, lengths, per_trigger):
    """Of topics with that window, whose messages are (time, key, payload); the stream ends halfway and begins again."""
    published = sorted(
        ((at_us, topic, key, payload) for topic, messages in topics.items() for at_us, key, payload in messages),
        key=itemgetter(0, 1),
    )
    with embedded_broker(start_us=0) as broker, tempfile.TemporaryDirectory() as folder:
        for topic in topics:
            broker.create(topic, compaction_window=window, journal=2**24)

        def follow():
            """Everything there is, in micro-batches, until the query ends by itself."""
            options = {
                "broker": broker.address,
                "topic": ",".join(JOURNAL_PREFIX + topic for topic in topics),
                "maxMessagesPerTrigger": str(per_trigger),
            }
            journals = from_journal(spark.readStream.format("zaichik").options(**options).load())
            query = live.writer(journals, Path(folder), lengths).trigger(availableNow=True).start()
            query.awaitTermination()
            return len(query.recentProgress)

        half = len(published) // 2
        publish(broker, published[:half])
        assert follow() > 1
        publish(broker, published[half:])
        assert follow() > 1

        events = at_broker("127.0.0.1", broker.port, topics).events(spark).cache()
        table, stream = by_policy(windows.what_if(events, lengths)), by_policy(live.sums(spark, Path(folder)))
        ran = {topic: stream.pop((topic, RAN_US, "first")) for topic in topics}
        accounts = {row["topic"]: row for row in outcomes.account(events).collect()}
        counters = {state["name"]: state for state in broker.topics() if state["name"] in topics}
        events.unpersist()

    told = {topic: [Event(at_us, key, oracle.blake(payload), len(payload)) for at_us, key, payload in messages]
            for topic, messages in topics.items()}  # fmt: skip
    expected = {
        (topic, length_us(length), winner): oracle.what_if(happened, length_us(length), winner)
        for topic, happened in told.items()
        for length in lengths
        for winner in ("first", "last")
    }
    assert table == expected
    assert stream == expected
    for topic in topics:
        policy, account, counter = expected[topic, length_us(window), "first"], accounts[topic], counters[topic]
        assert ran[topic] == policy
        assert [account[name] for name in ("published", "stored", "bytes", "stored_bytes", "differing", "unknown")] == [
            *(policy[name] for name in ("messages", "kept", "bytes", "kept_bytes", "differing")), 0,
        ]  # fmt: skip
        assert [counter[name] for name in ("published", "stored", "compacted")] == [
            policy["messages"], policy["kept"], policy["messages"] - policy["kept"],
        ]  # fmt: skip


def publish(broker, messages):
    """Publish (time, topic, key, payload): those of one time and topic as a batch, on the broker's clock."""

    async def run():
        async with zaichik.connect(port=broker.port) as client:
            for (at_us, topic), together in groupby(messages, itemgetter(0, 1)):
                broker.clock.move_to(at_us)
                await client.publish_batch(topic, [(key, payload) for _, _, key, payload in together])

    broker.run(run)


def by_policy(frame):
    """Rows of `WINDOWS` as {(topic, length, winner): numbers}."""
    return {
        (row["topic"], row["window_us"], row["winner"]): {name: row[name] for name in NUMBERS}
        for row in frame.collect()
    }


def test_on_flights(spark):
    """COM-1, COM-5, JRN-1, JRN-2: of two days; the payload is what was told of the flight."""
    flights = [(one.scheduled_us, one.tail and one.tail.encode(), one.payload) for one in read_departures(days=2)]
    six_hours = timedelta(hours=6)
    all_four_agree(spark, {"flights": flights}, six_hours, [timedelta(hours=1), six_hours, "forever"], 500)


@settings(
    deadline=None,
    max_examples=2,  # of five topics each: what takes time is Spark
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(histories, min_size=5, max_size=5), st.sampled_from([1, 3, 10]))
def test_on_random_histories(spark, histories, window):
    """COM-1, COM-5, JRN-1, JRN-2: a unit of time is a millisecond, the finest window a broker has."""
    topics = {
        f"topic-{number}": [(event.accepted_us * 1000, event.key, b"%d" % event.hash * event.size) for event in history]
        for number, history in enumerate(histories)
    }
    lengths = [*(timedelta(milliseconds=length) for length in (1, 3, 10)), "forever"]
    messages = sum(map(len, histories))
    all_four_agree(spark, topics, timedelta(milliseconds=window), lengths, messages // 4)
