"""`zaichik watch`: a topic and its readers as a picture that moves, or all topics as a table.

Draw a topic as a strip of its messages, the oldest at the left, with a lane for each reader: its
distance to the right end is its lag. At the far left are messages that are gone: expired (x), or
evicted (a cross) because the topic was full. Without TOPIC, list all topics, the busiest first;
Enter opens one. With a pattern, such as 'orders.*', list those that match it.

On a terminal the picture moves, and its last line says what the keys do. In a pipe it is printed
once. Watching takes at most a fiftieth of the broker's time, and holds up no publisher.

Examples:
  zaichik watch                  # all topics: s sorts, / filters, Enter opens
  zaichik watch 'orders.*'       # the topics that match
  zaichik watch orders           # one topic: tab chooses a reader, z zooms
  zaichik watch orders | cat     # once, without colours
  zaichik watch orders --ascii   # for a terminal without box-drawing letters
"""

import logging
import os
import signal
import sys

import anyio
from rich.console import Console

from zaichik.apps.views.printable import clipped
from zaichik.apps.views.styled_lines import Line, ansi, ascii_only, fitted, line, plain
from zaichik.apps.watch.polling import Poller, TopicPoll
from zaichik.base.escapes import harmless, shown
from zaichik.cli import connecting, failure, names, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure
from zaichik.cli.terminal import FullScreen, Keys, typed
from zaichik.cli.top import Table
from zaichik.cli.watch_topic import Topic
from zaichik.client.backoff import backoff
from zaichik.client.patterns.pattern import Pattern, is_pattern

RETRY_S = 0.25, 4.0
SNAPSHOT_S = 0.25  # between the two readings that a rate is made of
SNAPSHOT_LINES = 60
STALE_S = (
    5.0  # without news for so long, the picture says so: it is longer than the pause of a poller
)

