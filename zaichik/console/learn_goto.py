"""`zaichik learn goto`: to a chapter of the tutorial."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from zaichik.console.arguments import Namespace, WrongUsage
from zaichik.console.failure import Failure
from zaichik.escapes import harmless
from zaichik.learn import catch_up


async def run(arguments: Namespace, console: Console) -> int:
    """Bring a chapter's files into the current folder."""
    if arguments.what is None:
        raise WrongUsage("goto needs a chapter, such as: zaichik learn goto 02 --start")
    try:
        chapter = catch_up.chapter(arguments.what)
        said = catch_up.go(chapter, Path(), arguments.program or "")
    except catch_up.NoSuchChapter as error:
        raise Failure(str(error)) from None
    for line in said:
        console.print(Text(harmless(line)), soft_wrap=True)
    console.print(Text(f"You are at chapter {chapter.number:02}, {chapter.title}."))
    return 0
