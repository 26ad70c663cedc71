"""Jumps of the broker's clock: time that the stored times say has passed, and that has not.

A broker takes the machine's time when it starts. If the machine's clock was wrong before, and was
set right meanwhile, the broker's clock has jumped: what was stored a minute ago seems to be years
old. So each jump that is noticed is kept with the folder of durable topics, and is not counted when
the age of anything is asked for that was stored before it.

    stored times   ───a──b──│················│──c──▶     a and b were stored before the jump
                            └─ by_us, not counted ─┘at_us
"""

from collections.abc import Sequence

from zaichik.base.clock import MINUTE_US

# The broker's time after it, and how much of the time before that has not passed.
Jump = tuple[int, int]
NOTICED_US = MINUTE_US  # less is no jump: clocks that are kept right are moved a little
MOST_JUMPS = 16  # that are kept, the oldest first


def least_kept_us(jumps: Sequence[Jump], limit_us: int) -> int:
    """Returns the stored time up to which everything is older than what was stored at a limit is.

    The limit is now, less an age.
    """
    for at_us, by_us in reversed(jumps):
        if limit_us >= at_us:
            break
        limit_us -= by_us
    return limit_us


def not_passed_us(jumps: Sequence[Jump], stored_us: int) -> int:
    """Returns how much of the time since then has not passed."""
    not_passed = 0
    for at_us, by_us in jumps:
        if stored_us < at_us:
            not_passed += by_us
    return not_passed
