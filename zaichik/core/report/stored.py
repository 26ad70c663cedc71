"""What became of the message at an offset: still there, gone and why, or never seen."""

from typing import TYPE_CHECKING

from zaichik.base.clock import MILLISECOND_US
from zaichik.base.counted import counted
from zaichik.base.relative_time import in_words
from zaichik.core import decisions
from zaichik.core.jumps import not_passed_us
from zaichik.core.report.verdict import Evidence, Verdict
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import Overflow

if TYPE_CHECKING:
    from zaichik.core.broker import Broker

_LARGER = (
    "Give the topic a larger {} when you create it, or let nothing go that a reader needs "
    "(--overflow reject)."
)
_UNNEEDED = (
    "No subscription needed it any more (--overflow reject). For later ones, create the "
    "topic with a larger {}."
)
_WAITING = "Have the readers commit sooner, or create the topic with a longer retention."
_SHARED = (
    "Give the broker more max_disk_bytes, or the largest topics a smaller log_bytes or a "
    "shorter retention."
)
_RESERVED = (
    "Create it with --overflow reject, which reserves its bytes, or give the broker more max_bytes."
)


def message_at(broker: "Broker", topic: TopicController, offset: int, now_us: int) -> Verdict:
    """Returns what became of the message with that offset.

    What is due at `now_us` must have been expired.
    """
    retained = topic.retained
    if offset < topic.head:
        return _gone(broker, topic, offset)
    if offset >= topic.end:
        return _not_yet(topic, offset)
    readable = retained.readable_from(offset)
    if readable != offset and retained.lost_until(offset) == offset:
        return _hole(topic, offset)
    if readable != offset:
        text = (
            "its offset was given up, by a repair of the log or when the topic was restored; "
            f"offset {readable} is the next one"
        )
        advice = "See zaichik check: a repair keeps the damaged files."
        return Verdict("damaged", "DUR-7", text, advice, {"next": readable})
    # On the disk are also messages whose time is over: whole files are removed.
    is_on_disk = topic.settings.expires and offset < retained.head_in_memory
    if is_on_disk and offset < retained.expired_until(topic.expired_until_us):
        return _expired(topic, {"head": topic.head})
    return _readable(topic, offset)


def _readable(topic: TopicController, offset: int) -> Verdict:
    retained = topic.retained
    settings = topic.settings
    evidence: Evidence = {"head": topic.head, "next_offset": topic.end}
    if offset < retained.head_in_memory:
        text = "it is on the disk, and can be read"
        if settings.expires:
            text += " unless its retention has ended: its time is looked up when it is read"
            text += _of_jump(topic, evidence)
        return Verdict("readable", "DUR-4", text, "", evidence)
    accepted_us = retained.accepted_us(offset)
    evidence["accepted_us"] = accepted_us
    if accepted_us is not None and settings.expires:
        skipped_us = not_passed_us(topic.jumps, accepted_us)
        ttl_us = settings.retention_ttl_ms * MILLISECOND_US
        evidence["expires_us"] = accepted_us + ttl_us + skipped_us
        if skipped_us:
            evidence["clock_jumped_us"] = skipped_us
            text = (
                "it is stored, and can be read; since it was accepted, the machine's clock was set "
                f"forward by {in_words(skipped_us)}, which does not count"
            )
            return Verdict("readable", "RET-2", text, "", evidence)
    if settings.retention_ttl_ms:
        return Verdict("readable", "RET-2", "it is stored, and can be read", "", evidence)
    text = (
        "it is stored, and can be read until every subscription has passed it; one that begins "
        "at the earliest does not get it"
    )
    return Verdict("readable", "RET-1", text, "", evidence)


def _hole(topic: TopicController, offset: int) -> Verdict:
    """Returns what is known of a message that is missing between others."""
    by = topic.retained.successor(offset)
    if by >= 0:
        evidence: Evidence = {"by_offset": by}
        text = f"offset {by} has its key: a table keeps the last message of each key"
        return Verdict("superseded", "TAB-2", text, f"Read offset {by} instead.", evidence)
    below = topic.retained.deleted_below
    if offset < below:
        evidence = {"deleted_below": below}
        text = "a later message has its key, or it was a tombstone that is gone: which is not known"
        return Verdict("superseded", "TAB-5", text, "", evidence)
    text = "a later message has its key; the offset of that message is no longer known"
    return Verdict("superseded", "TAB-2", text, "Ask about its key.", {})


def _not_yet(topic: TopicController, offset: int) -> Verdict:
    evidence = {"next_offset": topic.end}
    retained = topic.retained
    if offset < retained.next:
        evidence["waiting_bytes"] = retained.waiting_bytes
        text = (
            "it is accepted and waits for the disk: nothing of it is delivered or answered before"
        )
        advice = "Wait for the answer to its publish."
        return Verdict("waits_for_disk", "DUR-1", text, advice, evidence)
    damage = retained.damage
    if damage:
        text = f"nobody knows whether it was ever there: the end of the log is damaged: {damage}"
        return Verdict("unknown", "DUR-7", text, "See zaichik check.", evidence)
    text = f"no message has had this offset yet: the next one to be stored gets offset {topic.end}"
    advice = "Check whether its publish was answered, and with which offset."
    return Verdict("never_seen", "PUB-2", text, advice, evidence)


