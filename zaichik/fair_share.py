"""A part of the time for somebody who may not have more of it.

Whoever has used a while must wait until that while is his part of the time that has passed. What he does not use he
saves, up to a bound: so a beginning with much to do goes quickly, and only what goes on and on is slowed.
"""


class FairShare:
    """One user's account.

    Args:
        part: of the time, in the long run.
        saved_us: microseconds of use that can be saved up.
        longest_us: microseconds of a rest at most; what is owed beyond is forgotten.
    """

    def __init__(self, part: float, saved_us: int, longest_us: int) -> None:
        self._price = 1 / part
        self._saved_us = saved_us * self._price
        self._longest_us = longest_us
        self._paid_us = 0.0  # the time at which everything used so far will have been paid for

    def rest_us(self, used_us: int, now_us: int) -> float:
        """How long to rest after so much use, which has just ended."""
        paid_us = max(self._paid_us, now_us - used_us - self._saved_us) + used_us * self._price
        self._paid_us = min(paid_us, now_us + self._longest_us)
        return max(self._paid_us - now_us, 0.0)
