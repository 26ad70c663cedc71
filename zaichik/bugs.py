"""Exceptions that must not end a program: each is logged and counted, and the program goes on.

A bug in work that is done once a second is raised once a second. So the same traceback is logged once a minute at most;
two exceptions are the same bug if they have the same type and were raised on the same line.
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
        logger: receives the tracebacks.
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
        """Returns a context that logs and counts an exception instead of raising it.

        Args:
                what: the work that is done in it, for the log.
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
    """Returns the identity of a bug: its type, and where it was raised."""
    code, number, trace = None, 0, error.__traceback__
    while trace:
        code, number, trace = trace.tb_frame.f_code, trace.tb_lineno, trace.tb_next
    return type(error), code, number
