"""Polls a broker for programs that show it, at little cost to it: a question, then a pause.

After each question the connection is idle for `REST` times as long as the answer took. However many
topics are watched, the broker spends no more than a fiftieth of its time on that. A slow question,
such as a sweep over all topics, is better asked by a second `Poller` on a connection of its own, or
it would delay others.

On a busy machine an answer waits for the processor longer than the broker works on it. So after a
question that is asked again and again, the pause depends on the quickest of its last answers, or a
picture would freeze for a second.
"""

import json
from base64 import b64decode
from codecs import getincrementaldecoder
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from struct import Struct
from typing import Any, TypeVar

import anyio

from zaichik import BrokerError, Client, InvalidField, Lagged, Message, UnexpectedReply
from zaichik.apps.views.printable import printable
from zaichik.apps.views.topic_state import missing
from zaichik.base.counted import counted
from zaichik_protocol import Kind, Overflow

JSON = dict[str, Any]
Answer = TypeVar("Answer")

REST = 50  # times the round trip of the question before
TRIPS = 8  # the last round trips of a repeated question, of which the quickest counts
MOST_REST_SECONDS = (
    2.0  # an answer that takes longer than 40 ms waits for something, and is not that much work
)
# Kinds of `describe` that an old broker does not know.
COUNTERS, WINDOWS, MARKS, FURTHEST = Kind.COUNTERS, Kind.WINDOWS, Kind.MARKS, Kind.FURTHEST
MOST_READERS = 40  # of a broker that does not know which of them are furthest behind
MARKS_SECONDS, WINDOWS_SECONDS, MESSAGES_SECONDS = 1.0, 0.5, 0.5
MESSAGES = 50
MESSAGES_BYTES = 256 * 1024
KEY_CELLS, PAYLOAD_BYTES = 64, 512
MOST_KEYS = 1000  # whose drops are counted
JOURNAL_CREDIT = 256
MOST_PAGES = (
    5000  # of one list, with 8 rows and more on each; an endless list would fill our memory
)

_UTF8 = getincrementaldecoder("utf-8")  # which tolerates a last letter that was cut
_JOURNAL = "$journal/"
_STATUS = Struct("<36xB3x")  # of a journal's record (JRN-1)


class Poller:
    """Asks a broker over one connection.

    Args:
        client: the connection.
        rests: whether to pause; a program that asks each question once, and then ends, need not.

    Attributes:
        unknown: kinds of `describe` that the broker has said it does not know.
    """

    def __init__(self, client: Client, *, rests: bool = True) -> None:
        self.client = client
        self._rests = rests
        self._turn = anyio.Lock()
        self._rested_at = 0.0
        self.unknown: set[int] = set()

    async def ask(
        self, question: Callable[[], Awaitable[Answer]], trips: deque[float] | None = None
    ) -> Answer:
        """Returns the answer to a question, which is asked in its turn, after the pause.

        Args:
            question: asks it.
            trips: for a question that is asked again and again, and is about as much work each
                time: the seconds that its last answers took. This one's time is added. Without
                `trips` it counts alone.
        """
        async with self._turn:
            await anyio.sleep_until(self._rested_at)
            began = anyio.current_time()
            try:
                return await question()
            finally:
                ended = anyio.current_time()
                trips = deque() if trips is None else trips
                trips.append(ended - began)
                self._rested_at = ended + min(REST * min(trips), MOST_REST_SECONDS) * self._rests

    async def each_page(self, kind: Kind, word: str, prefix: str = "") -> AsyncIterator[JSON]:
        """Yields pages of describe whose rows are under that word; none if the kind is unknown.

        Args:
            kind: what is asked about.
            word: see above.
            prefix: of the names.

        Raises:
            UnexpectedReply: there is no end of them.
        """
        after = ""
        if kind in self.unknown:
            return
        for _ in range(MOST_PAGES):
            try:
                page, more = await self.ask(
                    partial(self.client.describe_page, kind, prefix, after=after)
                )
            except InvalidField:
                self.unknown.add(kind)
                return
            if rows := page[word]:
                after = rows[-1]["name"] if isinstance(rows[-1], dict) else str(rows[-1][0])
            yield page
            if not more:
                return
        raise UnexpectedReply(f"the broker's list of {word} has no end")

    async def pages(self, kind: Kind, word: str, prefix: str = "") -> list[JSON]:
        """Returns all of these pages."""
        return [page async for page in self.each_page(kind, word, prefix)]

    async def counters(
        self, now_us: int, prefix: str = ""
    ) -> AsyncIterator[tuple[int, list[JSON]]]:
        """Yields the counters of every topic, sorted by name: a page's rows, and the broker's time.

        `refused` and `needed_us` are None where an old broker does not tell. With many topics this
        takes many questions, and as many pauses.

        Args:
            now_us: the broker's time, for pages of an old broker, which do not tell it.
            prefix: of the topics' names.
        """
        async for page in self.each_page(COUNTERS, "rows", prefix):
            yield (
                page["now_us"],
                [dict(zip(page["columns"], row, strict=False)) for row in page["rows"]],
            )
        if COUNTERS in self.unknown:
            # Without a disk, nothing can be damaged.
            untold = {"refused": None, "needed_us": None, "damaged": 0}
            async for page in self.each_page(Kind.TOPICS, "topics", prefix):
                topics = page["topics"]
                yield (
                    now_us,
                    [
                        {**untold, **topic, "capacity": topic["settings"]["capacity"]}
                        for topic in topics
                    ],
                )


