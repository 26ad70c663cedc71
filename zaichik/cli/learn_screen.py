"""The learner's results: in colours on a terminal, elsewhere the same words."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from zaichik.base import docstrings
from zaichik.base.escapes import harmless
from zaichik.cli import screen
from zaichik.cli.arguments import Namespace
from zaichik.learn import chapters, layouts, sentences, story
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.config import FILE_NAME
from zaichik.learn.runner import FAILED, INCONCLUSIVE, PASSED, SKIPPED, Result
from zaichik.learn.stage import Check, Stage

OUTCOMES = {
    PASSED: ("ok", "green"),
    FAILED: ("FAIL", "bold red"),
    INCONCLUSIVE: ("busy", "yellow"),
    SKIPPED: ("--", "dim"),
}
_STYLES = {
    "wrong": "bold",
    "hint": "yellow",
    "first wrong byte": "red",
    "likely cause": "yellow",
    "frames": "dim",
    "server's output": "dim",
}
_CODE = {"frames", "server's output", "proof"}
TITLE_WIDTH = 17
NARROW = 70  # columns; below that, titles stand above their text
WORTH_SHOWING_S = 0.5


def print_seeds(console: Console, seeds: Sequence[int]) -> None:
    """Print the seeds of a run, once for all its checks."""
    words = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    console.print(Text(words, "dim"))


def print_stage(console: Console, stage: Stage) -> None:
    """Print a stage's heading."""
    console.print()
    console.print(Text(f"{stage.id}  {stage.title}", "bold"))


def repeated(arguments: Namespace) -> str:
    """The options that a suggested command must repeat, each with a space before it."""
    words = ["--config", str(arguments.config)] if arguments.config != Path(FILE_NAME) else []
    if arguments.connect:
        words = ["--connect", str(arguments.connect)]
    return "".join(f" {shlex.quote(word)}" for word in words)


def print_result(
    console: Console, result: Result, *, hints: int = 0, options: str = "", drawn: str = ""
) -> None:
    """Print a check in one line; if it failed, with the reasons.

    Args:
        console: the console to print to.
        result: the check's result.
        hints: how many hints to show.
        options: options to run it again with.
        drawn: the file with the failure's drawing.
    """
    word, style = OUTCOMES[result.outcome]
    took = f"  {result.seconds:.1f} s" if result.seconds >= WORTH_SHOWING_S else ""
    title = Text.assemble(result.check.title, (took, "dim"))
    hang(console, Text.assemble((f"{word:>4}", style), f" {result.check.id:<5} "), title)
    if result.outcome != PASSED:
        shown = result.check.hints[:hints]
        sections = [
            *([story.Section("hint", shown)] if shown else []),
            *story.sections(result, options),
        ]
        sections += [story.Section("as a picture", (drawn,))] if drawn else []
        print_sections(console, sections)


def print_sections(console: Console, sections: Sequence[story.Section]) -> None:
    """Print the sections of a failure, with titles on the left if there is room."""
    is_narrow = console.width < NARROW
    for section in sections:
        style = _STYLES.get(section.title, "")
        if section.title in _CODE or is_narrow:
            console.print(Text(f"     {section.title}", "cyan"))
            for line in map(_safe, section.lines):
                if section.title in _CODE:
                    _print_cut(console, Text(f"       {line}", style))
                else:
                    hang(console, Text("       "), Text(line, style))
        else:
            titles = (section.title, *[""] * len(section.lines))
            for title, line in zip(titles, map(_safe, section.lines), strict=False):
                hang(console, Text(f"     {title:<{TITLE_WIDTH}}", "cyan"), Text(line, style))


def _safe(line: str) -> str:
    """A line of the learner's or the server's, made harmless: no tabs, no control characters."""
    return harmless(line.expandtabs())


def hang(console: Console, left: Text, right: Text) -> None:
    """Print text next to a label: on a terminal folded and hanging, elsewhere in one line."""
    if not console.is_terminal:
        console.print(Text.assemble(left, right), soft_wrap=True)
        return
    for number, line in enumerate(right.wrap(console, max(10, console.width - left.cell_len - 1))):
        line.rstrip()
        console.print(
            Text.assemble(left if number == 0 else " " * left.cell_len, line), soft_wrap=True
        )


def _print_cut(console: Console, line: Text) -> None:
    """Print a line that is cut at a terminal's edge instead of folded."""
    if console.is_terminal:
        line.truncate(console.width - 1, overflow="ellipsis")
    console.print(line, soft_wrap=True)


def print_problem(console: Console, problem: str) -> None:
    """Print a problem that is not a check's."""
    console.print()
    console.print(
        Text("\n".join(map(_safe, problem.split("\n"))), "bold red"),
        soft_wrap=not console.is_terminal,
    )


def print_failed(console: Console, results: Sequence[Result]) -> None:
    """Print all failed checks in a table."""
    lines = []
    for result in results:
        wrong = result.failure.summary if result.failure else result.reason
        lines.append(
            (Text(*OUTCOMES[result.outcome]), result.check.id, result.check.title, _safe(wrong))
        )
    console.print()
    screen.print_columns(console, ("", "check", "what must hold", "what is wrong"), lines)


def print_summary(console: Console, counts: dict[str, int], follows: str = "") -> None:
    """Print how many of each, and what to do next."""
    words = (
        ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        or "nothing was run"
    )
    console.print()
    console.print(Text(words, "bold"))
    if follows:
        screen.say(console, follows, "dim", folds=True)


def print_hints(
    console: Console, title: str, hints: Sequence[str], count: int, read: str = ""
) -> None:
    """Print some of `count` hints; after the last one, where to read on."""
    console.print(Text(title, "bold"))
    for number, text in enumerate(hints, 1):
        hang(console, Text(f"{number}. "), Text(text, "" if number == len(hints) else "dim"))
    last = f"that was the last hint; {read}" if read else "that was the last hint"
    screen.say(
        console,
        f"repeat for hint {len(hints) + 1} of {count}" if len(hints) < count else last,
        "dim",
    )


def print_text(console: Console, stage: Stage) -> None:
    """Print a stage's text, to read before starting."""
    print_stage(console, stage)
    parts = [("goal", stage.goal), ("tested", stage.tested), ("real systems", stage.real)]
    sections = [story.Section(title, (text,)) for title, text in parts]
    if stage.frames:
        layout = tuple(layouts.describe(stage.frames))
        sections.append(story.Section("on the wire", layout))
    checks = tuple(f"{check.id}  {check.title}" for check in stage.checks)
    sections.append(story.Section("checks", checks))
    pages = (CHAPTERS[stage.chapter].show(), chapters.protocol())
    sections.append(story.Section("read", pages))
    print_sections(console, sections)


def print_check(console: Console, check: Check) -> None:
    """Print a check, what it does, and the sentences that it tests."""
    console.print()
    console.print(Text(f"{check.id}  {check.title}", "bold"), soft_wrap=True)
    known = sentences.load()
    quoted: list[str] = []
    for name in check.sentences:
        if name in known:
            quoted.append(f"{name}: {known[name].words}")
        else:
            quoted.append(name)
    doc = " ".join(docstrings.of_function(check.function).split())
    parts = [
        story.Section("what it does", (doc,)),
        story.Section("sentences", tuple(quoted)),
        story.Section("read", (chapters.protocol(),)),
    ]
    print_sections(console, parts)
