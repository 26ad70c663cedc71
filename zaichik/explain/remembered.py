"""What became of batches that were not stored, or not whole, as far as it is remembered."""

from collections.abc import Iterator
from typing import NamedTuple

from zaichik.broker.topic_controller import MICROSECONDS_PER_MS, TopicController
from zaichik.escapes import shown
from zaichik.explain import decisions
from zaichik.explain.search import nearest
from zaichik.explain.verdict import Verdict
from zaichik_protocol import FOREVER, Batch, ErrorCode

RECENT = 4  # refusals that are reported together, where nothing says which one is meant

RULES = {
    ErrorCode.TOPIC_FULL: "RET-9", ErrorCode.BATCH_TOO_LARGE: "RET-6", ErrorCode.MESSAGE_TOO_LARGE: "RET-6",
    ErrorCode.FORBIDDEN: "ACC-2", ErrorCode.NO_MEMORY: "LAG-6", ErrorCode.SEQUENCE_GAP: "PUB-4",
    ErrorCode.PRODUCER_UNKNOWN: "PUB-4", ErrorCode.STORAGE_FULL: "DUR-3", ErrorCode.DAMAGED: "DUR-7",
    ErrorCode.TOO_MANY_CONNECTIONS: "CLO-5",
}  # fmt: skip


class Decided(NamedTuple):
    """A decision about a batch, as `decisions.Decision` has it."""

    at_us: int
    fate: int
    offset: int
    why: str
    user: str
    connection: int
    data: bytes
    dropped: bytes

    def concerns(self, key: bytes) -> bool:
        """Returns whether a message of that key is in the batch, and was dropped if others were stored."""
        if key not in self.data:  # most are left out at once
            return False
        count = int.from_bytes(self.data[:4], "little")
        for index, it in enumerate(Batch(self.data, count).keys()):
            if it == key and (self.fate != decisions.COMPACTED or self.dropped[index >> 3] >> (index & 7) & 1):
                return True
        return False


def decided(topic: TopicController, whose: str | None) -> Iterator[Decided]:
    """Returns the remembered decisions, the newest first; refusals and repetitions only of one user, or of all."""
    for it in map(Decided._make, reversed(topic.decisions.known)):
        if it.fate == decisions.COMPACTED or whose in (None, it.user):
            yield it


def verdict(topic: TopicController, it: Decided, key: bytes) -> Verdict:
    """Returns what a decision says about a message of that key."""
    evidence: dict[str, object] = {"at_us": it.at_us}
    if it.fate == decisions.COMPACTED:
        return kept_out(topic, key, it.at_us)
    evidence |= {"connection": it.connection} if it.connection else {}
    evidence |= {"user": it.user} if it.user else {}
    if it.fate == decisions.DUPLICATE:
        evidence["first_offset"] = it.offset
        text = f"its batch came a second time and was not stored again: the first time, it got offset {it.offset}"
        return Verdict("duplicate", "PUB-4", text, "Nothing: a retry is answered like the first attempt.", evidence)
    code = ErrorCode(it.fate)
    evidence["error"] = code.name
    advice = "Publish it again: it may be stored later." if code.retryable else "Change what is sent, then publish it."
    return Verdict("refused", RULES.get(code, "EXP-1"), f"its batch was not stored: {it.why}", advice, evidence)


def kept_out(topic: TopicController, key: bytes, at_us: int) -> Verdict:
    """Returns which message of that key has kept one out at that time, as far as is known, and until when."""
    window_ms = topic.settings.compaction_window_ms
    evidence: dict[str, object] = {"at_us": at_us, "compaction_window_ms": window_ms}
    opened_us = None if topic.window is None else topic.window.opened_us(key)
    if opened_us is not None and opened_us > at_us:
        opened_us = None  # of a later window
    # As long as its window is remembered, the winner is found however many messages came after it.
    found = nearest(topic.ring, key, at_us if opened_us is None else opened_us)
    which = "an earlier message of that key, no longer in memory,"
    advice = "Publish it again after the window has ended, or create the topic with a shorter compaction window."
    if found.before:
        opened_us, evidence["winner"] = found.before
        which = f"offset {found.before[1]}"
        advice += f" Readers get the message at {which} instead."
    elif found.first > topic.ring.head:
        evidence["searched"] = [found.first, found.end]
        which = f"an earlier message of that key, below offset {found.first}, where nothing was searched,"
    if opened_us is not None:
        evidence["opened_us"] = opened_us
        if window_ms != FOREVER:
            evidence["until_us"] = opened_us + window_ms * MICROSECONDS_PER_MS
    text = f"compaction dropped it: {which} had opened the window of key {shown(key)}"
    return Verdict("kept_out", "COM-2", text, advice, evidence)


def refusals(topic: TopicController, whose: str | None) -> list[Verdict]:
    """Returns the latest refusals, for someone who looks for a message that was never stored."""
    found = [it for it in decided(topic, whose) if it.fate > 0]
    recent = [verdict(topic, it, b"")._replace(fate="refused_lately") for it in found[:RECENT]]
    return [it._replace(text=it.text.replace("its batch", "a batch", 1)) for it in recent]
