"""Records a topic: from the end of the recording to the current end of the topic, or continuously.

Messages that are gone when their turn comes, because they were not recorded in time, are counted:
nothing is lost in silence.

With a name, the broker keeps what is not recorded yet. The name's position is committed explicitly,
after a file is complete, and never says what is recorded: that say the files. So a recorder that is
killed between the two is sent again what is in its last file, and leaves it out. A position beyond
the end of the files would mean that messages are in neither, and files beyond the topic's end that
its next messages are taken for recorded ones: then the recorder does not begin.
"""

import logging
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zaichik import (
    DeletionsMissed,
    Lagged,
    Message,
    OffsetAhead,
    TakenOver,
    ZaichikError,
    blocking,
)
from zaichik.apps.recording.archive import OBJECT_BYTES, OBJECT_MESSAGES, Archive
from zaichik.apps.recording.folders import JOURNAL_PREFIX
from zaichik.apps.recording.parts import CannotRecord
from zaichik.apps.recording.recording import Recording
from zaichik.apps.recording.stores import Store
from zaichik.client.inbox import check_end, end_of
from zaichik.client.messages import rest_of
from zaichik_protocol import FOREVER, Messages, Overflow

logger = logging.getLogger("zaichik.recording.recorder")

POLL_SECONDS = 0.25  # between two calls of `stopping`
FLUSH_SECONDS = 30.0  # a followed topic's messages appear in a file after this time at most
EVERY_SECONDS = 300.0  # the same, in an object store
NAME = "archive"  # under which a followed topic keeps what is not in the object store yet

