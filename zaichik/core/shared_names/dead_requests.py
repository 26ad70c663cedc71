"""What is asked about the dead of a shared name: to list, revive or forget them, or all (SHR-11).

It makes neither a reader nor a name. Each request is about a bounded number of them, in the order
of offsets, and its answer says where to go on.
"""

import json
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from zaichik.core.checks import MAX_NAME, check_list
from zaichik.core.position import key_of
from zaichik.core.rights import ANYBODY, BROKER, User, may_subscribe
from zaichik.core.settings import out_of_range
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.work_queue.dead import DeadMessage
from zaichik_protocol import Dead, DeadAction, DeadPage, ErrorCode, Refused

if TYPE_CHECKING:
    from zaichik.core.broker import Broker

MOST_LISTED = 100  # on a page: a reason may have 1,024 bytes, and each of them six in JSON
MOST_AT_ONCE = 256  # that are revived or forgotten, at some 2 µs each


def about_the_dead(broker: "Broker", request: Dead, user: User) -> DeadPage:
    """Carry out a request, and return its reply.

    Raises:
        Refused: `INVALID_FIELD`, `FORBIDDEN`, `NO_SUCH_TOPIC`, `NO_SUCH_NAME`, `NOT_EMPTY`.
    """
    if request.count == 0:
        raise out_of_range("count", 0, "at least 1")
    check_list(request.offsets, "offsets", broker.settings)
    position = _position(broker, request, user)
    match request.action:
        case DeadAction.LIST:
            return _listed(position, request)
        case DeadAction.REVIVE:
            return _revived(position, request)
        case DeadAction.FORGET:
            return _forgotten(position, request)
        case DeadAction.FORGET_NAME:
            position.check_forget()
            broker.named_positions.forget(position.topic, position)
            return DeadPage(request.id, 0, 1, position.topic.end)
        case _:
            raise out_of_range("action", request.action, "0 to 3")


def _position(broker: "Broker", request: Dead, user: User) -> SharedPosition:
    """Returns the name, if the user may ask about it."""
    whose = user.name
    if user is not ANYBODY and request.user:
        whose = request.user
    is_own = whose == user.name and may_subscribe(user, request.topic)
    if not is_own and not user.may("describe", BROKER):
        problem = "only its user, and who may describe $broker, may ask about a shared name"
        raise Refused(ErrorCode.FORBIDDEN, problem, "user")
    topic = broker.registry.find(request.topic)
    if topic is None:
        problem = f"there is no topic {request.topic[:MAX_NAME]!r}"
        raise Refused(ErrorCode.NO_SUCH_TOPIC, problem, "topic")
    position = topic.names.get(key_of(whose, request.name))
    if not isinstance(position, SharedPosition):
        problem = f"topic {topic.name!r} has no shared name {request.name[:MAX_NAME]!r}"
        raise Refused(ErrorCode.NO_SUCH_NAME, problem, "name")
    return position


def _listed(position: SharedPosition, request: Dead) -> DeadPage:
    most = min(request.count, MOST_LISTED)
    found, following = _some(position, request, most)
    rows = [
        {
            "offset": dead.offset,
            "deliveries": dead.count,
            "died_us": dead.died_us,
            "reason": dead.reason,
            "is_readable": _is_readable(position, dead.offset),
        }
        for dead in found
    ]
    page = json.dumps({"dead": rows}, ensure_ascii=False).encode()
    return _page(position, request, 0, following, page)


def _revived(position: SharedPosition, request: Dead) -> DeadPage:
    found, following = _some(position, request, min(request.count, MOST_AT_ONCE))
    # What is gone cannot be handed out.
    readable = [dead.offset for dead in found if _is_readable(position, dead.offset)]
    done = position.revive(readable)
    # No more may be open: it goes on there.
    if done < len(readable):
        following = readable[done]
    return _page(position, request, done, following)


def _forgotten(position: SharedPosition, request: Dead) -> DeadPage:
    found, following = _some(position, request, min(request.count, MOST_AT_ONCE))
    done = position.forget_dead([dead.offset for dead in found])
    return _page(position, request, done, following)


def _is_readable(position: SharedPosition, offset: int) -> bool:
    return position.topic.retained.readable_from(offset) == offset


def _some(
    position: SharedPosition, request: Dead, most: int
) -> tuple[list[DeadMessage], int | None]:
    """Returns the first that are meant, and the offset of the next one; None if there is none."""
    found = list(islice(_meant(position, request), most + 1))
    if len(found) <= most:
        return found, None
    return found[:most], found[most].offset


def _meant(position: SharedPosition, request: Dead) -> Iterator[DeadMessage]:
    dead = position.queue.ledger.dead
    if not request.selected:
        yield from dead.page(request.from_offset, min(request.count, MOST_AT_ONCE) + 1)
        return
    for offset in sorted(set(request.offsets)):
        message = dead.get(offset)
        if offset >= request.from_offset and message is not None:
            yield message


def _page(
    position: SharedPosition,
    request: Dead,
    done: int,
    following: int | None,
    page: bytes = b"",
) -> DeadPage:
    if following is None:
        return DeadPage(request.id, 0, done, position.topic.end, page)
    return DeadPage(request.id, 1, done, following, page)
