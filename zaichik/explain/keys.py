"""What became of a message of a key: the decision or stored message that is nearest to the time asked about."""

from zaichik.broker.topic_controller import MICROSECONDS_PER_MS, TopicController
from zaichik.escapes import shown
from zaichik.explain.decisions import COMPACTED
from zaichik.explain.remembered import decided, verdict
from zaichik.explain.search import Found, nearest
from zaichik.explain.verdict import Verdict
from zaichik_protocol import FOREVER


def of_key(
    topic: TopicController, key: bytes, at_us: int, now_us: int, whose: str | None
) -> tuple[int | None, list[Verdict]]:
    """Returns the offset of the stored message that is meant, None if that was not stored, and what else is known.

    Args:
        topic: the topic.
        key: not empty.
        at_us: the time that is asked about.
        now_us: the clock's reading.
        whose: the user whose refusals may be reported; None for all.
    """
    found = nearest(topic.ring, key, at_us)
    known = [it for it in decided(topic, whose) if it.concerns(key)]
    stored = [it for it in (found.before, found.after) if it is not None]
    times = [abs(time_us - at_us) for time_us, _ in stored] + [abs(it.at_us - at_us) for it in known]
    distance = min(times, default=None)
    offsets = [offset for time_us, offset in stored if abs(time_us - at_us) == distance]
    closest = [it for it in known if abs(it.at_us - at_us) == distance]
    # The answer is the same for all that compaction dropped at one time: one search, also if the clock stands still.
    dropped = {it.at_us: it for it in closest if it.fate == COMPACTED}
    kept_out = {time_us: verdict(topic, it, key) for time_us, it in dropped.items()}
    verdicts = [kept_out[it.at_us] if it.fate == COMPACTED else verdict(topic, it, key) for it in closest]
    offset = offsets[0] if offsets else None
    if distance != 0:
        keyless = [it.at_us for it in decided(topic, whose) if not it.data]
        nearer = [it for it in keyless if distance is None or abs(it - at_us) <= distance]
        verdicts += _not_searched(topic, found) + _without_keys(nearer) + _forgotten(topic, at_us, distance)
    return offset, ([_never(key)] if distance is None and not verdicts else verdicts) + _window(topic, key, now_us)


def _not_searched(topic: TopicController, found: Found) -> list[Verdict]:
    """Returns a verdict if a message nearer to the time may be among those that were not searched."""
    evidence = {"searched": [found.first, found.end], "head": topic.head, "next_offset": topic.end}
    problems = []
    if found.before is None and found.first > topic.head:
        problems.append(f"offsets {topic.head} to {found.first - 1} were not searched")
    if found.before is None and topic.head:
        problems.append(f"messages below offset {topic.head} are gone, and their keys with them")
    if found.after is None and found.end < topic.end:
        problems.append(f"offsets from {found.end} on were not searched")
    if topic.durable is not None and topic.durable.waiting:
        problems.append(f"{len(topic.durable.waiting)} batches wait for the disk and were not searched")
    if not problems:
        return []
    text = f"a message of the key may have been stored nearer to the time asked about: {', and '.join(problems)}"
    advice = "Ask with another time, or read the topic; the publisher was told the offset."
    return [Verdict("unknown", "EXP-4", text, advice, evidence)]


def _never(key: bytes) -> Verdict:
    text = f"no message of the key {shown(key)} was ever stored"
    return Verdict("never_seen", "PUB-2", text, "Check whether its publish was answered, and the key's bytes.", {})


def _without_keys(times: list[int]) -> list[Verdict]:
    """Returns a verdict if there are batches, decided at these times, that may have had the key."""
    text = "a message of the key may have been kept out or refused: of some batches, the keys were too many to remember"
    return [Verdict("unknown", "EXP-1", text, "Ask their publishers.", {"at_us": times[0]})] if times else []


def _forgotten(topic: TopicController, at_us: int, distance: int | None) -> list[Verdict]:
    """Returns a verdict if something that is nearer to the time may have been forgotten."""
    until_us = topic.decisions.forgotten_us
    if not until_us or (distance is not None and distance <= at_us - until_us):
        return []  # everything that is forgotten was before that
    text = "whether a message of the key was kept out or refused is no longer known for all of that time"
    return [
        Verdict("unknown", "EXP-1", text, "The topic's journal, if it has one, knows more.", {"until_us": until_us})
    ]


def _window(topic: TopicController, key: bytes, now_us: int) -> list[Verdict]:
    """Returns a verdict if a message of the key would be kept out now."""
    window_ms = topic.settings.compaction_window_ms
    opened_us = None if topic.window is None else topic.window.opened_us(key)
    until_us = None if opened_us is None or window_ms == FOREVER else opened_us + window_ms * MICROSECONDS_PER_MS
    if opened_us is None or (until_us is not None and until_us <= now_us):
        return []
    evidence = {"opened_us": opened_us, "until_us": until_us, "compaction_window_ms": window_ms}
    text = "another message of its key would be kept out now: the key's window is open"
    return [Verdict("window_open", "COM-1", text, "", evidence)]
