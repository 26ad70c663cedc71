"""What the filters of a session may take: bytes in its row, and levels in the tree of all filters.

A session's row must fit into a message of the broker (MQ-8). In the tree, each level of a filter
takes some 280 bytes, and a message may have to be compared with it. So levels are counted, too: a
thousand filters of 130 levels would take 35 MiB, and 70 ms for each message that is compared with
all of them, in which no other client is served.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

# Of one session.
MOST_FILTERS = 1000
MOST_LEVELS = 10_000
# Of its row, in which a usual filter takes 150 to 200; but at most half of the broker's largest
# message, since the row has its positions, too.
MOST_ROW_BYTES = 512 * 1024

# What a filter has in a row besides its text and where it starts, and a start besides its topic.
FILTER_BYTES = 130
START_BYTES = 25


@dataclass(slots=True)
class FilterQuota:
    """What filters take, and how much more may be taken.

    Attributes:
        filters: how many there are.
        levels: of all of them.
        row_bytes: that they may need in a row; most need less.
    """

    filters: int = 0
    levels: int = 0
    row_bytes: int = 0

    def has_room(self, one: "FilterQuota", max_message: int) -> bool:
        """Returns whether a filter may be added.

        Args:
            one: what it takes.
            max_message: bytes of the broker's largest message.
        """
        return (
            self.filters + one.filters <= MOST_FILTERS
            and self.levels + one.levels <= MOST_LEVELS
            and self.row_bytes + one.row_bytes <= min(MOST_ROW_BYTES, max_message // 2)
        )

    def add(self, one: "FilterQuota") -> None:
        """Count a filter that was added."""
        self.filters += one.filters
        self.levels += one.levels
        self.row_bytes += one.row_bytes

    def subtract(self, one: "FilterQuota") -> None:
        """Count a filter that was removed."""
        self.filters -= one.filters
        self.levels -= one.levels
        self.row_bytes -= one.row_bytes


def quota_of(text: str, spaces: Iterable[str]) -> FilterQuota:
    """Returns what a filter takes.

    Args:
        text: the filter, as the client has sent it.
        spaces: the topics of the broker that it can match, in which it starts somewhere.
    """
    size = FILTER_BYTES + _json_bytes(text)
    for space in spaces:
        size += START_BYTES + _json_bytes(space)
    return FilterQuota(1, text.count("/") + 1, size)


def _json_bytes(text: str) -> int:
    """Returns the bytes of a text in a row, where a character may take up to twelve."""
    return len(json.dumps(text))
