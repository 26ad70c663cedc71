"""How the learner's results look: on a terminal in colours, elsewhere the same words."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from zaichik.escapes import harmless
from zaichik.learn import chapters, layouts, sentences, story
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.runner import FAILED, INCONCLUSIVE, PASSED, SKIPPED, Result
from zaichik.learn.stage import Check, Stage
from zaichik.learn.stages import STAGES

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


def print_result(console: Console, result: Result, *, hints: int = 0) -> None:
    """A check in one line; if it failed, why, and as many hints as somebody has asked for."""
    word, style = OUTCOMES[result.outcome]
    took = f"  {result.seconds:.1f} s" if result.seconds >= WORTH_TELLING_S else ""
    title = Text.assemble(result.check.title, (took, "dim"))
    hang(console, Text.assemble((f"{word:>4}", style), f" {result.check.id:<6}"), title)
    if result.outcome != PASSED:
        told = STAGES[result.check.stage].hints_of(result.check)[:hints]
        print_sections(console, [*([story.Section("hint", told)] if told else []), *story.sections(result)])


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


def print_summary(
    console: Console, counts: dict[str, int], results: Sequence[Result], step: Stage | None = None
) -> None:
    """How many of each, and where to go from here. `step` is the stage being worked on, if it is passed."""
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) or "nothing was run"
    console.print()
    console.print(Text(words, "bold"))
    bad = next((result for result in results if result.is_bad), None)
    if bad is not None:
        console.print("a hint: zaichik learn hint", style="dim")
    elif step is not None:
        console.print(f"{step.id} is passed; on to the next one: zaichik learn next", style="dim")


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
