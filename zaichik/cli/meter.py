"""The progress of a long publish: a bar on a terminal, elsewhere a few lines."""

from datetime import UTC, datetime
from typing import Self

import anyio
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from zaichik.base.clock import ManualClock
from zaichik.client.messages import BatchResult

BATCHES_A_DRAWING = 100  # several times a second; drawing costs nothing beside publishing
LINES_WITHOUT_TERMINAL = 6  # in a whole year: enough to see progress


class Meter:
    """Counts published messages, and shows the count.

    Args:
        console: for the bar or the lines.
        clock: the data's own time.
        total: messages to come.

    Attributes:
        batches, stored, compacted: counted so far.
    """

    def __init__(self, console: Console, clock: ManualClock, total: int) -> None:
        self.batches = 0
        self.stored = 0
        self.compacted = 0
        self._console = console
        self._clock = clock
        self._total = total
        self._started = anyio.current_time()
        self._lines_told = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]:>6,.0f} messages/s"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal or console.is_dumb_terminal,
        )
        self._task = self._bar.add_task(self._day, total=total, rate=0)

    def __enter__(self) -> Self:
        """Draw the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar as it is."""
        self._draw()
        self._bar.stop()

    @property
    def published(self) -> int:
        """Messages that the broker has confirmed."""
        return self.stored + self.compacted

    @property
    def rate(self) -> float:
        """Messages per second since the beginning."""
        return self.published / max(anyio.current_time() - self._started, 1e-9)

    @property
    def _day(self) -> str:
        return f"{datetime.fromtimestamp(self._clock.now_us() // 1_000_000, UTC):%d %b %Y}"

    def add(self, result: BatchResult) -> None:
        """Count a batch."""
        self.batches += 1
        self.stored += result.stored
        self.compacted += result.compacted
        if self.batches % BATCHES_A_DRAWING == 0:
            self._draw()

    def _draw(self) -> None:
        if not self._bar.disable:
            self._bar.update(
                self._task, completed=self.published, description=self._day, rate=self.rate
            )
        elif self.published * LINES_WITHOUT_TERMINAL >= self._total * (self._lines_told + 1):
            self._lines_told += 1
            self._console.print(
                f"{self._day}: {self.published:,} published, {self.rate:,.0f} messages/s"
            )
