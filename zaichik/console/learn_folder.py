"""`zaichik learn init`, `list` and `hint`: what needs no server."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zaichik.console import learn_screen, screen
from zaichik.console.failure import Failure
from zaichik.console.learn_check import selected
from zaichik.escapes import harmless
from zaichik.learn import chapters, examination, folder, progress
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.config import FILE_NAME
from zaichik.learn.stages import CHECKS, STAGES


async def init(arguments: argparse.Namespace, console: Console) -> int:
    """Write what is missing in a folder."""
    if arguments.what is None:
        raise argparse.ArgumentTypeError("init needs a folder, such as: zaichik learn init my-broker")
    where = Path(arguments.what)
    written = folder.init(where, python=arguments.python)
    for path in written:
        console.print(Text(harmless(f"written: {path}")))
    if where / FILE_NAME not in written:
        console.print(Text(harmless(f"{where / FILE_NAME} was there already and stays as it is")))
    console.print(Text(harmless(f"Next: cd {where}; look into {FILE_NAME}; zaichik learn watch")))
    console.print(Text(f"To read beside it, {chapters.protocol()}"), soft_wrap=True)
    return 0


async def step(arguments: argparse.Namespace, console: Console) -> int:
    """On to the next stage, if the one being worked on is passed."""
    known = progress.read(arguments.config.parent)
    here = examination.stage(known.stage)
    if here.number not in known.passed:
        raise Failure(f"{here.id} is not passed yet; run its checks with: zaichik learn check")
    if here is STAGES[-1]:
        console.print(Text(f"{here.id} was the last stage. You have built a broker."))
        return 0
    known.stage = here.number + 1
    progress.write(arguments.config.parent, known)
    learn_screen.print_text(console, examination.stage(known.stage))
    return 0


async def show_stages(arguments: argparse.Namespace, console: Console) -> int:
    """All stages in a table, or one with its text, or a check with the sentences that it tests."""
    known = progress.read(arguments.config.parent)
    if arguments.what is not None and (check := CHECKS.get(arguments.what.upper())):
        learn_screen.print_check(console, check)
    elif arguments.what is not None:
        learn_screen.print_text(console, examination.stage(selected(arguments.what, known)[0].stage))
    elif arguments.json:
        for stage in STAGES:
            checks = [
                {"check": check.id, "title": check.title, "sentences": list(check.sentences)} for check in stage.checks
            ]
            passed = stage.number in known.passed
            screen.print_json({"stage": stage.id, "title": stage.title, "passed": passed, "checks": checks})
    else:
        screen.print_table(console, _table(known))
    return 0


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


async def show_hint(arguments: argparse.Namespace, console: Console) -> int:
    """One more hint for the check that failed last, or for the one that is named."""
    known = progress.read(arguments.config.parent)
    name = arguments.what or known.failed
    if not name:
        raise Failure("no check has failed; run some with: zaichik learn check, or name one: zaichik learn hint S5.2")
    check = selected(name, known)[0]
    hints = examination.stage(check.stage).hints_of(check)
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
