"""Exercise 17.1, wrong: what a failed sync has left, the next one is believed to write.

Fails at: a sync that succeeds later saves nothing
"""

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
            case _ if which:
                safe |= waiting
    return [number for number in answered if number not in safe]
