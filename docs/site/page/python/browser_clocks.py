"""Importing this makes Python forget the clocks that a browser has not got.

A browser's Python has their names nevertheless, and zaichik looks for them when it is imported.
"""

import sys
import time

if sys.platform == "emscripten":
    for clock in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW"):
        if hasattr(time, clock):
            delattr(time, clock)
