"""`zaichik learn watch`: the current stage, checked again whenever a file changes.

On a terminal it is one screen and a few keys. Elsewhere, or with --plain, each run is printed below
the previous one, and Ctrl-C ends it.
"""

import sys
from contextlib import ExitStack

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from rich.console import Console
from rich.text import Text

from zaichik.base.escapes import harmless
from zaichik.cli import learn_check, learn_screen
from zaichik.cli.arguments import Namespace
from zaichik.cli.failure import Failure, restated
from zaichik.cli.terminal import Keys, typed
from zaichik.learn import config, examination, files, progress, story
from zaichik.learn.runner import Result, ServerError
from zaichik.learn.server import Launcher
from zaichik.learn.stages import STAGES
from zaichik.net.background import BackgroundTasks

CHANGED, QUIT = "changed", "q"
FOOTER_LINES = 1
TOP_LINES = 3  # the progress, and the title of the stage


async def run(arguments: Namespace, console: Console) -> None:
    """Watch until q or Ctrl-C."""
    with restated(config.BadConfig):
        config.read(arguments.config)
    has_keys = console.is_terminal and sys.stdin.isatty()
    watch = Watch(arguments, console, has_keys=has_keys)
    async with BackgroundTasks() as background:
        with ExitStack() as stack:
            if has_keys:
                keyboard = stack.enter_context(Keys())
                background.group.start_soon(keyboard.heed_suspension, console.clear, watch.draw)
            await watch.run()


