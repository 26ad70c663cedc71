"""An answer to Explain: what became of a message in its topic, then at each subscription.

What else is known comes last. Asking changes nothing, except that what is due expires first, as it
would for a reader.
"""

import json
from typing import TYPE_CHECKING

from zaichik.base.escapes import shown
from zaichik.base.relative_time import from_now
from zaichik.core.checks import MAX_NAME, check_name, is_own
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.report.delivery import away, delivery
from zaichik.core.report.keys import of_key
from zaichik.core.report.remembered import refusals
from zaichik.core.report.stored import message_at
from zaichik.core.report.subscriptions import Live, only_user, subscriptions
from zaichik.core.report.verdict import Verdict
from zaichik.core.rights import User, may_subscribe, topic_of
from zaichik.core.settings import out_of_range
from zaichik.core.shared_names.shared_delivery import shared_delivery
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Refused
from zaichik_protocol.frames import Explain

if TYPE_CHECKING:
    from zaichik.core.broker import Broker


def explain(broker: "Broker", request: Explain, user: User, now_us: int) -> bytes:
    """Returns why a message did or did not arrive, as JSON: what the user may know.

    Raises:
        Refused: `NO_SUCH_TOPIC`, also for a topic that the user may not subscribe to or may not see
            described; `INVALID_FIELD` for a key that is too long, a time in the future, or a name
            that no topic can have; `NO_SUCH_SUBSCRIPTION`.
    """
    topic = _topic(broker, request.topic, user)
    _check(broker, request, now_us)
    topic.expire(now_us)

    whose = only_user(user)
    offset: int | None = request.offset
    key: str | None = None
    verdicts: list[Verdict] = []
    others: list[Verdict] = []
    if request.key:
        key = shown(request.key)
        at_us = request.time or now_us
        offset, others = of_key(topic, request.key, at_us, now_us, whose)
    elif request.offset >= topic.end:
        # It was never stored: one of the latest refusals may be of the publish that is meant.
        others = refusals(topic, whose)
    if offset is not None:
        verdicts = _of_offset(broker, topic, user, request.subscription, offset, now_us)
    verdicts += others

    state = {
        "topic": topic.name,
        "epoch": topic.epoch,
        "now_us": now_us,
        "offset": offset,
        "key": key,
        "verdicts": [verdict._asdict() for verdict in verdicts],
    }
    return json.dumps(state, ensure_ascii=False).encode()


def _check(broker: "Broker", request: Explain, now_us: int) -> None:
    """Raise `Refused` for a key that no message can have, and for a time in the future."""
    most = broker.settings.max_key
    if len(request.key) > most:
        raise out_of_range("size of the key", len(request.key), f"at most {most}", "key")
    if request.time > now_us:
        raise out_of_range("time", from_now(request.time, now_us), "now or earlier")


def _topic(broker: "Broker", name: str, user: User) -> TopicController:
    """Returns the topic of that name, if the user may see it described and subscribe to it."""
    topic = broker.registry.find(name)
    may_ask = user.may("describe", topic_of(name)) and may_subscribe(user, name)
    if topic is not None and may_ask:
        return topic
    # A name that no topic can have is refused as such.
    if not is_own(name):
        check_name(name, "topic")
    raise Refused(ErrorCode.NO_SUCH_TOPIC, f"there is no topic {name[:MAX_NAME]!r}", "topic")


def _of_offset(
    broker: "Broker", topic: TopicController, user: User, wanted: str, offset: int, now_us: int
) -> list[Verdict]:
    """Returns what became of the message in the topic, and at each subscription."""
    verdicts = [message_at(broker, topic, offset, now_us)]
    # Searched also if there is no message yet: it refuses a subscription that is not there.
    found, is_cut = subscriptions(broker, topic, user, wanted)
    if offset >= topic.end:
        return verdicts
    ttl_s = broker.named_positions.ttl_s(topic)
    for subscription in found:
        if isinstance(subscription, SharedPosition):
            verdicts.append(shared_delivery(subscription, offset))
        elif isinstance(subscription, ExclusivePosition):
            verdicts.append(away(topic, subscription, offset, ttl_s, now_us))
        elif isinstance(subscription, Live):
            verdicts.append(delivery(subscription, offset))
    if is_cut:
        text = "the topic has more subscriptions than one answer shows: the others are left out"
        advice = "Ask about one: see zaichik describe for all."
        evidence = {"shown": len(found)}
        verdicts.append(Verdict("more", "EXP-5", text, advice, evidence))
    elif not found:
        verdicts.append(_no_reader(topic))
    return verdicts


def _no_reader(topic: TopicController) -> Verdict:
    text = "no subscription that you may see reads the topic now"
    if topic.settings.retention_ttl_ms:
        return Verdict("no_reader", "RET-4", text, "Subscribe.", {})
    advice = (
        "Subscribe, or publish it again: without retention, a new subscription begins with "
        "the next message."
    )
    return Verdict("no_reader", "RET-1", text, advice, {})
