"""The progress bars of commands that go through many messages."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from zaichik.cli import screen


def bars(time: ProgressColumn, *, transient: bool = False) -> Progress:
    """Returns bars that count messages, on a terminal; elsewhere they show nothing.

    Args:
        time: the last column: how long it took, or will take.
        transient: whether the bars vanish at the end.
    """
    console = screen.on_stderr()
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("messages"),
        time,
        console=console,
        transient=transient,
        disable=not console.is_terminal or console.is_dumb_terminal,
    )
