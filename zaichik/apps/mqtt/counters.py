"""What was not delivered, or not taken, and why: counted, and said in the log once in a while.

MQTT 3.1.1 has no answer that says why, and no version has one for a subscriber who misses something
(G-6, G-7).
"""

import logging
from dataclasses import asdict, dataclass, replace

logger = logging.getLogger("zaichik.mqtt.counters")


@dataclass(slots=True)
class Counters:
    """Messages, since the gateway has started.

    Attributes:
        too_large: larger than a client takes.
        expired: not delivered before their time was over.
        refused: from clients of 3.1.1, acknowledged and dropped, because the broker refused them.
        unreadable: in the broker, with a key that is no MQTT topic.
        lagged: gone from the broker before a session had read them.
        unsaved: rows of sessions, wills or retained messages that could not be read.
    """

    too_large: int = 0
    expired: int = 0
    refused: int = 0
    unreadable: int = 0
    lagged: int = 0
    unsaved: int = 0


class CounterLog:
    """Says in the log what was counted since it was last said."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._said = replace(counters)

    def say(self) -> None:
        """Write a line for each counter that has risen."""
        before = asdict(self._said)
        now = asdict(self._counters)
        for name, value in now.items():
            if value > before[name]:
                logger.warning("%d messages not delivered: %s", value - before[name], name)
        self._said = Counters(**now)
