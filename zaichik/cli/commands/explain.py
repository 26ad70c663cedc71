"""`zaichik explain`: why a message did not arrive; or what an error means, and what to do about it.

Explain a message or an error.

Why did this message not arrive? With a topic, and --offset or --key: what became of the message in
its topic, then at each subscription, then what else the broker remembers; each with the rule that
says so, and with what to do next.

What does this error mean? With a code: what happened, why, and what to do next. An error's message
ends in its code: here in (zaichik explain TOPIC_FULL), in Python in [TOPIC_FULL]. Its number on the
wire, 77, means the same. With nothing: list all codes.

Examples:
  zaichik explain orders --offset 17
  zaichik explain orders --key 4711 --at 2026-01-31T08:00
  zaichik explain orders --offset 17 --subscription billing
  zaichik explain TOPIC_FULL
  zaichik explain 77                         # the same, by its number
  zaichik explain                            # all codes, a line each
"""

import re
import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from zaichik.base.escapes import shown
from zaichik.cli import connecting, explain_message, names
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.errors.codes import GROUPS, find, nearest
from zaichik.cli.errors.section import Section
from zaichik.cli.failure import Failure

WIDTH = 80  # columns at most, however wide the terminal is: longer lines are hard to read
NARROWEST = 20  # beside the labels
_INDENT = " " * 6

ARGUMENTS = (
    argument("[SUBJECT]", "a message's topic, or the code of an error", metavar="TOPIC|CODE"),
    explain_message.options(),
    connecting.PLACE,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Explain a message, or a code; or list all codes."""
    if explain_message.is_about_a_message(arguments):
        topic = names.name(arguments.subject) if arguments.subject is not None else None
        await explain_message.run_message(topic, arguments, console)
        return
    width = max(min(WIDTH, console.width) - len(_INDENT), NARROWEST)
    for line in _explained(arguments.subject, width) if arguments.subject else _list():
        console.print(line, soft_wrap=True)


def _list() -> Iterator[Text]:
    for title, group in GROUPS.items():
        yield Text(title, "bold")
        for section in group:
            yield Text.assemble(
                f"{section.number:>4} ", (f"{section.name:22}", "cyan"), f"  {section.title}"
            )


def _explained(code: str, width: int) -> Iterator[Text]:
    """Yields the lines about a code; a name or number that stands for several has all of them.

    Raises:
        Failure: there is no such code.
    """
    sections = find(code)
    if not sections:
        raise Failure(_unknown(code))
    for place, section in enumerate(sections):
        if place:
            yield Text()
        yield from _about(section, width)


def _about(section: Section, width: int) -> Iterator[Text]:
    yield Text.assemble((section.name, "bold"), f": {section.title}")
    for label, text in _paragraphs(section):
        for place, line in enumerate(_wrapped(text, width)):
            yield Text.assemble((_INDENT if place else f"{label:{len(_INDENT)}}", "bold"), line)


def _paragraphs(section: Section) -> Iterator[tuple[str, str]]:
    yield "", section.kind
    yield "what", section.what
    yield "why", section.why
    yield "next", section.then
    if section.rules:
        yield "rules", f"{', '.join(section.rules.split())}, in docs/understand/semantics.md"
    if (chapter := section.chapter) is not None:
        yield "read", f"the tutorial's {chapter.show()}"
    if section.page:
        yield "" if chapter else "read", f"docs/{section.page.partition('#')[0]}"


def _wrapped(text: str, width: int) -> list[str]:
    """Returns the lines of a paragraph.

    A command between backticks stays on one line, to be copied.
    """
    whole = re.sub("`[^`]*`", lambda command: command[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\0", " ") for line in lines]


def _unknown(code: str) -> str:
    *others, last = nearest(code) or [""]
    proposed = f"{', '.join(others)} or {last}" if others else last
    advice = f"did you mean {proposed}?" if proposed else "zaichik explain lists all"
    # Codes are numbers, or written in capitals; topics seldom are.
    if not (code.isupper() or code.isdecimal()):
        advice += "; if it is a topic, say which message: add --offset or --key"
    return f"there is no code {shown(code)}; {advice}"
