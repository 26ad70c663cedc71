"""`zaichik explain TOPIC --offset N`: why a message did not arrive, as the broker knows it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from zaichik.base.escapes import harmless, shown
from zaichik.cli import connecting, quantities, screen
from zaichik.cli.arguments import Argument, Namespace, WrongUsage, argument, group
from zaichik.cli.failure import Failure
from zaichik.client.errors import NoSuchTopic
from zaichik.client.messages import start_written
from zaichik.client.patterns.pattern import is_pattern
from zaichik_protocol import FOREVER

GOOD = {"readable", "settled"}  # fates in which nothing is missing
_INDENT = " " * 4


def _key(text: str) -> bytes:
    if not text:
        raise WrongUsage("a message without a key has no key to be found by; give its --offset")
    return text.encode(errors="surrogateescape")  # the bytes that were typed


def _time(text: str) -> datetime:
    with suppress(ValueError):
        if isinstance(time := start_written(text), datetime):
            return time
    raise WrongUsage(f"{text!r} is not a time; write one such as 2026-01-31T08:00")


def options(where: str = "with the name of its topic") -> Argument:
    """Returns the options that choose a message; `where` says how its topic is given."""
    return group(
        "why a message did not arrive",
        argument("--offset N", "the message with this offset", quantities.natural),
        argument("--key KEY", "a message of this key, stored or not", _key),
        argument("--at TIME", "with --key: the one nearest to this time", _time),
        argument(
            "--subscription NAME|ID",
            "only for this one: its name, or CONNECTION.ID as in zaichik describe TOPIC",
            default="",
        ),
        argument("--json", "print one JSON object; see docs/use/explain.md"),
        about=where,
    )


def is_about_a_message(arguments: Namespace) -> bool:
    """Returns whether one of the options above was given."""
    chosen = arguments.offset, arguments.key, arguments.at, arguments.subscription or None
    return any(it is not None for it in chosen) or arguments.json


def check_options(arguments: Namespace) -> None:
    """Refuse options that do not choose one message."""
    if (arguments.offset is None) == (arguments.key is None):
        raise WrongUsage("give either --offset or --key")
    if arguments.at is not None and arguments.key is None:
        raise WrongUsage("--at goes with --key; an offset is one message already")


async def run_message(topic: str | None, arguments: Namespace, console: Console) -> None:
    """Ask the broker about the message that the options choose, and print the verdicts."""
    if topic is None:
        raise WrongUsage("give the topic of the message, too")
    check_options(arguments)
    async with connecting.connected(arguments, "explain", topic) as client:
        with connecting.required(client, "explain what became of messages"), _one_topic(topic):
            explained = await client.explain(
                topic,
                offset=arguments.offset,
                key=arguments.key,
                at=arguments.at,
                subscription=arguments.subscription,
            )
    show(console, explained, as_json=arguments.json)


@contextmanager
def _one_topic(topic: str) -> Iterator[None]:
    """Returns a context in which a topic that is not there may have been meant as a pattern.

    It is asked for first, since a name may have a * in it.
    """
    try:
        yield
    except NoSuchTopic as error:
        if not is_pattern(topic):
            raise
        raise Failure(
            f"there is no topic {shown(topic)}, and explain takes no pattern: a message is in one "
            "topic; zaichik watch PATTERN lists those that match"
        ) from error


def show(console: Console, explained: dict[str, Any], *, as_json: bool) -> None:
    """Print the verdicts, for people or as JSON."""
    if as_json:
        screen.print_json(explained)
        return
    which = f"offset {explained['offset']:,}" if explained["offset"] is not None else "a message"
    key = f", key {harmless(explained['key'])}" if explained["key"] is not None else ""
    _print(console, Text(f"{which} of {shown(explained['topic'])}{key}", "bold"))
    for verdict in explained["verdicts"]:
        console.print()
        evidence = dict(verdict["evidence"])
        where = _place(evidence)
        style = "green" if verdict["fate"] in GOOD else "yellow"
        fate, text = verdict["fate"].replace("_", " "), f"{where}: {harmless(verdict['text'])} "
        _print(console, Text.assemble((fate, style), text, (f"({verdict['rule']})", "dim")))
        told = ", ".join(
            f"{_label(name)} {_value(name, value)}" for name, value in evidence.items()
        )
        if told:
            _print(console, Text(told, "dim"), _INDENT)
        if verdict["next"]:
            _print(console, Text(f"next: {harmless(verdict['next'])}"), _INDENT)


def _print(console: Console, text: Text, indent: str = "") -> None:
    """Print a paragraph: wrapped on a terminal, one line for a program that reads it."""
    width = max(console.width - len(indent), 1)
    for line in text.wrap(console, width) if console.is_terminal else [text]:
        line.rstrip()
        console.print(Text.assemble(indent, line), soft_wrap=True)


def _place(evidence: dict[str, Any]) -> str:
    """Returns at which subscription, if the verdict is about one.

    And takes that out of the evidence.
    """
    number, name = evidence.pop("subscription", ""), evidence.pop("name", "")
    client, user = evidence.pop("client", ""), evidence.get("user", "")
    words = [
        f"subscription {shown(name)}" if name else "",
        number and f"{number}",
        shown(client),
        user and shown(user),
    ]
    return f", {', '.join(filter(None, words))}" if number or name else ""


def _label(name: str) -> str:
    return name.removesuffix("_us").removesuffix("_ms").removesuffix("_s").replace("_", " ")


def _value(name: str, value: Any) -> str:
    if name.endswith("_us") and value is not None:
        return quantities.show_time(value, "microseconds")
    if name.endswith("_ms") and value is not None:
        return quantities.show_duration(value)
    if name.endswith("_s"):
        return f"{value} s"
    return "forever" if value in (None, FOREVER) else harmless(str(value))
