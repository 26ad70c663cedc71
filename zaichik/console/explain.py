"""`zaichik explain`: why a message did not arrive."""

import argparse

from rich.console import Console

from zaichik.console import explain_message, names

DESCRIPTION = """\
Why did this message not arrive? What became of it in its topic, then at each subscription, then what else the broker
remembers: each with the rule that says so, and with what to do next.
"""

EPILOG = f"examples:\n{explain_message.EXAMPLES}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `zaichik explain`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("subject", metavar="TOPIC", type=names.name, help="the topic of the message")
    explain_message.add_options(parser)


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Explain a message."""
    return await explain_message.run_message(arguments.subject, arguments, console)
