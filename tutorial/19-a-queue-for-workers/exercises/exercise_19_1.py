"""Exercise 19.1: too late.

Here is what happened at a queue, a list, in order:

    ("take", "Pia", 7)      Pia was handed a message, with the ticket 7
    ("time-out", 7)         the time for ticket 7 was over
    ("settle", "Pia", 7)    Pia settled ticket 7
    ("leave", "Pia")        Pia went, and what she had was released

No ticket is given twice. Which settles were late: of a ticket that the worker didn't have, or not any more?
"""

Event = tuple[str, int] | tuple[str, str] | tuple[str, str, int]


def late(history: list[Event]) -> list[int]:
    """The tickets of all settles that changed nothing, in order."""
    raise NotImplementedError("this is yours to write")
