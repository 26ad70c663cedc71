"""The rows that `describe` reports of shared names and of their workers (SHR)."""

from zaichik.core.position import directory_name
from zaichik.core.report.rows import JSON
from zaichik.core.report.sent import sent_us
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.shared_names.shared_reader import SharedReader
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik.core.work_queue.holdup import Holdup, holdup

# What people are told, in the middle of a sentence.
IN_WORDS = {
    Holdup.NO_WORKER: "a worker: nobody reads",
    Holdup.TOO_MANY_DEAD: "room: as many messages are dead as may be; revive or forget some",
    Holdup.TICKETS: "the disk: tickets are being saved",
    Holdup.SUSPECT: "an empty hand: a message that may have ended a worker is tried alone",
    Holdup.NO_CREDIT: "its workers: none of them takes more now",
    Holdup.TOO_MANY_DELAYED: "time: too many messages wait to come again",
    Holdup.HOT_KEY: "one key: most of what may be open waits for it",
    Holdup.TOO_MANY_OPEN: "its workers: as many messages are open as may be",
    Holdup.WITH_WORKERS: "its workers: they have all there is",
    Holdup.ABSENT: "owners: their connections are lost, and they may come back",
    Holdup.DELAYED: "time: what failed comes again later",
    Holdup.EMPTY: "messages: everything is settled",
}


def shared_row(position: SharedPosition, now_us: int) -> JSON:
    """Returns the state of a shared name, with or without workers."""
    topic = position.topic
    ledger = position.queue.ledger
    why = holdup(position.queue)
    row = _common(directory_name(topic, position), position, now_us)
    return row | {
        "id": 0,
        "credit": 0,
        "credit_bytes": 0,
        "in_flight": 0,
        "in_flight_bytes": 0,
        "delivered": ledger.next - ledger.start - ledger.skipped - ledger.passed,
        "skipped": ledger.skipped,
        "passed": ledger.passed,
        "start": ledger.start,
        "connection": 0,
        "client": "",
        "waiting_for": IN_WORDS[why],
        "waiting_for_code": why.name.lower(),
        "shared": _shared(position),
        "left_over": _left_over(position),
    }


def _shared(position: SharedPosition) -> JSON:
    """Returns what is reported of shared names alone.

    It is asked for several times a second, so it goes over workers and keys, not over what is open.
    """
    queue = position.queue
    ledger = queue.ledger
    handed_out = [since_us(reader) for reader in position.readers.values()]
    key, behind = ledger.keys.busiest()
    found = {
        "workers": len(position.readers),
        "max_deliveries": queue.settings.max_deliveries,
        "by_key": queue.settings.by_key,
        "open": ledger.open,
        "with_workers": _held(position),
        "ready": len(ledger.ready) + len(ledger.suspects),
        "suspect": len(ledger.suspects),
        "delayed": len(ledger.delayed),
        "blocked": len(ledger.keys),
        "absent": queue.absences.messages,
        "dead": len(ledger.dead),
        "done": ledger.done,
        "forgotten": ledger.forgotten,
        "oldest_us": min((at_us for at_us in handed_out if at_us is not None), default=None),
        "due_us": ledger.delayed.first_due_us,
    }
    if behind:
        found["busiest_key_bytes"] = len(key)
        found["behind_busiest_key"] = behind
    return found


def _held(position: SharedPosition) -> int:
    return sum(len(worker.held) for worker in position.queue.workers)


def _left_over(position: SharedPosition) -> JSON:
    """Returns the law of SHR-7, and that each open message is in one place."""
    queue = position.queue
    ledger = queue.ledger
    settled = ledger.done + ledger.skipped + ledger.passed + ledger.forgotten
    remembered = len(ledger.dead) + ledger.open
    ready = len(ledger.ready) + len(ledger.suspects)
    waiting = ready + len(ledger.delayed) + len(ledger.keys) + queue.absences.messages
    return {
        "next - start - done - skipped - passed - forgotten - dead - open": (
            ledger.next - ledger.start - settled - remembered
        ),
        "open - with_workers - ready - delayed - blocked - absent": (
            ledger.open - _held(position) - waiting
        ),
    }


def worker_row(manager: SubscriptionManager, reader: SharedReader, now_us: int) -> JSON:
    """Returns the state of a worker's subscription."""
    position = reader.position
    worker = reader.worker
    code, waiting_for = _waiting_for(reader)
    return _common(reader.name, position, now_us) | {
        "id": reader.id,
        "credit": reader.credit,
        "credit_bytes": reader.credit_bytes,
        "in_flight": reader.in_flight,
        "in_flight_bytes": reader.in_flight_bytes,
        "delivered": reader.delivered,
        "skipped": reader.skipped,
        "passed": 0,
        "start": position.queue.ledger.start,
        "connection": manager.number,
        "client": manager.client_name,
        "waiting_for": waiting_for,
        "waiting_for_code": code,
        "worker": {
            "has": len(worker.held),
            "overdue": len(worker.overdue),
            "since_us": since_us(reader),
            "timeout_us": worker.timeout_us,
        },
        "left_over": {},
    }


def since_us(reader: SharedReader) -> int | None:
    """Returns when a worker was handed out the oldest message that it has, late ones included.

    None if it has nothing. Of frames before those that are remembered the time is not known: then
    the time of the oldest one that is, so it is at least as long.
    """
    worker = reader.worker
    tickets = [*worker.held, *worker.overdue]
    if not tickets:
        return None
    since = sent_us(reader.sent, min(tickets))
    if since is None and reader.sent:
        _, since = reader.sent[0]
    return since


def _waiting_for(reader: SharedReader) -> tuple[str, str]:
    """Returns what a worker waits for: a word for programs, and a sentence."""
    worker = reader.worker
    if reader.ended:
        return "ended", "nothing: it has ended"
    if reader.waits_for_disk:
        return "disk", "the disk: a message is being read"
    if not worker.has_credit:
        return "settle", f"its program: it has {len(worker.held)}, and {len(worker.overdue)} late"
    if worker.hand.suspects:
        return "suspect", "its connection: it has a message that may have ended a worker"
    if worker.hand.drains_for is not None:
        return "drains", "its connection: it is to be empty for a message that is tried alone"
    if reader.is_ready:
        text = "the connection: its turn comes when the client has read what was sent before"
        return "connection", text
    return "messages", "messages: there are none for it"


def _common(name: str, position: SharedPosition, now_us: int) -> JSON:
    """Returns what is reported of a name and of its workers."""
    topic = position.topic
    topic.expire(now_us)
    ledger = position.queue.ledger
    return {
        "name": name,
        "topic": topic.name,
        "session": position.name,
        "user": position.user,
        "committed": ledger.needed,
        "cursor": ledger.next,
        "cursor_us": topic.retained.accepted_us(ledger.next),
        "next_offset": topic.end,
        "redelivered_below": None,
        "ahead": topic.end - ledger.next,
        "lag": topic.end - ledger.next - topic.retained.holes_between(ledger.next, topic.end),
        "until": None,
    }
