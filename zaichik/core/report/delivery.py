"""What became of a message at one subscription: not for it, delivered, skipped, or waiting."""

from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.reader import Reader
from zaichik.core.report.sent import sent_us
from zaichik.core.report.subscriptions import Live
from zaichik.core.report.verdict import Evidence, Verdict
from zaichik.core.report.waiting import waiting
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import EndCode

_RULE_OF_END = {
    EndCode.TAKEN_OVER: "CMT-3",
    EndCode.FORBIDDEN: "ACC-4",
    EndCode.DELETED: "TOP-6",
}


def delivery(live: Live, offset: int) -> Verdict:
    """Returns what became of the message with that offset at a live subscription."""
    manager, reader = live
    evidence: Evidence = {
        "subscription": f"{manager.number}.{reader.id}",
        "client": manager.client_name,
        "name": reader.position.name,
    }
    if manager.user.name:
        evidence["user"] = manager.user.name
    verdict = _at(live, offset)
    evidence |= verdict.evidence
    return verdict._replace(evidence=evidence)


def _at(live: Live, offset: int) -> Verdict:
    reader = live.reader
    if offset < reader.start:
        return _below_start(reader)
    is_readable = reader.topic.retained.readable_from(offset) == offset
    if is_readable and reader.is_hidden(offset):
        text = "it is about a topic that the reader's user may not subscribe to"
        advice = "Give the user the right to subscribe to that topic."
        return Verdict("not_for_it", "PAT-5", text, advice, {})
    if offset < reader.cursor:
        return _below_cursor(reader, offset)
    if offset >= reader.until:
        evidence = {"until": reader.until}
        text = f"the subscription asked for offsets before {reader.until} only"
        return Verdict("beyond_until", "RET-4", text, "Subscribe without `until`.", evidence)
    if reader.ended or reader.why_cut_off is not None:
        return _ended(reader)
    head = reader.topic.head
    if offset < head:
        evidence = {"cursor": reader.cursor, "head": head}
        text = (
            f"it was gone before it was delivered: the subscription stands at {reader.cursor}, "
            "and will report the lag"
        )
        advice = "Commit what is in flight: without free credit, lag is not reported."
        return Verdict("lost_ahead", "LAG-1", text, advice, evidence)
    if _is_hole(reader.topic, offset):
        evidence = {"cursor": reader.cursor}
        text = "it went before it was delivered, and the subscription passes the hole it has left"
        return Verdict("passed", "TAB-2", text, "", evidence)
    return waiting(live, offset)


def _is_hole(topic: TopicController, offset: int) -> bool:
    """Returns whether the offset is one that is missing between those that can be read."""
    retained = topic.retained
    is_readable = retained.readable_from(offset) == offset
    return not is_readable and retained.lost_until(offset) == offset


def _ended(reader: Reader) -> Verdict:
    why = reader.why_cut_off
    # A subscription that nobody has ended ends by itself at damage.
    rule = "DUR-7"
    meaning = "what comes next is damaged"
    if why is not None:
        rule = _RULE_OF_END[why]
        meaning = why.meaning
    evidence = {"cursor": reader.cursor}
    text = f"the subscription has ended: {meaning}"
    return Verdict("ended", rule, text, "Subscribe again.", evidence)


def _below_start(reader: Reader) -> Verdict:
    evidence = {"start": reader.start}
    if reader.position.name:
        text = (
            f"it lies below offset {reader.start}, where the subscription has resumed: settled "
            "before, or never its own"
        )
        advice = "To read it again, subscribe without the name."
        return Verdict("below_start", "CMT-3", text, advice, evidence)
    text = f"the subscription began at offset {reader.start}, after it"
    advice = f"Subscribe with start={reader.start - 1}, or less."
    return Verdict("below_start", "RET-4", text, advice, evidence)


def _below_cursor(reader: Reader, offset: int) -> Verdict:
    """Returns what became of a message below the cursor."""
    remembered = 0
    for first, end, at_us in reader.lags:
        if first <= offset < end:
            return _skipped(first, end, at_us)
        remembered += end - first
    # Some gaps are no longer remembered: they were before all that are.
    if remembered < reader.skipped:
        known_from, _, _ = reader.lags[0]
        if offset < known_from:
            evidence = {"skipped": reader.skipped, "known_from": known_from}
            text = (
                "it was delivered, or skipped as lag: after so many gaps, which of the two is no "
                "longer known"
            )
            advice = "The client's log reports every gap."
            return Verdict("unknown", "EXP-3", text, advice, evidence)
    if reader.passed and _is_hole(reader.topic, offset):
        evidence = {"passed": reader.passed}
        text = (
            "it was delivered before it was superseded, or passed as a hole after that: which of "
            "the two is not remembered"
        )
        return Verdict("unknown", "TAB-2", text, "", evidence)
    if offset < reader.committed:
        evidence = {"committed": reader.committed}
        text = "it was delivered, and a commit has settled it"
        return Verdict("settled", "CMT-2", text, "", evidence)
    return _in_flight(reader, offset)


def _skipped(first: int, end: int, at_us: int) -> Verdict:
    evidence = {"from": first, "to": end, "at_us": at_us}
    text = (
        "it was gone before the subscription got to it, and was reported as lag from "
        f"{first} to {end}"
    )
    advice = (
        "Read faster, commit sooner, or give the topic more room; see what became of "
        "it in the topic."
    )
    return Verdict("skipped", "LAG-1", text, advice, evidence)


def _in_flight(reader: Reader, offset: int) -> Verdict:
    evidence: Evidence = {
        "committed": reader.committed,
        "cursor": reader.cursor,
        "in_flight": reader.in_flight,
    }
    at_us = sent_us(reader.sent, offset)
    if at_us is not None:
        evidence["sent_us"] = at_us
    elif reader.sent:
        _, oldest_us = reader.sent[0]
        evidence["sent_before_us"] = oldest_us
    text = "it was delivered, and waits for a commit"
    advice = "The client has it, or it is on the way there: look at the program that reads."
    return Verdict("in_flight", "CMT-1", text, advice, evidence)


def away(
    topic: TopicController, position: ExclusivePosition, offset: int, ttl_s: float, now_us: int
) -> Verdict:
    """Returns what became of the message with that offset at a name without a reader."""
    evidence: Evidence = {"name": position.name, "committed": position.committed}
    if position.user:
        evidence["user"] = position.user
    if offset < position.committed:
        text = (
            f"it lies below offset {position.committed}, the position of the name: settled, or "
            "never its own"
        )
        return Verdict("settled", "CMT-3", text, "", evidence)

    evidence["kept_s"] = round(position.seconds_left(ttl_s, now_us))
    if position.is_waived:
        text = "nothing is kept for the name: its user may not read the topic any more"
        advice = "Give the user the right to subscribe."
        return Verdict("ended", "ACC-4", text, advice, evidence)
    if offset < topic.head:
        text = "it was gone before a reader of the name came back; the next one will report the lag"
        advice = "Create the topic with more room, or --overflow reject."
        return Verdict("lost_ahead", "LAG-1", text, advice, evidence)
    if _is_hole(topic, offset):
        text = "it has left a hole, which the name's next reader will pass"
        return Verdict("passed", "TAB-2", text, "", evidence)
    text = "it waits for the name's next reader: there is none now"
    if offset < position.delivered:
        text = (
            "it was delivered and not settled, and comes again for the name's next reader: there "
            "is none now"
        )
    advice = "Start a reader with this name."
    return Verdict("waits_for_reader", "CMT-3", text, advice, evidence)
