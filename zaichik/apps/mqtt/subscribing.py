"""SUBSCRIBE: which filters a client is granted, and which retained messages it is sent for them."""

from dataclasses import dataclass

from zaichik.apps.mqtt import packets
from zaichik.apps.mqtt.filters import filter_problem, split_share
from zaichik.apps.mqtt.logins import Login
from zaichik.apps.mqtt.packets import ReasonCode
from zaichik.apps.mqtt.quota import quota_of
from zaichik.apps.mqtt.session import Session
from zaichik.apps.mqtt.session_table import GROUP
from zaichik.apps.mqtt.sessions import group_name
from zaichik.apps.mqtt.spaces import MOST_KEY_BYTES
from zaichik.apps.mqtt.state import State
from zaichik.apps.mqtt.subscription import Subscription

# Retained messages for a filter: always, if the filter is new, never.
ALWAYS, IF_NEW = 0, 1


@dataclass(frozen=True, slots=True)
class WithRetained:
    """A filter for which retained messages are sent."""

    topic_filter: str
    subscription: Subscription


@dataclass(frozen=True, slots=True)
class Granted:
    """What became of a SUBSCRIBE.

    Attributes:
        codes: for each filter the QoS, or why it is refused.
        retained: the filters for which retained messages are sent.
    """

    codes: tuple[ReasonCode, ...]
    retained: tuple[WithRetained, ...]


async def granted(
    state: State, login: Login, session: Session, packet: packets.Subscribe
) -> Granted:
    """Returns what a client is granted; its session has the filters by then."""
    codes: list[ReasonCode] = []
    retained: list[WithRetained] = []
    identifiers = packet.properties.subscription_identifiers
    identifier = 0
    if identifiers:
        identifier = identifiers[0]
    for wanted in packet.subscriptions:
        name, topic_filter = split_share(wanted.filter)
        starts = await _starts(state, login, topic_filter)
        code = _problem(state, session, wanted.filter, starts)
        if code is not None:
            codes.append(code)
            continue
        subscription = Subscription(
            session,
            wanted.filter,
            wanted.qos,
            wanted.no_local,
            wanted.retain_as_published,
            identifier,
            starts,
        )
        is_new = state.sessions.subscribe(session, subscription)
        codes.append(ReasonCode(wanted.qos))
        handling = wanted.retain_handling
        # Retained messages are nobody's share (MQ-9).
        if name is None and (handling == ALWAYS or (handling == IF_NEW and is_new)):
            known = session.subscriptions[wanted.filter]
            retained.append(WithRetained(topic_filter, known))
    return Granted(tuple(codes), tuple(retained))


def _problem(
    state: State, session: Session, text: str, starts: dict[str, int]
) -> ReasonCode | None:
    if filter_problem(text) is not None:
        return ReasonCode.TOPIC_FILTER_INVALID
    if not starts:
        return ReasonCode.NOT_AUTHORIZED
    if text in session.subscriptions:
        return None
    name, topic_filter = split_share(text)
    wanted = quota_of(text, state.spaces.reachable(topic_filter))
    if not session.quota.has_room(wanted, state.client.welcome.max_message):
        return ReasonCode.QUOTA_EXCEEDED
    # A group's row has its user and its filter as the key.
    if name is not None:
        key = GROUP + group_name(session.id.user, text)
        if len(key.encode()) > MOST_KEY_BYTES:
            return ReasonCode.QUOTA_EXCEEDED
    return None


async def _starts(state: State, login: Login, topic_filter: str) -> dict[str, int]:
    """Returns, of the topics that a filter can match and the user may read, their ends.

    An end is behind everything that was acknowledged by the gateway.
    """
    starts: dict[str, int] = {}
    for space in state.spaces.reachable(topic_filter):
        if await state.rights.may_subscribe(login, space):
            starts[space] = max(state.tails[space].end, state.publisher.ends[space])
    return starts
