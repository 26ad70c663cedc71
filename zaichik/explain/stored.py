"""What became of the message at an offset: still there, gone, or never seen. And why the head is where it is."""

from zaichik.broker.state import State
from zaichik.broker.topic_controller import MICROSECONDS_PER_MS, TopicController
from zaichik.explain import decisions
from zaichik.explain.verdict import Verdict
from zaichik_protocol import Overflow

_LARGER = "Give the topic a larger {} when you create it, or let nothing go that a reader needs (--overflow reject)."
_UNNEEDED = "No subscription needed it any more (--overflow reject). For later ones, create the topic with a larger {}."
_WAITING = "Have the readers commit sooner, or create the topic with a longer retention."
_SHARED = "Give the broker more max_disk_bytes, or the largest topics a smaller log_bytes or a shorter retention."
_RESERVED = "Create it with --overflow reject, which reserves its bytes, or give the broker more max_bytes."


def message_at(broker: State, topic: TopicController, offset: int, now_us: int) -> Verdict:
    """Returns what became of the message with that offset. What is due at `now_us` must have been expired."""
    durable = topic.durable
    if offset < topic.head:
        return _gone(broker, topic, offset)
    if offset >= topic.end:
        return _not_yet(topic, offset)
    if durable is not None and (readable := durable.readable_from(offset)) != offset:
        text = f"a repair has given it up, since it was damaged on the disk; offset {readable} is the next one"
        return Verdict("damaged", "DUR-7", text, "See zaichik check: the damaged files are kept.", {"next": readable})
    if durable is not None and topic.settings.expires and offset < topic.ring.head:
        limit_us = now_us - topic.settings.retention_ttl_ms * MICROSECONDS_PER_MS
        if offset < durable.log.expired_until(limit_us):
            return _expired(topic, {"head": topic.head})
    return _readable(topic, offset)


def _readable(topic: TopicController, offset: int) -> Verdict:
    ring, settings = topic.ring, topic.settings
    evidence: dict[str, object] = {"head": topic.head, "next_offset": topic.end}
    if offset < ring.head:
        text = "it is on the disk, and can be read"
        if settings.expires:
            text += " unless its retention has ended: its time is looked up when it is read"
        return Verdict("readable", "DUR-4", text, "", evidence)
    accepted_us = ring.entry(offset).accepted_us
    evidence["accepted_us"] = accepted_us
    if settings.expires:
        evidence["expires_us"] = accepted_us + settings.retention_ttl_ms * MICROSECONDS_PER_MS
    text = "it is stored, and can be read"
    if settings.retention_ttl_ms == 0:
        text += " until every subscription has passed it; one that begins at the earliest does not get it"
    return Verdict("readable", "RET-2" if settings.retention_ttl_ms else "RET-1", text, "", evidence)


def _not_yet(topic: TopicController, offset: int) -> Verdict:
    evidence = {"next_offset": topic.end}
    durable = topic.durable
    if durable is not None and offset < durable.next:
        text = "it is accepted and waits for the disk: nothing of it is delivered or answered before"
        evidence["waiting_bytes"] = durable.waiting_bytes
        return Verdict("waits_for_disk", "DUR-1", text, "Wait for the answer to its publish.", evidence)
    if durable is not None and durable.log.damage:
        text = f"nobody knows whether it was ever there: the end of the log is damaged: {durable.log.damage}"
        return Verdict("unknown", "DUR-7", text, "See zaichik check.", evidence)
    text = f"no message has had this offset yet: the next one to be stored gets offset {topic.end}"
    return Verdict(
        "never_seen", "PUB-2", text, "Check whether its publish was answered, and with which offset.", evidence
    )


def _gone(broker: State, topic: TopicController, offset: int) -> Verdict:
    moves = list(topic.ring.moves if topic.durable is None else topic.durable.moves)
    index = max((number for number, (head, _, _) in enumerate(moves) if head <= offset), default=-1)
    evidence: dict[str, object] = {"head": topic.head}
    if index < 0:
        text = "it was stored and is gone; why it went is no longer known: the broker does not remember that far back"
        evidence["known_from"] = moves[0][0] if moves else topic.head
        return Verdict("unknown", "EXP-2", text, "", evidence)
    _, after_us, cause = moves[index]
    if after_us:
        evidence["after_us"] = after_us
        if index + 1 < len(moves):
            evidence["before_us"] = moves[index + 1][1]
    return _expired(topic, evidence) if cause == decisions.EXPIRED else _evicted(broker, topic, offset, cause, evidence)


def _expired(topic: TopicController, evidence: dict[str, object]) -> Verdict:
    if topic.settings.expires:
        evidence["retention_ttl_ms"] = topic.settings.retention_ttl_ms
        text = "its retention had ended"
        return Verdict("expired", "RET-5", text, _WAITING, evidence)
    text = "it was freed when every subscription had passed it: the topic has no retention"
    advice = "Subscribe before it is published, or create the topic with a retention."
    return Verdict("expired", "RET-1", text, advice, evidence)


def _evicted(broker: State, topic: TopicController, offset: int, cause: int, evidence: dict[str, object]) -> Verdict:
    settings, ring = topic.settings, topic.ring
    advice = _LARGER if settings.overflow == Overflow.EVICT else _UNNEEDED  # RET-9
    match cause:
        case decisions.CAPACITY:
            by = offset + settings.capacity
            evidence |= {"capacity": settings.capacity, "by_offset": by}
            if ring.head <= by < ring.next_offset:
                evidence["evicted_us"] = ring.entry(by).accepted_us
            text = f"it made room for offset {by}: the ring holds {settings.capacity} messages"
            return Verdict("evicted", "RET-6", text, advice.format("capacity"), evidence)
        case decisions.BYTES:
            evidence["max_bytes"] = settings.max_bytes
            text = f"it made room for a newer batch: the ring holds {settings.max_bytes} bytes"
            return Verdict("evicted", "RET-6", text, advice.format("max_bytes"), evidence)
        case decisions.DISK:
            evidence |= {
                "log_bytes": settings.log_bytes,
                "log_size": 0 if topic.durable is None else topic.durable.log.size,
            }
            text = "its file was removed from the disk, to make room for newer ones"
            return Verdict("evicted", "DUR-4", text, advice.format("log_bytes"), evidence)
        case decisions.ALL_LOGS:
            evidence["max_disk_bytes"] = broker.settings.max_disk_bytes
            text = "its file was removed from the disk: all logs together had reached the broker's max_disk_bytes"
            return Verdict("evicted", "DUR-9", text, _SHARED, evidence)
        case _:
            publisher = "this topic" if cause == decisions.MEMORY else "another topic"
            evidence |= {"pressure": publisher, "max_bytes": topic.budget.limit, "memory": topic.memory}
            text = (
                "it made room for others: all topics together had reached the broker's memory limit when a message "
                f"was published to {publisher}, and this one held most"
            )
            return Verdict("evicted", "RET-10", text, _RESERVED, evidence)
