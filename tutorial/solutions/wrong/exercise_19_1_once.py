"""Exercise 19.1, wrong: a ticket is remembered as this worker's for good.

Fails at: a job is settled once
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
            case ("settle", worker, ticket):
                if held.get(ticket) != worker:
                    found.append(ticket)
    return found
