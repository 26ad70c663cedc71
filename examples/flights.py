"""A year of real flights: 336,776 departures from New York in 2013, on a clock that the data drives.

    make .venv/.installed-flights
    python examples/flights.py
    python examples/flights.py --days 31
    python examples/flights.py --connect 127.0.0.1:8889

The key is the aircraft's tail number and the compaction window six hours: of the departures of one aircraft, the
topic gets the first in six hours. It keeps them for a week. Before each minute's departures are published, the
broker's clock is moved to that minute, so a year passes in about a minute.

What the broker must have kept is worked out again below, in a few lines that know nothing of brokers. A broker
that is already running goes by its own clock: to it, the whole year happens within one window of six hours.
"""

import argparse
from collections.abc import Iterable, Iterator

import anyio
from at_broker import arguments, at_broker, fresh

from zaichik import ManualClock
from zaichik.demo.departures import Departure, by_minute, read_departures

WINDOW, RETENTION, SECOND = 6 * 3600, 7 * 24 * 3600, 1_000_000  # seconds, seconds, microseconds


async def main(options: argparse.Namespace) -> None:
    """Publish the year, come late, and compare both with what must be."""
    departures = read_departures(options.days)
    clock = ManualClock()
    async with at_broker(options.connect, clock, needs="Describe, a request") as client:
        topic = fresh("flights")
        await client.topics(topic)  # if the broker lacks it, better to hear so now than after a year
        # No week has more than 10,000 departures, so the ring is large enough and evicts none.
        await client.create_topic(topic, compaction_window=WINDOW, retention_ttl=RETENTION, capacity=10_000)
        for number, (minute_us, flights) in enumerate(by_minute(departures)):
            clock.move_to(minute_us)
            result = await client.publish_batch(topic, [(flight.tail, flight.payload) for flight in flights])
            if number % 10_000 == 0:
                print(f"{flights[0].scheduled:%d %b %Y}: {result.first_offset:,} stored so far")
        (state,) = await client.topics(topic)
        async with client.subscribe(topic, until=state["stored"]) as latecomer:
            replayed = sum([1 async for _ in latecomer])
    print(f"{state['published']:,} published = {state['stored']:,} stored + {state['compacted']:,} compacted")
    print(f"a latecomer gets the stored messages of the last week: {replayed:,}")

    happened = departures if options.connect is None else [one._replace(scheduled_us=0) for one in departures]
    kept = list(first_in_window(happened))
    assert (state["stored"], state["compacted"]) == (len(kept), len(departures) - len(kept))
    assert replayed == sum(one.scheduled_us > happened[-1].scheduled_us - RETENTION * SECOND for one in kept)
    if options.days is None:
        assert (len(kept), replayed) == ((305_960, 5_639) if options.connect is None else (6_555, 6_555))


def first_in_window(departures: Iterable[Departure]) -> Iterator[Departure]:
    """What must be stored: each aircraft's first departure in six hours, and all departures without an aircraft."""
    window_ends: dict[str | None, int] = {}
    for departure in departures:
        if departure.tail is None or departure.scheduled_us >= window_ends.get(departure.tail, 0):
            window_ends[departure.tail] = departure.scheduled_us + WINDOW * SECOND
            yield departure


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--days", type=int, help="only the first DAYS days of the year")
    anyio.run(main, parser.parse_args())
