"""A broker's limits on the command line: `--limit NAME=VALUE` sets what the table shows.

`BrokerSettings` accepts whatever a program gives it: a test may want a limit of 3, or one that is
never reached. People mistype digits and units, so values from the command line are checked, each by
itself and all together.
"""

import difflib
import textwrap
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from rich.table import Table
from rich.text import Text

from zaichik.base.process import open_files
from zaichik.cli import quantities, screen, topic_settings
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.core.settings import BrokerSettings, TopicSettings, connection_sockets
from zaichik_protocol import HELLO_MAX_FRAME

Limit = tuple[str, int | float | bool]

_GIB = 1024**3
_DAY = 86_400
_CENTURY = 36_525 * _DAY
_HELP_WIDTH = 78

# The largest values accepted: Welcome has 32 bits for some of them, and larger ones are typing
# errors.
_LARGEST_NUMBER = 1_000_000_000
_LARGEST_SIZE = 1024 * _GIB
_LARGEST = {
    "max_message": _GIB,  # offsets within a batch have 31 bits
    "max_key": _GIB,
    "max_frame": 2 * _GIB,  # room for the largest of the other two
    "max_disk_bytes": 2**50,  # as `log_bytes`
    "max_batch": 10_000_000,
    "idle_timeout": 49 * _DAY,  # Welcome has it in milliseconds, in 32 bits
}
# Other times are at least a second, which is how often the broker checks them. With 0 for the first
# two, no position outlives its connection, and a stopping broker waits for no client. A switch that
# is off counts as 0. Every broker accepts frames as large as a Hello may be: clients send them
# before they know the limit.
_LEAST = {"session_ttl": 0, "drain_timeout": 0, "auto_create": 0, "max_frame": HELLO_MAX_FRAME}


def listing() -> str:
    """Returns all limits with their defaults, in the option's notation, for the end of `--help`."""
    words = [f"{name}={_typed(name, value)}" for name, value in BrokerSettings().limits().items()]
    lines = textwrap.wrap(
        " ".join(words),
        _HELP_WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )
    return "\n".join(["limits, with their defaults:", *lines, ""])


def limit(text: str) -> Limit:
    """Parses a name and a value, such as max_bytes=128MiB.

    Raises:
        WrongUsage: there is no such limit, or the value is out of its range.
    """
    name, separator, written = text.partition("=")
    defaults = BrokerSettings().limits()
    if name not in defaults:
        raise WrongUsage(_unknown(name))
    default = defaults[name]
    if not separator:
        raise WrongUsage(f"{name} has no value; write {name}={_typed(name, default)}")
    read, allowed, largest = _kind(name, default)
    least, most = _LEAST.get(name, 1), _LARGEST.get(name, largest)
    if name == "max_connections":
        most = min(most, connection_sockets(open_files()))
    try:
        value = read(written)
    except WrongUsage:
        value = None
    if value in (None, "forever") or not least <= value <= most:
        if read is not _switch:
            allowed += (
                f" from {_typed(name, least)} to {_typed(name, most)}, such as "
                f"{_typed(name, default)}"
            )
        if name == "max_connections":
            allowed += "; each needs one of the files that this process may open (ulimit -n)"
        raise WrongUsage(f"{name} is {written!r}; it must be {allowed}")
    return name, value


LIMIT = argument(
    "--limit NAME=VALUE",
    "set one of the broker's limits listed below, in the same notation; may be repeated",
    limit,
    action="append",
    default=[],
)


def chosen(arguments: Namespace) -> dict[str, Any]:
    """Returns the limits given, as arguments of `BrokerSettings`.

    Raises:
        WrongUsage: one was given twice, or they contradict each other.
    """
    given = dict[str, Any]()
    for name, value in arguments.limit:
        if name in given:
            raise WrongUsage(f"--limit {name} is given twice")
        given[name] = value
    if arguments.no_auto_create:
        if "auto_create" in given:
            raise WrongUsage("give either --limit auto_create or --no-auto-create, not both")
        given["auto_create"] = False
    together = BrokerSettings().limits() | given
    # See BrokerSettings.max_frame.
    needed = int(together["max_message"] + 12 * together["max_batch"] + 1024)
    if together["max_frame"] < needed:
        frame, message, batch = (
            _typed(name, together[name]) for name in ("max_frame", "max_message", "max_batch")
        )
        raise WrongUsage(
            f"a frame of max_frame={frame} cannot carry a batch of max_message={message} and "
            f"max_batch={batch}; "
            f"set --limit max_frame={needed}, or lower the other two"
        )
    return given


def table(limits: dict[str, Any], topic_defaults: dict[str, int]) -> Table:
    """Returns a table of the limits and the default settings of topics.

    They stand side by side, so that both fit on a screen together with the log lines that follow.
    """
    both = Table.grid(padding=(0, 6))
    both.add_row(Text("limits", "bold"), Text("topics, by default", "bold"))
    limit_rows = [(name, screen.setting(name, value)) for name, value in limits.items()]
    default_rows = topic_settings.rows(topic_defaults)
    both.add_row(screen.rows(limit_rows), screen.rows(default_rows))
    return both


def _unknown(name: str) -> str:
    """Returns the error for an unknown name.

    Another one for a setting of topics, which the table shows as well.
    """
    if name in {item.name.removesuffix("_ms") for item in fields(TopicSettings)}:
        return f"{name} is a setting of topics; those have their own options, such as --retention"
    word, known = name.lower(), BrokerSettings().limits()
    similar = difflib.get_close_matches(word, known, 1, 0.8) or difflib.get_close_matches(
        word, known, 3
    )
    return f"there is no limit {name!r}" + (
        f"; did you mean {' or '.join(similar)}?" if similar else ""
    )


def _kind(name: str, default: Any) -> tuple[Callable[[str], Any], str, int]:
    """Returns a limit's parser, the word for its values, and the largest value of its kind."""
    match default:
        case bool():
            return _switch, "yes or no", True
        case float():
            return quantities.duration, "a time", _CENTURY
        case _ if name == "frame_rate":
            return lambda text: quantities.size(text.removesuffix("/s")), "a size", _LARGEST_SIZE
        case _ if name in screen.SIZES:
            return quantities.size, "a size", _LARGEST_SIZE
        case _:
            return quantities.natural, "a whole number", _LARGEST_NUMBER


def _switch(text: str) -> bool:
    if text not in ("yes", "no"):
        raise WrongUsage(f"{text!r} is neither yes nor no")
    return text == "yes"


def _typed(name: str, value: Any) -> str:
    """Returns a value in the option's notation: as in the table, but without spaces and commas."""
    return screen.setting(name, value).replace(" ", "").replace(",", "")
