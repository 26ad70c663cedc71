"""Every short story of a topic: does my broker get any of them wrong?"""

import sys
from collections import deque
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import settings
from layouts import ENDED, ENDED_TYPE, HEADER, LAGGED, LAGGED_TYPE, MESSAGES
from naive import CAPACITY, CREDIT, TTL_US, UNTIL, WINDOW_US, Naive, Told
from readers import Reader
from topics import Topic

BEGIN = 1_000_000_000  # the time, so late that nothing else is as large
OLD = 2 * max(TTL_US, WINDOW_US)  # what is older is simply old
STEPS = ["publish", "publish keyed", "a ms passes", "sweep"]
STEPS += ["A reads", "B reads", "A commits", "B commits"]
STEPS += ["C reads"]


class World:
    """My topic and the naive one, and a clock for both."""

    def __init__(self) -> None:
        self.now, self.naive, self.topic = BEGIN, Naive(), Topic()
        named = {settings.CAPACITY: CAPACITY, settings.TTL_MS: TTL_US // 1000}
        named[settings.WINDOW_MS] = WINDOW_US // 1000
        self.topic.configure(named)
        self.readers = {who: self.reader(who) for who in CREDIT}

    def reader(self, who: str) -> Reader:
        """Mine: it reads all there is, at the pace of its credit."""
        wanted = {"id": 1, "start": 0, "value": 0}
        wanted["until"] = UNTIL.get(who, settings.FOREVER)
        wanted |= {"credit": CREDIT[who], "credit_bytes": 1000}
        return Reader(self.topic, SimpleNamespace(**wanted), no_bell)

    def do(self, step: str) -> None:
        """Take one step in both."""
        match step.split():
            case ["publish", *keyed]:
                key = b"key" if keyed else b""
                _, dropped = self.topic.publish([(key, b"x")], self.now)
                same(not dropped, self.naive.publish(key, self.now))
            case ["a", "ms", "passes"]:
                self.now += 1000
            case ["sweep"]:
                self.topic.sweep(self.now)
            case [who, "reads"]:
                event = self.readers[who].next_event(self.now)
                same(understood(event), self.naive.read(who, self.now))
            case [who, "commits"]:
                following = self.naive.commit(who)
                same(self.readers[who].commit(following), following)


def no_bell() -> None:
    """What a topic rings: here a reader reads when a story says so."""


def understood(event: bytes | None) -> Told:
    """What a frame says, in the words of the naive one."""
    if event is None:
        return None
    if HEADER.parse(event).type == LAGGED_TYPE:
        gap = LAGGED.parse(event[12:])
        return "lagged", gap.from_offset, gap.to_offset
    if HEADER.parse(event).type == ENDED_TYPE:
        end = ENDED.parse(event[12:])
        return "ended", end.code, end.next
    message = MESSAGES.parse(event[12:])
    return "message", message.base, message.accepted_us


def same(mine: object, wanted: object) -> None:
    """Both must say the same."""
    if mine != wanted:
        raise AssertionError(f"mine says {mine}, the naive one {wanted}")


def state(thing: Any, now: int, seen: list[int]) -> Any:
    """All that a thing holds, with ages instead of times."""
    if isinstance(thing, int) and thing > BEGIN / 2:
        return "age", max(-OLD, min(now - thing, OLD))
    if isinstance(thing, dict):
        return tuple((k, state(each, now, seen)) for k, each in thing.items())
    if isinstance(thing, list | tuple | deque):
        return tuple(state(each, now, seen) for each in thing)
    if not hasattr(thing, "__dict__"):
        return thing
    if id(thing) in seen:
        return "seen", seen.index(id(thing))
    seen.append(id(thing))
    return state(vars(thing), now, seen)


def explore(most: int) -> None:
    """Try every story of up to so many steps, the shortest first."""
    known, ends = set(), [([], World())]
    for length in range(1, most + 1):
        longer = []
        for story, world in ends:
            for step in STEPS:
                after = deepcopy(world)
                try:
                    after.do(step)
                except Exception as problem:
                    print(*story, step, sep=", ")
                    sys.exit(f"{type(problem).__name__}: {problem}")
                here = state(after, after.now, [])
                if here not in known:
                    known.add(here)
                    longer.append(([*story, step], after))
        ends = longer
        print(f"{length} steps: {len(known):,} states")
    print("no story goes wrong")


if __name__ == "__main__":
    explore(int(sys.argv[1]))
