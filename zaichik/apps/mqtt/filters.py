"""Topic filters: which topics they match, and which of many filters match a topic.

Topics are levels with slashes between them: `home/kitchen/temp`. In a filter, a level that is `+`
stands for any one level, and a last level that is `#` for any number of levels, also none. Topics
that begin with `$` are the server's own, so wildcards at the beginning do not match them.

Filters are kept in a tree of their levels. A message goes down it once, along all branches that fit
at the same time: at each level that is the one with the level's name, and `+`. So a match costs the
levels of the topic, and not the number of filters. Messages of the same few topics come again and
again; what they match is remembered.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

SHARE = "$share"

# A filter costs memory for each of its levels, and has room for 65,535 of them. 200 is what
# Mosquitto allows; nobody has that many.
MOST_LEVELS = 200

# Bytes of a topic, a filter, a client identifier: any text has its length in two bytes.
MOST_BYTES = 0xFFFF

# Bytes that remembered matches may take, and about what each takes beside its topic and its values.
REMEMBERED = 8 * 1024 * 1024
EACH_MATCH = 200

Value = TypeVar("Value", bound=Hashable)


def topic_problem(topic: str) -> str | None:
    """Returns why that is no topic name, which a message may be published to; None: it is."""
    if not topic:
        return "a topic name has at least one character"
    if "+" in topic or "#" in topic:
        return "a topic name has no wildcard, + or #"
    return _text_problem("topic name", topic)


def filter_problem(text: str) -> str | None:
    """Returns why that is no topic filter, shared or not; None: it is one."""
    group, plain = split_share(text)
    if group is not None and _share_problem(group):
        return _share_problem(group)
    if not plain:
        return "a topic filter has at least one character"

    levels = plain.split("/")
    for level in levels[:-1]:
        if "#" in level:
            return "the wildcard # must be the last level of a topic filter, and all of it"
    if "#" in levels[-1] and levels[-1] != "#":
        return "the wildcard # must be the last level of a topic filter, and all of it"
    for level in levels:
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


def _share_problem(group: str) -> str | None:
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
    """Filters, each with values, which are whatever should be found by a topic.

    Args:
        remembered: bytes that remembered matches may take.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._root: _Node[Value] = _Node()
        self._count = 0
        self._most_remembered = remembered
        self._found: dict[str, tuple[Value, ...]] = {}
        self._remembered = 0

    def __len__(self) -> int:
        """How many pairs of a filter and a value there are."""
        return self._count

    def add(self, topic_filter: str, value: Value) -> bool:
        """Add a value to a filter, which must be a valid one and not shared.

        Returns whether it is new; once is enough.
        """
        node = self._root
        for level in topic_filter.split("/"):
            node = node.children.setdefault(level, _Node())
        if value in node.values:
            return False
        node.values[value] = None
        self._count += 1
        self._forget()
        return True

    def remove(self, topic_filter: str, value: Value) -> bool:
        """Take a value from a filter; returns whether it was there.

        Levels that no filter needs any more are gone with it.
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
        self._forget()
        return True

    def match(self, topic: str) -> tuple[Value, ...]:
        """Returns the values of all filters that match a topic name.

        A value that was added to several of them is there several times.
        """
        found = self._found.get(topic)
        if found is None:
            found = tuple(self._search(topic))
            self._remember(topic, found)
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

    def _remember(self, topic: str, found: tuple[Value, ...]) -> None:
        """When there is no room, all is forgotten: finding it again is cheap."""
        cost = EACH_MATCH + len(topic) + 8 * len(found)
        if cost > self._most_remembered:
            return
        if self._remembered + cost > self._most_remembered:
            self._forget()
        self._found[topic] = found
        self._remembered += cost

    def _forget(self) -> None:
        self._found.clear()
        self._remembered = 0


def _values_of(node: _Node[Value], level: str) -> Iterator[Value]:
    child = node.children.get(level)
    if child is not None:
        yield from child.values
