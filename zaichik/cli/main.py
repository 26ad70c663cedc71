"""From an argument list to an exit code.

The first word names the command, and only that command's file is imported: `zaichik --help` answers
at once, and no command pays for another one's imports.
"""

import argparse
import difflib
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from zaichik.base import docstrings
from zaichik.base.build import VERSION, build
from zaichik.cli import arguments, interrupts, streams

if TYPE_CHECKING:
    from _typeshed import SupportsWrite
    from rich.console import Console

# A command is the file of that name in `commands`, and a line here, in the order of `zaichik
# --help`.
COMMANDS = {
    "serve": "run a broker",
    "publish": "send messages, from arguments, a file or standard input",
    "subscribe": "print a topic's messages as they come",
    "work": "run a command for each message, so many at a time",
    "dead": "show what has failed too often, and revive or forget it",
    "create": "create a topic with settings of its own",
    "delete": "delete a topic with its messages",
    "watch": "see topics and their readers live, as a picture",
    "topics": "list topics: what they hold, and what became of the rest",
    "describe": "show everything about the broker, or one topic and its readers",
    "web": "show a broker in a browser, moving",
    "explain": "say why a message did not arrive, or what an error means",
    "audit": "check that every message is accounted for",
    "ping": "say whether a broker answers; for health checks",
    "disconnect": "end a client's connection",
    "clock": "show a broker's time; for lessons: advance it by an hour in no time",
    "record": "save topics as Parquet files",
    "stats": "show what compaction does to a topic, or would with other windows",
    "login": "keep a broker's address with a token for all later commands",
    "user": "say who may log in to a broker that asks",
    "access": "check the users and rules of a broker that asks",
    "check": "read the durable topics in a folder, and say what is damaged",
    "restore": "make a topic again from Kafka, after its machine is lost",
    "replay": "have a broker do again what another one was recorded doing",
    "dissect": "explain the bytes of the wire protocol, field by field",
    "bridge": "copy a topic to Kafka, each message once, and go on",
    "mqtt": "serve clients of MQTT 3.1.1 and 5",
    "kafka": "serve clients of Kafka; experimental",
    "grpc": "serve clients that speak gRPC",
    "cluster": "spread topics over several brokers, on one machine or several",
    "legacy": "serve unchanged clients of the original zaichik, of 2020",
    "demo": "watch a broker at work",
    "completion": "print a script with which a shell completes commands and options",
    "learn": "build a broker of your own, stage by stage, and have it checked",
}

OK = 0
FAILED = 1
WRONG_USAGE = 2  # argparse's, too
INTERRUPTED = 130  # what shells make of Ctrl-C

DESCRIPTION = """\
zaichik is a message broker: topics, retention, compaction windows, commits.
"""

EPILOG = """\
commands:
{commands}

examples:
  zaichik serve                          # a broker at 127.0.0.1:8889
  zaichik subscribe greetings            # in a second terminal, until Ctrl-C
  zaichik publish greetings hello        # in a third: the second prints hello
  zaichik create orders --retention 1h   # a topic that keeps its messages
  zaichik publish orders "two apples"
  zaichik subscribe orders               # prints two apples
  zaichik publish --help                 # more about one command

environment:
  ZAICHIK_CONNECT   the broker's address, or a whole login line, where --connect
                    is not given
  ZAICHIK_TOKEN     the token for an address without one; or a file:
                    ZAICHIK_TOKEN_FILE, or ZAICHIK_PASSWORD_FILE
  ZAICHIK_ACCESS    the folder with users and rules, where `zaichik user` is not
                    given --access
  NO_COLOR          if set, nothing is coloured
  FORCE_COLOR       if set, tables and summaries are coloured in a pipe, too

exit codes:
  0    done; also a broker stopped by SIGTERM, and output cut short by a reader
       such as head
  1    refused by the broker, no broker there, or bad data
  2    wrong usage
  73   the folder of durable topics cannot be used, by serve or check
  74   serve: its disk has failed
  78   the folder of durable topics is of a newer zaichik
  130  ended with Ctrl-C, or in the same way by SIGTERM or SIGHUP
  work ends with 127 if its command does not exist, 126 if it cannot be executed
  bridge ends with 4 if another bridge has taken its place
  record and stats end with 3 if messages are missing, or something is not known
"""


class Command(Protocol):
    """A command's file. Its docstring is its help page, but for the first line."""

    ARGUMENTS: Sequence[arguments.Argument]

    async def run(self, arguments: argparse.Namespace, console: "Console") -> int | None:
        """Run the command, with `console` for standard output.

        Returns the exit code, None if all is done.
        """


class _HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs to the terminal's width and leaves examples, which are indented, alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(
            paragraph if "\n  " in paragraph else textwrap.fill(paragraph, width)
            for paragraph in paragraphs
        )


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports an error in one line, without the usage above it."""

    def __init__(self, prog: str, description: str = "", epilog: str = "") -> None:
        # No abbreviations: a script that uses --ret must not break when another option starts with
        # --ret, too.
        super().__init__(
            prog,
            description=description,
            epilog=epilog,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        # Not only -1, but -1h as well is a value that is out of range, and not an option that does
        # not exist.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Print a help page. `argparse` would ignore it if that cannot be written."""
        out: Any = file or sys.stderr
        out.write(message)
        out.flush()

    def error(self, message: str) -> NoReturn:
        """Report wrong usage, and exit."""
        from zaichik.cli import screen

        # An address that was pasted in the wrong place may hold a token.
        from zaichik.client.endpoint import masked

        screen.complain(f"{masked(message)} (see: {self.prog} --help)")
        self.exit(WRONG_USAGE)