class TopicPoll:
    """Takes readings of one topic, for `TopicState.of`.

    Args:
        poller: asks.
        name: of the topic.
    """

    def __init__(self, poller: Poller, name: str) -> None:
        self._poller = poller
        self._name = name
        self._drops: Counter[str] = Counter()
        self._journal_trouble = ""
        self._unread = 0  # records that the journal's ring had no more when they were to be read
        self._begin(0)

    def _begin(self, epoch: int) -> None:
        """Forget what was read of another topic of that name."""
        self._epoch = epoch
        self._due: dict[str, float] = {}
        self._windows: list[Any] = []
        self._marks: JSON = {}
        self._messages: list[JSON] = []
        self._detail_trips, self._read_trips = (
            deque[float](maxlen=TRIPS),
            deque[float](maxlen=TRIPS),
        )

    async def reading(self) -> JSON | None:
        """Returns a reading; None if there is no topic of that name, or this user may not see it.

        Raises:
            BrokerError: the broker refused a question.
            ConnectionLost: the connection is lost.
        """
        readers, page = await self._poller.ask(self._detail, self._detail_trips)
        topic = self._found(page)
        if topic is None:
            return None
        if topic["epoch"] != self._epoch:
            self._begin(topic["epoch"])
        if "now_us" not in page:
            page = await self._poller.ask(self._poller.client.describe)
        if self._is_due("marks", MARKS_SECONDS):
            pages = await self._poller.pages(MARKS, "marks", self._name)
            self._marks = pages[0] if pages else {}
        if topic["open_windows"] == 0:
            self._windows = []
        elif self._is_due("windows", WINDOWS_SECONDS):
            rows = await self._one(WINDOWS, "windows")
            self._windows = [(_key(b64decode(key)), at_us) for key, at_us in rows]
        if self._is_due("messages", MESSAGES_SECONDS):
            self._messages = await self._last(topic)
        left_out = missing(topic, readers)
        left_out += self._missing(topic, len(readers))
        return {
            "now_us": page["now_us"],
            "boot": page["boot"],
            "topic": topic,
            "readers": readers,
            "windows": self._windows,
            "marks": self._marks.get("marks", []),
            "readable": self._marks.get("readable", []),
            "messages": self._messages,
            "drops": dict(self._drops),
            "missing": left_out,
        }

    def _is_due(self, what: str, seconds: float) -> bool:
        now = anyio.current_time()
        if now < self._due.get(what, now):
            return False
        self._due[what] = now + seconds
        return True

    async def _one(self, kind: Kind, word: str) -> list[Any]:
        """Returns the rows of a kind that has only one page."""
        return [
            row for page in await self._poller.pages(kind, word, self._name) for row in page[word]
        ]

    async def _detail(self) -> tuple[list[JSON], JSON]:
        """Returns its readers, and the page with the topic: one question, so one moment."""
        readers = await self._readers()  # first, so that none is ahead of the topic
        return readers, await self._page()

    async def _page(self) -> JSON:
        return (await self._poller.client.describe_page(Kind.TOPICS, self._name, limit=1))[0]

    def _found(self, page: JSON) -> JSON | None:
        return next((row for row in page["topics"] if row["name"] == self._name), None)

    async def _readers(self) -> list[JSON]:
        poller, rows = self._poller, list[JSON]()
        if FURTHEST not in poller.unknown:
            try:
                return await poller.client.furthest(self._name)
            except InvalidField:
                poller.unknown.add(FURTHEST)
        after, more = "", True
        while more and len(rows) < MOST_READERS:
            page, more = await poller.client.describe_page(
                Kind.SUBSCRIPTIONS, f"{self._name}#", after=after
            )
            if not (found := page["subscriptions"]):
                break
            rows += found
            after = found[-1]["name"]
        return [row for row in rows if row["topic"] == self._name]

    async def _last(self, topic: JSON) -> list[JSON]:
        """Returns the last messages, read by a subscription that ends at once: it never lags."""
        first, end = self._last_offsets(topic)
        if not _may_read(topic) or first == end:
            return []
        if self._messages and self._messages[-1]["offset"] == end - 1:
            return [message for message in self._messages if message["offset"] >= first]
        try:
            return await self._poller.ask(self._read, self._read_trips)
        except BrokerError:  # by the rules, or because the topic was deleted meanwhile
            return []

    async def _read(self) -> list[JSON]:
        """Returns the messages that are the last now: after the pause, others may be gone."""
        topic = self._found(await self._page())
        first, end = self._last_offsets(topic) if topic and _may_read(topic) else (0, 0)
        if not topic or first == end:
            return []
        options: Any = {
            "start": first,
            "until": end,
            "epoch": topic["epoch"],
            "credit_bytes": MESSAGES_BYTES,
        }
        shown: list[JSON] = []
        is_table = bool(topic["settings"].get("table"))
        async with self._poller.client.subscribe(
            self._name, credit=MESSAGES, events=True, **options
        ) as messages:
            async for message in messages:
                if isinstance(message, Message):
                    is_tombstone = is_table and message.is_tombstone
                    shown.append(_shown(message) | {"is_tombstone": is_tombstone})
                if len(shown) == end - first:  # a broker that goes on is not listened to
                    break
        return shown

    def _last_offsets(self, topic: JSON) -> tuple[int, int]:
        """Returns where the last messages begin, and end: as many as are shown, or fewer.

        The last offsets of a table may be holes but for one, so its marks tell where they begin.
        """
        end = topic["next_offset"]
        first = max(topic["head"], end - MESSAGES)
        if self._marks.get("readable"):
            offsets = [offset for offset, _ in self._marks["marks"]]
            old = MESSAGES - (end - offsets[-1] - 1)
            if old > 0:
                first = max(topic["head"], offsets[max(len(offsets) - old, 0)])
        return first, end

    async def follow_journal(self) -> None:
        """Count what compaction drops, for `drops`, until cancelled.

        Returns at once if nobody may read the journal.
        """
        try:
            name = f"{_JOURNAL}{self._name}"
            async with self._poller.client.subscribe(
                name, start="latest", credit=JOURNAL_CREDIT, events=True
            ) as records:
                async for record in records:
                    if isinstance(record, Lagged):
                        self._unread += record.count
                    elif isinstance(record, Message) and _STATUS.unpack(record.payload)[0]:
                        self._drops[_key(record.key)] += 1
                        self._forget_rare_keys()
        except BrokerError as refused:
            self._journal_trouble = refused.message

    def _forget_rare_keys(self) -> None:
        if len(self._drops) > MOST_KEYS:
            self._drops = Counter(dict(self._drops.most_common(MOST_KEYS // 2)))

    def _missing(self, topic: JSON, readers: int) -> list[str]:
        """Returns what cannot be shown of this topic, in words."""
        words, unknown = [], self._poller.unknown
        if not _may_read(topic):
            words.append("the last messages (whoever reads this topic holds it up)")
        if FURTHEST in unknown and topic["subscriptions"] > readers:
            of_all = counted(topic["subscriptions"], "reader")
            words.append(f"which of its {of_all} are furthest behind")
        if topic["open_windows"] and WINDOWS in unknown:
            words.append("how long windows stay open")
        if topic["settings"]["compaction_window_ms"]:
            if not topic["settings"].get("journal_bytes"):
                words.append(
                    "whose messages are dropped: give the topic a journal (--journal 1MiB)"
                )
            elif self._journal_trouble:
                words.append(f"whose messages are dropped: {self._journal_trouble}")
            elif self._unread:
                unread = counted(self._unread, "record")
                words.append(f"{unread} of the journal, which is faster than we read it")
        return words


def _may_read(topic: JSON) -> bool:
    """Returns whether reading a topic has no effect: nothing waits for readers (RET-1, RET-9)."""
    settings = topic["settings"]
    return not (settings["overflow"] == Overflow.REJECT or settings["retention_ttl_ms"] == 0)


def _key(key: bytes | None) -> str:
    return printable((key or b"").decode("utf-8", "backslashreplace"), KEY_CELLS)


def _shown(message: Message) -> JSON:
    """Returns a message for people: no more of it is decoded or parsed than is shown."""
    payload, size = message.payload[:PAYLOAD_BYTES], len(message.payload)
    try:
        text = _UTF8().decode(payload, final=size <= PAYLOAD_BYTES)
        kind = _kind(text, is_whole=size <= PAYLOAD_BYTES)
    except UnicodeDecodeError:
        text, kind = payload.hex(" "), "hex"
    shown = printable(text, PAYLOAD_BYTES)
    return {
        "offset": message.offset,
        "accepted_us": round(message.timestamp * 1e6),
        "key": None if message.key is None else _key(message.key),
        "payload": shown,
        "format": kind,
        "size": size,
        "is_cut": size > PAYLOAD_BYTES or shown.endswith("…"),
    }


def _kind(text: str, *, is_whole: bool) -> str:
    """Returns "json" for an object or an array, if all of it is here, or else "text"."""
    if not is_whole or text[:1] not in {"{", "["}:
        return "text"
    try:
        json.loads(text)
    # No JSON, or a number with thousands of digits, or nested too deeply for where we are called.
    except (ValueError, RecursionError):
        return "text"
    return "json"
