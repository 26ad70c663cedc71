"""The settings of a topic that is restored: those that it had, as Kafka has them, or others.

Kafka itself has no place for them, so the first record of a bridge has them in a header. The
settings of a durable topic never change.
"""

from collections.abc import Sequence
from typing import Any

from zaichik.base.json_text import NotJson, parsed_object
from zaichik.core.settings import TopicSettings
from zaichik_protocol import Refused, Setting


class UnknownSettings(ValueError):
    """A durable topic of this version cannot have these settings; the message says why."""


def restored_settings(header: bytes, pairs: Sequence[tuple[int, int]] = ()) -> dict[str, int]:
    """Returns the settings in force of the restored topic, by name.

    It is durable, whatever it was: it comes in a folder.

    Args:
        header: the header's value; b"": there is none, and the defaults hold.
        pairs: what holds in place of that, as the wire carries settings.

    Raises:
        UnknownSettings: those are of a later version, of a table, or do not go together.
    """
    values: dict[int, int] = {}
    for name, value in _parsed(header).items():
        number = _NUMBERS.get(name)
        if number is None or type(value) is not int:
            raise UnknownSettings(
                f"the topic's setting {name!r} is {value!r}, which this zaichik does not know: "
                "restore with the version that its broker had"
            )
        values[number] = value
    if values.pop(Setting.TABLE, 0):
        raise UnknownSettings("the topic was a table, and only other topics can be restored")
    # Of topics in memory only: a durable one has no journal, and keeps its messages.
    values.pop(Setting.JOURNAL_BYTES, None)
    if not values.get(Setting.RETENTION_TTL_MS):
        values.pop(Setting.RETENTION_TTL_MS, None)
    values[Setting.DURABLE] = 1
    wanted = values | dict(pairs)
    try:
        return TopicSettings().merged(tuple(wanted.items())).by_name()
    except Refused as refusal:
        raise UnknownSettings(refusal.message) from None


_NUMBERS = {setting.name.lower(): setting.value for setting in Setting}


def _parsed(header: bytes) -> dict[str, Any]:
    """Returns what the header says."""
    if not header:
        return {}
    try:
        return parsed_object(header)
    except NotJson:
        raise UnknownSettings("the topic's settings are not JSON") from None
