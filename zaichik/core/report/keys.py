"""What became of a message of a key: what was stored or decided nearest to the time asked about."""

from zaichik.base.clock import MILLISECOND_US
from zaichik.base.counted import counted
from zaichik.base.escapes import shown
from zaichik.core.decisions import COMPACTED
from zaichik.core.report.remembered import Decided, decided, verdict
from zaichik.core.report.verdict import Verdict
from zaichik.core.search import Found
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER


def of_key(
    topic: TopicController, key: bytes, at_us: int, now_us: int, whose: str | None
) -> tuple[int | None, list[Verdict]]:
    """Returns the offset of the stored message that is meant, and what else is known.

    The offset is None if what is nearest to the time was not stored.

    Args:
        topic: the topic.
        key: not empty.
        at_us: the time that is asked about.
        now_us: the clock's reading.
        whose: the user whose refusals may be reported; None for all.
    """
    found = topic.retained.nearest(key, at_us)
    known = [it for it in decided(topic, whose) if it.concerns(key)]
    distances = [abs(it.at_us - at_us) for it in known]
    for match in (found.before, found.after):
        if match is not None:
            accepted_us, _ = match
            distances.append(abs(accepted_us - at_us))
    distance = min(distances, default=None)

    # The message before the time, if the one after it is as near.
    offset: int | None = None
    for match in (found.after, found.before):
        if match is not None:
            accepted_us, stored = match
            if abs(accepted_us - at_us) == distance:
                offset = stored

    closest = [it for it in known if abs(it.at_us - at_us) == distance]
    verdicts = _of_decisions(topic, key, closest)
    # Nothing can be nearer than what happened at the time itself.
    if distance != 0:
        verdicts += _not_searched(topic, found)
        verdicts += _without_keys(topic, whose, at_us, distance)
        verdicts += _forgotten(topic, at_us, distance)
    if distance is None and not verdicts:
        verdicts.append(_never(key))
    verdicts += _window(topic, key, now_us)
    return offset, verdicts


def _of_decisions(topic: TopicController, key: bytes, closest: list[Decided]) -> list[Verdict]:
    """Returns what each decision says about a message of the key."""
    verdicts: list[Verdict] = []
    kept_out: dict[int, Verdict] = {}
    for it in closest:
        if it.fate != COMPACTED:
            verdicts.append(verdict(topic, it, key))
            continue
        # The answer is the same for all that compaction dropped at one time: one search, also if
        # the clock stands still.
        if it.at_us not in kept_out:
            kept_out[it.at_us] = verdict(topic, it, key)
        verdicts.append(kept_out[it.at_us])
    return verdicts


def _not_searched(topic: TopicController, found: Found) -> list[Verdict]:
    """Returns a verdict if a message nearer to the time may be among those not searched."""
    head = topic.head
    deleted_below = topic.retained.deleted_below
    problems: list[str] = []
    if found.before is None and found.first > head:
        problems.append(f"offsets {head} to {found.first - 1} were not searched")
    if found.before is None and head:
        problems.append(f"messages below offset {head} are gone, and their keys with them")
    # In a table, only a key that has a message now can have had others, or one that was deleted.
    if found.before is None and found.after is not None and topic.retained.superseded:
        problems.append("the later message of the key supersedes earlier ones")
    if found.before is None and deleted_below:
        gone = f"tombstones below offset {deleted_below} are gone, and their keys with them"
        problems.append(gone)
    if found.after is None and found.end < topic.end:
        problems.append(f"offsets from {found.end} on were not searched")
    waiting = topic.retained.waiting_batches
    if waiting:
        batches = counted(waiting, "batch", "batches")
        problems.append(f"what waits for the disk was not searched: {batches}")
    if not problems:
        return []
    evidence = {
        "searched": [found.first, found.end],
        "head": head,
        "next_offset": topic.end,
    }
    listed = ", and ".join(problems)
    text = f"a message of the key may have been stored nearer to the time asked about: {listed}"
    advice = "Ask with another time, or read the topic; the publisher was told the offset."
    return [Verdict("unknown", "EXP-4", text, advice, evidence)]


def _never(key: bytes) -> Verdict:
    text = f"no message of the key {shown(key)} was ever stored"
    advice = "Check whether its publish was answered, and the key's bytes."
    return Verdict("never_seen", "PUB-2", text, advice, {})


def _without_keys(
    topic: TopicController, whose: str | None, at_us: int, distance: int | None
) -> list[Verdict]:
    """Returns a verdict if a batch whose keys are not remembered was decided as near to the time.

    It is about the newest one.
    """
    text = (
        "a message of the key may have been kept out or refused: of some batches, the keys were "
        "too many to remember"
    )
    for it in decided(topic, whose):
        if it.data:
            continue
        if distance is None or abs(it.at_us - at_us) <= distance:
            evidence = {"at_us": it.at_us}
            return [Verdict("unknown", "EXP-1", text, "Ask their publishers.", evidence)]
    return []


def _forgotten(topic: TopicController, at_us: int, distance: int | None) -> list[Verdict]:
    """Returns a verdict if something that is nearer to the time may have been forgotten."""
    until_us = topic.decisions.forgotten_us
    if not until_us:
        return []
    # Everything that is forgotten was before `until_us`, and so farther from the time.
    if distance is not None and distance <= at_us - until_us:
        return []
    text = (
        "whether a message of the key was kept out or refused is no longer known for all of "
        "that time"
    )
    advice = "The topic's journal, if it has one, knows more."
    evidence = {"until_us": until_us}
    return [Verdict("unknown", "EXP-1", text, advice, evidence)]


def _window(topic: TopicController, key: bytes, now_us: int) -> list[Verdict]:
    """Returns a verdict if a message of the key would be kept out now."""
    if topic.window is None:
        return []
    opened_us = topic.window.opened_us(key)
    if opened_us is None:
        return []
    window_ms = topic.settings.compaction_window_ms
    until_us: int | None = None
    if window_ms != FOREVER:
        until_us = opened_us + window_ms * MILLISECOND_US
        if until_us <= now_us:
            return []
    evidence = {
        "opened_us": opened_us,
        "until_us": until_us,
        "compaction_window_ms": window_ms,
    }
    text = "another message of its key would be kept out now: the key's window is open"
    return [Verdict("window_open", "COM-1", text, "", evidence)]
