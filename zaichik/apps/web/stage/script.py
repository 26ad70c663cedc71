"""What happens in a scene: a topic's settings, and calls at times that only the stage moves.

A script is made from knobs and a seed, and from nothing else. So a scene that is played again is
the same to the last number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from random import Random
from typing import Any

JSON = dict[str, Any]

TOPIC = "orders"  # every scene has one topic
CUSTOMERS = ("kim", "lee", "mia", "noa")  # keys


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that an actor does.

    Attributes:
        at: the time, in seconds since the scene began.
        actor: the actor's name.
        verb: the name of a method of `Actor`.
        arguments: the method's arguments.
    """

    at: float
    actor: str
    verb: str
    arguments: JSON


class Script:
    """The calls of one scene; the functions of `scenes` write it.

    Args:
        seed: for all random numbers.

    Attributes:
        settings: of the topic, for `Client.create_topic`.
        actors: their names, in the order in which they come.
        endless: calls without end, after those that were written.
        words: those of `scenes.toml`, with a question about these knobs.
        random: draws the same for the same seed.
    """

    def __init__(self, seed: int) -> None:
        self.settings: JSON = {"retention_ttl": "forever", "capacity": 16}
        self.actors: dict[str, None] = {}
        self.endless: Iterator[Call] = iter(())
        self.words: JSON = {}
        self.random = Random(seed)  # noqa: S311 (nothing is secret on a stage)
        self._calls: list[Call] = []
        self._orders = count(1)

    def call(self, at: float, actor: str, verb: str, **arguments: Any) -> None:
        """Write down a call."""
        self.actors.setdefault(actor)
        self._calls.append(Call(round(at, 3), actor, verb, arguments))

    def publish(self, at: float, messages: int = 1, key: str = "") -> None:
        """Write down that ana publishes a batch.

        Without a key, each of its messages has one that is drawn.
        """
        self.call(at, "ana", "publish", batch=self.orders(messages, key))

    def orders(self, messages: int, key: str = "", skew: int = 0) -> list[tuple[str, bytes]]:
        """Returns the next messages: keys and payloads.

        Of the keys that are drawn, `skew` percent are the first.
        """
        random, first = self.random, CUSTOMERS[0]
        keys = [
            key or (first if random.randrange(100) < skew else random.choice(CUSTOMERS))
            for _ in range(messages)
        ]
        return [(drawn, b"order %d" % next(self._orders)) for drawn in keys]

    def calls(self) -> Iterator[Call]:
        """Returns the calls in the order of their times; calls of the same time stay as written."""
        return chain(sorted(self._calls, key=lambda call: call.at), self.endless)
