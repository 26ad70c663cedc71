"""Records a topic: from the end of the recording to the current end of the topic, or continuously.

Messages that are gone when their turn comes, because they were not recorded in time, are counted:
nothing is lost in silence.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zaichik import DeletionsMissed, Lagged, Message, ZaichikError, blocking
from zaichik.apps.recording.folders import JOURNAL_PREFIX
from zaichik.apps.recording.recording import Recording
from zaichik.client.inbox import check_end, end_of

logger = logging.getLogger("zaichik.recording.recorder")

POLL_SECONDS = 0.25  # between two calls of `stopping`
FLUSH_SECONDS = 30.0  # a followed topic's messages appear in a file after this time at most


class NoSuchRecordedTopic(ZaichikError):
    """The topic to record does not exist."""


@dataclass(slots=True)
class Progress:
    """The progress of a recorder.

    Attributes:
        topic: the topic's name.
        epoch: the topic's epoch.
        start: the first offset of this recorder.
        end: the offset before which it ends; None: it follows the topic.
        next: the next offset to be recorded.
        recorded: messages recorded by this recorder.
        missing: messages that were gone.
        deletions_missed: of a table, the offset below which tombstones were gone (TAB-5); 0: none.
        retention_ms: how long the topic keeps messages; 0: only for those who read them as they
            come.
    """

    topic: str
    epoch: int
    start: int
    end: int | None
    next: int
    recorded: int = 0
    missing: int = 0
    deletions_missed: int = 0
    retention_ms: int = 0


def record(
    client: blocking.Client,
    topic: str,
    root: Path,
    *,
    follow: bool = False,
    tell: Callable[[Progress], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Progress:
    """Record the messages of a topic that the recording does not have yet.

    Returns the final progress.

    Args:
        client: connected to the topic's broker.
        topic: the topic's name.
        root: the recording's folder; see `recording`.
        follow: go on with new messages, until `stopping`.
        tell: called with the progress, at the start and whenever it changes.
        stopping: called a few times a second; the recorder ends when it returns true.

    Raises:
        NoSuchRecordedTopic: there is no topic of that name.
        CannotRecord: another program is recording it into that folder, or the folder has other
            files.
        TopicShrunk: the topic ends earlier than the broker had told.
    """
    state = state_of(client, topic)
    epoch, end = state["epoch"], None if follow else state["next_offset"]
    with Recording.open(root, topic, _settings(client, topic)) as recording:
        parts = recording.parts()
        ends = [part.end for part in parts if part.epoch == epoch]
        if parts and not ends:
            if state["settings"].get("durable"):
                event = "it was deleted and created again"
            else:
                event = "the broker was restarted"
            logger.warning(
                "%s is another topic than the one recorded before: %s since", topic, event
            )
        start = max(ends, default=0)  # what is gone already is counted as lag
        progress = Progress(
            topic, epoch, start, end, start, retention_ms=state["settings"]["retention_ttl_ms"]
        )
        tell(progress)
        if start == end:
            return progress
        with client.subscribe(topic, start=start, until=end, epoch=epoch) as subscription:
            if end is not None:
                check_end(topic, subscription.live, end)
            _write_down(subscription, recording, progress, tell, stopping)
    return progress


def state_of(client: blocking.Client, topic: str) -> Mapping[str, Any]:
    """Returns what the broker says about a topic to record.

    Raises:
        NoSuchRecordedTopic: there is no topic of that name.
    """
    state = client.topic(topic)
    if state is None:
        raise NoSuchRecordedTopic(
            f"there is no topic {topic!r}; `zaichik topics` lists the broker's topics"
        )
    return state


def _settings(client: blocking.Client, topic: str) -> Mapping[str, int] | None:
    """The settings of a topic; of a journal, those of the topic whose journal it is."""
    state = client.topic(topic.removeprefix(JOURNAL_PREFIX))
    return None if state is None else state["settings"]


def _write_down(
    subscription: blocking.Subscription[Message],
    recording: Recording,
    progress: Progress,
    tell: Callable[[Progress], None],
    stopping: Callable[[], bool],
) -> None:
    flushed = time.monotonic()
    # What lies between this and the next message is holes.
    reached = progress.start
    while not subscription.ended and not stopping():
        for item in subscription.fetch(timeout=POLL_SECONDS):
            match item:
                case Lagged():
                    progress.missing += item.count
                    reached = item.end
                case DeletionsMissed():
                    progress.deletions_missed = item.below
                case frame:
                    recording.add(progress.epoch, [frame], reached)
                    progress.recorded += frame.batch.count
                    reached = end_of(frame)
        progress.next = subscription.next
        tell(progress)
        if time.monotonic() - flushed > FLUSH_SECONDS and progress.end is None:
            recording.flush()
            recording.merge()
            flushed = time.monotonic()
