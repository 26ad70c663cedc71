"""Every short story of a topic: does my broker get any of them wrong?"""

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
