"""`zaichik clock`: shows a broker's time, and moves a clock that is moved by hand.

Show the time of the broker's clock, by which messages expire, compaction windows end, and the names
of readers that are away are forgotten. A broker for lessons, started with --clock manual, has a
clock that stands still; `zaichik clock advance 1h` moves it, and all that would have ended within
that hour has ended. No clock can be set back. Connections and logins go by the time of the machine,
so nobody is disconnected. On a broker with users, moving the clock requires the right to delete
$broker.

Examples:
  zaichik serve --clock manual               # in another terminal
  zaichik clock
  zaichik clock advance 59m
  zaichik clock --json | jq .now_us          # µs since 1970
"""

from rich.console import Console

from zaichik.cli import connecting, quantities, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure
from zaichik.client.errors import Unsupported

WORDS = {"manual": "it stands still", "system": "it moves by itself"}

ARGUMENTS = (
    argument(
        "[WORDS...]",
        "move it forward: 500ms, 10s, 5m, 6h, 7d; without: show it",
        metavar="advance DURATION",
    ),
    connecting.ADDRESS,
    argument("--json", 'print one JSON object: {"now_us": ..., "clock": ...}'),
)


def _advance(words: list[str]) -> float | None:
    """Returns the seconds to advance by; None if the time is only to be shown."""
    match words:
        case []:
            return None
        case ["advance", text] if text.startswith("-"):
            raise WrongUsage(f"{text} would set the clock back, and no clock can be set back")
        case ["advance", text]:
            seconds = quantities.duration(text)
            if seconds != "forever":
                return seconds
    raise WrongUsage("write `zaichik clock`, or, for example, `zaichik clock advance 1h`")


async def run(arguments: Namespace, console: Console) -> None:
    """Move the clock if that is asked for, and show its time."""
    seconds = _advance(arguments.words)
    async with connecting.connected(arguments, "clock") as client:
        if seconds is not None:
            try:
                await client.advance_clock(seconds)
            except Unsupported:
                problem = (
                    "its clock moves by itself; for lessons, start a broker with: zaichik "
                    "serve --clock manual"
                )
                raise Failure(
                    f"{client.welcome.broker} cannot advance its clock: {problem}"
                ) from None
        state = await client.describe()
    told = {"now_us": state["now_us"], "clock": state.get("clock", "system")}
    if arguments.json:
        screen.print_json(told)
    else:
        screen.say(console, f"{quantities.show_time(told['now_us'])}, {WORDS[told['clock']]}")
