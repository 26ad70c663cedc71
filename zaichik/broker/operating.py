"""An operator's requests: about the broker, not about messages. They are carried out on any connection."""

from zaichik.broker.pending import Pending
from zaichik.broker.rights import User
from zaichik.broker.state import State
from zaichik_protocol import (
    AdvanceClock,
    ClockAdvanced,
    Delete,
    Deleted,
    Describe,
    Described,
    Disconnect,
    Disconnected,
    ErrorCode,
    Frame,
    Refused,
)

Operation = Describe | Delete | Disconnect | AdvanceClock


def operate(broker: State, number: int, user: User, request: Operation, now_us: int) -> Frame | Pending:
    """Carry out a request of that user on the connection with that number, and return its reply.

    Raises:
        Refused: see `describe.describe`, `TopicRegistry.delete`, `Broker.advance`; `INVALID_FIELD`, for no other
            connection.
    """
    match request:
        case Describe():
            more, page = broker.describe(request, user, now_us)
            return Described(request.id, int(more), page)
        case Delete():
            gone = broker.registry.delete(request.topic, request.epoch, now_us, if_empty=request.if_empty)
            reply = Deleted(request.id)
            return reply if gone is None else gone.followed_by(lambda _: reply)
        case Disconnect():
            _disconnect(broker, number, request.connection)
            return Disconnected(request.id)
        case AdvanceClock():
            broker.advance(request.to_us)
            return ClockAdvanced(request.id)


def _disconnect(broker: State, own: int, other: int) -> None:
    """Close another connection; its requests that were not carried out yet are dropped (CLO-4)."""
    if other == own:
        raise Refused(ErrorCode.INVALID_FIELD, f"connection {own} is this one: end it with Close", "connection")
    if not broker.send_away(other):
        problem = f"connection {other} does not exist; it may have ended already"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "connection")
