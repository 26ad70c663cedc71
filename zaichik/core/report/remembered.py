"""What became of batches that were not stored, or not whole, as far as it is remembered."""

from collections.abc import Iterator
from typing import NamedTuple

from zaichik.base.clock import MILLISECOND_US
from zaichik.base.escapes import shown
from zaichik.core import decisions
from zaichik.core.report.verdict import Evidence, Verdict
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER, Batch, ErrorCode

RECENT = 4  # refusals that are reported together, where nothing says which one is meant

RULES = {
    ErrorCode.TOPIC_FULL: "RET-9",
    ErrorCode.TABLE_FULL: "TAB-1",
    ErrorCode.BATCH_TOO_LARGE: "RET-6",
    ErrorCode.MESSAGE_TOO_LARGE: "RET-6",
    ErrorCode.FORBIDDEN: "ACC-2",
    ErrorCode.NO_MEMORY: "LAG-6",
    ErrorCode.SEQUENCE_GAP: "PUB-4",
    ErrorCode.PRODUCER_UNKNOWN: "PUB-4",
    ErrorCode.STORAGE_FULL: "DUR-3",
    ErrorCode.DAMAGED: "DUR-7",
    ErrorCode.TOO_MANY_CONNECTIONS: "CLO-5",
}


class Decided(NamedTuple):
    """A decision about a batch, whose values `decisions.Decision` has.

    Attributes:
        at_us: when.
        fate: what became of the batch: the code of a refusal, `COMPACTED` or `DUPLICATE`.
        offset: the first offset that it had.
        why: the reason, in words.
        user: who has sent it.
        connection: its number; 0: none.
        data: the batch up to its payloads or a little further, or b"".
        dropped: the bitmap of what was dropped.
    """

    at_us: int
    fate: int
    offset: int
    why: str
    user: str
    connection: int
    data: bytes
    dropped: bytes

    def concerns(self, key: bytes) -> bool:
        """Returns whether the decision was about a message of that key.

        Compaction may have dropped some messages of a batch and stored the others.
        """
        # Most batches are left out at once.
        if key not in self.data:
            return False
        count = int.from_bytes(self.data[:4], "little")
        batch = Batch(self.data, count)
        keys = enumerate(batch.keys())
        return any(it == key and self._is_about(index) for index, it in keys)

    def _is_about(self, index: int) -> bool:
        """Returns whether the decision was about the message with that index in the batch."""
        # A batch is refused, or is a repetition, as a whole.
        if self.fate != decisions.COMPACTED:
            return True
        # One bit for each message.
        eight = self.dropped[index >> 3]
        return bool(eight >> (index & 7) & 1)


def decided(topic: TopicController, whose: str | None) -> Iterator[Decided]:
    """Yields the remembered decisions, the newest first.

    Refusals and repetitions only of one user, or of all.
    """
    for decision in reversed(topic.decisions.known):
        it = Decided._make(decision)
        if it.fate == decisions.COMPACTED or whose in (None, it.user):
            yield it


def verdict(topic: TopicController, it: Decided, key: bytes) -> Verdict:
    """Returns what a decision says about a message of that key."""
    if it.fate == decisions.COMPACTED:
        return kept_out(topic, key, it.at_us)
    evidence: Evidence = {"at_us": it.at_us}
    if it.connection:
        evidence["connection"] = it.connection
    if it.user:
        evidence["user"] = it.user
    if it.fate == decisions.DUPLICATE:
        evidence["first_offset"] = it.offset
        text = (
            "its batch came a second time and was not stored again: the first time, it got "
            f"offset {it.offset}"
        )
        advice = "Nothing: a retry is answered like the first attempt."
        return Verdict("duplicate", "PUB-4", text, advice, evidence)
    return _refused(it, evidence)


def _refused(it: Decided, evidence: Evidence) -> Verdict:
    code = ErrorCode(it.fate)
    evidence["error"] = code.name
    rule = RULES.get(code, "EXP-1")
    text = f"its batch was not stored: {it.why}"
    advice = "Change what is sent, then publish it."
    if code.retryable:
        advice = "Publish it again: it may be stored later."
    return Verdict("refused", rule, text, advice, evidence)


def kept_out(topic: TopicController, key: bytes, at_us: int) -> Verdict:
    """Returns which message of that key kept one out at that time, and until when.

    That is, as far as it is known.
    """
    window_ms = topic.settings.compaction_window_ms
    evidence: Evidence = {"at_us": at_us, "compaction_window_ms": window_ms}
    opened_us = _opened_us(topic, key, at_us)
    # As long as its window is remembered, the winner is found however many messages came after it.
    around_us = at_us
    if opened_us is not None:
        around_us = opened_us
    found = topic.retained.nearest(key, around_us)
    which = "an earlier message of that key, no longer in memory,"
    advice = (
        "Publish it again after the window has ended, or create the topic with a shorter "
        "compaction window."
    )
    if found.before is not None:
        opened_us, winner = found.before
        evidence["winner"] = winner
        which = f"offset {winner}"
        advice += f" Readers get the message at {which} instead."
    elif found.first > topic.retained.head_in_memory:
        evidence["searched"] = [found.first, found.end]
        which = (
            f"an earlier message of that key, below offset {found.first}, where nothing was "
            "searched,"
        )
    if opened_us is not None:
        evidence["opened_us"] = opened_us
        if window_ms != FOREVER:
            evidence["until_us"] = opened_us + window_ms * MILLISECOND_US
    text = f"compaction dropped it: {which} had opened the window of key {shown(key)}"
    return Verdict("kept_out", "COM-2", text, advice, evidence)


def _opened_us(topic: TopicController, key: bytes, at_us: int) -> int | None:
    """Returns when the key's window that is open now was opened.

    None if there is none, or if it was opened after `at_us`.
    """
    if topic.window is None:
        return None
    opened_us = topic.window.opened_us(key)
    if opened_us is None or opened_us > at_us:
        return None
    return opened_us


def refusals(topic: TopicController, whose: str | None) -> list[Verdict]:
    """Returns the latest refusals, for a search for a message that was never stored."""
    recent: list[Verdict] = []
    for it in decided(topic, whose):
        # Error codes are positive; compaction and repetitions are not.
        if it.fate <= 0:
            continue
        refused = verdict(topic, it, b"")
        text = refused.text.replace("its batch", "a batch", 1)
        recent.append(refused._replace(fate="refused_lately", text=text))
        if len(recent) == RECENT:
            break
    return recent
