"""From sources to statistics, in this process: topic by topic, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from zaichik.apps.statistics.chain import Window, length_us
from zaichik.apps.statistics.partitions import parts
from zaichik.apps.statistics.sources import Topic
from zaichik.apps.statistics.tally import Tally
from zaichik.apps.statistics.truth import Statistics, statistics_of

MEMORY = 1 << 30  # bytes that counting uses at most, unless a single key needs more
Progress = Callable[[Topic, int], None]


def count(
    topics: Iterable[Topic],
    windows: Sequence[Window],
    *,
    keys: int = 10,
    memory: int = MEMORY,
    on_progress: Progress = lambda topic, rows: None,
) -> Iterator[Statistics]:
    """Returns the statistics of each topic that has messages, as soon as they are known.

    Args:
        topics: as `sources` finds them.
        windows: lengths to try.
        keys: how many hot keys to find.
        memory: see `MEMORY`.
        on_progress: called with a topic, and how many of its events were read, now and then.
    """
    lengths = sorted({length_us(window) for window in windows})
    for topic in topics:
        tally = Tally(lengths, keys)
        for part in parts(_reporting(topic, on_progress), topic.rows, memory):
            tally.add(part)
        if tally.spans:
            yield statistics_of(topic, tally)


def _reporting(topic: Topic, on_progress: Progress) -> Iterator[pa.RecordBatch]:
    rows = 0
    on_progress(topic, rows)
    for batch in topic.batches():
        yield batch
        rows += len(batch)
        on_progress(topic, rows)
