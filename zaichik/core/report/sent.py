"""When something was sent to a reader, as far as that is remembered (EXP-3)."""

from collections.abc import Iterable


def sent_us(frames: Iterable[tuple[int, int]], number: int) -> int | None:
    """Returns when the frame with that offset, or ticket, was taken to be sent.

    Args:
        frames: what the reader remembers as `sent`: the first number of each frame, and the time,
            the oldest first.
        number: one that was sent, and not taken back since.

    Returns None if the frame is no longer remembered: it was sent before all that are.
    """
    found: int | None = None
    for first, at_us in frames:
        # The last frame that begins at the number or below it is the one that it was in.
        if first <= number:
            found = at_us
    return found
