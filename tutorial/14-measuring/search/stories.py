"""Every short story of a topic: does my broker get any of them wrong?"""

import sys
from collections import deque
from copy import deepcopy
from typing import Any

import settings
from naive import CAPACITY, TTL_US, WINDOW_US, Naive
from topics import Topic

BEGIN = 1_000_000_000  # the time, so late that nothing else is as large
OLD = 2 * max(TTL_US, WINDOW_US)  # what is older is simply old
STEPS = ["publish", "publish keyed", "a ms passes", "sweep"]


class World:
    """My topic and the naive one, and a clock for both."""

    def __init__(self) -> None:
        self.now, self.naive, self.topic = BEGIN, Naive(), Topic()
        named = {settings.CAPACITY: CAPACITY, settings.TTL_MS: TTL_US // 1000}
        named[settings.WINDOW_MS] = WINDOW_US // 1000
        self.topic.configure(named)

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
