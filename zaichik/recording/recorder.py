"""Recording a topic: from where the recording ends to where the topic ends now, or on and on.

Messages that are gone when their turn comes, because nobody recorded them in time, are counted, never passed over
in silence.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zaichik import blocking
from zaichik.client.errors import ZaichikError
from zaichik.client.messages import Lagged
from zaichik.recording.recording import Recording

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.25  # between two looks whether to stop
FLUSH_SECONDS = 30.0  # a topic that is followed appears with this delay at most, when it is quiet


class NoSuchRecordedTopic(ZaichikError):
    """The topic to record is not there."""


@dataclass(slots=True)
class Progress:
    """How far a recording has come.

    Attributes:
        topic: what is recorded.
        epoch: which of that name.
        start: where this recorder began.
        end: where it will end; None: it follows the topic.
        next: the next offset to be written down.
        recorded: messages written down by this recorder.
        missing: messages that were gone.
    """

    topic: str
    epoch: int
    start: int
    end: int | None
    next: int
    recorded: int = 0
    missing: int = 0


def record(
    client: blocking.Client,
    topic: str,
    root: Path,
    *,
    follow: bool = False,
    tell: Callable[[Progress], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Progress:
    """Write down what a topic has and the recording has not.

    Args:
        client: at the topic's broker.
        topic: which one.
        root: the recording's folder; see `recording`.
        follow: go on with what comes, until `stopping`.
        tell: called when there is something to tell, and first of all.
        stopping: asked a few times a second whether to come to an end.

    Raises:
        NoSuchRecordedTopic: there is none of that name.
        CannotRecord: another program records it to that folder, or the folder has other files.
    """
    state = client.topic(topic)
    if state is None:
        raise NoSuchRecordedTopic(f"there is no topic {topic}; see: zaichik topics")
    epoch, end = state["epoch"], None if follow else state["next_offset"]
    with Recording.open(root, topic) as recording:
        parts = recording.parts()
        ends = [part.end for part in parts if part.epoch == epoch]
        if parts and not ends:
            logger.warning("%s is another topic than the one recorded before: the broker was restarted since", topic)
        start = max(ends, default=state["head"])
        progress = Progress(topic, epoch, start, end, start)
        tell(progress)
        if start == end:
            return progress
        with client.subscribe(topic, start=start, until=end, epoch=epoch) as subscription:
            _write_down(subscription, recording, progress, tell, stopping)
    return progress


def _write_down(
    subscription: blocking.Subscription,
    recording: Recording,
    progress: Progress,
    tell: Callable[[Progress], None],
    stopping: Callable[[], bool],
) -> None:
    flushed = time.monotonic()
    while not subscription.ended and not stopping():
        for item in subscription.fetch(timeout=POLL_SECONDS):
            if isinstance(item, Lagged):
                progress.missing += item.count
            else:
                recording.add(progress.epoch, [item])
                progress.recorded += item.batch.count
        progress.next = subscription.next
        tell(progress)
        if time.monotonic() - flushed > FLUSH_SECONDS and progress.end is None:
            recording.flush()
            flushed = time.monotonic()
