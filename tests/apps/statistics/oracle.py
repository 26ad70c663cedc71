"""What compaction must do, as slowly and obviously as it can be said; and the broker's own word on
it.
"""

import random
from functools import partial
from hashlib import blake2b
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

from hypothesis import strategies as st

from zaichik.apps.statistics.chain import SUMS
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.tables.table import Table
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER, Batch

FOREVER_US = 2**63 - 1
NUMBERS = (*SUMS, "max_delay_us")
EMPTY = 3  # the hash of the empty payload, in histories


class Event(NamedTuple):
    """A message published: its time, key, payload's hash and payload's bytes."""

    accepted_us: int
    key: bytes | None
    hash: int
    size: int


def history(gaps_keys_hashes):
    """Events out of (gap, key, hash): small numbers, so that times and keys and payloads meet
    often. The payload with the hash `EMPTY` has no bytes.
    """
    times = accumulate(gap for gap, _, _ in gaps_keys_hashes)
    return [
        Event(time, key, hash_, 0 if hash_ == EMPTY else 10 + hash_)
        for time, (_, key, hash_) in zip(times, gaps_keys_hashes, strict=True)
    ]


# A payload with the hash 3 is empty: with a key, it is a tombstone.
histories = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([None, b"a", b"b", b"c"]), st.integers(0, 3)),
    min_size=1,
    max_size=40,
).map(history)


def random_topics(count):
    """Many histories of different kinds, by topic, so that one Spark job holds many examples."""
    dice = random.Random(7)
    topics = {}
    for number in range(count):
        keys = [None, *(b"%d" % key for key in range(dice.choice([1, 3, 30])))]
        pace = dice.choice([1, 3, 8])
        length = dice.choice([1, 5, 60])
        topics[f"topic-{number}"] = history(
            [(dice.randrange(pace), dice.choice(keys), dice.randrange(4)) for _ in range(length)]
        )
    return topics


def by_policy(frame):
    """Rows of `WINDOWS` as {(topic, length, winner): numbers}."""
    return {
        (row["topic"], row["window_us"], row["winner"]): {name: row[name] for name in NUMBERS}
        for row in frame.collect()
    }


def what_if(events, window_us, winner, max_keys=None):
    """All numbers of a window, one message at a time; with `max_keys`, of one that never closes
    (COM-6). With the winner *newest*, those of a table.
    """
    if winner == "newest":
        return as_table(events)
    windows = _windows(events, window_us) if max_keys is None else _remembered(events, max_keys)
    numbers = dict.fromkeys(
        ("kept", "kept_bytes", "differing", "delayed", "delay_us", "unseen", "max_delay_us"), 0
    ) | {
        "messages": len(events),
        "bytes": sum(event.size for event in events),
    }
    for number, window in enumerate(windows):
        won = window[0] if winner == "first" else window[-1]
        numbers["kept"] += 1
        numbers["kept_bytes"] += won.size
        for event in window:
            if event.hash == won.hash:
                continue
            numbers["differing"] += 1
            later = [
                one
                for one in windows[number + 1 :]
                if won.key is not None and one[0].key == won.key
            ]
            if winner == "first" and later:
                delay = later[0][0].accepted_us - event.accepted_us
                numbers["delayed"] += 1
                numbers["delay_us"] += delay
                numbers["max_delay_us"] = max(numbers["max_delay_us"], delay)
            elif winner == "first":
                numbers["unseen"] += 1
    return numbers


def policies(lengths):
    """What is tried: each length with the first and the last message, and the table."""
    windows = [(length, winner) for length in lengths for winner in ("first", "last")]
    return [*windows, (FOREVER_US, "newest")]


def as_table(events):
    """All numbers of a table, one message at a time (TAB-1, TAB-5)."""
    there, lost = {}, 0
    for number, event in enumerate(events):
        # A message without a key is one of its own.
        key = number if event.key is None else event.key
        before = there.pop(key, None)
        if before is not None and before.hash != event.hash:
            lost += 1
        # A tombstone leaves nothing.
        if event.key is None or event.size:
            there[key] = event
    return dict.fromkeys(("delayed", "delay_us", "unseen", "max_delay_us"), 0) | {
        "messages": len(events),
        "bytes": sum(event.size for event in events),
        "kept": len(there),
        "kept_bytes": sum(event.size for event in there.values()),
        "differing": lost,
    }


def table_of_broker(events):
    """A broker's table that was given these events, batch by batch, on their clock."""
    settings = TopicSettings(table=1, retention_ttl_ms=FOREVER, capacity=10**6, max_bytes=2**32)
    retain = partial(Table, limits=BrokerSettings())
    topic = TopicController("t", settings, epoch=1, explicit=True, retain=retain)
    told = []
    topic.observer = lambda *record: told.extend(record[4])
    for now_us, together in groupby(events, key=attrgetter("accepted_us")):
        batch = [(event.key or b"", b"%d" % event.hash * bool(event.size)) for event in together]
        topic.publish(Batch.of(batch), now_us, tombstones=True)
    return topic.retained.kept, told


def _windows(events, window_us):
    """The messages of each window, in the order in which windows open (COM-1).

    Without a key: one each (COM-5).
    """
    windows = []
    for event in events:
        mine = [
            window for window in windows if event.key is not None and window[0].key == event.key
        ]
        if mine and event.accepted_us < mine[-1][0].accepted_us + window_us:
            mine[-1].append(event)
        else:
            windows.append([event])
    return windows


def _remembered(events, max_keys):
    """The same of windows that never close; after each batch, those that opened first are
    forgotten.
    """
    windows, remembered = [], []
    for _, batch in groupby(events, key=attrgetter("accepted_us")):
        for event in batch:
            mine = [window for window in remembered if window[0].key == event.key]
            if mine:
                mine[0].append(event)
                continue
            windows.append([event])
            if event.key is not None:
                remembered.append(windows[-1])
        del remembered[:-max_keys]
    return windows


def of_broker(events, window_us, max_keys=100_000):
    """The journal that a broker would write: a topic given these events, batch by batch, on their
    clock.

    Returns:
        The topic's counters, and for each event (offset, winner), -1 where there is none.
    """
    window_ms = FOREVER if window_us == FOREVER_US else window_us // 1000
    sizes = {"capacity": 10**6, "max_bytes": 2**32, "max_keys": max_keys}
    settings = TopicSettings(compaction_window_ms=window_ms, retention_ttl_ms=FOREVER, **sizes)
    topic = TopicController("t", settings, epoch=1, explicit=True)
    decisions, winner_of = [], {}
    for now_us, together in groupby(events, key=attrgetter("accepted_us")):
        batch = [(event.key or b"", b"%d" % event.hash) for event in together]
        outcome = topic.publish(Batch.of(batch), now_us)
        dropped = int.from_bytes(outcome.dropped, "little")
        offset = outcome.first_offset
        for number, (key, _) in enumerate(batch):
            if dropped >> number & 1:
                decisions.append((-1, winner_of[key]))
            else:
                decisions.append((offset, -1))
                winner_of[key] = offset
                offset += 1
    return topic, decisions


def blake(payload):
    """The journal's hash of a payload, as Spark has it: signed."""
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), "little", signed=True)
