"""`zaichik audit`: every message accounted for, as sums that a person can follow.

Check that a running broker has accounted for every message. Of each topic: what was published was
stored or compacted away; what was stored is resident, has expired, was evicted, or, in a table, was
superseded. Of each subscription: every offset since its start was delivered, was skipped (and
reported as lag), was passed (a hole of a table), or is ahead; what was delivered is settled or in
flight. The broker may be as busy as it likes: each line is of one moment, and lines need not be of
the same one.

The exit code is 1 if a sum is wrong, which is a bug of the broker.

Examples:
  zaichik audit
  zaichik audit orders                       # one topic, and its subscriptions
  zaichik audit --json | jq '.sums[] | select(.difference != 0)'
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from zaichik.apps.audit import Row, Sum, audit
from zaichik.base.escapes import shown
from zaichik.cli import connecting, names, screen
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.commands.topics import with_readers

ARGUMENTS = (
    argument("[TOPIC]", "only this topic, and its readers", names.name),
    connecting.ADDRESS,
    argument(
        "--json",
        'print one JSON object: {"adds_up": ..., "topics": ..., "subscriptions": ..., "sums": '
        "[...]}",
    ),
)


async def run(arguments: Namespace, console: Console) -> int:
    """Check all sums and show them. Returns 1 if one is wrong."""
    wanted = arguments.topic
    async with connecting.connected(arguments, "audit") as client:
        if wanted is None:
            topics, readers = await client.topics(), await client.subscriptions()
        else:
            topic, readers = await with_readers(client, wanted)
            topics = [topic]
    sums = audit(topics, readers)
    wrong = [each for each in sums if each.difference]
    by_name = {reader["name"]: reader for reader in readers}
    if arguments.json:
        told = {"adds_up": not wrong, "topics": len(topics), "subscriptions": len(readers)}
        screen.print_json(told | {"sums": [_as_json(each) for each in sums]})
    else:
        _show(console, sums, by_name)
        if not wrong:
            screen.remark(
                f"{len(sums)} sums: every message is accounted for" if sums else "no topics yet"
            )
    for each in wrong:
        screen.complain(
            f"{_title(each, by_name)} does not add up, which is a bug of the broker: {each}, "
            f"a difference of {each.difference:,}"
        )
    return 1 if wrong else 0


def _show(console: Console, sums: list[Sum], readers: Mapping[str, Row]) -> None:
    """Print a line for each sum; what it is about stands before its first one."""
    lines = []
    before = ("", "")
    for each in sums:
        here = each.kind, each.name
        lines.append((Text(_title(each, readers) if here != before else "", "cyan"), _line(each)))
        before = here
    if sums:
        screen.print_columns(console, ("", ""), lines)


def _title(law: Sum, readers: Mapping[str, Row]) -> str:
    """Returns what the sum is about.

    A subscription is called what `zaichik explain --subscription` calls it.
    """
    if law.kind == "topic":
        return f"topic {shown(law.name)}"
    reader = readers[law.name]
    which = shown(reader["session"]) or f"{reader['connection']}.{reader['id']}"
    return f"subscription {which} of {shown(reader['topic'])}"


def _line(law: Sum) -> Text:
    if law.difference:
        return Text(f"{law}, a difference of {law.difference:,}", "bold red")
    return Text(str(law))


def _as_json(law: Sum) -> dict[str, Any]:
    whole, total = law.whole
    told = {
        "kind": law.kind,
        "name": law.name,
        "whole": whole,
        "total": total,
        "parts": dict(law.parts),
    }
    return told | {"difference": law.difference}
