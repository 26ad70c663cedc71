"""What is true of shared names after every step (SHR)."""

from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.shared_names.shared_reader import SharedReader
from zaichik.core.work_queue.message import Place


def check_shared(broker):
    """Raises what is not true of a name."""
    names = broker.shared_names
    known = [place for _, (_, place) in broker.named_positions.directory.after("", "")]
    shared = [place for place in known if isinstance(place, SharedPosition)]
    assert set(names.positions) == set(shared), "none is swept that is not there, and all are"
    for position in shared:
        _check_name(position, broker.settings)


def _check_name(position, settings):
    queue, ledger, topic = position.queue, position.queue.ledger, position.topic
    fates = ledger.done + ledger.skipped + ledger.passed + ledger.forgotten
    assert ledger.next - ledger.start == fates + ledger.open + len(ledger.dead), "SHR-7"
    assert ledger.next <= topic.end
    # Ten times as many may wait for their time, and then not wait any more.
    assert ledger.open <= 11 * settings.max_open + settings.max_dead, "SHR-2"
    assert set(queue.workers) == set(position.readers), "the queue knows its workers, no others"
    assert set(position.readers.values()) <= set(topic.readers)
    held = sum(message.place == Place.HELD for message in ledger.open_messages())
    assert held == sum(len(worker.held) for worker in queue.workers), "each is in one hand"
    keys = [message.key for message in ledger.open_messages()]
    keys += [message.key for message in ledger.dead.page(0, 1000)]
    assert ledger.key_bytes == sum(map(len, keys))
    # With a turn of any of its workers, the name looks at everything anew.
    if any(one.is_ready for one in position.readers.values()):
        return
    assert position._charged == queue.cost, "SHR-10"
    is_free = not ledger.suspects
    if queue.is_waited_for:
        assert queue.end == topic.end
        assert position in _waiters(topic), "a message that comes finds who waits for it"
        idle, called = queue._line.idle, queue._line.called
        assert not idle or not is_free or called >= queue.available, "who is wanted is called"


def check_hand(manager):
    """A connection's hand is what all its workers have (SHR-6)."""
    workers = [one.worker for one in manager.readers.values() if isinstance(one, SharedReader)]
    for one in manager.readers.values():
        if isinstance(one, SharedReader):
            assert one.in_flight == one.worker.in_flight
            assert one.in_flight_bytes == one.worker.in_flight_bytes
            assert one.worker.hand is manager._hand
    if manager._hand is not None:
        assert manager._hand.size == sum(worker.in_flight for worker in workers)
        assert manager._hand.overdue == sum(len(worker.overdue) for worker in workers)


def _waiters(topic):
    retained = topic.retained
    return retained.kept._waiting if hasattr(retained, "kept") else retained.ring._waiting
