"""The whole broker as a table of its topics, the first screen of `zaichik watch`."""

from collections.abc import Callable
from typing import Any

import anyio

from zaichik.apps.views import sentence
from zaichik.apps.views.printable import cells, padded, printable
from zaichik.apps.views.styled_lines import Line, line
from zaichik.apps.views.topics import Row, Topics
from zaichik.apps.watch.polling import Poller
from zaichik.base.counted import counted
from zaichik.base.sizes import show_size
from zaichik.cli import narrow_table
from zaichik.client.patterns.pattern import ONE, Pattern

JSON = dict[str, Any]

SECONDS = 1.0  # between two sweeps
SPARKS = 12
TICKS = " ▁▂▃▄▅▆▇"
ORDERS = ("rate", "lag", "held", "readers", "topic")
COLUMNS = {
    "rate": 8,
    "": SPARKS,
    "held": 11,
    "full": 5,
    "bytes": 9,
    "readers": 8,
    "lag": 11,
    "age": 6,
}
FIRST_TO_GO = ("bytes", "", "full", "age", "readers")
NAME_CELLS = 16  # of a topic's name, which always have room
SHOWN_CELLS = 200


class Table:
    """All topics, or those that match a pattern.

    Args:
        pattern: the pattern; None for all topics.

    Attributes:
        keys: what the keys do, for the last line.
        opened: the topic that Enter has chosen; None: none.
    """

    keys = "q quit  ↑↓ Enter open  s sort  / filter"

    def __init__(self, pattern: Pattern | None = None) -> None:
        self._pattern = pattern
        # What stands before the first star, all that match begin with.
        self._prefix = ""
        if pattern is not None:
            self._prefix, _, _ = pattern.text.partition(ONE)
        self.opened: str | None = None
        self.filter = ""
        self._order = ORDERS[0]
        self._at = 0
        self._broker: JSON | None = None
        self._topics = Topics(SPARKS)

    async def watch(self, poller: Poller, changed: Callable[[], None]) -> None:
        """Sweep over all topics again and again."""
        while True:
            await self.poll(poller, changed)
            await anyio.sleep(SECONDS)

    async def poll(self, poller: Poller, changed: Callable[[], None] = lambda: None) -> int:
        """Sweep over all topics, and say whenever some have been counted.

        Returns how many there are.
        """
        self._broker = await poller.ask(poller.client.describe)
        seen: set[str] = set()
        shown_at = anyio.current_time()
        async for now_us, rows in poller.counters(self._broker["now_us"], self._prefix):
            for row in rows:
                if self._pattern is None or self._pattern.matches(row["name"]):
                    seen.add(row["name"])
                    self._topics.seen(row, now_us)
            # Of many topics, the first are shown while others are counted.
            if anyio.current_time() - shown_at > SECONDS:
                shown_at = anyio.current_time()
                changed()
        self._topics.keep(seen)
        changed()
        return len(seen)

    def obey(self, key: str) -> None:
        """Do what a key says."""
        rows = self._rows()
        match key:
            case "up" | "k":
                self._at -= 1
            case "down" | "j":
                self._at += 1
            case "s":
                following = ORDERS.index(self._order) + 1
                self._order = ORDERS[following % len(ORDERS)]
            case "enter" if rows:
                self.opened = rows[self._at].name
        self._at = min(max(self._at, 0), max(0, len(rows) - 1))

    def lines(
        self, width: int, height: int, status: str = "", *, is_live: bool = True
    ) -> list[Line]:
        """Returns the table in that room."""
        if self._broker is None:
            return [line(" ", status)]
        rows = self._rows()
        names = self._columns(width, is_live=is_live)
        room = max(NAME_CELLS, width - sum(COLUMNS[name] + 1 for name in names) - 1)
        heads = {name: name for name in ("topic", *names)}
        if self._order in heads:
            heads[self._order] += "▼"
        title = padded(f" {self._title(len(rows))}", max(0, width - cells(status) - 1))
        drawn = [line((title, "bold"), " ", status), line((_row(heads, names, room), "bold"))]
        first = max(0, self._at - height + 3)
        for at, row in enumerate(rows[first : first + height - 2], first):
            style = ""
            if is_live and at == self._at:
                style = "reverse"
            elif row.state in {"behind", "full"}:
                style = "yellow"
            drawn.append(line((_row(_cells(row), names, room), style)))
        return drawn

    def _columns(self, width: int, *, is_live: bool) -> list[str]:
        """Returns the columns that fit beside the topic's name.

        A table that is printed once has no history to draw.
        """
        widths = {"topic": NAME_CELLS, **COLUMNS}
        if not is_live:
            del widths[""]
        _, *names = narrow_table.that_fit(widths, FIRST_TO_GO, width - 1, gap=1)
        return names

    def _title(self, found: int) -> str:
        broker, known = self._broker or {}, len(self._topics.rows)
        count = counted(known, "topic")
        if self._pattern is not None:
            count += f" like {printable(self._pattern.text, NAME_CELLS)}"
        elif broker.get("topics", 0) > known:  # by a sweep that is not over
            count = f"{known:,} of {counted(broker['topics'], 'topic')} counted"
        if self.filter:
            count = f"{found:,} of {count}"
        words = [printable(broker["name"], NAME_CELLS), count]
        # A user who may not see those of others does not get their number.
        things = [thing for thing in ("connection", "subscription") if f"{thing}s" in broker]
        words += [counted(broker[f"{thing}s"], thing) for thing in things]
        return "  ".join(words)

    def _rows(self) -> list[Row]:
        """Returns the topics with those letters in their names, in the order that was asked for."""
        return self._topics.found(self.filter, self._order, descending=True)


def _cells(row: Row) -> dict[str, str]:
    """Returns what stands in the columns."""
    top = max(row.spark, default=0) or 1
    ticks = [TICKS[round(rate / top * (len(TICKS) - 1))] for rate in row.spark]
    # What is not known, or is none, stays empty.
    rate = ""
    if row.spark:
        rate = f"{row.rate:,.0f}/s"
    lag = ""
    if row.lag:
        lag = f"{row.lag:,}"
    age = ""
    if row.lag_s is not None:
        age = sentence.age(row.lag_s)
    percent = 100 * row.held // max(1, row.capacity)
    return {
        "topic": printable(row.name, SHOWN_CELLS),
        "rate": rate,
        "": "".join(ticks),
        "held": f"{row.held:,}",
        "full": f"{percent}%",
        "bytes": show_size(row.bytes),
        "readers": f"{row.readers:,}",
        "lag": lag,
        "age": age,
    }


def _row(cells: dict[str, str], names: list[str], room: int) -> str:
    parts = [padded(f" {cells['topic']}", room)]
    parts += [padded(cells[name], COLUMNS[name], right=True) for name in names]
    return " ".join(parts)
