"""`zaichik learn`: build a broker of your own, in any language, and be told how far it is.

Build a broker of your own, in any language. Seventeen stages lead from a port that listens (S0) through a history
without a gap (S15) to what a broker may leave out (S16). Each is checked from outside, over TCP, by the wire protocol
alone; what fails is shown to the first wrong byte. It is also the conformance suite of the protocol: with `check all`
it tells whether a broker is one.

init DIR writes a learn.toml, which says how your server is started. check [WHAT] runs checks: the stage you are at,
a stage (S5, or just 5), several (S5-S7), a check (S5.2), or all. next goes on to the next stage. hint [WHAT] tells one
thing more about the check that failed last, or about WHAT, each time. watch runs your stage whenever a file changes.
list shows all stages, list S5 one of them, list S5.2 a check with the sentences of the protocol that it tests. doctor
looks whether everything that learn needs is there.

If your broker keeps durable topics, write {data} into its command in learn.toml, beside {port}: it is replaced by a
folder that learn makes, and removes in the end. Then checks of S16 kill your broker and start it again with its folder.

With the tutorial: goto 02 brings the experiments and exercises of chapter 02 into this folder; with --start or --end
also the program as it is there. check 2.1 judges an exercise, hint 2.1 helps with it, watch 2.1 judges it again
whenever a file changes, until it is right.

Examples:
  zaichik learn init my-broker --python       # a folder to begin in
  cd my-broker
  zaichik learn watch                         # and write
  zaichik learn check                         # the stage you are at
  zaichik learn check S5-S7 --keep-going      # three stages, and what failed
  zaichik learn check S5.2 --seed 4711        # once more, exactly as it failed
  zaichik learn check all --keep-going --junit results.xml
  zaichik learn check all --connect 127.0.0.1:8889   # one that runs already
  zaichik learn goto 02 --start               # the tutorial's chapter 02
"""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
from rich.console import Console

from zaichik.console import learn_check, learn_doctor, learn_exercise, learn_folder, learn_watch, screen
from zaichik.console.address import address
from zaichik.console.arguments import Argument, Namespace, WrongUsage, argument, group, one_of, within
from zaichik.console.quantities import natural, positive
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
EXERCISE_ACTIONS = {"check": learn_exercise.check, "hint": learn_exercise.hint, "watch": learn_exercise.watch}
NO_WHAT = {"next": "no WHAT", "doctor": "no WHAT", "watch": "an exercise (such as 2.1), or no WHAT for your stage"}
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal was closed


def _program_at(place: str) -> Argument:
    told = f"goto: also the program as it is at the chapter's {place}; what is in the way is kept"
    return argument(f"--{place}", told, dest="program", action="store_const", const=place)


_scale = within(float, lambda scale: 0.1 <= scale <= 100, "{} is no time scale; it must be 0.1 to 100")
ARGUMENTS = (
    argument("ACTION", ", ".join(ACTIONS), choices=ACTIONS),
    argument(
        "[WHAT]",
        "init: a folder; check, hint, list: a stage or check; goto: a chapter; check, hint, watch: an exercise",
    ),
    argument("--python", "init: also write a server in Python to begin with"),
    one_of(_program_at("start"), _program_at("end")),
    argument("--config FILE", "the file that says how your server is started", Path, default=FILE_NAME),
    argument("--plain", "no colours, and watch does not clear the screen"),
    argument("--json", "check, list: print one JSON object per line"),
    group(
        "how checks are run",
        argument("--connect HOST:PORT", "a broker that runs, instead of starting one", address),
        argument("--seed N", "run with this seed alone, as a report printed it", natural),
        argument("--repeat N", "run everything N times", positive, default=1),
        argument("--keep-going", "do not stop at the first check that fails; at the end, list all that did"),
        argument("--time-scale X", "make all waiting X times longer, on slow machines", _scale, default="1"),
        argument("--junit FILE", "also write the results, or those of an exercise, as JUnit XML", Path),
    ),
)


async def run(arguments: Namespace, console: Console) -> int | None:
    """Do what the action says."""
    if arguments.plain:
        console = screen.Screen(file=console.file, highlight=False, no_color=True, force_terminal=False)
    is_exercise = learn_exercise.is_one(arguments.what) and arguments.action in EXERCISE_ACTIONS
    if arguments.what is not None and not is_exercise and (takes := NO_WHAT.get(arguments.action)):
        raise WrongUsage(f"{arguments.action} takes {takes}")
    act = (EXERCISE_ACTIONS if is_exercise else ACTIONS)[arguments.action]
    # What ends us ends the learner's server, too: it has a session of its own, so no signal but ours reaches it. It
    # gets its time to stop, however often we are asked. A signal that was ignored when we began stays so (nohup).
    ending = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(*ending) as signals:
        async with BackgroundTasks() as background:
            background.group.start_soon(_cancel_when_asked, signals, background.group.cancel_scope)
            return await act(arguments, console)
    raise KeyboardInterrupt


async def _cancel_when_asked(signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope) -> None:
    await anext(signals)
    scope.cancel()
