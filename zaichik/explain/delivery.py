"""What became of a message at one subscription: not for it, delivered, skipped, or still waiting."""

from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.position import Position
from zaichik.broker.reader import Reader
from zaichik.explain.subscriptions import Live
from zaichik.explain.verdict import Verdict
from zaichik.explain.waiting import waiting
from zaichik_protocol import EndCode

_RULE_OF_END = {EndCode.TAKEN_OVER: "CMT-3", EndCode.FORBIDDEN: "ACC-4", EndCode.DELETED: "TOP-6"}


def delivery(live: Live, offset: int) -> Verdict:
    """Returns what became of the message with that offset at a subscription that has a connection."""
    manager, reader = live
    who = {"subscription": f"{manager.number}.{reader.id}", "client": manager.client, "name": reader.position.name}
    who |= {"user": manager.user.name} if manager.user.name else {}
    verdict = _at(live, offset)
    return verdict._replace(evidence=who | verdict.evidence)


def _at(live: Live, offset: int) -> Verdict:
    reader = live.reader
    if offset < reader.start:
        return _below_start(reader)
    if offset < reader.cursor:
        return _passed(reader, offset)
    if offset >= reader.until:
        text = f"the subscription asked for offsets before {reader.until} only"
        return Verdict("beyond_until", "RET-4", text, "Subscribe without `until`.", {"until": reader.until})
    if reader.ended or reader.why_cut_off is not None:
        why = reader.why_cut_off
        text = f"the subscription has ended: {'what comes next is damaged' if why is None else why.meaning}"
        rule = "DUR-7" if why is None else _RULE_OF_END[why]
        return Verdict("ended", rule, text, "Subscribe again.", {"cursor": reader.cursor})
    if offset < reader.topic.head:
        text = (
            f"it was gone before it was delivered: the subscription stands at {reader.cursor}, and will report the lag"
        )
        advice = "Commit what is in flight: without free credit, lag is not reported."
        return Verdict("lost_ahead", "LAG-1", text, advice, {"cursor": reader.cursor, "head": reader.topic.head})
    return waiting(live, offset)


def _below_start(reader: Reader) -> Verdict:
    evidence = {"start": reader.start}
    if reader.position.name:
        text = (
            f"it lies below offset {reader.start}, where the subscription has resumed: settled before, or never its own"
        )
        return Verdict("below_start", "CMT-3", text, "To read it again, subscribe without the name.", evidence)
    text = f"the subscription began at offset {reader.start}, after it"
    return Verdict("below_start", "RET-4", text, f"Subscribe with start={reader.start - 1}, or less.", evidence)


def _passed(reader: Reader, offset: int) -> Verdict:
    for first, end, at_us in reader.lags:
        if first <= offset < end:
            text = f"it was gone before the subscription got to it, and was reported as lag from {first} to {end}"
            advice = "Read faster, commit sooner, or give the topic more room; see what became of it in the topic."
            return Verdict("skipped", "LAG-1", text, advice, {"from": first, "to": end, "at_us": at_us})
    remembered = sum(end - first for first, end, _ in reader.lags)
    if remembered < reader.skipped and offset < reader.lags[0][0]:
        evidence = {"skipped": reader.skipped, "known_from": reader.lags[0][0]}
        text = "it was delivered, or skipped as lag: after so many gaps, which of the two is no longer known"
        return Verdict("unknown", "EXP-3", text, "The client's log reports every gap.", evidence)
    if offset < reader.committed:
        text = "it was delivered, and a commit has settled it"
        return Verdict("settled", "CMT-2", text, "", {"committed": reader.committed})
    return _in_flight(reader, offset)


def _in_flight(reader: Reader, offset: int) -> Verdict:
    evidence: dict[str, object] = {
        "committed": reader.committed,
        "cursor": reader.cursor,
        "in_flight": reader.in_flight,
    }
    since = [at_us for first, at_us in reader.sent if first <= offset]
    if since:
        evidence["sent_us"] = since[-1]
    elif reader.sent:
        evidence["sent_before_us"] = reader.sent[0][1]
    text = "it was delivered, and waits for a commit"
    advice = "The client has it, or it is on the way there: look at the program that reads."
    return Verdict("in_flight", "CMT-1", text, advice, evidence)


def away(position: Position, offset: int, head: int, ttl: float, now_us: int) -> Verdict:
    """Returns what became of the message with that offset at a named subscription whose reader is away."""
    left = ttl - (0 if position.left_us is None else now_us - position.left_us) / MICROSECONDS
    evidence: dict[str, object] = {"name": position.name, "committed": position.committed}
    evidence |= {"user": position.user} if position.user else {}
    if offset < position.committed:
        text = f"it lies below offset {position.committed}, the position of the name: settled, or never its own"
        return Verdict("settled", "CMT-3", text, "", evidence)
    evidence["kept_s"] = max(round(left), 0)
    if position.is_waived:
        text = "nothing is kept for the name: its user may not read the topic any more"
        return Verdict("ended", "ACC-4", text, "Give the user the right to subscribe.", evidence)
    if offset < head:
        text = "it was gone before a reader of the name came back; the next one will report the lag"
        return Verdict("lost_ahead", "LAG-1", text, "Create the topic with more room, or --overflow reject.", evidence)
    was = "was delivered and not settled, and comes again" if offset < position.delivered else "waits"
    text = f"it {was} for the name's next reader: there is none now"
    return Verdict("waits_for_reader", "CMT-3", text, "Start a reader with this name.", evidence)
