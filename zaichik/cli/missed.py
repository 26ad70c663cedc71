"""What a reader is told besides messages, as a sentence for people and as JSON for programs."""

from zaichik.base.escapes import shown
from zaichik.cli import screen
from zaichik.client.messages import (
    DeletionsMissed,
    Lagged,
    PatternEvent,
    TopicGone,
    TopicMissed,
    TopicUnread,
)
from zaichik.client.patterns.events import headline, sentence
from zaichik.client.patterns.records import TOPICS


def show(event: PatternEvent, *, as_json: bool, of_pattern: bool) -> None:
    """Show one event: a line of JSON on standard output, or a remark.

    Args:
        event: what is told.
        as_json: which of both.
        of_pattern: whether a sentence is to name the topic.
    """
    if as_json:
        screen.print_json(_members(event))
        return
    what = sentence(event)
    if of_pattern and event.topic != TOPICS:
        what = f"{shown(event.topic)}: {what}"
    screen.remark(f"{headline(event)}: {what}", "yellow")


def _members(event: PatternEvent) -> dict[str, object]:
    match event:
        case Lagged():
            return {
                "lagged": {
                    "topic": event.topic,
                    "start": event.start,
                    "end": event.end,
                    "count": event.count,
                }
            }
        case DeletionsMissed():
            return {"deletions_missed": {"topic": event.topic, "below": event.below}}
        case TopicGone():
            return {"topic_gone": {"topic": event.topic, "epoch": event.epoch, "next": event.next}}
        case TopicMissed():
            return {"topic_missed": {"topic": event.topic, "count": event.count}}
        case TopicUnread():
            return {"topic_unread": {"topic": event.topic, "reason": event.reason}}
