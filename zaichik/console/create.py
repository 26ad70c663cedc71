"""`zaichik create`: creates a topic with settings of its own."""

import argparse

from rich.console import Console

from zaichik.console import connecting, names, screen, topic_settings
from zaichik.escapes import shown
from zaichik_protocol import Overflow

DESCRIPTION = """\
Create a topic. Settings you don't name take the broker's defaults. Publishing or subscribing also creates topics;
this command is for those that need other settings. Creating a topic again with the same settings is fine and changes
nothing; with other settings it is refused.
"""

EPILOG = """\
examples:
  zaichik create orders --retention 1h --capacity 100000
  zaichik create prices --compaction-window 10s      # one per key every 10 s
  zaichik create audit --retention forever --max-bytes 1GiB
  zaichik create tasks --overflow reject             # publishers wait
  zaichik create ledger --durable --log-bytes 10GiB  # on disk: serve --data
  zaichik create orders --json                       # the settings in force
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `zaichik create`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "topic", metavar="TOPIC", type=names.name, help='its name: 1 to 200 bytes of UTF-8, not beginning with "$"'
    )
    group = topic_settings.add_options(parser)
    group.add_argument(
        "--overflow",
        choices=[overflow.name.lower() for overflow in Overflow],
        help="when the topic is full of messages that readers still need: evict them (the default), or reject new ones",
    )
    connecting.add_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object: name, created, epoch, settings")


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Create the topic and show the settings in force."""
    settings = topic_settings.chosen(arguments) | {"overflow": arguments.overflow}
    async with connecting.connected(arguments, "create") as client:
        topic = await client.create_topic(arguments.topic, **settings)
    if arguments.json:
        screen.print_json(
            {"name": topic.name, "created": topic.created, "epoch": topic.epoch, "settings": topic.settings}
        )
    else:
        verb = "created" if topic.created else "exists with these settings"
        screen.print_rows(console, f"{shown(topic.name)}: {verb}", topic_settings.rows(topic.settings))
    return 0
