"""An answer to Explain: the message's own fate first, then its fate at each subscription, then what else is known.

Asking changes nothing, except that what is due expires first, as it would for a reader.
"""

import json
from typing import Any

from zaichik.broker.checks import MAX_NAME, OWN_TOPICS, check_name
from zaichik.broker.position import Position
from zaichik.broker.rights import User, topic_of
from zaichik.broker.settings import out_of_range
from zaichik.broker.state import State
from zaichik.broker.topic_controller import TopicController
from zaichik.escapes import shown
from zaichik.explain.delivery import away, delivery
from zaichik.explain.keys import of_key
from zaichik.explain.remembered import refusals
from zaichik.explain.spans import from_now
from zaichik.explain.stored import message_at
from zaichik.explain.subscriptions import sees_all, subscriptions
from zaichik.explain.verdict import Verdict
from zaichik_protocol import ErrorCode, Refused
from zaichik_protocol.frames import Explain


def explain(broker: State, request: Explain, user: User, now_us: int) -> bytes:
    """Returns why a message did or did not arrive, as JSON: what the user may know.

    Raises:
        Refused: `NO_SUCH_TOPIC`, also for a topic that the user may not subscribe to or may not see described;
            `INVALID_FIELD` for a key that is too long, a time in the future, or a name that no topic can have;
            `NO_SUCH_SUBSCRIPTION`.
    """
    topic = _topic(broker, request.topic, user)
    if len(request.key) > broker.settings.max_key:
        raise out_of_range("size of the key", len(request.key), f"at most {broker.settings.max_key}", "key")
    if request.time > now_us:
        raise out_of_range("time", from_now(request.time, now_us), "now or earlier")
    topic.expire(now_us)
    whose = None if sees_all(user) else user.name
    offset: int | None = request.offset
    others: list[Verdict] = []
    if request.key:
        offset, others = of_key(topic, request.key, request.time or now_us, now_us, whose)
    verdicts = (
        others if offset is None else _of_offset(broker, topic, user, request.subscription, offset, now_us) + others
    )
    if not request.key and request.offset >= topic.end:
        verdicts += refusals(topic, whose)
    state: dict[str, Any] = {"topic": topic.name, "epoch": topic.epoch, "now_us": now_us, "offset": offset}
    state["key"] = shown(request.key) if request.key else None
    return json.dumps(state | {"verdicts": [it._asdict() for it in verdicts]}, ensure_ascii=False).encode()


def _topic(broker: State, name: str, user: User) -> TopicController:
    topic, rights = broker.registry.find(name), topic_of(name)
    if topic is None or not (user.may("describe", rights) and user.may("subscribe", rights)):
        if not name.startswith(OWN_TOPICS):
            check_name(name, "topic")
        raise Refused(ErrorCode.NO_SUCH_TOPIC, f"there is no topic {name[:MAX_NAME]!r}", "topic")
    return topic


def _of_offset(
    broker: State, topic: TopicController, user: User, wanted: str, offset: int, now_us: int
) -> list[Verdict]:
    """Returns what became of the message in the topic, and at each subscription."""
    verdicts = [message_at(broker, topic, offset, now_us)]
    found, is_cut = subscriptions(broker, topic, user, wanted)
    if offset >= topic.end:
        return verdicts
    ttl = broker.named_positions.ttl(topic)
    verdicts += [
        away(it, offset, topic.head, ttl, now_us) if isinstance(it, Position) else delivery(it, offset) for it in found
    ]
    if is_cut:
        text = "the topic has more subscriptions than one answer shows: the others are left out"
        evidence = {"shown": len(found)}
        verdicts.append(Verdict("more", "EXP-5", text, "Ask about one: see zaichik describe for all.", evidence))
    elif not found:
        verdicts.append(_no_reader(topic))
    return verdicts


def _no_reader(topic: TopicController) -> Verdict:
    has_retention = bool(topic.settings.retention_ttl_ms)
    text = "no subscription that you may see reads the topic now"
    advice = "Subscribe, or publish it again: without retention, a new subscription begins with the next message."
    return Verdict(
        "no_reader", "RET-4" if has_retention else "RET-1", text, "Subscribe." if has_retention else advice, {}
    )