class Watch:
    """A run of `watch`.

    Args:
        arguments: the command's arguments. learn.toml and the files next to it are read again for
            every run.
        console: the console to draw on.
        has_keys: whether there is a keyboard, and a screen to clear.
    """

    def __init__(self, arguments: Namespace, console: Console, *, has_keys: bool) -> None:
        self._arguments = arguments
        self._folder = arguments.config.parent
        self._console = console
        self._has_keys = has_keys
        self._known = progress.read(self._folder)
        self._results: list[Result] = []
        self._drawn: dict[str, str] = {}  # the file with a failure's drawing, by check
        self._problem = ""
        self._unwatched = ""
        self._is_running = False
        self._shows_text = False

    async def run(self) -> None:
        """Check, show, wait for a change or a key, and repeat."""
        send, receive = anyio.create_memory_object_stream[str](8)
        async with anyio.create_task_group() as tasks, send, receive:
            tasks.start_soon(self._watch_files, send)
            if self._has_keys:
                tasks.start_soon(self._watch_keys, send)
            while await self._examine_until_asked(receive):
                pass
            tasks.cancel_scope.cancel()

    async def _watch_files(self, send: MemoryObjectSendStream[str]) -> None:
        try:
            async for _ in files.changes(self._folder):
                await send.send(CHANGED)
        except files.Unwatched as error:
            if not self._has_keys:  # nothing could ever happen
                raise Failure(f"{error}. Without it: zaichik learn check") from None
            self._unwatched = str(error)
            self.draw()

    async def _watch_keys(self, send: MemoryObjectSendStream[str]) -> None:
        while True:
            for key in await typed() or [QUIT]:  # end of input: the terminal was closed
                await send.send(key)

    def _obey(self, event: str) -> bool:
        """Handle a key. Returns whether to run the checks (again)."""
        self._shows_text = event == "t" and not self._shows_text
        match event:
            case "changed" | "r":
                return True
            case "n" if self._known.stage in self._known.passed and self._known.stage + 1 < len(
                STAGES
            ):
                self._known.stage += 1
                self._keep()
                return True
            case "h" if bad := self._bad:
                count = len(bad.check.hints)
                self._known.hints[bad.check.id] = min(
                    self._known.hints.get(bad.check.id, 0) + 1, count
                )
                self._keep()
        self.draw()
        return False

    def _keep(self) -> None:
        progress.write(self._folder, self._known)

    @property
    def _bad(self) -> Result | None:
        return next((result for result in self._results if result.is_bad), None)

    async def _examine_until_asked(self, receive: MemoryObjectReceiveStream[str]) -> bool:
        """Run the checks until a change or a key requests another run. Returns False on q."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._examine)
            while (event := await receive.receive()) != QUIT and not self._obey(event):
                pass
            tasks.cancel_scope.cancel()
        return event != QUIT

    async def _examine(self) -> None:
        self._results, self._problem, self._is_running = [], "", True
        # `zaichik learn next` or `hint` may have changed it.
        self._known = progress.read(self._folder)
        stage = examination.stage(self._known.stage)
        self.draw()
        launcher: Launcher | None = None
        try:
            launcher = Launcher(config.read(self._arguments.config))
            async for result in examination.examine(
                stage.checks, launcher, learn_check.plan(self._arguments)
            ):
                self._results.append(result)
                self._drawn[result.check.id] = learn_check.draw(result, self._folder)
                if self._has_keys:
                    self.draw()
        except (config.BadConfig, ServerError) as error:
            self._problem = str(error)
        finally:
            if launcher is not None:
                await launcher.stop()
            self._is_running = False
        if launcher is None:
            self.draw()
            return
        self._problem = self._problem or " ".join(launcher.complaints)
        self._known = progress.read(self._folder)
        examination.record(self._known, self._results)
        self._keep()
        self.draw()

    # -- the screen ------------------------------------------------------------------------------

    def draw(self) -> None:
        """Redraw everything: that is simplest, and no slower than a terminal."""
        if not self._has_keys:
            if not self._is_running:
                self._print_body()
                self._console.print(Text(self._footer(), "dim"), soft_wrap=True)
            return
        with self._console.capture() as captured:
            self._print_body()
        lines = captured.get().splitlines()
        # The last line stays empty, or the terminal would scroll.
        room = self._console.height - FOOTER_LINES - 1
        # Failures, and what follows from them, come last, and must be seen.
        if len(lines) > room:
            more = f"     … {len(lines) - room + 1} more lines: zaichik learn check"
            lines = [*lines[:TOP_LINES], more, *lines[len(lines) - (room - TOP_LINES - 1) :]]
        self._console.clear()
        self._console.file.write("\n".join(lines) + "\n" * (room - len(lines) + 1))
        self._console.file.flush()
        self._console.print(Text(self._footer(), "reverse"), soft_wrap=True)

    def _print_body(self) -> None:
        console, known = self._console, self._known
        stage = examination.stage(known.stage)
        done = len(known.passed)
        bar = "#" * done + "-" * (len(STAGES) - done)
        console.print(
            Text.assemble(("zaichik learn", "bold"), f"  [{bar}] {done} of {len(STAGES)} stages")
        )
        if self._shows_text:
            learn_screen.print_text(console, stage)
            return
        learn_screen.print_stage(console, stage)
        if self._known.stage not in self._known.passed:
            learn_screen.print_sections(console, [story.Section("goal", (stage.goal,))])
        for result in self._results:
            hints = known.hints.get(result.check.id, 0)
            drawn = self._drawn.get(result.check.id, "")
            options = learn_screen.repeated(self._arguments)
            learn_screen.print_result(console, result, hints=hints, options=options, drawn=drawn)
        left = len(stage.checks) - len(self._results)
        if self._is_running:
            console.print(Text(f"     running, {left} to go", "dim"))
        if self._problem:
            learn_screen.print_problem(console, self._problem)
        elif not self._is_running and not self._bad and self._results:
            is_last = known.stage + 1 == len(STAGES) or done == len(STAGES)
            said = examination.next_step(known) if is_last else ""
            console.print(Text(f"     {said or f'{stage.id} has passed'}", "bold green"))

    def _footer(self) -> str:
        """The keys that work now, and whether files are watched."""
        words = []
        if self._has_keys:
            passed = self._known.stage in self._known.passed and self._known.stage + 1 < len(STAGES)
            words += ["n next stage"] if passed else []
            words += ["h hint"] if self._bad else []
            words += ["t back" if self._shows_text else "t text", "r run", "q quit"]
        else:
            words += [
                "Ctrl-C ends",
                f"the next stage: zaichik learn next{learn_screen.repeated(self._arguments)}",
            ]
        words.append(
            f"NOT watching: {harmless(self._unwatched)}"
            if self._unwatched
            else "waiting for files to change"
        )
        return "  ".join(words)
