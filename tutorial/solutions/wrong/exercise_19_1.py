"""Exercise 19.1, wrong: whoever names an open ticket may settle it.

Fails at: nobody settles somebody else's
"""

Event = tuple[str, int] | tuple[str, str] | tuple[str, str, int]


def late(history: list[Event]) -> list[int]:
    """The tickets of all settles that changed nothing, in order."""
    held: dict[int, str] = {}
    found: list[int] = []
    for event in history:
        match event:
            case ("take", worker, ticket):
                held[ticket] = worker
            case ("time-out", ticket):
                held.pop(ticket, None)
            case ("leave", worker):
                held = {ticket: has for ticket, has in held.items() if has != worker}
            case ("settle", _, ticket):
                if held.pop(ticket, None) is None:
                    found.append(ticket)
    return found