Sink = Recording | Archive


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
    root: Path | Store,
    *,
    follow: bool = False,
    name: str = "",
    every: float = FLUSH_SECONDS,
    tell: Callable[[Progress], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Progress:
    """Record the messages of a topic that the recording does not have yet.

    Returns the final progress.

    Args:
        client: connected to the topic's broker.
        topic: the topic's name.
        root: the recording's folder, or its place in an object store; see `recording`.
        follow: go on with new messages, until `stopping`.
        name: under which the broker keeps what is not recorded yet (CMT-3); "": it does not.
        every: seconds after which a followed topic's messages appear in a file.
        tell: called with the progress, at the start and whenever it changes.
        stopping: called a few times a second; the recorder ends when it returns true.

    Raises:
        NoSuchRecordedTopic: there is no topic of that name.
        CannotRecord: another program is recording it into that folder, or under that name; or the
            folder has other files; or the name is ahead of the recording, or this of the topic.
        StoreUnavailable: the object store cannot be used.
        TopicShrunk: the topic ends earlier than the broker had told.
    """
    state = state_of(client, topic)
    epoch, end = state["epoch"], None if follow else state["next_offset"]
    with _opened(root, topic, _settings(client, topic), stopping) as sink:
        start = _end_of_recording(sink, state)  # what is gone already is counted as lag
        sink.complete = start
        progress = Progress(
            topic, epoch, start, end, start, retention_ms=state["settings"]["retention_ttl_ms"]
        )
        tell(progress)
        if start == end and not name:
            return progress
        if name:
            _warn_of_loss(state)
        terms = _terms(client, name)
        try:
            with client.subscribe(
                topic, start=start, until=end, epoch=epoch, **terms
            ) as subscription:
                if end is not None:
                    check_end(topic, subscription.live, end)
                progress.start = progress.next = sink.complete = _start(
                    subscription, sink, state, start, root
                )
                most_held = _most_held(state, client.welcome.max_credit)
                recorder = _Recorder(subscription, sink, progress, every, most_held)
                recorder.run(tell, stopping)
        except OffsetAhead as error:
            raise _ahead(topic, state_of(client, topic)["next_offset"], start, root) from error
        except TakenOver as error:
            # What it has read was sent to the other one as well.
            sink.discard()
            raise CannotRecord(
                f"another program has taken over the name {name!r} in {topic}: what is not "
                "recorded yet is sent to that one. Let one program record the topic, or give each "
                "a name of its own (--name)"
            ) from error
    return progress


def _opened(
    root: Path | Store,
    topic: str,
    settings: Mapping[str, int] | None,
    stopping: Callable[[], bool],
) -> AbstractContextManager[Sink]:
    if isinstance(root, Store):
        return Archive.open(root, topic, settings, stopping)
    return Recording.open(root, topic, settings)


def _end_of_recording(sink: Sink, state: Mapping[str, Any]) -> int:
    """Returns the offset after the last one that is recorded; 0 if there is none."""
    parts = sink.parts()
    ends = [part.end for part in parts if part.epoch == state["epoch"]]
    if parts and not ends:
        event = "the broker was restarted"
        if state["settings"].get("durable"):
            event = "it was deleted and created again"
        logger.warning(
            "%s is another topic than the one recorded before: %s since", state["name"], event
        )
    return max(ends, default=0)


def _terms(client: blocking.Client, name: str) -> dict[str, Any]:
    """Returns how to subscribe, so that a file is full before the broker waits for a commit."""
    if not name:
        return {}
    # The broker may settle a part of a file with the next one (CMT-1).
    return {
        "name": name,
        "commit": "explicit",
        "credit": min(5 * OBJECT_MESSAGES // 2, client.welcome.max_credit),
        "credit_bytes": 5 * OBJECT_BYTES // 2,
    }


def _most_held(state: Mapping[str, Any], max_credit: int) -> tuple[int, int]:
    """Returns how many messages and bytes may be in no file yet, if a name keeps them.

    A lossless topic that is full of them waits for a commit, and so would its publishers: half of
    it is to stay free. So it is with what may be in flight.
    """
    settings = state["settings"]
    messages, size = min(OBJECT_MESSAGES, max_credit // 2), OBJECT_BYTES
    if settings.get("overflow") != Overflow.REJECT:
        return messages, size
    # In a durable topic they are on the disk.
    if settings.get("durable"):
        return messages, min(size, settings["log_bytes"] // 2)
    return min(messages, settings["capacity"] // 2), min(size, settings["max_bytes"] // 2)


def _warn_of_loss(state: Mapping[str, Any]) -> None:
    """Say what a name does not keep: it holds back neither retention nor eviction (RET-5)."""
    settings = state["settings"]
    is_lossless = settings.get("overflow") == Overflow.REJECT
    if is_lossless and settings["retention_ttl_ms"] == FOREVER:
        return
    logger.warning(
        "%s: messages that expire or are evicted before they are recorded will be missing; only "
        "a topic with --overflow reject and --retention forever waits",
        state["name"],
    )


def _start(
    subscription: blocking.Subscription[Message],
    sink: Sink,
    state: Mapping[str, Any],
    start: int,
    root: Path | Store,
) -> int:
    """Returns the offset after the last one that is recorded, now that the topic is subscribed to.

    Refuses a name that was used for another recording, a recording that has lost files, and a
    topic that has lost messages.

    Args:
        subscription: from `start` on, or where its name is.
        sink: the recording.
        state: what the broker has said about the topic.
        start: that offset, before the topic was subscribed to.
        root: where the recording is.

    Raises:
        CannotRecord: the position is ahead of what is recorded, or that is ahead of the topic.
    """
    topic, name = subscription.topic, subscription.name
    # A name's position stands where it was, also beyond the topic's end as `start` would have it.
    if start > subscription.live:
        raise _ahead(topic, subscription.live, start, root)
    if not subscription.resumed or subscription.committed <= start:
        return start
    # The recorder that this one has taken over may have completed an object in between.
    start = _end_of_recording(sink, state)
    if subscription.committed <= start:
        return start
    place = _place(root)
    words = shlex.join(["zaichik", "subscribe", "--name", name, "--forget", "--", topic])
    raise CannotRecord(
        f"the name {name!r} is at offset {subscription.committed} of {topic}, and {place} ends at "
        f"{start}: it was used for another place, or files are gone. Take another name (--name), "
        f"or begin where {place} ends: {words}"
    )


def _ahead(topic: str, live: int, start: int, root: Path | Store) -> CannotRecord:
    place = _place(root)
    return CannotRecord(
        f"{topic} ends before offset {live}, and {place} has it up to {start} already: an older "
        "copy of the topic was restored, or there are files of another broker. What is published "
        "next would be taken for recorded: record the topic into another place (--into)"
    )


def _place(root: Path | Store) -> str:
    return root.place if isinstance(root, Store) else str(root)


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


class _Recorder:
    """Moves messages from a subscription into files.

    Args:
        subscription: from the end of the recording on, or, resumed, from before it.
        sink: makes the files.
        progress: kept current.
        every: seconds after which what was read appears in a file, if the topic is followed.
        most_held: messages and bytes that are in no file yet, if the subscription has a name.
    """

    def __init__(
        self,
        subscription: blocking.Subscription[Message],
        sink: Sink,
        progress: Progress,
        every: float,
        most_held: tuple[int, int],
    ) -> None:
        self._subscription = subscription
        self._sink = sink
        self._progress = progress
        self._every = every
        self._most_messages, self._most_bytes = most_held
        # What lies between this and the next message is holes.
        self._reached = progress.start
        # Read since a file was complete that ends here.
        self._held_bytes, self._held_from = 0, progress.start

    def run(self, tell: Callable[[Progress], None], stopping: Callable[[], bool]) -> None:
        """Record until the subscription has ended, or it is time to stop."""
        subscription, progress = self._subscription, self._progress
        follows = progress.end is None
        flushed = time.monotonic()
        while not subscription.ended and not stopping():
            for item in subscription.fetch(timeout=POLL_SECONDS):
                self._take(item)
            progress.next = max(subscription.next, progress.start)
            tell(progress)
            if follows and time.monotonic() - flushed > self._every:
                self._sink.flush()
                self._sink.merge()
                flushed = time.monotonic()
            self._settle()
        if subscription.name:
            self._sink.flush()
            self._settle()

    def _take(self, item: Messages | Lagged | DeletionsMissed) -> None:
        progress = self._progress
        match item:
            case Lagged():
                start = max(item.start, progress.start)
                progress.missing += max(0, item.end - start)
                self._reached = max(self._reached, item.end)
                if progress.end is None and start < item.end:
                    logger.warning(
                        "%s: messages were gone before they could be recorded (offsets %d to %d)",
                        progress.topic, start, item.end - 1,
                    )  # fmt: skip
            case DeletionsMissed():
                progress.deletions_missed = item.below
            case Messages():
                # What a name keeps may be recorded already.
                frame = rest_of(item, progress.start)
                if frame is None:
                    return
                self._sink.add(progress.epoch, [frame], self._reached)
                progress.recorded += frame.batch.count
                self._reached = end_of(frame)
                self._held_bytes += len(frame.batch.data)

    def _settle(self) -> None:
        """Have the broker keep no longer what is in complete files."""
        subscription, sink = self._subscription, self._sink
        if not subscription.name:
            return
        held = self._reached - sink.complete
        if self._held_bytes >= self._most_bytes or held >= self._most_messages:
            sink.flush()
        if sink.complete > self._held_from:
            self._held_bytes, self._held_from = 0, sink.complete
        done = min(sink.complete, subscription.next)
        if done > subscription.committed:
            subscription.commit_nowait(done - 1)
