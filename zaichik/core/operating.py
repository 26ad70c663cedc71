"""An operator's requests: about the broker, not about messages.

They are carried out on any connection.
"""

from typing import TYPE_CHECKING

from zaichik.core.pending import Pending
from zaichik.core.report.answer import explain
from zaichik.core.rights import User
from zaichik.core.shared_names.dead_requests import about_the_dead
from zaichik_protocol import (
    Delete,
    Deleted,
    Describe,
    Described,
    Disconnect,
    Disconnected,
    ErrorCode,
    Refused,
    frames,
)

if TYPE_CHECKING:
    from zaichik.core.broker import Broker


def operate(
    broker: "Broker", number: int, user: User, request: frames.Frame, now_us: int
) -> frames.Frame | Pending:
    """Carry out a request of that user on the connection with that number, and return its reply.

    Raises:
        Refused: see `describe.describe`, `explain`, `TopicRegistry.delete`, `Broker.advance`,
            `about_the_dead`;
            `INVALID_FIELD` for no other connection; `UNSUPPORTED` for any other request.
    """
    match request:
        case Describe():
            more, page = broker.describe(request, user, now_us)
            return Described(request.id, int(more), page)
        case Delete():
            registry = broker.registry
            gone = registry.delete(request.topic, request.epoch, now_us, if_empty=request.if_empty)
            reply = Deleted(request.id)
            if gone is None:
                return reply
            return gone.followed_by(lambda _: reply)
        case Disconnect():
            _disconnect(broker, number, request.connection)
            return Disconnected(request.id)
        case frames.AdvanceClock():
            broker.advance(request.to_us)
            return frames.ClockAdvanced(request.id)
        case frames.Dead():
            return about_the_dead(broker, request, user)
        case frames.Explain():
            answer = explain(broker, request, user, now_us)
            return frames.Explained(request.id, answer)
        case _:
            problem = f"this broker does not support {type(request).__name__}"
            raise Refused(ErrorCode.UNSUPPORTED, problem, "type")


def _disconnect(broker: "Broker", own: int, other: int) -> None:
    """Close another connection; its requests that were not carried out yet are dropped (CLO-4)."""
    if other == own:
        problem = f"connection {own} is this one: send Close to end it"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "connection")
    if not broker.send_away(other):
        problem = f"connection {other} does not exist; it may have ended already"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "connection")
