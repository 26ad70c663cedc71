"""`option("subscribePattern", "orders.*")`: a stream of all topics that match, later ones included.

Before each micro-batch the driver has a look which topics there are. One that is new is read from
its beginning. One that has gone, or was made again, is a gap in what the query reads: an error, or,
with `onLag=skip`, said in the log and left out from there on. The checkpoint has the topics that
the query reads, each with its epoch, so that this is noticed after a restart, too.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from zaichik import EpochChanged, NoSuchTopic, SubscriptionLost, blocking
from zaichik.apps.recording.matching import MatchingTopics
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.errors import without_traceback
from zaichik.apps.spark.matching_of_shards import MatchingOfShards
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import CannotRead, Range, TopicIsGone
from zaichik.apps.spark.stream import Offset, TopicStreamReader
from zaichik.client.patterns.pattern import Pattern

logger = logging.getLogger("zaichik.spark.following")

ATTEMPTS = 10  # to plan a micro-batch of topics that go meanwhile


class FollowingStreamReader(TopicStreamReader):
    """Reads all topics that match a pattern."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._pattern = Pattern(options.pattern)
        self._matching: MatchingTopics | MatchingOfShards | None = None
        # By name, the epochs of the topics of the last look.
        self._there: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """See `TopicStreamReader`."""
        return super().__getstate__() | {"_matching": None}

    @property
    def _skips(self) -> bool:
        return self.options.on_lag == "skip"

    # -- which topics there are ------------------------------------------------------------------

    def _topics(self) -> tuple[str, ...]:
        """Those of the last look; if the end is fixed, those that are there of these."""
        there = self._there
        if self._last is None:
            return tuple(sorted(there))
        return tuple(
            name for name, place in self._last.items() if there.get(name) == place["epoch"]
        )

    def _look(self) -> None:
        self._again(self._look_once)

    def _look_once(self) -> None:
        if self._matching is None:
            self._matching = _matching(self._connection(), self.options.pattern)
        matching = self._matching
        matching.look()
        self._there = dict(matching.there)
        unseen = matching.unseen
        if not unseen:
            return
        matching.unseen = []
        names = ", ".join(sorted(set(unseen)))
        what = f"topics that match {self._pattern.text!r} came and went unread ({names})"
        if not self._skips:
            raise CannotRead(f"{what}. To go on without them: onLag=skip")
        logger.warning("%s", what)

    def _still_there(self, start: Offset) -> Offset:
        """Returns where the topics stand that are still there.

        Raises:
            CannotRead: one has gone, and `onLag` is fail.
        """
        there = self._there
        left = {}
        for topic, place in start.items():
            if there.get(topic) == place["epoch"]:
                left[topic] = place
                continue
            if not self._pattern.matches(topic):
                raise CannotRead(
                    f"the checkpoint is of {topic}, too, which does not match "
                    f"{self._pattern.text!r}: give the query a checkpointLocation of its own, or a "
                    "pattern that matches it"
                )
            what = f"{topic} is gone"
            if topic in there:
                what = f"{topic} was deleted and created again"
            self._leave(f"{what}; it was read up to offset {place['next']}")
        # What was noted of topics that have gone, or were made again, is of no use.
        for topic, place in list(self._added.items()):
            if there.get(topic) != place["epoch"]:
                del self._added[topic]
        return left

    def _leave(self, what: str) -> None:
        if not self._skips:
            raise CannotRead(f"{what}. To go on with the other topics: onLag=skip")
        logger.warning("%s, and is left out", what)

    # -- what Spark asks -------------------------------------------------------------------------

    @without_traceback()
    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's)
        """See `TopicStreamReader`."""
        if self._initial is None:
            self._look()
        return super().initialOffset()

    @without_traceback()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's)
        """See `TopicStreamReader`: of the topics that there are now."""
        for _ in range(ATTEMPTS):
            self._look()
            try:
                return super().latestOffset(self._still_there(start), limit)
            except TopicIsGone as gone:
                # Since the look.
                if not self._skips:
                    raise
                last = gone
        raise last

    @without_traceback()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """See `TopicStreamReader`."""
        self._look()
        super().prepareForTriggerAvailableNow()

    @without_traceback()
    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 (Spark's)
        """See `TopicStreamReader`."""
        try:
            return super().reportLatestOffset()
        except TopicIsGone:
            return None

    @without_traceback()
    def partitions(self, start: Offset, end: Offset) -> list[Range]:
        """See `TopicStreamReader`. A micro-batch of no topics is one task without messages."""
        return super().partitions(start, end) or [_nothing("")]

    def _wholes(
        self, topic: str, start: Mapping[str, int] | None, end: Mapping[str, int]
    ) -> list[Range]:
        """See `TopicStreamReader`. A topic may have gone since the micro-batch was planned."""
        # It was made again, and is read from its beginning.
        if start is not None and start["epoch"] != end["epoch"]:
            start = None
        try:
            return super()._wholes(topic, start, end)
        except TopicIsGone as gone:
            self._leave(gone.message)
            return [_nothing(topic)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `TopicStreamReader`. A topic may go while it is read."""
        assert isinstance(partition, Range)  # noqa: S101 (it is one of those above)
        try:
            yield from super().read(partition)
        except (EpochChanged, NoSuchTopic, SubscriptionLost) as gone:
            self._leave(f"{partition.topic} is gone: {gone.message}")

    def _hold(self, places: Offset) -> None:
        """See `TopicStreamReader`: in the topics that are still there."""
        there = self._there
        left = {name: place for name, place in places.items() if there.get(name) == place["epoch"]}
        try:
            super()._hold(left)
        except (EpochChanged, NoSuchTopic) as gone:
            # Since the last look: the next one reports it.
            logger.info("%s", gone.message)

    def stop(self) -> None:
        """See `TopicStreamReader`."""
        if self._matching is not None:
            self._matching.close()
            self._matching = None
        super().stop()


def _matching(client: AnyClient, pattern: str) -> MatchingTopics | MatchingOfShards:
    """Returns what looks at the topics of a broker, or of all shards of a cluster."""
    if isinstance(client, blocking.Cluster):
        return MatchingOfShards(client, pattern)
    return MatchingTopics(client, Pattern(pattern))


def _nothing(topic: str) -> Range:
    """Returns a range without messages."""
    return Range(topic, 0, 0, 0)
