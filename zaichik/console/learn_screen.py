"""How the learner's results look: on a terminal in colours, elsewhere the same words."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from zaichik.learn import story
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.runner import FAILED, INCONCLUSIVE, PASSED, SKIPPED, Result
from zaichik.learn.stage import Stage

OUTCOMES = {PASSED: ("ok", "green"), FAILED: ("FAIL", "bold red"), INCONCLUSIVE: ("busy", "yellow"), SKIPPED: ("--", "dim")}
_STYLES = {"wrong": "bold", "first wrong byte": "red", "likely cause": "yellow", "frames": "dim", "server's output": "dim"}
_TITLE_WIDTH = 16
_NARROW = 70  # columns; below that, titles stand above their text


def print_stage(console: Console, stage: Stage) -> None:
    """A stage's heading."""
    console.print()
    console.print(Text.assemble((f"{stage.id}  {stage.title}", "bold"), ("", "dim")))


def print_result(console: Console, result: Result) -> None:
    """A check in one line; if it failed, why."""
    word, style = OUTCOMES[result.outcome]
    line = Table.grid(padding=(0, 1))
    line.add_column(no_wrap=True, width=6, justify="right")
    line.add_column(no_wrap=True, width=5)
    line.add_column()
    told = Text.assemble(result.check.title, (f"  seeds {story.seeds(result)}, {result.seconds:.1f} s", "dim"))
    line.add_row(Text(word, style), result.check.id, told)
    console.print(line)
    if result.outcome != PASSED:
        print_sections(console, story.sections(result))


def print_sections(console: Console, sections: Sequence[story.Section]) -> None:
    """The story of a failure, titles on the left where there is room."""
    is_narrow = console.width < _NARROW
    for section in sections:
        style = _STYLES.get(section.title, "")
        is_code = section.title in {"frames", "server's output", "proof"}
        text = Text("\n".join(section.lines), style, overflow="ellipsis" if is_code else "fold", no_wrap=is_code)
        if is_narrow or is_code:
            console.print(Padding(Text(section.title, "cyan"), (0, 0, 0, 2)))
            console.print(Padding(text, (0, 0, 0, 4)))
        else:
            line = Table.grid(padding=(0, 1))
            line.add_column(width=_TITLE_WIDTH)
            line.add_column(overflow="fold")
            line.add_row(Text(section.title, "cyan"), text)
            console.print(Padding(line, (0, 0, 0, 2)))


def print_trouble(console: Console, trouble: str) -> None:
    """Something that is no check's."""
    console.print()
    console.print(Text(trouble, "bold red"))


def print_summary(console: Console, counts: dict[str, int], results: Sequence[Result]) -> None:
    """How many of each, and where to go from here."""
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) or "nothing was run"
    console.print()
    console.print(Text(words, "bold"))
    bad = next((result for result in results if result.is_bad), None)
    if bad is not None:
        console.print("a hint: zaichik learn hint", style="dim")


def print_text(console: Console, stage: Stage) -> None:
    """All that a stage tells before one begins."""
    print_stage(console, stage)
    told = (("goal", stage.goal), ("tested", stage.tested), ("real systems", stage.real))
    sections = [story.Section(title, (text,)) for title, text in told]
    print_sections(console, [*sections, story.Section("read", (CHAPTERS[stage.chapter].show(),))])
    console.print(Padding(Text("checks", "cyan"), (0, 0, 0, 2)))
    for check in stage.checks:
        console.print(Padding(Text(f"{check.id}  {check.title}"), (0, 0, 0, 4)))
