"""Restores in a new broker what is on the disk.

That is: topics, windows, the numbers of producers, named positions.
"""

import logging

from zaichik.core.broker import Broker
from zaichik.core.durable import Durable
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.producers import Answer
from zaichik.core.shared_names.saved_names import queue_of
from zaichik.core.topic_controller import TopicController
from zaichik.storage.state import KnownProducer, LogState, SavedAnswer
from zaichik.storage.store import Store
from zaichik_protocol import ErrorCode, Refused

logger = logging.getLogger("zaichik.log.restoring")


def restore(broker: Broker, store: Store) -> None:
    """Restore every topic that the store has found. The broker must be new."""
    broker.jumps = tuple(store.jumps)
    broker.clock_ahead_us = store.ahead_us
    producers: list[tuple[str, int, int, KnownProducer]] = []
    for _, recovered, _ in store.recovered:
        broker.shared_names.know_ticket(recovered.state.ticket)
    for topic, recovered, log in store.recovered:
        state = recovered.state
        controller = broker.registry.restore(
            topic.name, topic.epoch, topic.settings, log, topic.lost, state.positions
        )
        controller.jumps = broker.jumps
        # What the last record has not passed yet; see `LogState`.
        younger_us = state.not_passed_us
        controller.compacted = state.compacted
        controller.published = state.published
        if controller.window is not None and state.window is not None:
            for key, opened_us in state.window.opening_times():
                controller.window.admit([key], opened_us + younger_us)
        _restore_positions(broker, controller, state)
        for producer, known in state.producers.items():
            producers.append((topic.name, producer, known.used_us + younger_us, known))
    # The broker forgets those that were used longest ago, whatever their topics.
    producers.sort(key=lambda it: it[2])
    for name, producer, used_us, known in producers:
        answers = [_answer(reply) for reply in known.answers]
        broker.producers.restore(name, producer, known.next, answers, used_us)
    if store.recovered:
        logger.info("%d durable topics are open", len(store.recovered))


def _restore_positions(broker: Broker, topic: TopicController, state: LogState) -> None:
    """Restore named positions.

    Messages after them may have been delivered before, and are marked so (DUR-5).
    """
    for name, committed in state.positions.items():
        position = ExclusivePosition(committed, name)
        position.delivered = max(committed, state.end)
        broker.named_positions.keep(topic, position)
    _restore_shared_names(broker, topic, state)


def _restore_shared_names(broker: Broker, topic: TopicController, state: LogState) -> None:
    """Restore the names that are shared (SHR-9)."""
    retained = topic.retained
    for key, name in state.names.items():
        position = broker.shared_names.restore(topic, key, queue_of(name))
        broker.named_positions.keep(topic, position)
        if isinstance(retained, Durable):
            retained.saver.know(key, name)


def _answer(reply: SavedAnswer) -> Answer:
    if len(reply) == 3:  # a refusal
        code, message, field = reply
        return Refused(ErrorCode(code), message, field)
    first_offset, stored, compacted, subscribers, dropped = reply
    return first_offset, stored, compacted, subscribers, dropped
