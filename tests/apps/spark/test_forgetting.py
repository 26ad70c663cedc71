"""Which of the windows that never close are remembered: those that the broker remembers."""

from itertools import pairwise

import oracle
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import FOREVER_US, histories
from pyspark.sql.pandas.types import to_arrow_schema

from zaichik.apps.spark.carry import CARRIED
from zaichik.apps.spark.forgetting import turned
from zaichik.apps.spark.live import MAX_KEYS
from zaichik.core.settings import TopicSettings


def table(rows):
    return pa.Table.from_pylist(rows, to_arrow_schema(CARRIED))


@settings(max_examples=100)
@given(histories, st.lists(st.integers(0, 40), max_size=3), st.integers(1, 3))
def test_a_message_opens_a_window_where_the_broker_stores_it(events, edges, max_keys):
    """COM-6: cut into micro-batches anywhere, also within one of the broker's batches."""
    topic, decisions = oracle.of_broker(events, FOREVER_US, max_keys)
    edges = [0, *sorted(min(edge, len(events)) for edge in edges), len(events)]
    opened, come, last = [], {}, {}
    for start, end in pairwise(edges):
        rows = [
            {"topic": "t", "epoch": 0, "position": n, **events[n]._asdict()}
            for n in range(start, end)
        ]
        carried = [
            {"topic": "t", "epoch": 0, "key": key, "turn": turn} for key, turn in last.items()
        ]
        found, come = (
            turned(table(rows[::-1]), table(carried), come, max_keys) if rows else (table([]), come)
        )
        for key, turn in zip(found["key"].to_pylist(), found["turn"].to_pylist(), strict=True):
            opened.append(key is None or last.get(key) != turn)
            if key is not None:
                last[key] = turn
        last = {key: turn for key, turn in last.items() if turn >= come["t"].floor} if come else {}
    assert opened == [offset >= 0 for offset, _ in decisions]
    assert opened.count(True) == topic.retained.ring.next_offset


def test_the_default_is_that_of_a_topic():
    assert TopicSettings().max_keys == MAX_KEYS
