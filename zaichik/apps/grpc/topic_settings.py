"""A topic's settings: as `broker.proto` declares them, and as our client takes and returns them.

The fields have the names and the numbers of the wire's settings. Durations are in milliseconds
there, and in seconds as our client takes them.
"""

from collections.abc import Mapping
from typing import Any, Literal

from zaichik.apps.grpc.broker_pb2 import Overflow, Settings
from zaichik_protocol import FOREVER

# Our client's name of each field that has another one there.
ARGUMENTS = {
    "retention_ttl_ms": "retention_ttl",
    "compaction_window_ms": "compaction_window",
    "tombstones_ms": "tombstones",
    "journal_bytes": "journal",
}


def arguments_of(settings: Settings) -> dict[str, Any]:
    """Returns the settings that are named, as arguments of `Client.create_topic`.

    Raises:
        ValueError: `overflow` is not one of the values declared.
    """
    named: dict[str, Any] = {}
    for field, value in settings.ListFields():
        argument = ARGUMENTS.get(field.name, field.name)
        if field.name.endswith("_ms"):
            named[argument] = _duration(value)
        elif field.name == "overflow":
            # Raises ValueError for a number that has no name.
            named[argument] = Overflow.Name(value).removeprefix("OVERFLOW_").lower()
        else:
            named[argument] = value
    return named


def settings_of(known: Mapping[str, int]) -> Settings:
    """Returns settings that the broker reports by name, but those of a later version."""
    fields = Settings.DESCRIPTOR.fields_by_name.keys()
    settings = Settings()
    for name, value in known.items():
        if name in fields:
            setattr(settings, name, value)
    return settings


def _duration(milliseconds: int) -> float | Literal["forever"]:
    if milliseconds == FOREVER:
        return "forever"
    return milliseconds / 1000
