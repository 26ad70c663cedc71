"""Exercise 17.1: what a power cut may take.

Here is the history of a broker, a list of what happened, in order:

    ("write", 7)        message 7 was written
    ("sync", True)      a sync succeeded
    ("sync", False)     a sync reported an error
    ("answer", 7)       the publisher of message 7 was told that it is stored

Then the power fails. Which messages were acknowledged and may be gone all the same?
"""

Event = tuple[str, int | bool]


def may_be_gone(history: list[Event]) -> list[int]:
    """The messages that were answered and aren't safe, in the order of their answers."""
    raise NotImplementedError("this is yours to write")
