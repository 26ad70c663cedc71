"""Records several topics, those that match patterns among them, which come and go.

Each topic has a recorder, which runs in a thread of its own, over a connection of its own. Topics
that are named must be there, and what goes wrong with one ends all. Topics of a pattern may go:
what was recorded of them is kept, and it is said. If they are followed, those that come later are
recorded from their first message on.
"""

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from zaichik import EpochChanged, NoSuchTopic, SubscriptionLost
from zaichik.apps.recording.matching import MatchingTopics
from zaichik.apps.recording.recorder import NoSuchRecordedTopic, Progress

POLL_SECONDS = 0.25  # between two looks at what has come, and at the recorders
MOST_FOLLOWED = 100  # topics of patterns: each takes a thread, a connection and an open file
_GONE = (EpochChanged, NoSuchTopic, SubscriptionLost, NoSuchRecordedTopic)

Record = Callable[[str], Progress | None]

logger = logging.getLogger("zaichik.recording.recorders")


@dataclass(slots=True)
class Recorded:
    """What has become of the topics.

    Attributes:
        progress: of each topic that was recorded to its end, or until it was time to stop.
        gone: topics of a pattern that have gone while they were recorded.
        unseen: names of topics that came and went before they could be recorded.
        unread: topics that were not recorded, because there were too many.
        failures: why others ended.
    """

    progress: list[Progress] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    failures: list[BaseException] = field(default_factory=list)


class Recorders:
    """The recorders of some topics.

    Args:
        record: records a topic of that name, and returns its progress; None if it has not begun.
        names: of topics that must be there.
        matching: for each pattern, the topics that match.
        follow: whether recorders go on until they are stopped, and topics may come later.

    Attributes:
        failed: set when a recorder has failed, or is to end for another reason.
    """

    def __init__(
        self,
        record: Record,
        names: Sequence[str],
        matching: Collection[MatchingTopics],
        *,
        follow: bool,
    ) -> None:
        self.failed = threading.Event()
        self._record = record
        self._names = names
        self._matching = matching
        self._follow = follow
        self._found = Recorded()
        self._running: dict[Future[Progress | None], str] = {}
        # Topics of patterns that have a recorder, or had one: the epoch.
        self._begun: dict[str, int] = {}

    def run(self, stopping: Callable[[], bool]) -> Recorded:
        """Record until all recorders have ended; if topics are followed, until it is time to stop.

        Args:
            stopping: whether it is time to stop.
        """
        at_once = 1
        if self._follow:
            at_once = max(1, len(self._names) + MOST_FOLLOWED * bool(self._matching))
        with ThreadPoolExecutor(at_once) as threads:
            try:
                self._run(threads, stopping)
            except BaseException:
                # Otherwise the recorders that follow would go on, and be waited for.
                self.failed.set()
                raise
        return self._found

    def _run(self, threads: ThreadPoolExecutor, stopping: Callable[[], bool]) -> None:
        for name in self._names:
            self._begin(threads, name)
        self._look(threads)
        while self._running or self._may_come(stopping):
            if not self._running:
                # Nothing matches yet.
                self.failed.wait(POLL_SECONDS)
            done, _ = wait(self._running, POLL_SECONDS, FIRST_COMPLETED)
            for recorder in done:
                self._ended(recorder)
            if self._may_come(stopping):
                self._look(threads)

    def _may_come(self, stopping: Callable[[], bool]) -> bool:
        """Returns whether topics that come are still to be recorded."""
        return self._follow and bool(self._matching) and not stopping()

    def _begin(self, threads: ThreadPoolExecutor, name: str) -> None:
        self._running[threads.submit(self._record, name)] = name

    def _look(self, threads: ThreadPoolExecutor) -> None:
        """Begin with the topics that have come."""
        running = set(self._running.values())
        for matching in self._matching:
            matching.look()
            for name in matching.unseen:
                logger.warning("%s: came and went before it could be recorded", name)
            self._found.unseen += matching.unseen
            matching.unseen = []
            for name, epoch in matching.there.items():
                # The recorder of an earlier topic of that name may not have ended yet.
                if name in running or name in self._names or self._begun.get(name) == epoch:
                    continue
                if self._follow and len(running) >= len(self._names) + MOST_FOLLOWED:
                    self._leave_out(name)
                    continue
                self._found.unread.discard(name)
                self._begun[name] = epoch
                running.add(name)
                self._begin(threads, name)

    def _leave_out(self, name: str) -> None:
        """Say once that a topic waits until another one has gone."""
        if name not in self._found.unread:
            self._found.unread.add(name)
            logger.warning(
                "%s: is not recorded, because no more than %d of a pattern are followed at once; "
                "record some of them with another program",
                name,
                MOST_FOLLOWED,
            )

    def _ended(self, recorder: Future[Progress | None]) -> None:
        name = self._running.pop(recorder)
        failure = recorder.exception()
        if failure is None:
            progress = recorder.result()
            if progress is not None:
                self._found.progress.append(progress)
        elif isinstance(failure, _GONE) and name in self._begun:
            self._found.gone.append(name)
            logger.warning("%s: the topic is gone; what was recorded of it is kept", name)
        else:
            # The others end, and what they have is complete.
            self._found.failures.append(failure)
            self.failed.set()
