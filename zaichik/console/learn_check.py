"""`zaichik learn check`: run checks, show what fails."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from zaichik.console import learn_screen, screen
from zaichik.console.arguments import Namespace, WrongUsage
from zaichik.console.failure import Failure, restated
from zaichik.learn import config, drawing, examination, progress, story
from zaichik.learn.connected import Connected
from zaichik.learn.examination import Plan
from zaichik.learn.runner import Host, Result, ServerTrouble, fresh_seeds
from zaichik.learn.server import Launcher
from zaichik.learn.stage import Check
from zaichik.learn.trial import PATIENCE_S, Pace, Target


def plan(arguments: Namespace) -> Plan:
    """What the options ask for. Waiting for what must come is never made shorter."""
    scale = arguments.time_scale
    seeds = fresh_seeds() if arguments.seed is None else (arguments.seed,)
    return Plan(seeds, Pace(scale, PATIENCE_S * max(1.0, scale)), arguments.keep_going)


def selected(what: str | None, known: progress.Progress) -> list[Check]:
    """The checks that a word of the command line means."""
    with restated(examination.NoSuchCheck, by=WrongUsage):
        return examination.select(what, known)


async def run(arguments: Namespace, console: Console) -> int:
    """Run what was asked for; 0 if nothing failed."""
    folder = arguments.config.parent
    known = progress.read(folder)
    checks = selected(arguments.what, known)
    results: list[Result] = []
    troubles: list[str] = []
    launcher: Launcher | None = None
    try:
        with restated(config.BadConfig):
            launcher = None if arguments.connect else Launcher(config.read(arguments.config))
        host: Host = launcher or await Connected.to(Target(*arguments.connect))
        for _ in range(arguments.repeat):
            await _round(checks, host, arguments, console, results)
            if any(result.is_bad for result in results) and not arguments.keep_going:
                break
    except ServerTrouble as error:
        troubles.append(str(error))
    finally:
        if launcher is not None:
            await launcher.stop()
    options, follows = learn_screen.repeated(arguments), ""
    if arguments.junit:
        write_junit(arguments.junit, story.junit(results, options))
    if launcher is not None:
        examination.judge(known, results)
        progress.write(folder, known)
        troubles += launcher.complaints
        if any(result.check.stage == known.stage for result in results):
            follows = examination.standing(known, options)
    if bad := next((result for result in results if result.is_bad), None):
        follows = f"a hint: zaichik learn hint{options if launcher else f' {bad.check.id}'}"
    return _conclude(results, troubles, follows, arguments, console)


def draw(result: Result, folder: Path) -> str:
    """Write the drawing of a failure beside learn.toml; the file's name, or "" if there is nothing to draw."""
    if result.failure is None or result.failure.drawing is None:
        return ""
    path = folder / drawing.FILE_NAME
    try:
        path.write_text(result.failure.drawing.svg(), encoding="utf-8")
    except OSError:  # the same is shown as text
        return ""
    return str(path)


def write_junit(path: Path, text: str) -> None:
    """Write results where --junit says."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from None


async def _round(
    checks: Sequence[Check], host: Host, arguments: Namespace, console: Console, results: list[Result]
) -> None:
    stage = None
    how = plan(arguments)
    if not arguments.json:
        learn_screen.print_seeds(console, how.seeds)
    async for result in examination.examine(checks, host, how):
        results.append(result)
        drawn = draw(result, arguments.config.parent)
        if arguments.json:
            screen.print_json(story.as_json(result))
            continue
        if result.check.stage != stage:
            stage = result.check.stage
            learn_screen.print_stage(console, examination.stage(stage))
        learn_screen.print_result(console, result, options=learn_screen.repeated(arguments), drawn=drawn)


def _conclude(
    results: Sequence[Result], troubles: Sequence[str], follows: str, arguments: Namespace, console: Console
) -> int:
    """The last lines, and the exit code."""
    bad = [result for result in results if result.is_bad]
    counts = {outcome: sum(r.outcome == outcome for r in results) for outcome in learn_screen.OUTCOMES}
    if arguments.json:
        screen.print_json({"summary": counts, "trouble": troubles})
    else:
        for trouble in troubles:
            learn_screen.print_trouble(console, trouble)
        if arguments.keep_going and bad:
            learn_screen.print_failed(console, bad)
        learn_screen.print_summary(console, counts, follows)
    return int(bool(troubles or bad))
