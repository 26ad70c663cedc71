"""The oracle, a broker, one process, the table and the stream: all five tell the same numbers of
the same messages.
"""

import json
from collections import Counter
from datetime import timedelta
from itertools import groupby
from operator import itemgetter

import oracle
import pytest
from embedded import embedded_broker
from oracle import Event, by_policy, random_topics

import zaichik
from zaichik.apps.demo.departures import read_departures
from zaichik.apps.recording.folders import JOURNAL_PREFIX
from zaichik.apps.spark import live, outcomes, windows
from zaichik.apps.spark.carry import RAN_US
from zaichik.apps.spark.events import from_journal
from zaichik.apps.spark.sources import events as events_of
from zaichik.apps.statistics.chain import TABLE, WINNERS, length_us
from zaichik.apps.statistics.counting import count
from zaichik.apps.statistics.sources import held
from zaichik.client.endpoint import Endpoint
from zaichik_protocol import Batch

pytestmark = pytest.mark.unmeasured  # nothing that the tests of each of the four do not run

SHORT = [timedelta(milliseconds=length) for length in (1, 3, 10)]
SIX_HOURS = timedelta(hours=6)
TABLE_TOPIC = "table"
LENGTHS = [*SHORT, timedelta(hours=1), SIX_HOURS, "forever"]


@pytest.fixture(scope="module")
def published():
    """(time, topic, key, payload): of aircraft that fly often, and in the middle twelve random
    histories side by side.

    A history's unit of time is a millisecond, the finest window a broker has. A flight's payload is
    what is told of it. The longest histories are published to a table, too.
    """
    day = read_departures(days=1)
    often = Counter(one.tail for one in day)
    flights = [one for one in day if often[one.tail] > 2]
    messages = [
        (one.scheduled_us, "flights", one.tail and one.tail.encode(), one.payload)
        for one in flights
    ]
    middle_us = flights[len(flights) // 2].scheduled_us
    for topic, history in random_topics(12).items():
        for event in history:
            at_us = middle_us + event.accepted_us * 1000
            payload = b"%d" % event.hash * event.size
            messages.append((at_us, topic, event.key, payload))
            if len(history) == 60:
                messages.append((at_us, TABLE_TOPIC, event.key, payload))
    return sorted(messages, key=itemgetter(0, 1))


def test_all_five_agree(spark, published, tmp_path):
    """COM-1, COM-5, JRN-1, JRN-2.

    The stream ends halfway, in the midst of the histories, and begins again.
    """
    topics = sorted({topic for _, topic, _, _ in published})
    ran = {topic: SHORT[number % len(SHORT)] for number, topic in enumerate(topics)} | {
        "flights": SIX_HOURS
    }
    del ran[TABLE_TOPIC]
    with embedded_broker(start_us=0) as broker:
        for topic, window in ran.items():
            broker.create(topic, compaction_window=window, journal=2**24)
        broker.create(TABLE_TOPIC, table=True, journal=2**24)

        def follow():
            """Everything there is, until the query ends by itself; whether it was cut in the midst
            of a history.
            """
            options = {
                "broker": broker.address,
                "topic": ",".join(JOURNAL_PREFIX + topic for topic in topics),
                "maxMessagesPerTrigger": "40",
            }
            journals = from_journal(spark.readStream.format("zaichik").options(**options).load())
            query = (
                live.writer(journals, tmp_path, LENGTHS, WINNERS).trigger(availableNow=True).start()
            )
            query.awaitTermination()
            ends = [json.loads(one["sources"][0]["endOffset"]) for one in query.recentProgress]
            return any(
                len({end[JOURNAL_PREFIX + topic]["next"] for end in ends}) > 1
                for topic in ran.keys() - {"flights"}
            )

        half = len(published) // 2
        publish(broker, published[:half])
        assert follow()
        publish(broker, published[half:])
        assert follow()

        sources = held(Endpoint("127.0.0.1", broker.port), topics)
        alone = {one.topic: one for one in count(sources, LENGTHS)}
        events = events_of(spark, sources).cache()
        table, stream = (
            by_policy(windows.what_if(events, LENGTHS)),
            by_policy(live.sums(spark, tmp_path)),
        )
        of_journal = {topic: stream.pop((topic, RAN_US, "first")) for topic in topics}
        accounts = {row["topic"]: row for row in outcomes.account(events).collect()}
        counters = {state["name"]: state for state in broker.topics() if state["name"] in topics}
        events.unpersist()

    told = {topic: [] for topic in topics}
    for at_us, topic, key, payload in published:
        told[topic].append(Event(at_us, key, oracle.blake(payload), len(payload)))
    expected = {
        (topic, *policy): oracle.what_if(happened, *policy)
        for topic, happened in told.items()
        for policy in oracle.policies(map(length_us, LENGTHS))
    }
    assert table == expected
    assert stream == expected
    assert expected == {
        (topic, row["window_us"], row["winner"]): {name: row[name] for name in oracle.NUMBERS}
        for topic, one in alone.items()
        for row in one.what_if
    }
    of_table = expected[TABLE_TOPIC, *TABLE]
    assert of_table["differing"] > 50
    assert alone[TABLE_TOPIC].account == {
        name: accounts[TABLE_TOPIC][name] for name in alone[TABLE_TOPIC].account
    }
    counter = counters[TABLE_TOPIC]
    assert counter["tombstones"] > 0
    assert (
        counter["resident"] - counter["tombstones"],
        counter["stored"],
        counter["superseded"],
    ) == (of_table["kept"], of_table["messages"], accounts[TABLE_TOPIC]["superseded"])
    for topic in ran:
        policy, account, counter = (
            expected[topic, length_us(ran[topic]), "first"],
            accounts[topic],
            counters[topic],
        )
        assert of_journal[topic] == policy
        assert alone[topic].account == {name: account[name] for name in alone[topic].account}
        assert [
            account[name]
            for name in ("published", "stored", "bytes", "stored_bytes", "differing", "unknown")
        ] == [
            *(policy[name] for name in ("messages", "kept", "bytes", "kept_bytes", "differing")),
            0,
        ]
        assert [counter[name] for name in ("published", "stored", "compacted")] == [
            policy["messages"], policy["kept"], policy["messages"] - policy["kept"],
        ]  # fmt: skip


def publish(broker, messages):
    """Publish (time, topic, key, payload): those of one time and topic as a batch, on the broker's
    clock.
    """

    async def run():
        async with zaichik.connect(port=broker.port) as client:
            for (at_us, topic), together in groupby(messages, itemgetter(0, 1)):
                broker.clock.move_to(at_us)
                batch = Batch.of([(key or b"", payload) for _, _, key, payload in together])
                # What is empty is meant to be: in the table, it deletes its key.
                await client.publish_batch(topic, batch, tombstones=True)

    broker.run(run)