def _gone(broker: "Broker", topic: TopicController, offset: int) -> Verdict:
    """Returns why the head has passed that offset."""
    moves = topic.retained.moves
    evidence: Evidence = {"head": topic.head}
    # The last move of the head from there, or from below: its cause was the cause until the next.
    number = -1
    for later, (head, _, _) in enumerate(moves):
        if head <= offset:
            number = later
    if number < 0:
        return _long_gone(topic, evidence)
    _, after_us, cause = moves[number]
    if after_us:
        evidence["after_us"] = after_us
        if number + 1 < len(moves):
            _, before_us, _ = moves[number + 1]
            evidence["before_us"] = before_us
    if cause == decisions.EXPIRED:
        return _expired(topic, evidence)
    return _evicted(broker, topic, offset, cause, evidence)


def _long_gone(topic: TopicController, evidence: Evidence) -> Verdict:
    known_from = topic.head
    moves = topic.retained.moves
    if moves:
        known_from, _, _ = moves[0]
    evidence["known_from"] = known_from
    text = (
        "it was stored and is gone; why it went is no longer known: the broker does not "
        "remember that far back"
    )
    return Verdict("unknown", "EXP-2", text, "", evidence)


def _expired(topic: TopicController, evidence: Evidence) -> Verdict:
    if topic.settings.expires:
        evidence["retention_ttl_ms"] = topic.settings.retention_ttl_ms
        text = "its retention had ended"
        text += _of_jump(topic, evidence)
        return Verdict("expired", "RET-5", text, _WAITING, evidence)
    text = "it was freed when every subscription had passed it: the topic has no retention"
    advice = "Subscribe before it is published, or create the topic with a retention."
    return Verdict("expired", "RET-1", text, advice, evidence)


def _of_jump(topic: TopicController, evidence: Evidence) -> str:
    """Returns the end of a sentence about a time, if the clock has jumped; adds evidence."""
    if not topic.jumps:
        return ""
    _, by_us = topic.jumps[-1]
    evidence["clock_jumped_us"] = by_us
    return (
        f"; the machine's clock was set forward by {in_words(by_us)} before the start, which does "
        "not count for what was stored before"
    )


def _evicted(
    broker: "Broker", topic: TopicController, offset: int, cause: int, evidence: Evidence
) -> Verdict:
    """Returns why the message was removed while its time was not over."""
    settings = topic.settings
    # With --overflow reject, only what no subscription needs is evicted (RET-9).
    advice = _UNNEEDED
    if settings.overflow == Overflow.EVICT:
        advice = _LARGER
    match cause:
        case decisions.CAPACITY:
            return _made_room(topic, offset, advice.format("capacity"), evidence)
        case decisions.BYTES:
            evidence["max_bytes"] = settings.max_bytes
            size = counted(settings.max_bytes, "byte")
            text = f"it made room for a newer batch: the ring holds {size}"
            advice = advice.format("max_bytes")
            return Verdict("evicted", "RET-6", text, advice, evidence)
        case decisions.DISK:
            evidence["log_bytes"] = settings.log_bytes
            # Only what is on a disk goes for this cause, so it has this field.
            evidence["log_size"] = topic.retained.own_fields()["log_bytes"]
            text = "its file was removed from the disk, to make room for newer ones"
            advice = advice.format("log_bytes")
            return Verdict("evicted", "DUR-4", text, advice, evidence)
        case decisions.ALL_LOGS:
            evidence["max_disk_bytes"] = broker.settings.max_disk_bytes
            text = (
                "its file was removed from the disk: all logs together had reached the broker's "
                "max_disk_bytes"
            )
            return Verdict("evicted", "DUR-9", text, _SHARED, evidence)
        case _:
            return _under_pressure(topic, cause, evidence)


def _made_room(topic: TopicController, offset: int, advice: str, evidence: Evidence) -> Verdict:
    """Returns which message took its place in a ring that was full."""
    retained = topic.retained
    capacity = topic.settings.capacity
    by = offset + capacity
    evidence["capacity"] = capacity
    evidence["by_offset"] = by
    # As long as that message can be read here, its time is known.
    if retained.head_in_memory <= by < retained.end:
        evidence["evicted_us"] = retained.accepted_us(by)
    text = f"it made room for offset {by}: the ring holds {counted(capacity, 'message')}"
    return Verdict("evicted", "RET-6", text, advice, evidence)


def _under_pressure(topic: TopicController, cause: int, evidence: Evidence) -> Verdict:
    """Returns which topic's messages were stored when the broker's memory was full."""
    publisher = "another topic"
    if cause == decisions.MEMORY:
        publisher = "this topic"
    evidence["pressure"] = publisher
    evidence["max_bytes"] = topic.budget.limit
    evidence["memory"] = topic.memory
    text = (
        "it made room for others: all topics together had reached the broker's memory limit when "
        f"a message was published to {publisher}, and this one held most"
    )
    return Verdict("evicted", "RET-10", text, _RESERVED, evidence)
