"""The manual page, zaichik(1), made of the help pages of all commands; `make docs` writes it.

    python -m tests.release.manual docs/man/zaichik.1

Wheels have it, where `man`, pipx and packagers look for it. One page for all commands can be
searched at once; it is written in the macros that every man knows (man(7)).
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from zaichik.base.build import VERSION
from zaichik.cli import main
from zaichik.cli.shells import Option, options

SUMMARY = "a message broker: topics, retention, compaction windows, commits"


def manual() -> str:
    """Returns the page."""
    return "\n".join([*_lines(), ""])


def _lines() -> Iterator[str]:
    yield r".\" Made by `make docs` of the help pages of all commands."
    yield f'.TH ZAICHIK 1 "" "zaichik {VERSION}" "User Commands"'
    yield ".SH NAME"
    yield rf"zaichik \- {SUMMARY}"
    yield ".SH SYNOPSIS"
    yield from (r".B zaichik", r"[\-\-help] [\-\-version] COMMAND ...")
    parts = dict(part.split(":\n", 1) for part in main.EPILOG.split("\n\n"))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(main.DESCRIPTION.strip())
    yield "Each command has a help page, which is also below: zaichik COMMAND \\-\\-help."
    yield ".SH COMMANDS"
    for name, summary in main.COMMANDS.items():
        yield f".SS zaichik {name}"
        yield from _command(main.command_parser(name), summary)
    yield ".SH ENVIRONMENT"
    yield from _as_it_is(parts["environment"])
    yield ".SH EXIT STATUS"
    yield from _as_it_is(parts["exit codes"])
    yield ".SH EXAMPLES"
    yield from _as_it_is(parts["examples"])


def _command(parser: argparse.ArgumentParser, summary: str) -> Iterator[str]:
    yield from _paragraphs(parser.description or summary)
    for option in options(parser):
        if "--help" not in option.flags:
            yield ".TP"
            yield _name(option)
            yield _text(option.about) or r"\&"
    _, _, examples = (parser.epilog or "").partition("examples:\n")
    if examples:
        yield ".PP"
        yield "Examples:"
        yield from _as_it_is(examples)


def _name(option: Option) -> str:
    words = [rf"\fB{_text(', '.join(option.flags))}\fR"] if option.flags else []
    if option.value:
        words.append(rf"\fI{_text(option.value)}\fR")
    return " ".join(words)


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n{2,}", text.strip())):
        if number:
            yield ".PP"
        if "\n  " in paragraph or paragraph.startswith("  "):
            yield from _as_it_is(paragraph)
        else:
            yield _text(" ".join(paragraph.split()))


def _as_it_is(text: str) -> Iterator[str]:
    """Yield lines that are neither filled nor broken."""
    yield ".nf"
    yield from (_text(line) for line in text.strip("\n").splitlines())
    yield ".fi"


def _text(text: str) -> str:
    r"""Returns text in which nothing means anything to roff.

    A hyphen becomes `\-`, so that what is copied from the page can be typed.
    """
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(manual(), encoding="utf-8")
