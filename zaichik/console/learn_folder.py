"""`zaichik learn init`, `list` and `hint`: what needs no server."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaichik.console import learn_screen, screen
from zaichik.console.arguments import Namespace, WrongUsage
from zaichik.console.failure import Failure
from zaichik.console.learn_check import selected
from zaichik.escapes import harmless
from zaichik.learn import chapters, examination, folder, layouts, progress
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.config import FILE_NAME
from zaichik.learn.stage import Check, Stage
from zaichik.learn.stages import CHECKS, STAGES


async def init(arguments: Namespace, console: Console) -> int:
    """Write what is missing in a folder."""
    if arguments.what is None:
        raise WrongUsage("init needs a folder, such as: zaichik learn init my-broker")
    where = Path(arguments.what)
    written = folder.init(where, python=arguments.python)
    for path in written:
        console.print(Text(harmless(f"written: {path}")))
    if where / FILE_NAME not in written:
        console.print(Text(harmless(f"{where / FILE_NAME} was there already and stays as it is")))
    console.print(Text(harmless(f"Next: cd {where}; look into {FILE_NAME}; zaichik learn watch")))
    console.print(Text(f"To read beside it, {chapters.protocol()}"), soft_wrap=True)
    return 0


async def step(arguments: Namespace, console: Console) -> int:
    """On to the next stage, if the one being worked on is passed."""
    known = progress.read(arguments.config.parent)
    here = examination.stage(known.stage)
    if here.number not in known.passed:
        command = f"zaichik learn check{learn_screen.repeated(arguments)}"
        raise Failure(f"{here.id} is not passed yet; run its checks with: {command}")
    if here is STAGES[-1]:
        console.print(Text(f"There is no next one; {examination.standing(known)}."))
        return 0
    known.stage = here.number + 1
    progress.write(arguments.config.parent, known)
    learn_screen.print_text(console, examination.stage(known.stage))
    return 0


async def show_stages(arguments: Namespace, console: Console) -> int:
    """All stages in a table, or those that are named, with their texts, or a check with the sentences that it tests."""
    known = progress.read(arguments.config.parent)
    named = selected(arguments.what or "all", known)
    stages = [stage for stage in STAGES if any(check.stage == stage.number for check in named)]
    if arguments.what is not None and (check := CHECKS.get(arguments.what.upper())):
        screen.print_json(_check_state(check)) if arguments.json else learn_screen.print_check(console, check)
    elif arguments.json:
        for stage in stages:
            screen.print_json(_state(stage, known, with_text=arguments.what is not None))
    elif arguments.what is not None:
        for stage in stages:
            learn_screen.print_text(console, stage)
    else:
        screen.print_table(console, _table(known))
    return 0


def _check_state(check: Check) -> dict[str, Any]:
    return {"check": check.id, "title": check.title, "sentences": list(check.sentences)}


def _state(stage: Stage, known: progress.Progress, *, with_text: bool) -> dict[str, Any]:
    """A stage as JSON has it; with its text if it was named."""
    checks = [_check_state(check) for check in stage.checks]
    state = {"stage": stage.id, "title": stage.title, "passed": stage.number in known.passed, "checks": checks}
    if not with_text:
        return state
    text = {"goal": stage.goal, "tested": stage.tested, "real_systems": stage.real, "chapter": stage.chapter}
    return state | text | {"on_the_wire": layouts.explained(stage.frames)}


def _table(known: progress.Progress) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("", "stage", "title", "checks", "chapter"):
        table.add_column(name, overflow="fold")
    for stage in STAGES:
        mark = "passed" if stage.number in known.passed else ("here" if stage.number == known.stage else "")
        chapter = CHAPTERS[stage.chapter]
        table.add_row(
            Text(mark, "green" if mark == "passed" else "yellow"),
            stage.id,
            stage.title,
            str(len(stage.checks)),
            Text(f"{chapter.number:02} {chapter.title}", "dim"),
        )
    return table


async def show_hint(arguments: Namespace, console: Console) -> int:
    """One more hint for the check that failed last, or for the one that is named."""
    known = progress.read(arguments.config.parent)
    name = arguments.what or known.failed
    if not name:
        command = f"zaichik learn check{learn_screen.repeated(arguments)}"
        raise Failure(f"no check has failed; run some with: {command}, or name one: zaichik learn hint S5.2")
    check = selected(name, known)[0]
    hints = check.hints
    shown = min(known.hints.get(check.id, 0) + 1, len(hints))
    known.hints[check.id] = shown
    progress.write(arguments.config.parent, known)
    console.print(Text(f"{check.id}  {check.title}", "bold"))
    for number, hint in enumerate(hints[:shown], 1):
        learn_screen.hang(console, Text(f"{number}. "), Text(hint, "" if number == shown else "dim"))
    if shown < len(hints):
        console.print(Text(f"once more for hint {shown + 1} of {len(hints)}", "dim"))
    else:
        console.print(
            Text(f"that was the last one; {CHAPTERS[examination.stage(check.stage).chapter].show()}", "dim"),
            soft_wrap=True,
        )
    return 0
