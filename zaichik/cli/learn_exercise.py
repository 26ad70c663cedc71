"""`zaichik learn check 2.1`, `hint 2.1` and `watch 2.1`: the tutorial's exercises."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from zaichik.base.escapes import harmless
from zaichik.cli import learn_screen, screen
from zaichik.cli.arguments import Namespace
from zaichik.cli.failure import Failure, restated
from zaichik.cli.learn_check import write_junit
from zaichik.learn import exercise, files, progress, story
from zaichik.learn.runner import FAILED, PASSED
from zaichik.learn.story import Section


def is_one(what: str | None) -> bool:
    """Whether an argument names an exercise."""
    return what is not None and exercise.NUMBER.fullmatch(what) is not None


async def check(arguments: Namespace, console: Console) -> int:
    """Check the answer in the current folder. Returns 0 if it is right."""
    verdict = await exercise.grade_in_subprocess(*_files(arguments.what))
    if arguments.junit:
        write_junit(arguments.junit, story.exercise_junit(arguments.what, verdict))
    if arguments.json:
        state = {"exercise": arguments.what, "title": verdict.title, "passed": verdict.passed}
        screen.print_json(state | {"failed": verdict.failed, "reason": verdict.reason})
        return 1 if verdict.failed else 0
    console.print(Text(f"{arguments.what}  {verdict.title}", "bold"))
    for title in verdict.passed:
        _print_line(console, PASSED, title)
    if verdict.failed:
        _print_line(console, FAILED, verdict.failed)
        learn_screen.print_sections(console, [Section("wrong", tuple(verdict.reason.split("\n")))])
        console.print(f"for a hint: zaichik learn hint {arguments.what}", style="dim")
        return 1
    console.print("Right.", style="bold")
    return 0


def _print_line(console: Console, outcome: str, title: str) -> None:
    word, style = learn_screen.OUTCOMES[outcome]
    learn_screen.hang(console, Text.assemble((f"{word:>4}", style), " "), Text(harmless(title)))


async def watch(arguments: Namespace, console: Console) -> int:
    """Check the answer now, and whenever a file changes, until it is right."""
    if await check(arguments, console) == 0:
        return 0
    try:
        async for _ in files.changes(Path()):
            console.print()
            if await check(arguments, console) == 0:
                return 0
    except files.Unwatched as error:
        raise Failure(f"{error}. Without it: zaichik learn check {arguments.what}") from None
    return 1


async def hint(arguments: Namespace, console: Console) -> int:
    """One more hint for the question that fails."""
    verdict = await exercise.grade_in_subprocess(*_files(arguments.what))
    hints = [text for text in verdict.hints if text]
    if not hints:
        console.print("It is already right: there are no hints.")
        return 0
    known = progress.read(Path())
    question = (
        f"{arguments.what} {verdict.failed}"  # the next question starts with its own first hint
    )
    shown = known.hints[question] = min(known.hints.get(question, 0) + 1, len(hints))
    progress.write(Path(), known)
    learn_screen.print_hints(
        console, f"{arguments.what}  {verdict.failed}", hints[:shown], len(hints)
    )
    return 0


def _files(number: str) -> tuple[Path, Path]:
    """The checks, and the answer in the current folder."""
    with restated(exercise.NoSuchExercise):
        checks = exercise.checks(number)
    answer = Path(exercise.answer_name(checks))
    if not answer.is_file():
        chapter = number.partition(".")[0]
        raise Failure(
            f"there is no {answer} in this folder; get it with: zaichik learn goto "
            f"{int(chapter):02}"
        )
    return checks, answer
