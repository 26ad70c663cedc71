"""`zaichik learn`: build your own broker, in any language, checked stage by stage.

Build your own broker, in any language. Nineteen stages lead from a listening port (S0) through a
history without a gap (S15) to the optional parts (S16), tables (S17) and shared names (S18). Each
is checked from outside, over TCP, by the wire protocol alone; failures are shown down to the first
wrong byte. It is also the protocol's conformance suite: `check all` finds out whether a broker
conforms.

init DIR writes a learn.toml, which says how to start your server. check [WHAT] runs checks: your
current stage, a stage (S5, or just 5), several (S5-S7), a check (S5.2), or all. next moves on to
the next stage. hint [WHAT] gives one more hint each time, for the check that failed last, or for
WHAT. watch checks your stage whenever a file changes. list shows all stages, list S5 a stage, list
S5.2 a check with the protocol's sentences that it tests. doctor finds out whether everything that
learn needs is there.

If your broker keeps durable topics, write {data} into its command in learn.toml, like {port}: it is
replaced by a folder that learn creates, and removes in the end. Checks of S16 then kill your
broker, and restart it with the same folder.

With the tutorial: goto 02 copies the experiments and exercises of chapter 02 into this folder;
--start or --end also copies the program as it is at that point. check 2.1 checks an exercise, hint
2.1 helps with it, watch 2.1 checks it again whenever a file changes, until it is right.

Without any of these, learn shows where you are, and what comes next.

Examples:
  zaichik learn init my-broker --python       # a folder to start in
  cd my-broker
  zaichik learn watch                         # and start coding
  zaichik learn check                         # your current stage
  zaichik learn check S5-S7 --keep-going      # three stages, and what failed
  zaichik learn check S5.2 --seed 4711        # again, exactly as it failed
  zaichik learn check all --keep-going --junit results.xml
  zaichik learn check all --connect 127.0.0.1:8889   # one that runs already
  zaichik learn goto 02 --start               # the tutorial's chapter 02
"""

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TextIO, cast

import anyio
from rich.console import Console

from zaichik.cli import learn_check, learn_doctor, learn_exercise, learn_folder, learn_watch, screen
from zaichik.cli.address import address
from zaichik.cli.arguments import Argument, Namespace, WrongUsage, argument, group, one_of, within
from zaichik.cli.quantities import natural, positive
from zaichik.learn.config import FILE_NAME
from zaichik.net.background import BackgroundTasks

ACTIONS = {
    "init": learn_folder.init,
    "check": learn_check.run,
    "next": learn_folder.step,
    "list": learn_folder.show_stages,
    "hint": learn_folder.show_hint,
    "watch": learn_watch.run,
    "doctor": learn_doctor.run,
    "goto": learn_folder.goto,
}
EXERCISE_ACTIONS = {
    "check": learn_exercise.check,
    "hint": learn_exercise.hint,
    "watch": learn_exercise.watch,
}
NO_WHAT = {
    "next": "no WHAT",
    "doctor": "no WHAT",
    "watch": "an exercise (such as 2.1), or no WHAT for your stage",
}
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal was closed


def _program_at(place: str) -> Argument:
    what = f"goto: also copy the program as of the chapter's {place}; your files are kept"
    return argument(f"--{place}", what, dest="program", action="store_const", const=place)


_scale = within(
    float, lambda scale: 0.1 <= scale <= 100, "{} is not a time scale; it must be 0.1 to 100"
)
ARGUMENTS = (
    argument(
        "[ACTION]",
        ", ".join(ACTIONS) + "; by default it shows where you are, and what comes next",
        choices=ACTIONS,
    ),
    argument(
        "[WHAT]",
        "init: a folder; check, hint, list: a stage or check; goto: a chapter; check, hint, watch: "
        "an exercise",
    ),
    argument("--python", "init: also write a server in Python to start from"),
    one_of(_program_at("start"), _program_at("end")),
    argument(
        "--config FILE", "the file that says how to start your server", Path, default=FILE_NAME
    ),
    argument("--plain", "no colours, and watch does not clear the screen"),
    argument("--json", "check, list: print one JSON object per line"),
    group(
        "how to run checks",
        argument("--connect HOST:PORT", "check a running broker instead of starting one", address),
        argument("--seed N", "run only with this seed, from an earlier report", natural),
        argument("--repeat N", "run everything N times", positive, default=1),
        argument("--keep-going", "go on after a check fails; at the end, list all that failed"),
        argument(
            "--time-scale X",
            "make all waiting X times longer, for slow machines",
            _scale,
            default="1",
        ),
        argument(
            "--junit FILE",
            "also write the results, of checks or of an exercise, as JUnit XML",
            Path,
        ),
    ),
)


async def run(arguments: Namespace, console: Console) -> int | None:
    """Run the action."""
    if arguments.plain:
        console = screen.Screen(cast("TextIO", console.file), is_plain=True)
    if arguments.action is None:
        learn_folder.show_place(arguments, console)
        return None
    is_exercise = learn_exercise.is_one(arguments.what) and arguments.action in EXERCISE_ACTIONS
    if arguments.what is not None and not is_exercise and (takes := NO_WHAT.get(arguments.action)):
        raise WrongUsage(f"{arguments.action} takes {takes}")
    act = (EXERCISE_ACTIONS if is_exercise else ACTIONS)[arguments.action]
    # What ends us ends the learner's server, too: it has a session of its own, so only our signals
    # reach it. It gets its time to stop, however often we are interrupted. A signal that was
    # ignored when we started stays ignored (nohup).
    ending = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(*ending) as signals:
        async with BackgroundTasks() as background:
            background.group.start_soon(_cancel_when_asked, signals, background.group.cancel_scope)
            return await act(arguments, console)
    raise KeyboardInterrupt


async def _cancel_when_asked(
    signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope
) -> None:
    await anext(signals)
    scope.cancel()
