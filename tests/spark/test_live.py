"""A running broker's journal in Spark: what it tells is the broker's own account, as a table and as a stream."""

from datetime import timedelta

import pytest
from embedded import embedded_broker

import zaichik
from zaichik.departures import by_minute, read_departures
from zaichik.spark import live, outcomes, windows
from zaichik.spark.carry import RAN_US
from zaichik.spark.events import JOURNAL_PREFIX, from_journal
from zaichik.spark.sources import events_of_topics
from zaichik.spark.windows import SUMS

NUMBERS = (*SUMS, "max_delay_us")
WINDOWS = [timedelta(hours=1), timedelta(hours=6), "forever"]


@pytest.fixture(scope="module")
def broker():
    """A broker with a topic for flights: a window of six hours, retention of one, and a journal."""
    with embedded_broker(start_us=0) as broker:
        broker.create("flights", compaction_window=timedelta(hours=6), retention_ttl=3600, journal=2**24)
        yield broker


def fly(broker, departures):
    """Publish departures when they were scheduled."""

    async def publish():
        async with zaichik.connect(port=broker.port) as client:
            for minute_us, together in by_minute(departures):
                broker.clock.move_to(minute_us)
                await client.publish_batch("flights", [(one.tail, one.payload) for one in together])

    broker.run(publish)


def counters(broker):
    """What the broker says of the topic."""
    (state,) = broker.topics("flights")
    return {"published": state["published"], "stored": state["stored"], "compacted": state["compacted"]}


def live_sums(spark, folder):
    return {
        (row["window_us"], row["winner"]): {name: row[name] for name in NUMBERS}
        for row in live.sums(spark, folder).collect()
    }


def test_the_journal_tells_what_the_broker_counts(broker, spark, tmp_path):
    """JRN-1, JRN-2; read once, and as a stream that is stopped, with more to come, and begun again."""
    departures = read_departures(days=3)
    half = len(departures) // 2

    def follow():
        """Everything there is, in micro-batches of a few hundred, until the program ends."""
        options = {"broker": broker.address, "topic": JOURNAL_PREFIX + "flights", "maxMessagesPerTrigger": "700"}
        journal = spark.readStream.format("zaichik").options(**options).load()
        live.writer(from_journal(journal), tmp_path, WINDOWS).trigger(availableNow=True).start().awaitTermination()
        return live_sums(spark, tmp_path)

    fly(broker, departures[:half])
    assert follow()[RAN_US, "first"]["messages"] == half
    fly(broker, departures[half:])
    found = follow()
    assert follow() == found

    events = events_of_topics(spark, "127.0.0.1", broker.port, ["flights"]).cache()
    (account,) = outcomes.account(events).collect()
    assert {name: account[name] for name in counters(broker)} == counters(broker)
    assert account["unknown"] == 0

    for row in windows.what_if(events, WINDOWS).collect():
        assert found.pop((row["window_us"], row["winner"])) == {name: row[name] for name in NUMBERS}
    ((policy, ran),) = found.items()
    assert policy == (RAN_US, "first")
    names = {"messages": "published", "bytes": "bytes", "kept": "stored", "kept_bytes": "stored_bytes"}
    assert {name: ran[name] for name in names} == {name: account[of] for name, of in names.items()}
    assert ran["differing"] == account["differing"]
