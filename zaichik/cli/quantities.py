"""Durations and sizes as people write them: 500ms, 10s, 7d, forever; 4096, 10MB, 64MiB.

Times are formatted only.
"""

import re
from typing import Literal

from zaichik.base.calendar_time import calendar_time
from zaichik.cli.arguments import WrongUsage
from zaichik_protocol import FOREVER

LARGEST = FOREVER - 1  # number that a frame can carry; the next one means forever

_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {"b": 1}
_BYTES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
_BYTES |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}
# `int` refuses thousands of digits.
_QUANTITY = re.compile(r"(?P<number>\d{1,30}(\.\d{1,30})?) ?(?P<unit>[a-z]*)", re.ASCII)


def duration(text: str) -> float | Literal["forever"]:
    """Returns the seconds of a duration such as 10s, or "forever". A bare number is seconds.

    Raises:
        WrongUsage: it is not a duration, or too long for a frame.
    """
    if text == "forever":
        return "forever"
    match = _QUANTITY.fullmatch(text)
    unit = _MS.get(match["unit"] or "s") if match else None
    if not match or not unit:
        raise WrongUsage(
            f"{text!r} is not a duration; write 500ms, 10s, 5m, 6h, 7d, forever or seconds"
        )
    milliseconds = float(match["number"]) * unit
    if milliseconds > LARGEST:
        raise WrongUsage(f"{text!r} is too long; write forever")
    return milliseconds / 1000


def size(text: str) -> int:
    """Returns the bytes of a size such as 64MiB. A bare number is bytes.

    Raises:
        WrongUsage: it is not a size, or too large for a frame.
    """
    match = _QUANTITY.fullmatch(text.lower())
    unit = _BYTES.get(match["unit"] or "b") if match else None
    if not match or not unit:
        raise WrongUsage(f"{text!r} is not a size; write 4096, 10kB, 10MB, 64KiB, 64MiB or 1GiB")
    number = match["number"]
    count = round(float(number) * unit) if "." in number else int(number) * unit
    if count > LARGEST:
        raise WrongUsage(f"{text!r} is too large; the largest is {LARGEST}")
    return count


def natural(text: str) -> int:
    """Parses a whole number from 0 to what a frame can carry.

    Raises:
        WrongUsage: it is not one.
    """
    if not re.fullmatch(r"\d{1,30}", text, re.ASCII) or int(text) > LARGEST:
        raise WrongUsage(f"{text!r} is not a whole number from 0 to {LARGEST}")
    return int(text)


def positive(text: str) -> int:
    """Parses a whole number from 1 to what a frame can carry.

    Raises:
        WrongUsage: it is not one.
    """
    number = natural(text)
    if not number:
        raise WrongUsage("0 is too small; it must be at least 1")
    return number


def show_duration(ms: int) -> str:
    """Formats milliseconds in the largest unit that stays whole, as `duration` parses it."""
    if ms == FOREVER:
        return "forever"
    name = next((name for name, unit in reversed(_MS.items()) if ms and ms % unit == 0), "s")
    return f"{ms // _MS[name]}{name}"


def show_time(us: float, digits: str = "milliseconds", *, with_offset: bool = True) -> str:
    """Formats µs since 1970 as local time, to ms or µs, with its offset from UTC.

    A time that no calendar has is shown as the number it is.
    """
    moment = calendar_time(us)
    if moment is None:
        return f"{int(us)} µs"
    moment = moment.astimezone()
    return (moment if with_offset else moment.replace(tzinfo=None)).isoformat(" ", digits)
