"""A topic's settings as options: `serve` takes them as defaults, `create` for one topic."""

from typing import Any

from zaichik.cli import quantities, screen
from zaichik.cli.arguments import Argument, Namespace, argument, group

# Their names are those of the arguments of `Client.create_topic`. None, if not given: the broker's
# default holds.
NAMES = (
    "retention_ttl",
    "compaction_window",
    "capacity",
    "max_bytes",
    "max_keys",
    "journal",
    "durable",
    "log_bytes",
    "overflow",
    "table",
    "tombstones",
)


# Settings that say nothing of a table: it evicts nothing, and has no window.
NOT_OF_TABLES = {"compaction_window_ms", "max_keys", "overflow"}


RETENTION = argument(
    "--retention DUR",
    "how long messages stay readable for later readers: 500ms, 10s, 5m, 6h, 7d, forever, or "
    "seconds",
    quantities.duration,
    dest="retention_ttl",
)
COMPACTION_WINDOW = argument(
    "--compaction-window DUR",
    "how long a key's first message keeps out later ones with the same key; 0 is off",
    quantities.duration,
)
CAPACITY = argument(
    "--capacity N", "most messages kept; the oldest are evicted first", quantities.positive
)
MAX_BYTES = argument("--max-bytes SIZE", "most bytes kept: 4096, 10MB, 64MiB", quantities.size)
MAX_KEYS = argument("--max-keys N", "most keys whose windows are remembered", quantities.positive)
JOURNAL = argument(
    "--journal SIZE",
    "most bytes of the journal, a topic $journal/NAME that records every message published; 0 is "
    "off",
    quantities.size,
)
DURABLE = argument(
    "--durable",
    "messages are on the disk before they are answered and delivered; the broker needs --data DIR",
    default=None,
)
LOG_BYTES = argument(
    "--log-bytes SIZE",
    "most bytes of a durable topic on the disk; the oldest messages are evicted first",
    quantities.size,
)


def options(*more: Argument) -> Argument:
    """Returns the settings as a group of options, with those of one command alone."""
    return group(
        "settings of topics",
        RETENTION,
        COMPACTION_WINDOW,
        CAPACITY,
        MAX_BYTES,
        MAX_KEYS,
        JOURNAL,
        DURABLE,
        LOG_BYTES,
        *more,
    )


def chosen(arguments: Namespace) -> dict[str, Any]:
    """Returns the settings that were given, as arguments of `Client.create_topic`."""
    values = {name: getattr(arguments, name, None) for name in NAMES}
    return {name: value for name, value in values.items() if value is not None}


def rows(settings: dict[str, int]) -> list[screen.Row]:
    """Returns the settings in force, as names and formatted values."""
    absent: set[str] = set()
    if settings.get("table"):
        absent = NOT_OF_TABLES
    return [
        (name.removesuffix("_ms"), screen.setting(name, value))
        for name, value in settings.items()
        if name not in absent
    ]
