"""`zaichik topics`: a line for every topic."""

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaichik.console import address, screen
from zaichik.console.quantities import show_duration, show_size

DESCRIPTION = """\
List the topics: how many messages each holds now and what became of all the others. Every message published
was stored or compacted away; every one stored is resident, has expired (its retention was over) or was evicted
(the ring was full). The broker counts both sides; if they ever differ, that is a bug, and it is told here.
"""

EPILOG = """\
examples:
  zaichik topics
  zaichik topics orders.              # those whose names begin so
  zaichik topics --json | jq -r '.[] | select(.evicted > 0).name'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `zaichik topics`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("prefix", metavar="PREFIX", nargs="?", default="", help="only topics whose names begin so")
    address.add_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON list with everything known of each topic")


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Ask and show."""
    async with address.connected(arguments, "topics") as client:
        topics = await client.topics(arguments.prefix)
    if arguments.json:
        screen.print_json(topics)
    elif topics:
        screen.print_table(console, _table(topics))
        for sentence in filter(None, map(imbalance, topics)):
            console.print(Text(f"!! {sentence}", "bold red"), soft_wrap=True)
    else:
        screen.remark(f"no topic begins with {arguments.prefix}" if arguments.prefix else "no topics yet")
    return 0


def _table(topics: list[dict[str, Any]]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("topic", overflow="fold", style="cyan")
    for name in ("messages", "next", "published", "compacted", "expired", "evicted", "readers"):
        table.add_column(name, justify="right", overflow="fold")
    for name in ("retention", "window", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for topic in topics:
        settings = topic["settings"]
        counts = ("resident", "next_offset", "published", "compacted", "expired", "evicted", "subscriptions")
        table.add_row(
            Text(topic["name"]),
            *(screen.number(topic[count]) for count in counts),
            show_duration(settings["retention_ttl_ms"]),
            show_duration(settings["compaction_window_ms"]) if settings["compaction_window_ms"] else "off",
            show_size(topic["bytes"]),
        )
    return table


def imbalance(state: dict[str, Any]) -> str:
    """What does not add up in the state of a topic or subscription; "" if all does."""
    wrong = [f"{law} = {rest}, not 0" for law, rest in state["left_over"].items() if rest]
    return f"{state['name']} does not add up, which is a bug of the broker: {'; '.join(wrong)}" if wrong else ""
