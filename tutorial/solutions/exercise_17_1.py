"""Exercise 17.1: what a power cut may take."""

Event = tuple[str, int | bool]


def may_be_gone(history: list[Event]) -> list[int]:
    """The messages that were answered and aren't safe, in the order of their answers."""
    waiting: set[int] = set()
    safe: set[int] = set()
    answered: list[int] = []
    for what, which in history:
        match what:
            case "write":
                waiting.add(which)
            case "answer":
                answered.append(which)
            case _:
                safe |= waiting if which else set()
                waiting = set()  # what has failed is counted as written, and not tried again
    return [number for number in answered if number not in safe]
