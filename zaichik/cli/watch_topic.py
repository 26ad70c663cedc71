"""One topic, drawn live: the second screen of `zaichik watch`."""

import shlex
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from textwrap import wrap

import anyio

from zaichik.apps.views.lanes import chosen, label, lanes
from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import MOST_LANES
from zaichik.apps.views.printable import padded, printable
from zaichik.apps.views.styled_lines import Line, line
from zaichik.apps.views.text import lines
from zaichik.apps.views.topic_state import JSON, TopicState
from zaichik.apps.watch.polling import Poller, TopicPoll

HZ = 10
ZOOMS = ("auto", "ring", "lag", "live")
COLUMNS: tuple[str, ...] = ("committed", "cursor", "in_flight", "ahead", "skipped")
OF_TABLE = ("committed", "cursor", "in_flight", "lag", "skipped", "passed")
LABEL_CELLS, NAME_CELLS = 16, 30


class Topic:
    """A topic.

    Args:
        name: its name.

    Attributes:
        keys: what the keys do, for the last line.
        filter: letters of the readers that are shown.
    """

    keys = "q quit  space hold  . step  z zoom  tab reader  t table  / filter  c copy"

    def __init__(self, name: str) -> None:
        self.name = name
        self.filter = ""
        self._zoom = ZOOMS[0]
        self._chosen = ""
        self._is_table = False
        self._memory = Memory()
        self._state: TopicState | None = None
        self._held: tuple[TopicState, Memory] | None = None
        self._trouble = f"looking for {printable(name, 64)}"

    async def watch(self, poller: Poller, changed: Callable[[], None]) -> None:
        """Take a reading as often as a picture needs it, until cancelled."""
        poll, is_following = TopicPoll(poller, self.name), False
        async with anyio.create_task_group() as tasks:
            while True:
                began = anyio.current_time()
                await self.poll(poll)
                if (
                    self._state is not None
                    and not is_following
                    and self._state.setting("journal_bytes")
                ):
                    tasks.start_soon(poll.follow_journal)
                    is_following = True
                changed()
                await anyio.sleep_until(began + 1 / HZ)

    async def poll(self, poll: TopicPoll) -> bool:
        """Take one reading. Returns whether there is such a topic."""
        page = await poll.reading()
        if page is None:
            self._trouble = (
                f"there is no topic {printable(self.name, 64)}, or it is not for you to see"
            )
            self._state = self._held = None
            return False
        self._trouble, self._state = "", TopicState.of(page)
        self._memory.seen(self._state)
        return True

    @property
    def command(self) -> str:
        """The command that prints what is seen; of a chosen reader, what it is to get next."""
        row = next((row for row in self._readers() if row["name"] == self._chosen), None)
        words = ["describe"]
        # What a shared name hands out next is for its workers.
        if row is not None and "shared" not in row:
            words = ["subscribe", "--from", str(row["cursor"])]
        return shlex.join(["zaichik", *words, *["--"] * self.name.startswith("-"), self.name])

    def obey(self, key: str) -> None:
        """Do what a key says."""
        match key:
            case "space":
                self._held = None if self._held else self._now()
            case ".":
                self._held = self._now()
            case "z":
                zooms = [*ZOOMS, *([self._chosen] if self._chosen else [])]
                at = zooms.index(self._zoom) if self._zoom in zooms else -1
                self._zoom = zooms[(at + 1) % len(zooms)]
            case "t":
                self._is_table = not self._is_table
            case "tab" | "down" | "backtab" | "up":
                names = ["", *(row["name"] for row in self._readers())]
                at = names.index(self._chosen) if self._chosen in names else 0
                step = 1 if key in {"tab", "down"} else -1
                self._chosen = names[(at + step) % len(names)]

    def _now(self) -> tuple[TopicState, Memory] | None:
        return None if self._state is None else (self._state, deepcopy(self._memory))

    def _readers(self) -> list[JSON]:
        """Returns the readers with those letters in their labels, as they are drawn."""
        if self._state is None:
            return []
        state = self._state
        if self._held:
            state, _ = self._held
        letters = self.filter.lower()
        found = [row for row in state.readers if letters in label(row).lower()]
        return chosen(found, MOST_LANES)

    def lines(self, width: int, height: int, status: str = "") -> list[Line]:
        """Returns the picture, or the table behind it, in that room."""
        if self._state is None or self._trouble:
            return [line(" ", status), line(" ", self._trouble)]
        state, memory = self._held or (self._state, self._memory)
        if self._held:
            status = f"‖ held, {self._state.next_offset - state.next_offset:,} newer"
        if self._zoom != ZOOMS[0]:
            zoom = self._zoom if self._zoom in ZOOMS else "reader"
            status = f"zoom {zoom} · {status}"
        state = replace(state, readers=tuple(self._readers() if self.filter else state.readers))
        said = [lane for lane in lanes(self._readers(), state, memory) if lane.name == self._chosen]
        below = [
            line(f" {text}") for lane in said for text in wrap(lane.sentence, max(width - 2, 1))[:2]
        ]
        room = max(height - len(below), 1)
        if self._is_table:
            drawn = [*self._table(state, memory, status), *[()] * room]
        else:
            drawn = lines(
                state, memory, width, room, zoom=self._zoom, status=status, chosen=self._chosen
            )
        return [*drawn[:room], *below]

    def _table(self, state: TopicState, memory: Memory, status: str) -> list[Line]:
        """Returns the numbers that the picture shows, a line for each reader."""
        rows = self._readers()
        columns = COLUMNS
        if state.is_table:
            columns = OF_TABLE
        texts = [[name.replace("_", " ") for name in columns]]
        texts += [[f"{row[name]:,}" for name in columns] for row in rows]
        wide = [max(map(len, column)) for column in zip(*texts, strict=True)]
        ends = [
            ("reader", "state"),
            *((lane.label, lane.state) for lane in lanes(rows, state, memory)),
        ]
        drawn = [line(" ", (printable(self.name, NAME_CELLS), "bold"), f"  {status}")]
        for (reader, how), numbers in zip(ends, texts, strict=True):
            told = "  ".join(number.rjust(room) for number, room in zip(numbers, wide, strict=True))
            drawn.append(line(f" {padded(reader, LABEL_CELLS)}  {told}  {how}"))
        return drawn
