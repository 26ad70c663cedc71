"""What became of a message at a shared name: who has it, what it waits for, how it ended (SHR)."""

from zaichik.core.report.sent import sent_us
from zaichik.core.report.verdict import Evidence, Verdict
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.work_queue.holdup import holdup
from zaichik.core.work_queue.message import OpenMessage, Place
from zaichik.core.work_queue.worker import Worker


def shared_delivery(position: SharedPosition, offset: int) -> Verdict:
    """Returns what became of the message with that offset at a shared name."""
    evidence: Evidence = {"name": position.name}
    if position.user:
        evidence["user"] = position.user
    verdict = _at(position, offset)
    return verdict._replace(evidence=evidence | verdict.evidence)


def _at(position: SharedPosition, offset: int) -> Verdict:
    ledger = position.queue.ledger
    if offset < ledger.start:
        text = f"the name began at offset {ledger.start}, after this message"
        return Verdict("below_start", "SHR-1", text, "", {"start": ledger.start})
    message = ledger.find(offset)
    if message is not None:
        return _open(position, message)
    dead = ledger.dead.get(offset)
    if dead is not None:
        text = f"it is dead after {dead.count} deliveries: {dead.reason or 'no reason was given'}"
        advice = "Revive it, or forget it: zaichik dead."
        evidence: Evidence = {"deliveries": dead.count, "died_us": dead.died_us}
        return Verdict("dead", "SHR-5", text, advice, evidence)
    if offset < ledger.next:
        text = "it is settled: done, forgotten, or gone before its turn came"
        counts: Evidence = {
            "done": ledger.done,
            "skipped": ledger.skipped,
            "passed": ledger.passed,
            "forgotten": ledger.forgotten,
        }
        return Verdict("settled", "SHR-7", text, "", counts)
    return _ahead(position, offset)


def _ahead(position: SharedPosition, offset: int) -> Verdict:
    """Returns why a message has not been handed out yet."""
    retained = position.topic.retained
    ledger = position.queue.ledger
    evidence: Evidence = {"next": ledger.next, "before_it": offset - ledger.next}
    if retained.readable_from(offset) != offset:
        if retained.lost_until(offset) == offset:
            text = "it has left a hole, which the name will pass"
            return Verdict("passed", "TAB-2", text, "", evidence)
        text = "it was gone before its turn came, which a worker will be told"
        advice = "Create the topic with more room, or --overflow reject."
        return Verdict("lost_ahead", "SHR-7", text, advice, evidence)
    why = holdup(position.queue).name.lower()
    evidence["waiting_for"] = why
    text = "it was not handed out yet"
    if not position.readers:
        text = "it waits for a worker: there is none now"
    return Verdict("waits_for_worker", "SHR-2", text, "Look at zaichik describe.", evidence)


def _open(position: SharedPosition, message: OpenMessage) -> Verdict:
    """Returns where an open message is."""
    evidence: Evidence = {
        "deliveries": message.count,
        "max_deliveries": position.queue.settings.max_deliveries,
        "is_suspect": message.is_suspect,
    }
    match message.place:
        case Place.HELD:
            return _held(position, message, evidence)
        case Place.DELAYED:
            evidence["due_us"] = message.due_us
            text = "it failed, and waits for its time to come again"
            return Verdict("waits_until", "SHR-4b", text, "Wait.", evidence)
        case Place.BLOCKED:
            text = "an earlier message of its key is open"
            return Verdict("waits_for_key", "SHR-8", text, "Wait, or look at that one.", evidence)
        case Place.ABSENT:
            text = "the connection of its worker is lost, and its owner may come back"
            return Verdict("waits_for_owner", "SHR-4a", text, "Wait a moment.", evidence)
    evidence["waiting_for"] = holdup(position.queue).name.lower()
    text = "it comes again, when a worker takes it"
    if message.is_suspect:
        text = "it may have ended a worker, and comes again to one that has nothing else"
    return Verdict("waits_for_worker", "SHR-6", text, "Look at zaichik describe.", evidence)


def _held(position: SharedPosition, message: OpenMessage, evidence: Evidence) -> Verdict:
    worker = _holder(position, message)
    text = "a worker has it"
    if worker is not None:
        reader = position.readers[worker]
        evidence["subscription"] = f"{reader.connection}.{reader.id}"
        at_us = sent_us(reader.sent, message.ticket)
        if at_us is not None:
            evidence["sent_us"] = at_us
        elif reader.sent:
            _, oldest_us = reader.sent[0]
            evidence["sent_before_us"] = oldest_us
    advice = "The program has it, or it is on the way there: look at the worker."
    return Verdict("with_worker", "SHR-2", text, advice, evidence)


def _holder(position: SharedPosition, message: OpenMessage) -> Worker | None:
    for worker in position.readers:
        if worker.held.get(message.ticket) is message:
            return worker
    return None
