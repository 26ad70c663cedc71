"""How a subscription begins: alone at a position of its own, or with others at a shared one.

Here, and nowhere else, the kind of a subscription is decided (SHR-1).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.following.filtered_reader import new_reader
from zaichik.core.position import key_of
from zaichik.core.rights import User
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.shared_names.shared_reader import SharedReader
from zaichik.core.subscriber import Subscriber
from zaichik.core.topic_controller import TopicController
from zaichik.core.work_queue.worker import Hand
from zaichik_protocol import ErrorCode, Refused, Start, Subscribe

if TYPE_CHECKING:
    from zaichik.core.broker import Broker


class Side(NamedTuple):
    """The connection that asks.

    Attributes:
        user: who has logged in.
        client: the client that it is charged to.
        number: its number.
        description: the subscription in words, for error texts.
        on_ready: called when the subscription asks for turns.
        hand: what its subscriptions to shared names have together (SHR-6).
    """

    user: User
    client: str
    number: int
    description: str
    on_ready: Callable[[Subscriber], None]
    hand: Hand | None


def new_subscriber(
    broker: "Broker", side: Side, request: Subscribe, topic: TopicController, start: int
) -> Subscriber:
    """Returns a new subscription, which has not joined yet.

    Args:
        broker: has the names.
        side: who asks.
        request: the Subscribe, already checked.
        topic: the topic.
        start: where it begins, if there is no position of its name.

    Raises:
        Refused: `INVALID_FIELD`, `TAKEN_OVER`, `TOO_MANY_SUBSCRIPTIONS`.
    """
    key = key_of(side.user.name, request.name)
    if request.shared:
        shared = _shared_position(broker, side, request, topic, key, start)
        return SharedReader(
            request, shared, side.on_ready, side.description, side.number, side.hand or Hand()
        )
    position = _own_position(broker, side, request, topic, key, start)
    return new_reader(
        side.user, request, topic, position, side.on_ready, side.description, side.number
    )


def _own_position(
    broker: "Broker",
    side: Side,
    request: Subscribe,
    topic: TopicController,
    key: str,
    start: int,
) -> ExclusivePosition:
    """Returns the position of a subscription that has it alone."""
    is_fresh = request.start == Start.EARLIEST
    if not request.name:
        position = ExclusivePosition(start)
        position.is_fresh = is_fresh
        return position
    named = topic.names.get(key)
    if named is None:
        named = ExclusivePosition(start, key, side.client)
        named.is_fresh = is_fresh
        broker.named_positions.open(topic, named)
    if not isinstance(named, ExclusivePosition):
        raise _wrong_kind(request.name, "shared")
    named.claim(request.owner, request.attempt)
    return named


def _shared_position(
    broker: "Broker",
    side: Side,
    request: Subscribe,
    topic: TopicController,
    key: str,
    start: int,
) -> SharedPosition:
    """Returns the position of a shared name, which the first subscription makes (SHR-1)."""
    named = topic.names.get(key)
    if named is None:
        named = broker.shared_names.new(topic, request, key, start, side.client)
        broker.named_positions.open(topic, named)
    if not isinstance(named, SharedPosition):
        raise _wrong_kind(request.name, "exclusive")
    named.queue.check_agreed(request.max_deliveries, by_key=request.by_key)
    return named


def _wrong_kind(name: str, is_already: str) -> Refused:
    """Returns the refusal of a name that is shared, or exclusive, already (SHR-1)."""
    problem = (
        f"the name {name!r} is {is_already}, as its first subscription has made it. Use another "
        "name, or forget this one."
    )
    return Refused(ErrorCode.INVALID_FIELD, problem, "name")
