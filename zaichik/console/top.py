"""The whole broker as a table of its topics, the first screen of `zaichik watch`."""

from collections.abc import Callable
from typing import Any

import anyio

from zaichik.console.quantities import show_size
from zaichik.polling import Poller
from zaichik.views import sentence
from zaichik.views.printable import cells, padded, printable
from zaichik.views.spans import Line, line
from zaichik.views.topics import Row, Topics

JSON = dict[str, Any]

SECONDS = 1.0  # between two sweeps
SPARKS = 12
TICKS = " ▁▂▃▄▅▆▇"
ORDERS = ("rate", "lag", "held", "readers", "topic")
COLUMNS = {"rate": 8, "": SPARKS, "held": 11, "full": 5, "bytes": 9, "readers": 8, "lag": 11, "age": 6}
FIRST_TO_GO = ("bytes", "", "full", "age", "readers")
NAME_CELLS = 16  # of a topic's name, which always have room
SHOWN_CELLS = 200


class Table:
    """All topics.

    Attributes:
        keys: what the keys do, for the last line.
        opened: the topic that Enter has chosen; None: none.
    """

    keys = "q quit  ↑↓ Enter open  s sort  / filter"

    def __init__(self) -> None:
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
        """Sweep over all topics, and say whenever some have been counted. Returns how many there are."""
        self._broker = await poller.ask(poller.client.describe)
        seen, told_at = set[str](), anyio.current_time()
        async for now_us, rows in poller.counters(self._broker["now_us"]):
            seen |= {row["name"] for row in rows}
            for row in rows:
                self._topics.seen(row, now_us)
            if anyio.current_time() - told_at > SECONDS:  # of many topics, the first are shown while others are counted
                told_at = anyio.current_time()
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
                self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
            case "enter" if rows:
                self.opened = rows[self._at].name
        self._at = min(max(self._at, 0), max(0, len(rows) - 1))

    def lines(self, width: int, height: int, status: str = "", *, is_live: bool = True) -> list[Line]:
        """Returns the table in that room."""
        if self._broker is None:
            return [line(" ", status)]
        rows, names = self._rows(), [name for name in COLUMNS if is_live or name]
        for name in FIRST_TO_GO:
            if sum(COLUMNS[name] + 1 for name in names) + NAME_CELLS < width:
                break
            names = [other for other in names if other != name]
        room = max(NAME_CELLS, width - sum(COLUMNS[name] + 1 for name in names) - 1)
        heads = {name: f"{name}{'▼' * (name == self._order)}" for name in ("topic", *names)}
        title = padded(f" {self._title(len(rows))}", max(0, width - cells(status) - 1))
        drawn = [line((title, "bold"), " ", status), line((_row(heads, names, room), "bold"))]
        first = max(0, self._at - height + 3)
        for at, row in enumerate(rows[first : first + height - 2], first):
            style = "reverse" if is_live and at == self._at else "yellow" if row.state in {"behind", "full"} else ""
            drawn.append(line((_row(_told(row), names, room), style)))
        return drawn

    def _title(self, found: int) -> str:
        broker, counted = self._broker or {}, len(self._topics.rows)
        count = f"{counted:,} topics"
        if broker.get("topics", 0) > counted:  # by a sweep that is not over
            count = f"{counted:,} of {broker['topics']:,} topics counted"
        words = [printable(broker["name"], NAME_CELLS), f"{found:,} of {count}" if self.filter else count]
        told = [one for one in ("connection", "subscription") if f"{one}s" in broker]
        return "  ".join([*words, *(sentence.count(broker[f"{one}s"], one) for one in told)])

    def _rows(self) -> list[Row]:
        """Returns the topics with those letters in their names, in the order that was asked for."""
        return self._topics.found(self.filter, self._order, descending=True)


def _told(row: Row) -> dict[str, str]:
    """Returns what stands in the columns."""
    top = max(row.spark, default=0) or 1
    return {
        "topic": printable(row.name, SHOWN_CELLS),
        "rate": f"{row.rate:,.0f}/s" if row.spark else "",
        "": "".join(TICKS[round(rate / top * (len(TICKS) - 1))] for rate in row.spark),
        "held": f"{row.held:,}",
        "full": f"{100 * row.held // max(1, row.capacity)}%",
        "bytes": show_size(row.bytes),
        "readers": f"{row.readers:,}",
        "lag": f"{row.lag:,}" if row.lag else "",
        "age": "" if row.lag_s is None else sentence.age(row.lag_s),
    }


def _row(told: dict[str, str], names: list[str], room: int) -> str:
    numbers = (padded(told[name], COLUMNS[name], right=True) for name in names)
    return " ".join((padded(f" {told['topic']}", room), *numbers))
