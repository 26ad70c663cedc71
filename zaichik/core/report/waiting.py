"""Why a message that a subscription has still to be sent has not been sent yet."""

from itertools import islice

from zaichik.core.report.sent import sent_us
from zaichik.core.report.subscriptions import Live
from zaichik.core.report.verdict import Evidence, Verdict

MOST_NAMED = 8  # subscriptions whose turn comes first, by name


def waiting(live: Live, offset: int) -> Verdict:
    """Returns what the message with that offset, which can be read, waits for."""
    manager, reader = live
    cursor = reader.cursor
    evidence: Evidence = {"cursor": cursor, "before_it": offset - cursor}
    if reader.waits_for_disk:
        text = f"the subscription waits for the disk: offset {cursor} is being read"
        return Verdict("waits_for_disk", "DUR-4", text, "Wait a moment.", evidence)
    if reader.is_out_of_credit:
        return _credit(live, evidence)
    if manager.unsent or manager.replies.waiting:
        unsent = manager.unsent
        replies = manager.replies.bytes
        evidence["unsent_bytes"] = unsent
        evidence["reply_bytes"] = replies
        text = (
            f"the client has not read what was sent before: {unsent + replies} bytes are still "
            "to be sent to it"
        )
        advice = "Look at the client: does it read its socket?"
        return Verdict("waits_for_client", "LAG-3", text, advice, evidence)
    turns_before: list[int] = []
    for other in islice(manager.ready, MOST_NAMED):
        if other is reader:
            break
        turns_before.append(other.id)
    evidence["turns_before"] = turns_before
    text = "its turn comes next"
    if turns_before:
        text = "other subscriptions of the connection have their turn first"
    return Verdict("waits_for_turn", "LAG-4", text, "Wait a moment.", evidence)


def _credit(live: Live, evidence: Evidence) -> Verdict:
    reader = live.reader
    evidence["credit"] = reader.credit
    evidence["in_flight"] = reader.in_flight
    evidence["credit_bytes"] = reader.credit_bytes
    evidence["in_flight_bytes"] = reader.in_flight_bytes
    evidence["committed"] = reader.committed
    # What begins at the committed offset has waited longest.
    since_us = sent_us(reader.sent, reader.committed)
    if since_us is not None:
        evidence["in_flight_since_us"] = since_us
    unit = "bytes"
    if reader.in_flight >= reader.credit:
        unit = "messages"
    text = (
        f"the subscription waits for a commit: offsets {reader.committed} to {reader.cursor - 1} "
        f"are in flight, and its credit in {unit} is used up"
    )
    advice = "Commit what was handled, or subscribe with more credit."
    return Verdict("waits_for_credit", "CMT-1", text, advice, evidence)