def main(argv: list[str] | None = None) -> int:
    """Run the command named by the arguments. Returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    with interrupts.like_ctrl_c():
        return _main(words)


def _main(words: list[str]) -> int:
    try:
        # A broker serves even if it cannot print that it does.
        streams.occupy(needs_output=words[:1] != ["serve"])
        streams.write_all()
        if words and not words[0].startswith("-"):
            return _run(words[0], words[1:])
        parser = main_parser()
        parser.parse_args(words)
        parser.print_help()
    except streams.Closed as error:
        print(f"zaichik: {error}", file=sys.stderr)
        return WRONG_USAGE
    except KeyboardInterrupt:
        return _interrupted()
    except BaseExceptionGroup as group:
        # It came from a command's tasks, such as one that waited for a pipe with room.
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        return _interrupted()
    except BrokenPipeError:
        # `zaichik subscribe t | head` is no failure. The buffered rest has nowhere to go; without
        # this, the interpreter would try to flush it when it exits, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # of a help page; a command's is a sentence already
        print(f"zaichik: {error.strerror or error}", file=sys.stderr)
        return FAILED
    return OK


def _interrupted() -> int:
    """Write what is buffered, without waiting for a stuck reader. Returns the exit code.

    The interpreter would write it when it exits, and wait.
    """
    interrupts.remember()
    with suppress(KeyboardInterrupt, OSError):
        sys.stdout.flush()
    return INTERRUPTED


def main_parser() -> OneLineParser:
    """Returns the parser of what is typed without a command: its help page lists them all."""
    commands = "\n".join(f"  {name:10} {summary}" for name, summary in COMMANDS.items())
    parser = OneLineParser("zaichik", DESCRIPTION, EPILOG.format(commands=commands))
    parser.usage = "zaichik [--help] [--version] COMMAND ..."
    parser.add_argument("--version", action="version", version=f"zaichik {VERSION} ({build()})")
    return parser


def command_parser(name: str) -> OneLineParser:
    """Returns the parser of a command's arguments, which has its help page as well."""
    command = _command(name)
    _, _, page = docstrings.of_module(f"zaichik.cli.commands.{name}").partition("\n\n")
    page += getattr(command, "HELP_END", "")
    description, _, examples = page.partition("\nExamples:\n")
    parser = OneLineParser(f"zaichik {name}", description, examples and f"examples:\n{examples}")
    arguments.add(parser, command.ARGUMENTS)
    return parser


def _command(name: str) -> Command:
    return cast("Command", import_module(f"zaichik.cli.commands.{name}"))


def _run(name: str, words: list[str]) -> int:
    """Import and run one command; a failure becomes a sentence and an exit code."""
    if name not in COMMANDS:
        similar = difflib.get_close_matches(name, COMMANDS, 1)
        main_parser().error(
            f"there is no command {name}" + (f"; did you mean {similar[0]}?" if similar else "")
        )
    command = _command(name)
    parser = command_parser(name)
    # Intermixed, so that `publish TOPIC --key k MESSAGE` finds its MESSAGE after an option. With
    # `--`, argparse would then take what follows for options, too; and a name that begins with a
    # dash may be untrusted.
    parse = parser.parse_args if "--" in words else parser.parse_intermixed_args
    parsed = parse(words)

    import anyio

    from zaichik.cli import failure, screen

    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal without some letter still gets the line.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with screen.logging_to_stderr():
            # Only a broker runs for long enough that another event loop pays.
            options: dict[str, bool] = getattr(command, "LOOP_OPTIONS", {})
            code = anyio.run(
                _tracked, command, parsed, screen.on(sys.stdout), backend_options=options
            )
            sys.stdout.flush()  # or the interpreter would, and its error would be no sentence
            return code or OK
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    except (KeyboardInterrupt, BrokenPipeError, streams.Closed):
        raise
    except Exception as error:
        # It came from a command's tasks.
        if isinstance(error, ExceptionGroup) and error.subgroup(BrokenPipeError):
            raise BrokenPipeError from error
        sentence = failure.sentence(error)
        if sentence is None:
            raise  # a bug: its traceback helps most
        screen.complain(sentence)
        return error.code if isinstance(error, failure.Failure) else FAILED


async def _tracked(command: Command, parsed: argparse.Namespace, console: "Console") -> int | None:
    """Run a command in an event loop, whose handler of Ctrl-C has been installed by now."""
    import asyncio

    import anyio.lowlevel

    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def cancel() -> None:
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    with interrupts.tracked(), interrupts.cancelling(cancel):
        # Ctrl-C may have come between the two handlers: then the task ends here.
        await anyio.lowlevel.checkpoint()
        return await command.run(parsed, console)
