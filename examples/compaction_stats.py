"""Compaction statistics: which window would these flights need, and what would it lose?

    make .venv/.java .venv/.installed-flights
    python examples/compaction_stats.py
    python examples/compaction_stats.py --days 31

Departures are published without compaction, on the data's own time; the key is the aircraft. Then Spark reads the topic
and works out, for several windows in one pass, what the broker would have stored. One of the answers is checked
against a broker with that window.
"""

import argparse
from collections.abc import Sequence
from datetime import timedelta

import anyio

import zaichik
from zaichik.demo.departures import by_minute, read_departures
from zaichik.spark import session
from zaichik.spark.events import from_messages
from zaichik.spark.windows import what_if

HOURS = (1, 6, 24)


async def main(days: int) -> None:
    """Publish to two topics, ask Spark about one, and compare with the other."""
    clock = zaichik.ManualClock()
    async with zaichik.running_broker(clock=clock) as broker, zaichik.connect(port=broker.port) as client:
        await client.create_topic("all", retention_ttl="forever", capacity=1_000_000)
        await client.create_topic("six hours", compaction_window=timedelta(hours=6))
        for minute_us, departures in by_minute(read_departures(days)):
            clock.move_to(minute_us)
            batch = [(departure.tail, departure.payload) for departure in departures]
            for topic in ("all", "six hours"):
                await client.publish_batch(topic, batch)
        kept = await anyio.to_thread.run_sync(ask, broker.port)  # in a thread: the broker must go on meanwhile
        (state,) = await client.topics("six hours")
    assert kept[HOURS.index(6)] == state["stored"]
    print(f"the broker with a window of six hours has stored as many: {state['stored']:,}")


def ask(port: int) -> Sequence[int]:
    """What each window would keep of the topic."""
    flights = session().read.format("zaichik").options(broker=f"127.0.0.1:{port}", topic="all").load()
    statistics = what_if(from_messages(flights), [timedelta(hours=hours) for hours in HOURS], ["first"])
    rows = statistics.orderBy("window_us").collect()
    for hours, row in zip(HOURS, rows, strict=True):
        print(f"{hours:2} hours: {row['kept']:,} of {row['messages']:,} kept; {row['unseen']:,} updates never seen")
    return [row["kept"] for row in rows]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=3, help="the first DAYS days of the year (default: 3)")
    anyio.run(main, parser.parse_args().days)
