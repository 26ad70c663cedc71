"""`zaichik create`: creates a topic with settings of its own.

Create a topic. Settings you don't name take the broker's defaults. Publishing or subscribing also
creates topics; this command is for those that need other settings. Creating a topic again with the
same settings is fine and changes nothing; with other settings it is refused.

Examples:
  zaichik create orders --retention 1h --capacity 100000
  zaichik create prices --compaction-window 10s      # one per key every 10 s
  zaichik create audit --retention forever --max-bytes 1GiB
  zaichik create tasks --overflow reject             # publishers wait
  zaichik create ledger --durable --log-bytes 10GiB  # on disk: serve --data
  zaichik create rates --table                       # the last of each key
  zaichik create orders --json                       # the settings in force
"""

from rich.console import Console

from zaichik.base.escapes import shown
from zaichik.cli import connecting, names, quantities, screen, topic_settings
from zaichik.cli.arguments import Namespace, argument
from zaichik_protocol import Overflow

OVERFLOW = argument(
    "--overflow",
    "when the topic is full of messages that readers still need: evict them (the default), or "
    "reject new ones",
    choices=[overflow.name.lower() for overflow in Overflow],
)
TABLE = argument(
    "--table",
    "keep the last message of each key; --capacity and --max-bytes then bound what can be read",
    default=None,
)
TOMBSTONES = argument(
    "--tombstones DUR",
    "with --table: how long messages that delete keys are kept (the broker's default: 24h)",
    quantities.duration,
)
ARGUMENTS = (
    argument("TOPIC", 'its name: 1 to 200 bytes of UTF-8, not beginning with "$"', names.name),
    topic_settings.options(OVERFLOW, TABLE, TOMBSTONES),
    connecting.PLACE,
    argument("--json", "print one JSON object: name, created, epoch, settings"),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Create the topic and show the settings in force."""
    async with connecting.connected(arguments, "create", arguments.topic) as client:
        topic = await client.create_topic(arguments.topic, **topic_settings.chosen(arguments))
    if arguments.json:
        screen.print_json(
            {
                "name": topic.name,
                "created": topic.created,
                "epoch": topic.epoch,
                "settings": topic.settings,
            }
        )
    else:
        verb = "created" if topic.created else "exists with these settings"
        screen.print_rows(
            console, f"{shown(topic.name)}: {verb}", topic_settings.rows(topic.settings)
        )
