"""The arguments of commands, in a table in each command's file, declared as usage is written.

An argument named "TOPIC" must be given once, "[TOPIC]" may be left out, "TOPIC..." may be repeated;
"--json" is a switch, and "--file FILE" an option with a value.
"""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

Namespace = argparse.Namespace
# Of a command or of one argument: `main` says what is wrong, and exits.
WrongUsage = argparse.ArgumentTypeError

Parse = Callable[[str], Any]
Container = argparse._ActionsContainer  # noqa: SLF001 (a parser or a group of arguments; it has no public name)
Argument = Callable[[Container], object]  # adds itself

# For argparse, by the marks at a value's name.
_COUNTS = {"": None, "[]": "?", "...": "+", "[...]": "*"}


def argument(usage: str, help_text: str, parse: Parse = str, **settings: Any) -> Argument:
    """Declares an argument.

    Args:
        usage: its names, and the word for its value.
        help_text: what it is for; the default is added.
        parse: makes the value from what was typed, or from a default that is text.
        settings: more arguments of argparse's `add_argument`.
    """
    default = settings.get("default")
    if default and isinstance(default, str | int) and "default" not in help_text:
        help_text += " (default: %(default)s)"
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    if words != flags:
        value = words[-1].strip("[.]")
        known = {"metavar": value, "type": parse, "nargs": _COUNTS[words[-1].replace(value, "")]}
        known |= {} if flags else {"dest": value.lower()}
    else:
        known = {} if settings.keys() & {"choices", "action"} else {"action": "store_true"}
    return lambda parser: parser.add_argument(*flags, **{"help": help_text, **known, **settings})


def within(parse: Parse, is_right: Callable[[Any], bool], sentence: str) -> Parse:
    """Returns a parser for those values for which `is_right`.

    With `sentence`, about {} as it was typed, for others.
    """

    def parsed(text: str) -> Any:
        try:
            if is_right(value := parse(text)):
                return value
        except ValueError:
            pass
        raise WrongUsage(sentence.format(repr(text)))

    return parsed


def group(title: str, *members: Argument, about: str | None = None) -> Argument:
    """Arguments that have a heading of their own in `--help`."""
    return lambda parser: add(parser.add_argument_group(title, about), members)


def one_of(*members: Argument) -> Argument:
    """Arguments of which only one may be given."""
    return lambda parser: add(parser.add_mutually_exclusive_group(), members)


def add(parser: Container, members: Iterable[Argument]) -> None:
    """Add arguments to a parser or a group, in this order."""
    for member in members:
        member(parser)
