"""Running inputs by the thousand, and making what fails small.

A target is a module with two functions. `play(rng, log)` makes inputs and tries them, one after the
other, and notes each in the log before; `replay(log)` tries those of a log. Both raise what is
wrong. An entry of a log is one word; an input has a colon, and its bytes after that.
"""

import random
import time
from dataclasses import dataclass
from itertools import count

MOST_TRIES = 3000  # to make a log smaller
_BYTES_AT_ONCE = [64, 16, 4, 1]


@dataclass
class Failure(Exception):
    """What was found: the smallest log that shows it, and what is raised then."""

    log: list
    error: Exception


def run(target, inputs, seed, progress=lambda done, seconds: None):
    """Try so many inputs, or some more; the number tried, and the seconds that took.

    Raises:
        Failure: something is wrong.
    """
    begin, done = time.monotonic(), 0
    for number in count():
        if done >= inputs:
            break
        log = []
        try:
            target.play(random.Random(f"{seed} {number}"), log)
        except Exception as error:
            raise _smaller(target, Failure(log, error)) from error
        done += sum(":" in entry for entry in log)
        progress(done, time.monotonic() - begin)
    return done, time.monotonic() - begin


def _smaller(target, failure):
    """Without all entries, and all bytes, that it does not take."""
    tries = 0

    def shrink(log):
        nonlocal tries, failure
        tries += 1
        if tries > MOST_TRIES:
            return False
        try:
            target.replay(log)
        except Exception as error:
            if type(error) is type(failure.error):
                failure = Failure(log, error)
                return True
        return False

    if not shrink(failure.log):
        return failure  # it takes more than the inputs: told as it is
    for smaller in (_with_fewer_entries, _with_fewer_bytes):
        is_smaller = True
        while is_smaller and tries < MOST_TRIES:
            is_smaller = any(shrink(log) for log in smaller(failure.log))
    return failure


def _with_fewer_entries(log):
    for size in (len(log) // 2, len(log) // 4, 1):
        for at in range(len(log) - 1, -1, -max(size, 1)):
            if size and len(log) > size:
                yield [*log[: max(at - size + 1, 0)], *log[at + 1 :]]


def _with_fewer_bytes(log):
    for index, entry in enumerate(log):
        head, colon, data = entry.partition(":")
        for at in (
            range(len(data) - 2, 0, -2) if colon else []
        ):  # frames before the one that it takes, whatever their size
            yield [*log[:index], f"{head}:{data[at:]}", *log[index + 1 :]]
        for size in _BYTES_AT_ONCE if colon else []:
            for at in range(0, len(data) - 2 * size + 1, 2 * size):
                yield [
                    *log[:index],
                    f"{head}:{data[:at]}{data[at + 2 * size :]}",
                    *log[index + 1 :],
                ]
