"""Sessions in the table `mqtt/sessions`: one row for each that is kept, and one for the gateway.

A row is stored before CONNACK and SUBACK, its position once a second and when the client leaves
(MQ-8). It has a position only if its session has something to be sent or acknowledged. All others
are at the end of what the gateway has read, which is in the gateway's own row: so a thousand idle
sessions cost one row a second, not a thousand.

A row is JSON. One that cannot be read, because it is of a later version or of somebody else, is
counted and passed over: it must never keep the gateway from starting (G-2).
"""

import json
import logging
from dataclasses import dataclass, field
from typing import Any

from zaichik.apps.mqtt.filters import filter_problem
from zaichik.apps.mqtt.session import Session, SessionId
from zaichik.apps.mqtt.subscription import Subscription
from zaichik.apps.mqtt.tail import NOT_IN_TAIL, Place

logger = logging.getLogger("zaichik.mqtt.sessions")

FORMAT = 1
# The key of the gateway's own row: no client has that name, which has two zero bytes.
GATEWAY = "\0\0gateway"
# Before the name of a group.
GROUP = "\0\0group\0"
# What reading a row raises that is none: JSON may have anything, anywhere, and nested deeply.
UNREADABLE = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
)
MOST_OFFSET = 2**63 - 1
MOST_U32 = 0xFFFFFFFF
MOST_IDENTIFIER = 268_435_455


@dataclass(slots=True)
class GatewayRow:
    """What the gateway keeps of itself.

    Attributes:
        at_us: when it was stored: sessions that were connected then have left when the gateway
            ended.
        ends: by the broker's topic, the offset up to which everything was read.
        epochs: by the broker's topic, its identity: a topic that was made anew has another one, and
            its offsets begin anew.
    """

    at_us: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Returns the row."""
        return _row({"at_us": self.at_us, "ends": self.ends, "epochs": self.epochs})

    @classmethod
    def of(cls, data: bytes) -> "GatewayRow":
        """Returns the row that was stored.

        Raises:
            ValueError: it is none.
        """
        row = _members(data)
        epochs = {str(space): int(epoch) for space, epoch in row["epochs"].items()}
        return cls(number(row["at_us"]), _offsets(row["ends"]), epochs)


def session_row(session: Session, spaces: tuple[str, ...]) -> bytes:
    """Returns the row of a session."""
    return _row(
        {
            "expiry_s": session.expiry_s,
            "left_us": session.left_us,
            "positions": session.positions(spaces),
            "filters": [
                {
                    "filter": one.filter,
                    "qos": one.qos,
                    "no_local": one.no_local,
                    "retain_as_published": one.retain_as_published,
                    "identifier": one.identifier,
                    "starts": one.starts,
                }
                for one in session.subscriptions.values()
            ],
        }
    )


def session_of(key: str, data: bytes) -> Session:
    """Returns the session of a row, whose client is away.

    Raises:
        ValueError: the row is none.
    """
    row = _members(data)
    left_us = row["left_us"]
    if left_us is not None:
        left_us = number(left_us)
    session = Session(SessionId.of(key), number(row["expiry_s"], MOST_U32), left_us)
    for space, offset in _offsets(row["positions"]).items():
        session.places[space] = Place(NOT_IN_TAIL, offset)
    for one in row["filters"]:
        subscription = _subscription_of(session, one)
        session.subscriptions[subscription.filter] = subscription
    return session


def _subscription_of(session: Session, one: dict[str, Any]) -> Subscription:
    text = str(one["filter"])
    problem = filter_problem(text)
    if problem is not None:
        raise ValueError(f"a filter is none: {problem}")
    return Subscription(
        session,
        text,
        number(one["qos"], 2),
        bool(one["no_local"]),
        bool(one["retain_as_published"]),
        number(one["identifier"], MOST_IDENTIFIER),
        _offsets(one["starts"]),
    )


def group_row(positions: dict[str, int]) -> bytes:
    """Returns the row of a group: by the broker's topic, where it goes on."""
    return _row({"positions": positions})


def positions_of(data: bytes) -> dict[str, int]:
    """Returns the positions in a group's row.

    Raises:
        ValueError: the row is none.
    """
    row = _members(data)
    return _offsets(row["positions"])


def number(value: Any, most: int = MOST_OFFSET) -> int:
    """Returns a number of a row.

    Raises:
        ValueError: it is not between 0 and the most that it may be.
    """
    found = int(value)
    if not 0 <= found <= most:
        raise ValueError(f"{found} is out of range")
    return found


def _offsets(members: dict[str, Any]) -> dict[str, int]:
    return {str(space): number(offset) for space, offset in members.items()}


def _row(members: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT} | members, separators=(",", ":")).encode()


class _Members(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        raise ValueError(f"there is no {name}")


def _members(data: bytes) -> dict[str, Any]:
    """Returns the members of a row; one that is missing raises a ValueError."""
    row = json.loads(data)
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise ValueError("not of this format")
    return _Members(row)
