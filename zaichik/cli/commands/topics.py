"""`zaichik topics`: lists the topics, one line each.

List the topics: how many messages each holds now, and what became of all the others. Every
published message was stored or compacted away; every stored one is resident, expired (its retention
is over), evicted (the ring was full) or, in a table, superseded by a later one of its key. The
broker counts both sides; if they ever differ, that's a bug, and it is reported here.

Examples:
  zaichik topics
  zaichik topics orders.              # topics whose names begin with orders.
  zaichik topics --cluster 10.0.0.1:8900    # of all its shards
  zaichik topics --json | jq -r '.[] | select(.evicted > 0).name'
"""

from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from zaichik.base.escapes import shown
from zaichik.base.sizes import show_size
from zaichik.cli import connecting, names, narrow_table, screen
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.failure import Failure
from zaichik.cli.quantities import show_duration
from zaichik.client.client import Client

COUNTS = {
    "messages": "resident",
    "next": "next_offset",
    "published": "published",
    "compacted": "compacted",
    "expired": "expired",
    "evicted": "evicted",
    "superseded": "superseded",
    "keys": "keys",
    "tombstones": "tombstones",
    "readers": "subscriptions",
}
OF_TABLES = ("superseded", "keys", "tombstones")
GAP = 2  # letters between two columns
NAME_WIDTH = 20  # letters of a topic's name that always have room
FIRST_TO_GO = (
    "window",
    "retention",
    "tombstones",
    "superseded",
    "next",
    "bytes",
    "expired",
    "keys",
)

ARGUMENTS = (
    argument("[PREFIX]", "only topics whose names begin with this", names.name, default=""),
    connecting.PLACE,
    argument("--json", "print one JSON list with everything known about each topic"),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Query the broker and show the answer."""
    topics = await _asked(arguments)
    if arguments.json:
        screen.print_json(topics)
    elif topics:
        _show(console, topics)
        for sentence in filter(None, map(imbalance, topics)):
            screen.say(console, f"!! {sentence}", "bold red")
    elif arguments.prefix:
        screen.remark(f"no topic begins with '{shown(arguments.prefix)}'")
    else:
        screen.remark("no topics yet")


async def _asked(arguments: Namespace) -> list[dict[str, Any]]:
    """Returns the states of the topics, of one broker or of all shards of a cluster."""
    if arguments.cluster is not None:
        async with connecting.in_cluster(arguments, "topics") as cluster:
            return await cluster.topics(arguments.prefix)
    async with connecting.connected(arguments, "topics") as client:
        return await client.topics(arguments.prefix)


def _show(console: Console, topics: list[dict[str, Any]]) -> None:
    """Print a table of the topics; on a terminal, without the columns that do not fit."""
    counts = dict(COUNTS)
    if not any(topic["settings"].get("table") for topic in topics):
        for name in OF_TABLES:
            del counts[name]
    rows = [_row(topic, counts) for topic in topics]
    columns = list(rows[0])
    if console.is_terminal:
        columns = _that_fit(rows, console.width)
    lines = []
    for row in rows:
        topic, *numbers = [row[name] for name in columns]
        lines.append([Text(topic, "cyan"), *map(Text, numbers)])
    screen.print_columns(console, columns, lines, right=columns[1:])
    if left_out := [name for name in rows[0] if name not in columns]:
        names = ", ".join(left_out)
        screen.remark(
            f"no room for {names}: make the terminal wider, or see zaichik describe TOPIC"
        )


def _row(topic: dict[str, Any], counts: dict[str, str]) -> dict[str, str]:
    settings = topic["settings"]
    window_ms = settings["compaction_window_ms"]
    window = "off"
    if window_ms:
        window = show_duration(window_ms)
    row = {"topic": shown(topic["name"])}
    for heading, name in counts.items():
        # Other topics have no keys, and older brokers do not report what was superseded.
        row[heading] = screen.number(topic.get(name))
    row["retention"] = show_duration(settings["retention_ttl_ms"])
    row["window"] = window
    row["bytes"] = show_size(topic["bytes"])
    return row


def _that_fit(rows: list[dict[str, str]], width: int) -> list[str]:
    """Returns the columns that fit: those that say least about lost messages are the first to go.

    A long topic's name is folded before that, down to `NAME_WIDTH`.
    """
    widths = {}
    for name in rows[0]:
        widths[name] = max(len(name), *(cell_len(row[name]) for row in rows))
    widths["topic"] = min(widths["topic"], NAME_WIDTH)
    return narrow_table.that_fit(widths, FIRST_TO_GO, width, GAP)


async def _not_found(client: Client, name: str) -> str:
    """Returns a sentence about a topic that the broker does not describe.

    It hides a topic from a user without the right (ACC-2), so the two cases look the same.
    """
    text = f"there is no topic '{shown(name)}'"
    user = (await client.describe()).get("user")
    if user:
        text += f", or user {shown(user)} has no right to describe it"
    return f"{text}; see: zaichik topics"


async def with_readers(client: Client, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the state of the topic of that name, and those of its subscriptions, live and named.

    Raises:
        Failure: there is no such topic.
    """
    topic = await client.topic(name)
    if topic is None:
        raise Failure(await _not_found(client, name))
    # They are asked for by prefix, and another topic may be called "orders#eu".
    found = await client.subscriptions(f"{name}#")
    return topic, [reader for reader in found if reader["topic"] == name]


def imbalance(state: dict[str, Any]) -> str:
    """Returns what does not add up in a state of a topic or subscription; "" if all does."""
    wrong = [f"{law} = {rest}, not 0" for law, rest in state["left_over"].items() if rest]
    if not wrong:
        return ""
    laws = "; ".join(wrong)
    return f"{shown(state['name'])} does not add up, which is a bug of the broker: {laws}"
