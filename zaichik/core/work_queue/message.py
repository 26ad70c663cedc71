"""An open message: one that was handed out, or passed over for its key, and is not settled.

         ┌─────────── its worker fails, leaves or takes too long ────────────┐
         ▼                                                                   │
    READY, DELAYED ──handed out──▶ HELD ──connection lost──▶ ABSENT ──owner back──▶ HELD
         ▲                          │
         │ the one before it        └──▶ settled: done, dead, or gone from the topic
      BLOCKED   of its key is settled

It is in one place at a time, and what is remembered of it is the same in all of them.
"""

from dataclasses import dataclass
from enum import IntEnum


class Place(IntEnum):
    """Where an open message is. The numbers are those that are saved.

    Attributes:
        HELD: a worker has it.
        READY: the next worker that may have it gets it.
        DELAYED: it waits for its time.
        BLOCKED: it waits for an earlier message of its key (SHR-8).
        ABSENT: the connection of its worker is lost; its owner may come back (SHR-4a).
    """

    HELD = 0
    READY = 1
    DELAYED = 2
    BLOCKED = 3
    ABSENT = 4


@dataclass(slots=True, eq=False)
class OpenMessage:
    """What is remembered of one open message.

    Attributes:
        offset: its offset.
        key: its key if keys are in order (SHR-8), else b"".
        place: where it is.
        count: the deliveries that count (SHR-5), the present one included.
        is_again: whether it was handed out before, counted or not (SHR-4c).
        is_suspect: whether it may have ended a worker (SHR-6).
        given_back: how often in a row a program gave it back opened (SHR-4b).
        due_us: if DELAYED, when it is ready, by the broker's clock; if HELD, when it times out, by
            `Patience`; 0 if it never does.
        ticket: of its latest delivery.
        size: bytes of its key and payload, while it is HELD or ABSENT.
    """

    offset: int
    key: bytes = b""
    place: Place = Place.HELD
    count: int = 0
    is_again: bool = False
    is_suspect: bool = False
    given_back: int = 0
    due_us: int = 0
    ticket: int = 0
    size: int = 0
