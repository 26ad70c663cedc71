"""Tables: topics that keep the last message of each key."""

from settings import DEFAULTS, OF_A_TABLE
from topics import Topic


class Table(Topic):
    """A topic that keeps the last message of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = DEFAULTS | OF_A_TABLE
