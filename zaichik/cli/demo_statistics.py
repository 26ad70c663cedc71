"""The last step of `zaichik demo`: statistics of the flights, checked against the broker's own.

The statistics run as a separate process, started as a user would start it: it queries the demo's
broker over TCP, and Spark's Java ends with it.
"""

import json
import shlex
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from rich import box
from rich.markup import escape
from rich.table import Table

from zaichik.base.extras import getting
from zaichik.client.client import Client

if TYPE_CHECKING:
    from zaichik.cli.commands.demo import Show

TOPIC = "flights"
EXTRA = f"statistics are an extra; get it with {getting('stats')}"
COUNTED = ("published", "stored", "compacted")  # by the broker and by the statistics


async def show_statistics(show: "Show", client: Client, port: int) -> bool:
    """Shows what other windows would have done.

    Returns whether it agrees with the broker about the one that ran.
    """
    await show.step(
        "Statistics",
        "Are six hours a good window? The journal records everything that came, so it can be "
        "worked out what other "
        "windows would have stored. An update is lost if the dropped message said something "
        "different from the one "
        "that was kept; readers see the news late, when the key's next message is stored, or "
        "never.",
    )
    if find_spec("pyarrow") is None or find_spec("matplotlib") is None:
        show.say(f"[yellow]This step is skipped:[/] {escape(EXTRA)}")
        return True
    words = ["stats", TOPIC, "--connect", f"127.0.0.1:{port}", "--windows", "1h,6h,1d,7d"]
    absent = await anyio.to_thread.run_sync(missing)
    if absent is None:
        words += ["--master", "local[*]"]
        show.say(
            "Spark counts, which needs half a minute, mostly to start; without --master it is one "
            "process."
        )
    else:
        show.say(f"[yellow]One process counts, not Spark:[/] {escape(absent)}")
    show.say(f"\n    [bold]zaichik {escape(shlex.join(words))}[/]\n")
    command = [sys.executable, "-m", "zaichik", *words, "--json"]
    done = await anyio.run_process(command, stderr=None, check=False)
    if done.returncode:
        show.say("[bold red]It failed, for the reason above.[/]")
        return False
    (statistics,) = json.loads(done.stdout)
    show.console.print(_table(statistics["what_if"]))
    show.say(escape(statistics["advice"]))
    (topic,) = [state for state in await client.topics(TOPIC) if state["name"] == TOPIC]
    counted, broker = (
        [account[name] for name in COUNTED] for account in (statistics["account"], topic)
    )
    beginning = "Spark counts" if absent is None else "Counted:"
    show.came(f"{beginning} {_told(counted)}")
    if counted != broker:
        show.say(
            f"[bold red]But the broker counted {_told(broker)}, so one of the two has a bug.[/]"
        )
        return False
    show.say("They match the broker's own counters.")
    return True


def missing() -> str | None:
    """Returns a sentence about what is missing for Spark; None if nothing is."""
    if find_spec("pyspark") is None:
        return f"PySpark is not installed; get it with {getting('spark')}"
    from zaichik.apps.spark.session import NoJava, find_java

    try:
        find_java()
    except NoJava as error:
        return str(error)
    return None


def _told(counters: list[int]) -> str:
    numbers = (f"{number:,} {name}" for name, number in zip(COUNTED, counters, strict=True))
    return f"[bold]{', '.join(numbers)}[/]"


def _table(what_if: list[dict[str, Any]]) -> Table:
    """Returns the table of what each window would do, keeping first messages as the broker does."""
    from zaichik.apps.statistics.advice import percent, show_length, show_time

    table = Table(box=box.SIMPLE, header_style="bold", collapse_padding=True)
    table.add_column("window", style="cyan")
    for name in ("stored", "of all", "lost", "seen late", "by, on average", "never seen"):
        table.add_column(name, justify="right")
    for row in what_if:
        if row["winner"] == "first":
            parts = (
                percent(row[name], row["messages"]) for name in ("kept", "differing", "delayed")
            )
            late = show_time(row["delay_us"] / row["delayed"]) if row["delayed"] else "-"
            never = percent(row["unseen"], row["messages"])
            table.add_row(show_length(row["window_us"]), f"{row['kept']:,}", *parts, late, never)
    return table
