"""What statistics are made of, under its public name; see `zaichik.apps.spark.events`."""

from zaichik.apps.spark.events import EVENTS, from_journal, from_messages

__all__ = ["EVENTS", "from_journal", "from_messages"]
