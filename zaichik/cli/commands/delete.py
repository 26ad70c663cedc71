"""`zaichik delete`: deletes a topic with everything that belongs to it.

Delete a topic: its messages, the positions of its named subscriptions and its journal. Programs
that read it are told that it was deleted. The name is free at once: the next message published to
it makes a new topic.

Examples:
  zaichik delete orders
  zaichik delete orders --if-empty     # not if that would lose anything
  zaichik describe orders              # look first: what it holds, who reads it
"""

from rich.console import Console

from zaichik.cli import connecting, names, screen
from zaichik.cli.arguments import Namespace, argument

ARGUMENTS = (
    argument("TOPIC", "the topic to delete", names.name),
    argument("--if-empty", "only if it has no messages, no readers and no named positions"),
    connecting.PLACE,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Delete the topic and confirm it."""
    async with connecting.connected(arguments, "delete", arguments.topic) as client:
        with connecting.required(client, "delete topics"):
            await client.delete_topic(arguments.topic, if_empty=arguments.if_empty)
    screen.say(console, f"{arguments.topic}: deleted")
