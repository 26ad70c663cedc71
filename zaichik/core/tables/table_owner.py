"""A durable table, as its log sees it (DUR-10)."""

from typing import Protocol

from zaichik.core.log import LogOwner
from zaichik.core.tables.keep_last import KeepLast


class TableOwner(LogOwner, Protocol):
    """A table's side of its log.

    Attributes:
        kept: what can be read: all of it is on the disk. The log only looks.
    """

    @property
    def kept(self) -> KeepLast:
        """See above."""
