"""`zaichik learn check`: run checks, show what fails."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from zaichik.cli import learn_screen, screen
from zaichik.cli.arguments import Namespace, WrongUsage
from zaichik.cli.failure import Failure, restated
from zaichik.learn import config, drawing, examination, progress, story
from zaichik.learn.examination import Plan
from zaichik.learn.external import ExternalBroker
from zaichik.learn.runner import Host, Result, ServerError, fresh_seeds
from zaichik.learn.server import Launcher
from zaichik.learn.stage import Check
from zaichik.learn.trial import PATIENCE_S, Pace, Target


def plan(arguments: Namespace) -> Plan:
    """The plan that the options ask for. Patience is never made shorter."""
    scale = arguments.time_scale
    seeds = fresh_seeds() if arguments.seed is None else (arguments.seed,)
    return Plan(seeds, Pace(scale, PATIENCE_S * max(1.0, scale)), arguments.keep_going)


def selected(what: str | None, known: progress.Progress) -> list[Check]:
    """The checks that an argument names."""
    with restated(examination.NoSuchCheck, by=WrongUsage):
        return examination.select(what, known)


async def run(arguments: Namespace, console: Console) -> int:
    """Run what was asked for. Returns 0 if nothing failed."""
    folder = arguments.config.parent
    known = progress.read(folder)
    checks = selected(arguments.what, known)
    results: list[Result] = []
    problems: list[str] = []
    launcher: Launcher | None = None
    try:
        with restated(config.BadConfig):
            launcher = None if arguments.connect else Launcher(config.read(arguments.config))
        host: Host = launcher or await ExternalBroker.to(Target(*arguments.connect))
        for _ in range(arguments.repeat):
            await _round(checks, host, arguments, console, results)
            if any(result.is_bad for result in results) and not arguments.keep_going:
                break
    except ServerError as error:
        problems.append(str(error))
    finally:
        if launcher is not None:
            await launcher.stop()
    options, follows = learn_screen.repeated(arguments), ""
    if arguments.junit:
        write_junit(arguments.junit, story.junit(results, options))
    if launcher is not None:
        examination.record(known, results)
        progress.write(folder, known)
        problems += launcher.complaints
        if any(result.check.stage == known.stage for result in results):
            follows = examination.next_step(known, options)
    if bad := next((result for result in results if result.is_bad), None):
        said = options if launcher else f" {bad.check.id}"
        follows = f"for a hint: zaichik learn hint{said}"
    return _conclude(results, problems, follows, arguments, console)


def draw(result: Result, folder: Path) -> str:
    """Write a failure's drawing next to learn.toml. Returns its path, or "" if there is none."""
    if result.failure is None or result.failure.drawing is None:
        return ""
    path = folder / drawing.FILE_NAME
    try:
        path.write_text(result.failure.drawing.svg(), encoding="utf-8")
    except OSError:  # the drawing is also shown as text
        return ""
    return str(path)


def write_junit(path: Path, text: str) -> None:
    """Write results where --junit says."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from None


async def _round(
    checks: Sequence[Check],
    host: Host,
    arguments: Namespace,
    console: Console,
    results: list[Result],
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
        learn_screen.print_result(
            console, result, options=learn_screen.repeated(arguments), drawn=drawn
        )


def _conclude(
    results: Sequence[Result],
    problems: Sequence[str],
    follows: str,
    arguments: Namespace,
    console: Console,
) -> int:
    """The last lines, and the exit code."""
    bad = [result for result in results if result.is_bad]
    counts = {
        outcome: sum(r.outcome == outcome for r in results) for outcome in learn_screen.OUTCOMES
    }
    if arguments.json:
        screen.print_json({"summary": counts, "trouble": problems})
    else:
        for problem in problems:
            learn_screen.print_problem(console, problem)
        if arguments.keep_going and bad:
            learn_screen.print_failed(console, bad)
        learn_screen.print_summary(console, counts, follows)
    return int(bool(problems or bad))
