"""A year of departures, under its public name; see `zaichik.apps.demo.departures`."""

from zaichik.apps.demo.departures import (
    MICROSECONDS_PER_MINUTE,
    Departure,
    by_minute,
    read_departures,
)

__all__ = ["MICROSECONDS_PER_MINUTE", "Departure", "by_minute", "read_departures"]
