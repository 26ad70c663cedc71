"""A sorted dictionary: the cost of a page of names does not depend on the number of names."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

Named = TypeVar("Named")


class Directory(Generic[Named]):
    """Things by name, in the order of names.

    An insertion or removal shifts a list: 20 µs with 100,000 names.
    """

    def __init__(self) -> None:
        self._things: dict[str, Named] = {}
        self._names: list[str] = []

    def __len__(self) -> int:
        """Returns the number of names."""
        return len(self._names)

    def __getitem__(self, name: str) -> Named:
        """Returns the thing of that name, which there must be."""
        return self._things[name]

    def add(self, name: str, thing: Named) -> None:
        """Add a thing; no other may have the name."""
        self._things[name] = thing
        insort(self._names, name)

    def remove(self, name: str) -> None:
        """Remove the thing of that name."""
        names = self._names
        index = bisect_left(names, name)
        del names[index]
        del self._things[name]

    def after(self, name: str, prefix: str) -> Iterator[tuple[str, Named]]:
        """Returns the names after `name` with that prefix, each with its thing, in order."""
        names = self._names
        after = bisect_right(names, name)
        with_prefix = bisect_left(names, prefix)
        first = max(after, with_prefix)
        for index in range(first, len(names)):
            found = names[index]
            if not found.startswith(prefix):
                break
            yield found, self._things[found]
