"""Numbers that stand for topics, towards one client of version 5: topic aliases (MQ-15).

A client says how many numbers it can remember. The first message of a topic tells it a number
together with the topic; those that follow have the number alone. The first topics get numbers, and
keep them for as long as the connection lasts: to give a number to another topic would have to pay
for telling it.

Numbers towards the gateway are not offered.
"""

from typing import NamedTuple

# For one client: what it has been told is remembered here, too.
MOST = 100
MOST_BYTES = 16 * 1024
# What a number takes in a packet. A topic that is no longer stays as it is.
ALIAS_BYTES = 3


class Alias(NamedTuple):
    """A number for a topic.

    Attributes:
        number: 0: there is none.
        is_known: whether the client has been told, so that the topic can be left out.
    """

    number: int
    is_known: bool


NO_ALIAS = Alias(0, is_known=False)


class Aliases:
    """Those of one connection.

    Args:
        most: how many numbers the client can remember.
    """

    def __init__(self, most: int) -> None:
        self._most = min(most, MOST)
        self._told: dict[str, Alias] = {}
        self._bytes = 0

    def of(self, topic: str) -> Alias:
        """Returns the number of a topic: the one that the client knows, or the next one."""
        if not self._most:
            return NO_ALIAS
        known = self._told.get(topic)
        if known is not None:
            return known
        size = len(topic.encode())
        if size <= ALIAS_BYTES or len(self._told) >= self._most:
            return NO_ALIAS
        if self._bytes + size > MOST_BYTES:
            return NO_ALIAS
        return Alias(len(self._told) + 1, is_known=False)

    def tell(self, topic: str, alias: Alias) -> None:
        """Note that the client is told a number, in a packet that is about to be sent."""
        self._told[topic] = Alias(alias.number, is_known=True)
        self._bytes += len(topic.encode())
