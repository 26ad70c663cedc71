"""What a reader is told besides messages, as a sentence for people and as JSON for programs."""

from zaichik.base.counted import counted
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
    kind, sentence = _sentence(event)
    if of_pattern and event.topic != TOPICS:
        sentence = f"{shown(event.topic)}: {sentence}"
    screen.remark(f"{kind}: {sentence}", "yellow")


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


def _sentence(event: PatternEvent) -> tuple[str, str]:
    """Returns the kind of an event, in a word or two, and what has happened."""
    match event:
        case Lagged(count=1):
            return "lag", f"1 message, offset {event.start}, was gone"
        case Lagged():
            what = f"{event.count:,} messages, offsets {event.start} to {event.end - 1}, were gone"
            return "lag", what
        case DeletionsMissed(topic="$topics"):
            return "topics missed", "topics may have come and gone unseen"
        case DeletionsMissed():
            what = f"keys may have been deleted unseen, below offset {event.below}"
            return "deletions missed", f"{what}; to be exact, read the table again from earliest"
        case TopicGone():
            return "topic gone", f"it was read up to offset {event.next}"
        case TopicMissed():
            return "topic missed", f"{counted(event.count, 'topic')} of that name came and went"
        case TopicUnread():
            return "topic unread", event.reason
