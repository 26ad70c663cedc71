"""MQTT's topics are keys: where a message for one of them is stored, and what a key stands for.

All of MQTT's messages are in one topic of the broker, `mqtt`, each under its MQTT topic as the key.
A tree has a topic of its own: with `--tree orders`, MQTT's `orders/new/17` is the key `new/17` in
the topic `orders`, and MQTT's `orders` is a message without a key there (MQ-2).

    PUBLISH home/kitchen/temp  ──▶  topic `mqtt`, key `home/kitchen/temp`
    with user properties       ──▶  topic `mqtt`, key `home/kitchen/temp` 00 properties

The properties of version 5 that must reach a subscriber follow the topic after a zero byte, which
no MQTT topic has, and only if there are any (MQ-3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from zaichik.apps.mqtt.filters import LONGEST_REMEMBERED, MOST_REMEMBERED

MAIN = "mqtt"
RETAINED = "mqtt/retained"
SESSIONS = "mqtt/sessions"
WILLS = "mqtt/wills"
# Has no messages: see `gateways.claim`.
CLAIM = "mqtt/gateway"
RESERVED = (MAIN, RETAINED, SESSIONS, WILLS, CLAIM)

# Between the MQTT topic and the properties.
SEPARATOR = b"\0"
# What the broker takes for a key.
MOST_KEY_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where a message of MQTT is stored.

    Attributes:
        space: the broker's topic.
        key: its key there; b"" for none.
    """

    space: str
    key: bytes


class Spaces:
    """The broker's topics that hold messages of MQTT.

    Args:
        trees: topics that are trees, besides `mqtt`.

    Attributes:
        names: all of them, `mqtt` first.
    """

    def __init__(self, trees: Sequence[str] = ()) -> None:
        self.names = (MAIN, *dict.fromkeys(trees))
        # A tree within another one is looked for first.
        self._trees = sorted(self.names[1:], key=len, reverse=True)
        self._remembered_address = lru_cache(MOST_REMEMBERED)(self._address)
        self._remembered_topic = lru_cache(MOST_REMEMBERED)(self._topic)

    def space_of(self, topic: str) -> str:
        """Returns the topic of the broker that holds an MQTT topic."""
        for tree in self._trees:
            if topic == tree or topic.startswith(f"{tree}/"):
                return tree
        return MAIN

    def reachable(self, topic_filter: str) -> list[str]:
        """Returns the topics of the broker whose messages a filter can match."""
        levels = topic_filter.split("/")
        found = [tree for tree in self._trees if _may_be_in(levels, tree.split("/"))]
        wildcards = {"+", "#"}
        for tree in self._trees:
            depth = tree.count("/") + 1
            # It names a tree, so nothing outside of that can match.
            if tree in found and not wildcards & set(levels[:depth]):
                return found
        return [MAIN, *found]

    def address(self, topic: str, properties: bytes = b"") -> Address:
        """Returns where a message is stored.

        Args:
            topic: its MQTT topic.
            properties: those that must reach a subscriber, encoded.
        """
        if len(topic) + len(properties) > LONGEST_REMEMBERED:
            return self._address(topic, properties)
        return self._remembered_address(topic, properties)

    def _address(self, topic: str, properties: bytes) -> Address:
        space = self.space_of(topic)
        key = topic.encode()
        if space != MAIN:
            key = topic[len(space) + 1 :].encode()
        if properties:
            key += SEPARATOR + properties
        return Address(space, key)

    def topic(self, space: str, key: bytes | None) -> tuple[str, bytes]:
        """Returns the MQTT topic of a message in the broker, and its properties, encoded.

        Raises:
            ValueError: the key is no MQTT topic, as of a message of some other program.
        """
        if len(key or b"") > LONGEST_REMEMBERED:
            return self._topic(space, key)
        return self._remembered_topic(space, key)

    def _topic(self, space: str, key: bytes | None) -> tuple[str, bytes]:
        name, _, properties = (key or b"").partition(SEPARATOR)
        topic = name.decode()
        if space != MAIN and topic:
            topic = f"{space}/{topic}"
        elif space != MAIN:
            topic = space
        return topic, properties


def _may_be_in(levels: list[str], tree: list[str]) -> bool:
    """Returns whether a filter of these levels can match a topic of a tree."""
    for wanted, level in zip(levels, tree, strict=False):
        if wanted == "#":
            return True
        if wanted not in {"+", level}:
            return False
    return len(levels) >= len(tree)


def is_storable(address: Address) -> bool:
    """Returns whether the broker can store a message there: `orders/` would have an empty key."""
    if len(address.key) > MOST_KEY_BYTES:
        return False
    return bool(address.key) or address.space != MAIN
