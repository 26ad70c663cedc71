"""`zaichik learn init`, `list`, `goto` and `hint`: actions that need no server."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from zaichik.cli import learn_screen, screen
from zaichik.cli.arguments import Namespace, WrongUsage
from zaichik.cli.failure import Failure, restated
from zaichik.cli.learn_check import selected
from zaichik.learn import catch_up, chapters, examination, folder, layouts, progress
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.config import FILE_NAME, BadConfig, read
from zaichik.learn.stage import Check, Stage
from zaichik.learn.stages import CHECKS, STAGES


async def init(arguments: Namespace, console: Console) -> None:
    """Write the files that are missing in a folder."""
    if arguments.what is None:
        raise WrongUsage("init needs a folder, such as: zaichik learn init my-broker")
    where = Path(arguments.what)
    written = folder.init(where, python=arguments.python)
    for path in written:
        screen.say(console, f"wrote {path}")
    if where / FILE_NAME not in written:
        with restated(BadConfig):
            starts = " ".join(read(where / FILE_NAME).command)
        screen.say(
            console, f"{where / FILE_NAME} already exists and stays as it is; it starts: {starts}"
        )
    going = "" if where == Path() else f"cd {where}; "
    screen.say(console, f"Next: {going}look at {FILE_NAME}; zaichik learn watch")
    screen.say(console, f"To read, {chapters.protocol()}")


def show_place(arguments: Namespace, console: Console) -> None:
    """Say which stage is the current one, what has passed and failed, and what comes next."""
    if not arguments.config.exists():
        init_one = "zaichik learn init my-broker"
        screen.say(console, f"There is no {FILE_NAME} here. To begin: {init_one}; about it: --help")
        return
    known = progress.read(arguments.config.parent)
    here, options = examination.stage(known.stage), learn_screen.repeated(arguments)
    screen.say(console, f"You are at {here.id}, {here.title}.")
    screen.say(console, f"{len(known.passed)} of {len(STAGES)} stages have passed.")
    if known.failed in CHECKS:
        screen.say(console, f"Failed last: {known.failed}  {CHECKS[known.failed].title}")
    following = examination.next_step(known, options)
    if not following:
        following = f"zaichik learn check{options}, or watch{options}"
    screen.say(console, f"Next: {following}")


async def step(arguments: Namespace, console: Console) -> None:
    """Move on to the next stage, if the current one has passed."""
    known = progress.read(arguments.config.parent)
    here = examination.stage(known.stage)
    if here.number not in known.passed:
        command = f"zaichik learn check{learn_screen.repeated(arguments)}"
        raise Failure(f"{here.id} has not passed yet; run its checks with: {command}")
    if here is STAGES[-1]:
        screen.say(console, f"There is no next stage; {examination.next_step(known)}.")
        return
    known.stage = here.number + 1
    progress.write(arguments.config.parent, known)
    learn_screen.print_text(console, examination.stage(known.stage))


async def show_stages(arguments: Namespace, console: Console) -> None:
    """All stages in a table, or the named ones with their texts, or a check with its sentences."""
    known = progress.read(arguments.config.parent)
    named = selected(arguments.what or "all", known)
    stages = [stage for stage in STAGES if any(check.stage == stage.number for check in named)]
    if arguments.what is not None and (check := CHECKS.get(arguments.what.upper())):
        screen.print_json(_check_state(check)) if arguments.json else learn_screen.print_check(
            console, check
        )
    elif arguments.json:
        for stage in stages:
            screen.print_json(_state(stage, known, with_text=arguments.what is not None))
    elif arguments.what is not None:
        for stage in stages:
            learn_screen.print_text(console, stage)
    else:
        _print_stages(console, known)


def _check_state(check: Check) -> dict[str, Any]:
    return {"check": check.id, "title": check.title, "sentences": list(check.sentences)}


def _state(stage: Stage, known: progress.Progress, *, with_text: bool) -> dict[str, Any]:
    """A stage as a JSON object; with its text if it was named."""
    checks = [_check_state(check) for check in stage.checks]
    state = {
        "stage": stage.id,
        "title": stage.title,
        "passed": stage.number in known.passed,
        "checks": checks,
    }
    if not with_text:
        return state
    text = {
        "goal": stage.goal,
        "tested": stage.tested,
        "real_systems": stage.real,
        "chapter": stage.chapter,
    }
    return state | text | {"on_the_wire": layouts.describe(stage.frames)}


def _print_stages(console: Console, known: progress.Progress) -> None:
    lines = []
    for stage in STAGES:
        mark, style = "", "yellow"
        if stage.number in known.passed:
            mark, style = "passed", "green"
        elif stage.number == known.stage:
            mark = "here"
        chapter = CHAPTERS[stage.chapter]
        read = Text(f"{chapter.number:02} {chapter.title}", "dim")
        lines.append((Text(mark, style), stage.id, stage.title, str(len(stage.checks)), read))
    screen.print_columns(console, ("", "stage", "title", "checks", "chapter"), lines)


async def goto(arguments: Namespace, console: Console) -> None:
    """Copy the files of a chapter of the tutorial into the current folder."""
    if arguments.what is None:
        raise WrongUsage("goto needs a chapter, such as: zaichik learn goto 02 --start")
    with restated(catch_up.NoSuchChapter):
        chapter = catch_up.chapter(arguments.what)
        done = catch_up.go(chapter, Path(), arguments.program or "")
    for line in done:
        screen.say(console, line)
    screen.say(console, f"You are at chapter {chapter.number:02}, {chapter.title}.")


async def show_hint(arguments: Namespace, console: Console) -> None:
    """Show one more hint for the check that failed last, or for the one that is named."""
    known = progress.read(arguments.config.parent)
    name = arguments.what or known.failed
    if not name:
        command = f"zaichik learn check{learn_screen.repeated(arguments)}"
        raise Failure(
            f"no check has failed; run some: {command}, or name one: zaichik learn hint S5.2"
        )
    check = selected(name, known)[0]
    shown = known.hints[check.id] = min(known.hints.get(check.id, 0) + 1, len(check.hints))
    progress.write(arguments.config.parent, known)
    read = CHAPTERS[examination.stage(check.stage).chapter].show()
    learn_screen.print_hints(
        console, f"{check.id}  {check.title}", check.hints[:shown], len(check.hints), read
    )
