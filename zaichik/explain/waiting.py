"""Why a message that a subscription has still to be sent has not been sent yet."""

from itertools import islice, takewhile
from typing import Any

from zaichik.explain.subscriptions import Live
from zaichik.explain.verdict import Verdict

MOST_NAMED = 8  # subscriptions whose turn comes first, by name


def waiting(live: Live, offset: int) -> Verdict:
    """Returns what the message with that offset, which can be read, waits for."""
    manager, reader = live
    evidence: dict[str, Any] = {"cursor": reader.cursor, "before_it": offset - reader.cursor}
    if reader.waits_for_disk:
        text = f"the subscription waits for the disk: offset {reader.cursor} is being read"
        return Verdict("waits_for_disk", "DUR-4", text, "Wait a moment.", evidence)
    # Not ready although messages are ahead: it has credit left, but not the bytes that the next message needs.
    if not reader.has_credit or not reader.is_ready:
        return _credit(live, evidence)
    if manager.unsent or manager.replies.waiting:
        unsent, replies = manager.unsent, manager.replies.bytes
        evidence |= {"unsent_bytes": unsent, "reply_bytes": replies}
        text = f"the client has not read what was sent before: {unsent + replies} bytes are still to be sent to it"
        return Verdict("waits_for_client", "LAG-3", text, "Look at the client: does it read its socket?", evidence)
    first = takewhile(lambda other: other is not reader, manager.ready)
    evidence["turns_before"] = [other.id for other in islice(first, MOST_NAMED)]
    text = "its turn comes next"
    if evidence["turns_before"]:
        text = "other subscriptions of the connection have their turn first"
    return Verdict("waits_for_turn", "LAG-4", text, "Wait a moment.", evidence)


def _credit(live: Live, evidence: dict[str, Any]) -> Verdict:
    reader = live.reader
    evidence |= {
        "credit": reader.credit, "in_flight": reader.in_flight, "credit_bytes": reader.credit_bytes,
        "in_flight_bytes": reader.in_flight_bytes, "committed": reader.committed,
    }  # fmt: skip
    oldest_us = [at_us for first, at_us in reader.sent if first <= reader.committed]
    if oldest_us:
        evidence["in_flight_since_us"] = oldest_us[-1]
    what = "messages" if reader.in_flight >= reader.credit else "bytes"
    text = (
        f"the subscription waits for a commit: offsets {reader.committed} to {reader.cursor - 1} are in flight, and "
        f"its credit in {what} is used up"
    )
    return Verdict(
        "waits_for_credit", "CMT-1", text, "Commit what was handled, or subscribe with more credit.", evidence
    )
