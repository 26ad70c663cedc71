"""What is reported to a reader of a pattern besides messages, in words: for logs and terminals."""

from zaichik.base.counted import counted
from zaichik.client.messages import (
    DeletionsMissed,
    Lagged,
    PatternEvent,
    TopicGone,
    TopicMissed,
    TopicUnread,
)
from zaichik.client.patterns.records import TOPICS


def headline(event: PatternEvent) -> str:
    """Returns the kind of an event, in a word or two."""
    match event:
        case Lagged():
            return "lag"
        case DeletionsMissed(topic=topic) if topic == TOPICS:
            return "topics missed"
        case DeletionsMissed():
            return "deletions missed"
        case TopicGone():
            return "topic gone"
        case TopicMissed():
            return "topic missed"
        case TopicUnread():
            return "topic unread"


def sentence(event: PatternEvent) -> str:
    """Returns what has happened, without the topic's name."""
    match event:
        case Lagged(count=1):
            return f"1 message, offset {event.start}, was gone"
        case Lagged():
            return f"{event.count:,} messages, offsets {event.start} to {event.end - 1}, were gone"
        case DeletionsMissed(topic=topic) if topic == TOPICS:
            return "topics may have come and gone unseen"
        case DeletionsMissed():
            return (
                f"keys may have been deleted unseen, below offset {event.below}; to be exact, read "
                "the table again from earliest"
            )
        case TopicGone(next=0):
            return "nothing of it was read"
        case TopicGone():
            return f"the next message to be read was offset {event.next}"
        case TopicMissed():
            came = counted(event.count, "topic")
            return f"{came} of that name came and went before anything could be read"
        case TopicUnread():
            return event.reason
