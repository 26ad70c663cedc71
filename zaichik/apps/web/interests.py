"""What pages look at, and the part of it that each one is shown.

An *interest* is asked for at the broker once, however many pages share it. A *view* is one page's
own: how wide its picture is, which rows of a table it shows, in which order.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import anyio
from starlette.exceptions import HTTPException

from zaichik.apps.views.memory import Memory, Rates
from zaichik.apps.views.printable import printable
from zaichik.apps.views.topic_state import TopicState
from zaichik.apps.views.topics import Row, Topics
from zaichik.apps.watch.polling import Poller, TopicPoll
from zaichik.apps.web.events import JSON, Frame, Mailbox, lean
from zaichik.apps.web.shown import NAME_CELLS, safe, shown
from zaichik_protocol import Kind

SPARKS, SPARK_US = 20, 3_000_000  # of each topic: a minute
MOST_NAME = 400  # letters of a name that may be a topic's
HISTORY = 120  # seconds of rates
# The numbers in a query string: the default, the least and the most.
NUMBERS = {
    "width": (1200, 100, 4000),
    "hz": (10, 1, 10),
    "first": (0, 0, 10**9),
    "count": (50, 1, 200),
}


@dataclass(frozen=True, slots=True)
class View:
    """What one page wants to see.

    Attributes:
        kind: "topics", "topic" or "connections".
        topic: with "topic", its name.
        zoom: of the picture, see `zaichik.apps.views.picture`.
        sort: the column by which a table is sorted; with "-" before it, the largest first.
        search: letters that a row must have; capitals are the same as others.
        width: of the picture, in pixels.
        hz: the most frames per second.
        first: the first row of what is found ...
        count: ... and how many of them.
    """

    kind: str
    topic: str
    zoom: str
    sort: str
    search: str
    width: int
    hz: int
    first: int
    count: int

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "View":
        """Returns the view that a query string asks for.

        Raises:
            HTTPException: there is no such view.
        """
        kind, topic, search = (
            query.get("view", "topics"),
            query.get("topic", ""),
            query.get("search", "").lower(),
        )
        if kind not in INTERESTS or (kind == "topic") != bool(topic) or len(topic) > MOST_NAME:
            raise HTTPException(
                400,
                "there is no such view; there are topics, connections, and topic with topic=NAME",
            )
        numbers = {name: _number(query, name, *limits) for name, limits in NUMBERS.items()}
        # Windows of nearly one width share a picture.
        numbers["width"] = round(numbers["width"], -1)
        return cls(
            kind, topic, query.get("zoom", "auto"), query.get("sort", "name"), search, **numbers
        )

    @property
    def interest(self) -> tuple[str, str]:
        """The question to the broker; equal for all pages that can share the answers."""
        return self.kind, self.topic


def _number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise HTTPException(400, f"{name} must be a number from {least:,} to {most:,}")
    return min(max(int(text), least), most)


class Interest(ABC):
    """Asks the broker for one thing, and shows it to pages.

    Attributes:
        mailboxes: of the pages that watch.
        left_at: when the last page stopped watching, on the event loop's clock.
        trouble: why there is nothing newer, in a sentence; "" if nothing is wrong.
        seconds: between two questions, at least.
        is_large: whether the answers are so large that they must not delay those about one topic.
    """

    seconds = 1.0
    is_large = True

    def __init__(self) -> None:
        self.mailboxes: set[Mailbox] = set()
        self.left_at = -math.inf
        self.trouble = ""

    @abstractmethod
    async def ask(self, poller: Poller) -> None:
        """Ask the broker, and keep the answer."""

    @abstractmethod
    def show(self, view: View) -> Frame | None:
        """Returns what a page with that view is sent; None: nothing is known yet."""

    async def follow(self) -> None:
        """Follow what polling cannot show, if there is anything, after the first answer."""
        return

    def put(self) -> None:
        """Tell all pages that there is something newer."""
        for mailbox in self.mailboxes:
            mailbox.put()


class TopicInterest(Interest):
    """One topic with its readers, ten times a second."""

    seconds, is_large = 0.1, False

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._poller: Poller | None = None
        self._state: TopicState | None = None
        self._memory = Memory()
        self._history: dict[str, Rates] = {}  # by the number of the second
        self._newest, self._number = Rates(), 0
        self._shown: dict[tuple[int, str], JSON] = {}  # by width and zoom

    async def ask(self, poller: Poller) -> None:
        """Take a reading."""
        if self._poller is not poller:  # the first, or that of a new connection
            self._poller, self._poll = poller, TopicPoll(poller, self._name)
        page = await self._poll.reading()
        self.trouble = "" if page else "there is no topic of that name, or it is not for you to see"
        self._shown.clear()
        self._state = TopicState.of(page) if page else None
        if self._state is not None:
            self._memory.seen(self._state)
            self._remember()

    async def follow(self) -> None:
        """Follow what can only be followed, for as long as somebody watches."""
        if self._state is not None and self._state.topic["settings"].get("journal_bytes"):
            await self._poll.follow_journal()

    def _remember(self) -> None:
        """Number the seconds of the history, so that a page is only sent the new ones."""
        seconds = self._memory.history
        if seconds and seconds[-1] is not self._newest:
            self._newest, self._number = seconds[-1], self._number + 1
            self._history[str(self._number)] = seconds[-1]
            self._history.pop(str(self._number - HISTORY), None)

    def show(self, view: View) -> Frame | None:
        """Returns the state, with a picture of that width."""
        if self._state is None:
            return None
        look = view.width, view.zoom
        if look not in self._shown:
            self._shown[look] = shown(self._state, self._memory, self._history, *look)
        return "state", self._shown[look]


COLUMNS = (*Row._fields, "label")
OF_BROKER = (
    "name",
    "boot",
    "now_us",
    "clock",
    "user",
    "connections",
    "subscriptions",
    "topics",
    "bytes",
    "memory",
)


class TopicsInterest(Interest):
    """All topics, by their counters.

    A page is sent the rows that it shows: `Row`, and a name to be shown.
    """

    def __init__(self, _: str = "") -> None:
        super().__init__()
        self._broker: JSON = {}
        self._topics = Topics(SPARKS, SPARK_US)

    async def ask(self, poller: Poller) -> None:
        """Sweep over all topics.

        With many, that takes seconds; meanwhile pages are shown what is known.
        """
        broker = await poller.ask(poller.client.describe)
        put_at = anyio.current_time()
        names: set[str] = set()
        async for now_us, rows in poller.counters(broker["now_us"]):
            for counted in rows:
                names.add(counted["name"])
                self._topics.seen(counted, now_us)
            if anyio.current_time() - put_at > self.seconds:
                self._broker = broker
                put_at = anyio.current_time()
                self.put()
        self._broker = broker
        self.trouble = ""
        self._topics.keep(names)

    def show(self, view: View) -> Frame | None:
        """Returns the rows on screen."""
        if not self._broker:
            return None
        column = view.sort.removeprefix("-")
        found = self._topics.found(view.search, column, descending=column != view.sort)
        on_screen = found[view.first : view.first + view.count]
        rows = [lean((*row, printable(row.name, NAME_CELLS))) for row in on_screen]
        broker = {name: self._broker.get(name) for name in OF_BROKER}
        return "rows", {
            "all": len(self._topics.rows),
            "found": len(found),
            "first": view.first,
            "columns": list(COLUMNS),
            "rows": rows,
            "broker": lean(broker),
        }


KINDS = {"connections": Kind.CONNECTIONS, "subscriptions": Kind.SUBSCRIPTIONS}
ENDS = ("at_us", "number", "client", "peer", "reason")
SEARCHED = ("client", "peer", "user", "topic", "session", "waiting_for", "reason")


class ConnectionsInterest(Interest):
    """The open connections, the positions, and the latest ended connections with the reasons."""

    def __init__(self, _: str = "") -> None:
        super().__init__()
        self._now_us = 0
        self._tables: dict[str, list[JSON]] = {}

    async def ask(self, poller: Poller) -> None:
        """List them."""
        broker = await poller.ask(poller.client.describe)
        self.trouble, self._now_us = "", broker["now_us"]
        recent = reversed(broker.get("recent_ends", ()))
        ends = [dict(zip(ENDS, end, strict=False)) for end in recent]
        tables = {}
        for table, kind in KINDS.items():
            pages = await poller.pages(kind, table)
            tables[table] = [row for page in pages for row in page[table]]
        self._tables = {**tables, "ends": ends}

    def show(self, view: View) -> Frame | None:
        """Returns those rows of each of the three tables in which the letters are."""
        told: JSON = {"now_us": self._now_us, "first": view.first}
        for table, rows in self._tables.items():
            found = [
                row
                for row in rows
                if any(view.search in str(row.get(name, "")).lower() for name in SEARCHED)
            ]
            told[table] = {
                "found": len(found),
                "rows": lean(safe(found[view.first : view.first + view.count])),
            }
        return ("rows", told) if self._tables else None


INTERESTS: dict[str, type[TopicsInterest | TopicInterest | ConnectionsInterest]] = {
    "topics": TopicsInterest,
    "topic": TopicInterest,
    "connections": ConnectionsInterest,
}
