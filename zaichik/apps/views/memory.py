"""What one reading cannot show: the fates of messages that are gone, rates, and trends.

All of it comes from the differences of two readings. `Memory` is bounded, whatever the topic does:
it keeps a few hundred runs, seconds and readers, and forgets the oldest.
"""

from collections import deque
from dataclasses import dataclass

from zaichik.apps.views.topic_state import TopicState, lag
from zaichik.base.clock import SECOND_US

FATES = 64  # runs: more could not be told apart in a picture
SECONDS = 300  # of history
SAMPLES = 64
RATE_US = 2 * SECOND_US  # a rate is a mean over this
TREND_US = 5 * SECOND_US
# Between two samples of a lag, or 64 would not reach back to the beginning of a trend.
LAG_US = SECOND_US // 10
STEADY = 0.02  # of a lag: a change that is no trend
READERS = 256


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the offsets first .. end - 1.

    It is "expired" or "evicted", or "either", if readings do not show which.
    """

    kind: str
    first: int
    end: int
    expired: int
    evicted: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages per second."""

    published: float = 0.0
    stored: float = 0.0
    compacted: float = 0.0
    expired: float = 0.0
    evicted: float = 0.0


@dataclass(frozen=True, slots=True)
class _Sample:
    at_us: int
    counts: tuple[int, ...]  # as the fields of `Rates`
    refused: int

    def rates(self, since: "_Sample") -> Rates:
        seconds = (self.at_us - since.at_us) / SECOND_US
        if seconds <= 0:
            return Rates()
        return Rates(
            *((now - was) / seconds for now, was in zip(self.counts, since.counts, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Told:
    """A reader got a report of `count` lost messages, which are among the offsets first .. end - 1.

    `at_us` is the broker's time of the reading which showed that first.
    """

    first: int
    end: int
    count: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Trend:
    """How a reader's lag changes: "↗" grows, "→" stays, "↘" shrinks, "" is unknown or caught up.

    `clears_s` are the seconds until it is caught up at this speed; None if it would never be.
    """

    arrow: str = ""
    clears_s: float | None = None


class Memory:
    """What was seen of one topic.

    Attributes:
        fates: runs of offsets that went while we watched, ascending; what is below the first went
            unseen.
        rates: of the last two seconds or so.
        history: rates of whole seconds, the newest last.
        told: the last lag reported to each reader, by the reader's `name`.
        refusing: whether a batch was refused in these two seconds because the topic was full.
    """

    def __init__(self) -> None:
        self._last: TopicState | None = None
        self._begin()

    def _begin(self) -> None:
        self.fates: deque[Fate] = deque(maxlen=FATES)
        self.rates = Rates()
        self.history: deque[Rates] = deque(maxlen=SECONDS)
        self.told: dict[str, Told] = {}
        self.refusing = False
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)
        self._second: _Sample | None = None
        self._lags: dict[str, deque[tuple[int, int]]] = {}

    def seen(self, state: TopicState) -> None:
        """Remember what has changed since the last reading.

        Another boot or epoch starts from nothing.
        """
        before = self._last
        if before is None or not _continues(before, state):
            self._begin()
        elif state.now_us < before.now_us:
            return  # two polls that overtook each other
        else:
            self._add_fate(before, state)
            self._note_told(before, state)
        self._last = state
        self._count(state)
        self._follow(state)

    def trend(self, name: str) -> Trend:
        """Returns how the lag of the reader of that `name` changes."""
        samples = self._lags.get(name) or deque()
        if len(samples) < 2 or not samples[-1][1]:
            return Trend()
        (since_us, was), (now_us, behind) = samples[0], samples[-1]
        change, seconds = behind - was, (now_us - since_us) / SECOND_US
        if abs(change) <= behind * STEADY:
            return Trend("→")
        return Trend("↗") if change > 0 else Trend("↘", behind * seconds / -change)

    def _add_fate(self, before: TopicState, state: TopicState) -> None:
        expired = state.topic["expired"] - before.topic["expired"]
        evicted = state.topic["evicted"] - before.topic["evicted"]
        first, end = before.head, state.head
        if end <= first:
            return
        # Of a table tombstones alone are evicted, from anywhere; its head moves by time.
        if expired and evicted and not state.is_table:
            kind = "either"
        elif evicted and not state.is_table:
            kind = "evicted"
        elif expired:
            kind = "expired"
        else:
            kind = "gone"
        if self.fates and self.fates[-1].kind == kind and self.fates[-1].end == first:
            run = self.fates.pop()
            first = run.first
            expired += run.expired
            evicted += run.evicted
        self.fates.append(Fate(kind, first, end, expired, evicted))

    def _note_told(self, before: TopicState, state: TopicState) -> None:
        old = {row["name"]: row for row in before.readers}
        for row in state.readers:
            was = old.get(row["name"])
            if was is None or row["skipped"] <= was["skipped"]:
                continue
            count = row["skipped"] - was["skipped"]
            first = was["cursor"]
            end = row["cursor"]
            # Only a reader that stood below the head has surely lost what came next.
            if first < before.head:
                end = first + count
            self.told[row["name"]] = Told(first, end, count, state.now_us)
        names = {row["name"] for row in state.readers}
        self.told = {name: told for name, told in self.told.items() if name in names}

    def _count(self, state: TopicState) -> None:
        topic, samples = state.topic, self._samples
        counts = tuple(
            topic[name] for name in ("published", "stored", "compacted", "expired", "evicted")
        )
        sample = _Sample(state.now_us, counts, topic.get("refused", 0))
        samples.append(sample)
        while len(samples) > 2 and samples[1].at_us <= sample.at_us - RATE_US:
            samples.popleft()
        self.rates, self.refusing = sample.rates(samples[0]), sample.refused > samples[0].refused
        if self._second is None:
            self._second = sample
        elif sample.at_us - self._second.at_us >= SECOND_US:
            self.history.append(sample.rates(self._second))
            self._second = sample

    def _follow(self, state: TopicState) -> None:
        lags = {}
        for row in state.readers[:READERS]:
            samples = lags[row["name"]] = self._lags.get(row["name"], deque(maxlen=SAMPLES))
            if samples and state.now_us - samples[-1][0] < LAG_US:
                continue
            samples.append((state.now_us, lag(row)))
            while len(samples) > 2 and samples[1][0] <= state.now_us - TREND_US:
                samples.popleft()
        self._lags = lags


def _continues(before: TopicState, state: TopicState) -> bool:
    """Returns whether it is the same topic of the same run of the broker."""
    same = (before.boot, before.name, before.topic["epoch"]) == (
        state.boot,
        state.name,
        state.topic["epoch"],
    )
    return same and state.next_offset >= before.next_offset
