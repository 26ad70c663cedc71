"""A topic's settings as options of a command: `serve` takes them as defaults, `create` for one topic."""

import argparse
from typing import Any

from zaichik.console import quantities, screen


def add_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the settings to a command. An option that is not given is None: the broker's default holds.

    Returns:
        The options' group, for settings of that command alone.
    """
    group = parser.add_argument_group("settings of topics")
    group.add_argument(
        "--retention",
        metavar="DUR",
        type=quantities.duration,
        help="how long messages stay readable for later readers: 500ms, 10s, 5m, 6h, 7d, forever, or seconds",
    )
    group.add_argument(
        "--compaction-window",
        metavar="DUR",
        type=quantities.duration,
        help="how long a key's first message keeps out later ones with the same key; 0 is off",
    )
    group.add_argument(
        "--capacity", metavar="N", type=quantities.positive, help="most messages kept; the oldest are evicted first"
    )
    group.add_argument("--max-bytes", metavar="SIZE", type=quantities.size, help="most bytes kept: 4096, 10MB, 64MiB")
    group.add_argument(
        "--max-keys", metavar="N", type=quantities.positive, help="most keys whose windows are remembered"
    )
    group.add_argument(
        "--journal",
        metavar="SIZE",
        type=quantities.size,
        help="most bytes of the journal, a topic $journal/NAME that records every message published; 0 is off",
    )
    group.add_argument(
        "--durable",
        action="store_true",
        default=None,
        help="messages are on the disk before they are answered and delivered; the broker needs --data DIR",
    )
    group.add_argument(
        "--log-bytes",
        metavar="SIZE",
        type=quantities.size,
        help="most bytes of a durable topic on the disk; the oldest messages are evicted first",
    )
    return group


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the settings that were given, as arguments of `Client.create_topic`."""
    settings = {
        "retention_ttl": arguments.retention,
        "compaction_window": arguments.compaction_window,
        "capacity": arguments.capacity,
        "max_bytes": arguments.max_bytes,
        "max_keys": arguments.max_keys,
        "journal": arguments.journal,
        "durable": arguments.durable,
        "log_bytes": arguments.log_bytes,
    }
    return {name: value for name, value in settings.items() if value is not None}


def rows(settings: dict[str, int]) -> list[screen.Row]:
    """Returns the settings in force, as names and formatted values."""
    return [(name.removesuffix("_ms"), screen.setting(name, value)) for name, value in settings.items()]
