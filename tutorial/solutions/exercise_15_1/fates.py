"""What becomes of events under compaction windows of several lengths."""

import csv
import sys
from pathlib import Path

from settings import WINDOW_MS
from topics import Topic

Event = tuple[int, bytes, bytes]  # milliseconds, key, payload


def read(name: str) -> list[Event]:
    """The events in a file, in the order of their times."""
    with Path(name).open(newline="") as file:
        rows = list(csv.reader(file))
    return [(int(at), key.encode(), said.encode()) for at, key, said in rows]


def by_broker(events: list[Event], window: int) -> int:
    """How many my broker drops, on the clock of the data."""
    topic = Topic()
    topic.configure({WINDOW_MS: window})
    dropped = 0
    for at, key, payload in events:
        _, bits = topic.publish([(key, payload)], at * 1000)
        dropped += bits.bit_count()
    return dropped


def by_buckets(events: list[Event], window: int) -> int:
    """One of each key in each bucket of time stays."""
    stay = {(key, at // window) for at, key, _ in events}
    return len(events) - len(stay)


def by_gaps(events: list[Event], window: int) -> int:
    """What comes soon after one of its key goes."""
    last: dict[bytes, int] = {}
    dropped = 0
    for at, key, _ in events:
        dropped += key in last and at - last[key] < window
        last[key] = at
    return dropped


def by_walk(events: list[Event], window: int) -> tuple[int, int, int]:
    """What a window drops, the changes among these, their longest wait."""
    ends: dict[bytes, tuple[int, bytes]] = {}
    dropped = lost = latest = 0
    for at, key, payload in events:
        end, stored = ends.get(key, (at, b""))
        if at < end:
            dropped += 1
            if payload != stored:
                lost += 1
                latest = max(latest, end - at)
        else:
            ends[key] = (at + window, payload)
    return dropped, lost, latest


def main(name: str) -> None:
    """A line for each window."""
    events = read(name)
    print("window   broker  buckets   gaps   walk   changes lost")
    for window in (1_000, 10_000, 60_000, 600_000):
        counts = [f(events, window) for f in (by_broker, by_buckets, by_gaps)]
        dropped, lost, _ = by_walk(events, window)
        told = "  ".join(f"{each:6}" for each in (*counts, dropped, lost))
        print(f"{window // 1000:4} s  {told}")


if __name__ == "__main__":
    main(sys.argv[1])
