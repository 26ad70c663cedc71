"""Restores what is on the disk in a new broker: topics, windows, the numbers of producers, named positions."""

import logging

from zaichik.broker.broker import Broker
from zaichik.broker.producers import Answer
from zaichik.broker.topic_controller import TopicController
from zaichik.log.state import Known, Reply, State
from zaichik.log.store import Store
from zaichik_protocol import ErrorCode, Refused

logger = logging.getLogger(__name__)


def restore(broker: Broker, store: Store) -> None:
    """Restore every topic that the store has found. The broker must be new."""
    producers: list[tuple[str, int, Known]] = []
    for topic, found, log in store.recovered:
        controller = broker.registry.restore(topic.name, topic.epoch, topic.settings, log)
        state = found.state
        if controller.durable is not None:
            controller.durable.lost = topic.lost
        controller.compacted, controller.published = state.compacted, state.published
        if controller.window is not None and state.window is not None:
            for key, opened_us in state.window.opened():
                controller.window.admit([key], opened_us)
        _restore_positions(broker, controller, state)
        producers += [(topic.name, producer, known) for producer, known in state.producers.items()]
    for name, producer, known in sorted(producers, key=lambda it: it[2].used_us):
        answers = [_answer(reply) for reply in known.answers]
        broker.producers.restore(name, producer, known.next, answers, known.used_us)
    if store.recovered:
        logger.info("%d durable topics are open", len(store.recovered))


def _restore_positions(broker: Broker, topic: TopicController, state: State) -> None:
    """Restore named positions. Messages after them may have been delivered before, and are marked so (DUR-5)."""
    for name, committed in state.positions.items():
        position = broker.named_positions.keep(topic, name, committed)
        position.delivered = max(committed, state.end)
    if topic.durable is not None:
        topic.durable.knows(state.positions)


def _answer(reply: Reply) -> Answer:
    if len(reply) == 3:  # a refusal
        code, message, field = reply
        return Refused(ErrorCode(code), message, field)
    first_offset, stored, compacted, subscribers, dropped = reply
    return first_offset, stored, compacted, subscribers, dropped