ARGUMENTS = (
    argument("[TOPIC]", "the topic to draw; without it, all topics are listed", names.name),
    argument("--exact", "a * in TOPIC is a character of its name, and not a pattern"),
    argument("--ascii", "draw with ASCII only"),
    connecting.ADDRESS,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Draw once, or until q or Ctrl-C."""
    pattern = _pattern(arguments)
    is_ascii = arguments.ascii or not (sys.stdout.encoding or "").lower().startswith("utf")
    if console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty():
        async with connecting.connected(arguments, "watch"):
            pass  # if there is no broker, that is said as other commands say it
        with screen.logging_to(logging.NullHandler(), logging.CRITICAL):
            await Watch(arguments, pattern, is_ascii=is_ascii).run()
        return
    async with connecting.connected(arguments, "watch") as client:
        poller = Poller(client, rests=False)
        for row in await _snapshot(poller, arguments.topic, pattern, console.width):
            console.file.write(plain(ascii_only(row) if is_ascii else row).rstrip() + "\n")


def _pattern(arguments: Namespace) -> Pattern | None:
    """Returns the pattern that is to be watched; None if it is one topic, or all.

    Raises:
        WrongUsage: it can match nothing.
    """
    if arguments.topic is None or arguments.exact or not is_pattern(arguments.topic):
        return None
    try:
        return Pattern(arguments.topic)
    except ValueError as error:
        raise WrongUsage(str(error)) from None


async def _snapshot(
    poller: Poller, name: str | None, pattern: Pattern | None, width: int
) -> list[Line]:
    """Returns the picture of a topic, or the table, from two readings of the broker.

    Raises:
        Failure: there is no such topic.
    """
    if name is None or pattern is not None:
        table = Table(pattern)
        await table.poll(poller)
        await anyio.sleep(SNAPSHOT_S)
        await table.poll(poller)
        return table.lines(width, sys.maxsize, is_live=False)
    topic, poll = Topic(name), TopicPoll(poller, name)
    if not await topic.poll(poll):
        raise Failure(f"there is no topic '{shown(name)}'; see: zaichik topics")
    await anyio.sleep(SNAPSHOT_S)
    await topic.poll(poll)
    return topic.lines(width, SNAPSHOT_LINES)


class Watch:
    """The program on a terminal.

    Args:
        arguments: the command's.
        pattern: of the topics that are listed.
        is_ascii: whether to draw with ASCII only.
    """

    def __init__(self, arguments: Namespace, pattern: Pattern | None, *, is_ascii: bool) -> None:
        self._arguments = arguments
        self._is_ascii = is_ascii
        self._render = plain if os.environ.get("NO_COLOR") else ansi
        self._table = Table(pattern)
        self._is_one = arguments.topic is not None and pattern is None
        self._view: Table | Topic = self._table
        if self._is_one:
            self._view = Topic(arguments.topic)
        self._screen = FullScreen(sys.stdout)
        self._trouble = "connecting"
        self._said = ""  # what a key has done
        self._is_typing = False  # the letters of a filter
        self._news_at = 0.0
        self._changed = anyio.Event()
        self._polling = anyio.CancelScope()

    async def run(self) -> None:
        """Poll and draw until a key ends it."""
        with Keys() as keyboard, self._screen:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._poll_for_ever)
                tasks.start_soon(self._draw_for_ever)
                tasks.start_soon(self._heed_size)
                tasks.start_soon(keyboard.heed_suspension, self._screen.__exit__, self._again)
                while keys := await typed():
                    if not all(map(self._obey, keys)):
                        break
                    self._changed.set()
                tasks.cancel_scope.cancel()

    async def _poll_for_ever(self) -> None:
        """Stay connected, whatever happens to the broker."""
        waits = backoff(*RETRY_S)
        while True:
            try:
                async with connecting.connected(self._arguments, "watch") as client:
                    waits, poller = backoff(*RETRY_S), Poller(client)
                    while True:  # again for each view that is opened
                        with anyio.CancelScope() as self._polling:
                            await self._view.watch(poller, self._news)
            except Exception as error:
                self._trouble = failure.sentence(error) or ""
                if not self._trouble:
                    raise
            self._changed.set()
            await anyio.sleep(next(waits))

    def _news(self) -> None:
        self._trouble, self._news_at = "", anyio.current_time()
        self._changed.set()

    async def _draw_for_ever(self) -> None:
        while True:
            self._draw()
            with anyio.move_on_after(1):  # the age of what is shown grows by itself
                await self._changed.wait()
            self._changed = anyio.Event()

    async def _heed_size(self) -> None:
        """Draw anew when the terminal has another size."""
        with anyio.open_signal_receiver(signal.SIGWINCH) as signals:
            async for _ in signals:
                self._changed.set()

    def _again(self) -> None:
        """Draw all of it anew."""
        self._screen.__enter__()
        self._changed.set()

    def _obey(self, key: str) -> bool:
        """Do what a key says. Returns whether to go on."""
        view, self._said = self._view, ""
        if self._is_typing:
            self._is_typing = key not in {"enter", "escape"}
            if key == "backspace":
                view.filter = view.filter[:-1]
            elif key == "escape":
                view.filter = ""
            elif len(key) == 1 or key == "space":
                view.filter += " " if key == "space" else key
        elif key == "/":
            self._is_typing = True
        elif key in {"q", "escape"}:
            if isinstance(view, Table) or self._is_one:
                return key != "q"
            self._show(self._table)
        elif key == "c" and isinstance(view, Topic):
            self._said = "a name with such letters cannot be pasted safely"
            if view.command.isprintable():
                self._screen.copy(view.command)
                self._said = f"copied: {view.command}"
        else:
            view.obey(key)
            if isinstance(view, Table) and view.opened is not None:
                name, view.opened = view.opened, None
                self._show(Topic(name))
        return True

    def _show(self, view: Table | Topic) -> None:
        self._view = view
        self._polling.cancel()

    def _draw(self) -> None:
        width, height = self._screen.size
        silence = anyio.current_time() - self._news_at
        trouble = harmless(self._trouble)
        if not trouble and silence > STALE_S:
            trouble = f"no answer for {silence:.0f}s"
        status = f"○ {trouble}" if trouble else "● live"
        rows = self._view.lines(width, height - 1, clipped(status, width - 20))
        last = self._view.keys
        if self._is_typing or self._view.filter:
            cursor = "_" if self._is_typing else ""
            last = f"/{shown(self._view.filter)}{cursor}  {last}"
        rows = rows[: height - 1]
        rows += [()] * (height - 1 - len(rows))
        rows.append(line((f" {self._said or last}", "dim")))
        if self._is_ascii:
            rows = [ascii_only(row) for row in rows]
        self._screen.draw([self._render(fitted(row, width)) for row in rows])
