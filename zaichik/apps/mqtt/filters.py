"""Topic filters: which topics they match, and which of many filters match a topic.

Topics are levels with slashes between them: `home/kitchen/temp`. In a filter, a level that is `+`
stands for any one level, and a last level that is `#` for any number of levels, also none. Topics
that begin with `$` are the server's own, so wildcards at the beginning do not match them
(MQTT-4.7.2-1).

Filters are kept in a trie, whose edges are levels. A topic goes down it once, along all branches
that fit at the same time: at each level these are the branch with the level's name, and `+`. So a
match costs the levels of the topic, and not the number of filters, unless many filters mix names
and `+` for the same topics: `quota` bounds those. Most messages are of topics that were matched
before, so matches are cached.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from sys import getsizeof
from typing import Generic, TypeVar

SHARE = "$share"

# A filter takes memory for each of its levels, and the longest has room for 65,536 of them.
# Mosquitto's limit is 200, too.
MOST_LEVELS = 200

# Bytes of a topic or a filter, which have their length in two bytes (MQTT-4.7.3-3).
MOST_BYTES = 0xFFFF

# Most messages are of topics that had others before, so what was found out about so many is kept.
# Of longer ones, in characters, it is not: a client can think up any number of these.
MOST_REMEMBERED = 4096
LONGEST_REMEMBERED = 256

# Bytes of cached matches, and about what each takes beside its topic and its tuple of values.
CACHE_BYTES = 8 * 1024 * 1024
ENTRY_BYTES = 100

Value = TypeVar("Value", bound=Hashable)


def topic_problem(topic: str) -> str | None:
    """Returns why messages cannot be published to a topic of this name; None: they can.

    The rules are MQTT-3.3.2-2 and MQTT-4.7.3-1 to -3, and one of ours: `MOST_LEVELS`.
    """
    if len(topic) > LONGEST_REMEMBERED:
        return _found_problem(topic)
    return _remembered_problem(topic)


def _found_problem(topic: str) -> str | None:
    if not topic:
        return "a topic name has at least one character"
    if "+" in topic or "#" in topic:
        return "a topic name has no wildcard, + or #"
    return _text_problem("topic name", topic)


_remembered_problem = lru_cache(MOST_REMEMBERED)(_found_problem)


def filter_problem(text: str) -> str | None:
    """Returns why this is no topic filter, shared or not; None: it is one.

    The rules are MQTT-4.7.1-1 and -2, MQTT-4.7.3-1 to -3, MQTT-4.8.2-1 and -2, and one of ours:
    `MOST_LEVELS`.
    """
    group, plain = split_share(text)
    if group is not None:
        problem = _group_problem(group)
        if problem is not None:
            return problem
    if not plain:
        return "a topic filter has at least one character"

    levels = plain.split("/")
    for number, level in enumerate(levels, start=1):
        is_last = number == len(levels)
        if "#" in level and not (is_last and level == "#"):
            return "the wildcard # must be the last level of a topic filter, and all of it"
        if "+" in level and level != "+":
            return "the wildcard + must be all of its level"
    return _text_problem("topic filter", text)


def split_share(text: str) -> tuple[str | None, str]:
    """Returns the group of a shared subscription, `$share/GROUP/FILTER`, and its filter.

    The group is None if it is not shared, and "" if there is none where there should be one.
    """
    first, slash, rest = text.partition("/")
    if first != SHARE or not slash:
        return None, text
    group, _, plain = rest.partition("/")
    return group, plain


def _group_problem(group: str) -> str | None:
    if not group:
        return "a shared subscription has a name: $share/NAME/FILTER"
    if "+" in group or "#" in group:
        return "the name of a shared subscription has no wildcard, + or #"
    return None


def _text_problem(what: str, text: str) -> str | None:
    if "\0" in text:
        return f"a {what} has no U+0000"
    if len(text.encode()) > MOST_BYTES:
        return f"a {what} has at most {MOST_BYTES:,} bytes"
    if text.count("/") >= MOST_LEVELS:
        return f"a {what} has at most {MOST_LEVELS} levels"
    return None


@dataclass(slots=True)
class _Node(Generic[Value]):
    """A level of filters that begin in the same way.

    Attributes:
        children: the levels that follow, by name; `+` and `#` are names like any other.
        values: those of the filter that ends here, in the order in which they were added.
    """

    children: dict[str, "_Node[Value]"] = field(default_factory=dict)
    values: dict[Value, None] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.children and not self.values


class FilterTree(Generic[Value]):
    """Filters with values. A topic finds the values of all filters that match it.

    Args:
        remembered: bytes that cached matches may take; 0: none is cached.
    """

    def __init__(self, remembered: int = CACHE_BYTES) -> None:
        self._root: _Node[Value] = _Node()
        self._count = 0
        self._most_cached = remembered
        self._cache: dict[str, tuple[Value, ...]] = {}
        self._cached = 0  # bytes

    def __len__(self) -> int:
        """How many pairs of a filter and a value there are."""
        return self._count

    def add(self, topic_filter: str, value: Value) -> bool:
        """Add a value to a filter, which must be valid and not a shared one.

        Returns whether it is new; if not, nothing changes.
        """
        node = self._root
        for level in topic_filter.split("/"):
            node = node.children.setdefault(level, _Node())
        if value in node.values:
            return False
        node.values[value] = None
        self._count += 1
        self._empty_cache()
        return True

    def remove(self, topic_filter: str, value: Value) -> bool:
        """Remove a value from a filter; returns whether it was there.

        Levels that no other filter needs are removed with it.
        """
        path = [self._root]
        levels = topic_filter.split("/")
        for level in levels:
            child = path[-1].children.get(level)
            if child is None:
                return False
            path.append(child)
        if value not in path[-1].values:
            return False

        del path[-1].values[value]
        while levels and path[-1].is_empty:
            path.pop()
            del path[-1].children[levels.pop()]
        self._count -= 1
        self._empty_cache()
        return True

    def match(self, topic: str) -> tuple[Value, ...]:
        """Returns the values of all filters that match a topic name.

        A value of several of them is returned several times.
        """
        found = self._cache.get(topic)
        if found is None:
            found = tuple(self._search(topic))
            self._put_in_cache(topic, found)
        return found

    def _search(self, topic: str) -> Iterator[Value]:
        levels = topic.split("/")
        nodes = [self._root]
        for depth, level in enumerate(levels):
            is_reserved = depth == 0 and level.startswith("$")
            below = []
            for node in nodes:
                if not is_reserved:
                    yield from _values_of(node, "#")
                    any_one = node.children.get("+")
                    if any_one is not None:
                        below.append(any_one)
                child = node.children.get(level)
                if child is not None:
                    below.append(child)
            nodes = below
            if not nodes:
                return
        for node in nodes:
            yield from node.values
            yield from _values_of(node, "#")  # which stands for no level, too

    def _put_in_cache(self, topic: str, found: tuple[Value, ...]) -> None:
        """If there is no room, the cache is emptied: to search again is cheap."""
        size = ENTRY_BYTES + getsizeof(topic) + getsizeof(found)
        if size > self._most_cached:
            return
        if self._cached + size > self._most_cached:
            self._empty_cache()
        self._cache[topic] = found
        self._cached += size

    def _empty_cache(self) -> None:
        self._cache.clear()
        self._cached = 0


def _values_of(node: _Node[Value], level: str) -> Iterator[Value]:
    child = node.children.get(level)
    if child is not None:
        yield from child.values
