"""Exceptions that must not end a program: each is logged and counted, and the program goes on.

A bug in work that is done once a second is raised once a second. So the same traceback is logged
once a minute at most; two exceptions are the same bug if they have the same type and were raised on
the same line.
"""

# Not compiled: it runs once a second, so there is nothing to gain.

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType

from zaichik.base.clock import MINUTE_US

QUIET_US = MINUTE_US  # after a traceback, before the same one is logged again

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
        # It has no more entries than the program has lines that raise.
        self._quiet_until_us: dict[Line, float] = {}
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
            line = _line(error)
            now_us = self._now_us()
            if now_us >= self._quiet_until_us.get(line, -math.inf):
                self._quiet_until_us[line] = now_us + QUIET_US
                self._logger.exception("a bug in %s, number %d since the start", what, self.count)


def _line(error: Exception) -> Line:
    """Returns the identity of a bug: its type, and where it was raised."""
    code = None
    number = 0
    trace = error.__traceback__
    while trace:
        code = trace.tb_frame.f_code
        number = trace.tb_lineno
        trace = trace.tb_next
    return type(error), code, number
