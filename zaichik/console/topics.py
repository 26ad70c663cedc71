"""`zaichik topics`: lists the topics, one line each.

List the topics: how many messages each holds now, and what became of all the others. Every published message was
stored or compacted away; every stored one is resident, expired (its retention is over) or evicted (the ring was
full). The broker counts both sides; if they ever differ, that's a bug, and it is reported here.

Examples:
  zaichik topics
  zaichik topics orders.              # topics whose names begin with orders.
  zaichik topics --json | jq -r '.[] | select(.evicted > 0).name'
"""

from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from zaichik.client.client import Client
from zaichik.console import connecting, names, screen
from zaichik.console.arguments import Namespace, argument
from zaichik.console.failure import Failure
from zaichik.console.quantities import show_duration, show_size
from zaichik.escapes import shown

COUNTS = {
    "messages": "resident", "next": "next_offset", "published": "published", "compacted": "compacted",
    "expired": "expired", "evicted": "evicted", "readers": "subscriptions",
}  # fmt: skip
GAP = 2  # letters between two columns
NAME_WIDTH = 20  # letters of a topic's name that always have room
FIRST_TO_GO = ("window", "retention", "next", "bytes", "expired")

ARGUMENTS = (
    argument("[PREFIX]", "only topics whose names begin with this", names.name, default=""),
    connecting.ADDRESS,
    argument("--json", "print one JSON list with everything known about each topic"),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Query the broker and show the answer."""
    async with connecting.connected(arguments, "topics") as client:
        topics = await client.topics(arguments.prefix)
    if arguments.json:
        screen.print_json(topics)
    elif topics:
        _show(console, topics)
        for sentence in filter(None, map(imbalance, topics)):
            screen.say(console, f"!! {sentence}", "bold red")
    else:
        screen.remark(f"no topic begins with '{shown(arguments.prefix)}'" if arguments.prefix else "no topics yet")


def _show(console: Console, topics: list[dict[str, Any]]) -> None:
    """Print a table of the topics; on a terminal, without the columns that do not fit."""
    rows = [_row(topic) for topic in topics]
    shown = _that_fit(rows, console.width) if console.is_terminal else list(rows[0])
    lines = [[Text(row[name], "cyan" if name == "topic" else "") for name in shown] for row in rows]
    screen.print_columns(console, shown, lines, right=shown[1:])
    if left_out := [name for name in rows[0] if name not in shown]:
        screen.remark(f"no room for {', '.join(left_out)}: make the terminal wider, or see zaichik describe TOPIC")


def _row(topic: dict[str, Any]) -> dict[str, str]:
    settings = topic["settings"]
    window_ms = settings["compaction_window_ms"]
    return {
        "topic": shown(topic["name"]),
        **{heading: screen.number(topic[name]) for heading, name in COUNTS.items()},
        "retention": show_duration(settings["retention_ttl_ms"]),
        "window": show_duration(window_ms) if window_ms else "off",
        "bytes": show_size(topic["bytes"]),
    }


def _that_fit(rows: list[dict[str, str]], width: int) -> list[str]:
    """Returns the columns that fit: those that say least about lost messages are the first to go.

    A long topic's name is folded before that, down to `NAME_WIDTH`.
    """
    shown = list(rows[0])
    widths = {name: max(len(name), *(cell_len(row[name]) for row in rows)) for name in shown}
    widths["topic"] = min(widths["topic"], NAME_WIDTH)
    for name in FIRST_TO_GO:
        if sum(widths[name] + GAP for name in shown) - GAP <= width:
            break
        shown.remove(name)
    return shown


async def with_readers(client: Client, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the state of the topic of that name, and those of its subscriptions, live and named.

    Raises:
        Failure: there is no such topic.
    """
    topic = await client.topic(name)
    if topic is None:
        raise Failure(f"there is no topic '{shown(name)}'; see: zaichik topics")
    # They are asked for by prefix, and another topic may be called "orders#eu".
    return topic, [reader for reader in await client.subscriptions(f"{name}#") if reader["topic"] == name]


def imbalance(state: dict[str, Any]) -> str:
    """Returns what does not add up in the state of a topic or subscription; "" if everything does."""
    wrong = [f"{law} = {rest}, not 0" for law, rest in state["left_over"].items() if rest]
    return f"{shown(state['name'])} does not add up, which is a bug of the broker: {'; '.join(wrong)}" if wrong else ""
