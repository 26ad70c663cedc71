"""Exceptions that must not end a program: each is logged and counted, and the program goes on.

A bug in something that happens once a second happens once a second. So a traceback is logged once a minute; what counts
as the same bug is the exception's type and the line that raised it.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType

QUIET_US = 60_000_000  # after a traceback, before the same one is logged again

Line = tuple[type[Exception], CodeType | None, int]


class Bugs:
    """The bugs of one program.

    Args:
        logger: gets the tracebacks.
        now_us: the clock, in microseconds.

    Attributes:
        count: exceptions so far, logged or not.
    """

    def __init__(self, logger: logging.Logger, now_us: Callable[[], int]) -> None:
        self._logger = logger
        self._now_us = now_us
        self._quiet_until_us: dict[Line, float] = {}  # no more entries than the program has lines that raise
        self.count = 0

    @contextmanager
    def contained(self, what: str) -> Iterator[None]:
        """Keep an exception of the block inside it.

        Args:
            what: the work that is done, for the log.
        """
        try:
            yield
        except Exception as error:
            self.count += 1
            line, now_us = _line(error), self._now_us()
            if now_us >= self._quiet_until_us.get(line, -math.inf):
                self._quiet_until_us[line] = now_us + QUIET_US
                self._logger.exception("a bug in %s, number %d since the start", what, self.count)


def _line(error: Exception) -> Line:
    """What makes it the same bug as another."""
    code, number, trace = None, 0, error.__traceback__
    while trace:
        code, number, trace = trace.tb_frame.f_code, trace.tb_lineno, trace.tb_next
    return type(error), code, number
