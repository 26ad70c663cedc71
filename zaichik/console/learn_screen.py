"""How the learner's results look: on a terminal in colours, elsewhere the same words."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from zaichik.console import screen
from zaichik.console.arguments import Namespace
from zaichik.escapes import harmless
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
WORTH_TELLING_S = 0.5


def print_seeds(console: Console, seeds: Sequence[int]) -> None:
    """The seeds of a run, once for all its checks."""
    told = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    console.print(Text(told, "dim"))


def print_stage(console: Console, stage: Stage) -> None:
    """A stage's heading."""
    console.print()
    console.print(Text(f"{stage.id}  {stage.title}", "bold"))


def repeated(arguments: Namespace) -> str:
    """The options that a suggested command must repeat to mean the same server, with a space before each."""
    words = ["--config", str(arguments.config)] if arguments.config != Path(FILE_NAME) else []
    if arguments.connect:
        words = ["--connect", str(arguments.connect)]
    return "".join(f" {shlex.quote(word)}" for word in words)


def print_result(console: Console, result: Result, *, hints: int = 0, options: str = "", drawn: str = "") -> None:
    """A check in one line; if it failed, why.

    Args:
        console: where to.
        result: the check's.
        hints: as many as somebody has asked for are shown.
        options: those to run it again with.
        drawn: the file with its drawing.
    """
    word, style = OUTCOMES[result.outcome]
    took = f"  {result.seconds:.1f} s" if result.seconds >= WORTH_TELLING_S else ""
    title = Text.assemble(result.check.title, (took, "dim"))
    hang(console, Text.assemble((f"{word:>4}", style), f" {result.check.id:<5} "), title)
    if result.outcome != PASSED:
        told = result.check.hints[:hints]
        sections = [*([story.Section("hint", told)] if told else []), *story.sections(result, options)]
        sections += [story.Section("as a picture", (drawn,))] if drawn else []
        print_sections(console, sections)


def print_sections(console: Console, sections: Sequence[story.Section]) -> None:
    """The story of a failure, titles on the left where there is room."""
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
    """A line that may be the learner's, or the server's: its tabs are spaces, and the rest cannot hide or move."""
    return harmless(line.expandtabs())


def hang(console: Console, left: Text, right: Text) -> None:
    """Text beside something: on a terminal folded, each line below the first; elsewhere one line."""
    if not console.is_terminal:
        console.print(Text.assemble(left, right), soft_wrap=True)
        return
    for number, line in enumerate(right.wrap(console, max(10, console.width - left.cell_len - 1))):
        line.rstrip()
        console.print(Text.assemble(left if number == 0 else " " * left.cell_len, line), soft_wrap=True)


def _print_cut(console: Console, line: Text) -> None:
    """A line that is cut at a terminal's edge rather than folded."""
    if console.is_terminal:
        line.truncate(console.width - 1, overflow="ellipsis")
    console.print(line, soft_wrap=True)


def print_trouble(console: Console, trouble: str) -> None:
    """Something that is no check's."""
    console.print()
    console.print(Text("\n".join(map(_safe, trouble.split("\n"))), "bold red"), soft_wrap=not console.is_terminal)


def print_failed(console: Console, results: Sequence[Result]) -> None:
    """All checks that failed, in a table."""
    lines = []
    for result in results:
        wrong = result.failure.summary if result.failure else result.reason
        lines.append((Text(*OUTCOMES[result.outcome]), result.check.id, result.check.title, _safe(wrong)))
    console.print()
    screen.print_columns(console, ("", "check", "what must hold", "what is wrong"), lines)


def print_summary(console: Console, counts: dict[str, int], follows: str = "") -> None:
    """How many of each, and where to go from here."""
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) or "nothing was run"
    console.print()
    console.print(Text(words, "bold"))
    if follows:
        screen.say(console, follows, "dim", folds=True)


def print_hints(console: Console, title: str, hints: Sequence[str], count: int, read: str = "") -> None:
    """The hints that somebody has asked for, of so many; after the last one, where to read."""
    console.print(Text(title, "bold"))
    for number, text in enumerate(hints, 1):
        hang(console, Text(f"{number}. "), Text(text, "" if number == len(hints) else "dim"))
    last = f"that was the last one; {read}" if read else "that was the last one"
    screen.say(console, f"once more for hint {len(hints) + 1} of {count}" if len(hints) < count else last, "dim")


def print_text(console: Console, stage: Stage) -> None:
    """All that a stage tells before one begins."""
    print_stage(console, stage)
    told = [("goal", stage.goal), ("tested", stage.tested), ("real systems", stage.real)]
    sections = [story.Section(title, (text,)) for title, text in told]
    sections += [story.Section("on the wire", tuple(layouts.explained(stage.frames)))] if stage.frames else []
    sections += [
        story.Section("checks", tuple(f"{check.id}  {check.title}" for check in stage.checks)),
        story.Section("read", (CHAPTERS[stage.chapter].show(), chapters.protocol())),
    ]
    print_sections(console, sections)


def print_check(console: Console, check: Check) -> None:
    """A check, what it does, and the sentences that it tests, in full where the text is there."""
    console.print()
    console.print(Text(f"{check.id}  {check.title}", "bold"), soft_wrap=True)
    known = sentences.known()
    quoted = tuple(f"{name}: {known[name].words}" if name in known else name for name in check.sentences)
    doc = " ".join((check.function.__doc__ or "").split())
    print_sections(
        console,
        [
            story.Section("what it does", (doc,)),
            story.Section("sentences", quoted),
            story.Section("read", (chapters.protocol(),)),
        ],
    )
