"""`spark.readStream.format("zaichik")`: a topic as a table that grows.

The query's position is in Spark's checkpoint: for each topic its epoch and the next offset. The
broker keeps nothing for it, unless it has a name; see `holding`. So a query that was killed
continues exactly where its last finished micro-batch ended, and Spark repeats a micro-batch that
was not finished with the very same offsets.

The driver asks the broker for the topics' ends all the time, some sixty times a second when nothing
happens, so it keeps one connection. What a micro-batch reads is then read like any table; see
`reading`.

Three things end a stream with an error: the topic has another epoch (the broker was restarted, or
the topic was created again, and what the checkpoint counts is no more); the topic ends before what
the checkpoint counts (an older copy of a durable topic was restored); and messages were gone before
they could be read. With `onLag=skip` the stream goes on without those. Their exact number is in the
query's progress: the distance of a micro-batch's offsets less its rows.

The position of a stream with a name follows what Spark has finished. Spark says so in two ways. It
asks for the end of the next micro-batch, beginning with the end of the last one, which is in the
checkpoint by then; and it calls `commit`, but only when there is something for another micro-batch.
That is too late for a full topic: nothing can be published to it before the position has moved.

A stream of a table that begins with the earliest message has missed no deletion that was gone by
then: it holds nothing yet. So until it has come that far, its position says below which offset
deletions are nobody's loss. Later, a deletion that is gone is like a message that is gone.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from zaichik import ConnectionLost
from zaichik.apps.recording.pieces import Piece
from zaichik.apps.spark.archived import covers, position_in, ranges, read, recorded_of
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.columns import check
from zaichik.apps.spark.errors import BadOption, without_traceback
from zaichik.apps.spark.holding import Positions
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import (
    CannotRead,
    Range,
    check_table,
    other_epoch,
    state_of,
    tasks,
)
from zaichik.client.messages import StartAt

# Of each topic the epoch, the next offset, and perhaps `known_below`: see `Range`.
Offset = dict[str, dict[str, int]]
Result = TypeVar("Result")


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics continuously."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check(schema, has_deletions=options.table == "changes")
        if options.table == "latest":
            raise BadOption(
                "a stream has a table's changes, and not its state: give table=changes, and merge "
                "them by key; a row with deleted=true deletes its key"
            )
        if {options.end, *options.ends.values()} != {"latest"}:
            raise BadOption(
                "a stream has no end; leave the option out, or read a table: spark.read"
            )
        self.options = options
        self.schema = schema
        self._connected: Any = None  # the context manager of the client, once there is one
        self._client: AnyClient | None = None
        self._positions: Positions | None = None  # over that connection, if the stream has a name
        self._initial: Offset | None = None
        self._last: Offset | None = None  # where AvailableNow stops
        self._added: Offset = {}  # where topics begin that the checkpoint does not know
        self._waits_since: float | None = None  # when the first message came that waits for others
        # Of topics and their epochs, what the recording has, as of the last time it was listed.
        self._listed: dict[tuple[str, int], list[Piece]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For the workers: everything but the connection, and the names of all objects."""
        without: dict[str, Any] = {
            "_connected": None,
            "_client": None,
            "_positions": None,
            "_listed": {},
        }
        return self.__dict__ | without

    def _topics(self) -> Collection[str]:
        """Returns the names of the topics that are read now."""
        return self.options.topics

    @without_traceback()
    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's)
        """Where a query begins that has no checkpoint.

        Asked twice, so it is remembered: `latest` moves.
        """
        if self._initial is None:
            initial = {}
            epochs = {topic: self.options.epochs.get(topic) for topic in self._topics()}
            for topic, state in self._states(epochs).items():
                start = self.options.starts.get(topic, self.options.start)
                initial[topic] = self._beginning(state, start)
            self._initial = initial
            self._hold(initial)
        return self._initial

    def _beginning(self, state: Mapping[str, Any], at: StartAt) -> dict[str, int]:
        """Returns where a topic is begun with."""
        if self.options.table:
            check_table(state)
        recorded = self._recorded(state, 0, 0)
        start = position_in(self._connection(), state, at, self.options, recorded)
        place = {"epoch": int(state["epoch"]), "next": start}
        deleted_below = int(state.get("deleted_below", 0))
        if at in ("earliest", 0) and deleted_below > start and not recorded:
            place["known_below"] = deleted_below
        return place

    @without_traceback()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's)
        """Where the next micro-batch ends.

        Raises:
            CannotRead: the checkpoint is of other topics, or of more than they have.
        """
        if gone := sorted(start.keys() - set(self._topics())):
            raise CannotRead(
                f"the checkpoint is of {', '.join(gone)}, too, which the query does not read any "
                "more: add it, or give "
                "the query a checkpointLocation of its own"
            )
        known = self._with_added(start)
        if self._last is None:
            ends = self._ends(known)
        else:
            ends = {topic: self._last[topic] for topic in known}
        for topic, place in known.items():
            _check_follows(topic, place, ends[topic])
        self._hold(known)
        if self._last is None and self._is_too_few(known, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = self._past_gaps(_shared(known, ends, limit.max_rows), ends)
        return _with_known(known, ends)

    def _past_gaps(self, nearer: Offset, ends: Offset) -> Offset:
        """Returns the ends of a limited micro-batch, but none of them within a gap.

        A topic that was restored has a gap of 2^40 offsets. There are no messages in it, and a
        limit of them would cut it into so many micro-batches that none came to its end.
        """
        further = dict(nearer)
        for topic, place in nearer.items():
            if place == ends[topic]:
                continue
            state = self._states({topic: place["epoch"]})[topic]
            if state.get("damaged"):
                ask = partial(self._gap_end, topic, place["next"])
                further[topic] = place | {"next": self._again(ask)}
        return further

    def _gap_end(self, topic: str, offset: int) -> int:
        """Returns the first offset from that one on that was not given up."""
        verdicts = self._connection().explain(topic, offset=offset)["verdicts"]
        for verdict in verdicts:
            if verdict["fate"] == "damaged":
                return int(verdict["evidence"]["next"])
        return offset

    def _with_added(self, start: Offset) -> Offset:
        """Returns a checkpoint's offsets, and the beginnings of topics added to the query since."""
        topics = self._topics()
        new = set(topics) - start.keys() - self._added.keys()
        # Asked once: where a topic begins moves.
        for topic, state in self._states(dict.fromkeys(new)).items():
            self._added[topic] = self._beginning(state, "earliest")
        known = self._added | start
        return {topic: known[topic] for topic in topics}

    def _is_too_few(self, start: Offset, ends: Offset) -> bool:
        """Returns whether to wait for more: at most `maxTriggerDelay` after the first message."""
        count = sum(ends[topic]["next"] - start[topic]["next"] for topic in ends)
        if count == 0 or count >= self.options.min_messages:
            self._waits_since = None
            return False
        now = time.monotonic()
        self._waits_since = self._waits_since or now
        if now - self._waits_since < self.options.max_delay:
            return True
        self._waits_since = None
        return False

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's)
        """`maxMessagesPerTrigger`."""
        most = self.options.max_messages
        return super().getDefaultReadLimit() if most is None else ReadMaxRows(most)

    @without_traceback()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """Note where the topics end now: this run reads nothing beyond that."""
        self._last = self._ends({topic: {} for topic in self._topics()})

    @without_traceback()
    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 (Spark's)
        """The topics' ends, for the query's progress."""
        return self._ends({topic: {} for topic in self._topics()})

    @without_traceback()
    def partitions(self, start: Offset, end: Offset) -> list[Range]:
        """The ranges of a micro-batch."""
        # No run may have asked for the end of this micro-batch: an earlier one did not finish it.
        self._hold(start)
        wholes = [
            part
            for topic, place in end.items()
            for part in self._wholes(topic, start.get(topic), place)
        ]
        return tasks(wholes, self.options.partitions)

    def _wholes(
        self, topic: str, start: Mapping[str, int] | None, end: Mapping[str, int]
    ) -> list[Range]:
        """Returns what a micro-batch reads of a topic; `start` is None if it was added since."""
        if start is not None:
            _check_follows(topic, start, end)
        state = self._states({topic: end["epoch"]})[topic]
        first = start or self._beginning(state, "earliest")
        _check_end(topic, end["next"], state["next_offset"])
        known_below = first.get("known_below", 0)
        recorded = self._recorded(state, first["next"], end["next"])
        return ranges(self.options, recorded, state, first["next"], end["next"], known_below)

    def _recorded(self, state: Mapping[str, Any], start: int, end: int) -> list[Piece]:
        """Returns what the recording has of a topic.

        It is listed once, and again when the broker does not have what is read next. So a stream
        that keeps up asks the object store for nothing.
        """
        place = state["name"], int(state["epoch"])
        known = self._listed.get(place)
        gone = min(int(state["head"]), end)
        if known is None or not covers(known, start, gone):
            known = self._listed[place] = recorded_of(self._connection(), self.options, state)
        return known

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range."""
        assert isinstance(partition, Range)  # noqa: S101 (it is one of those above)
        return read(partition, self.options, self.schema)

    @without_traceback()
    def commit(self, end: Offset) -> None:
        """Note that Spark has finished everything below that.

        After a restart, it may say so again.
        """
        self._hold(end)

    def stop(self) -> None:
        """The query has ended."""
        if self._positions is not None:
            self._positions.close()
            self._positions = None
        if self._connected is not None:
            self._connected.__exit__(None, None, None)
            self._connected = self._client = None

    # -- the connection of the driver ------------------------------------------------------------

    def _ends(self, start: Mapping[str, Mapping[str, int]]) -> Offset:
        """The topics' ends; they must be the topics of `start` still."""
        epochs = {topic: place.get("epoch") for topic, place in start.items()}
        return {
            topic: {"epoch": state["epoch"], "next": state["next_offset"]}
            for topic, state in self._states(epochs).items()
        }

    def _states(self, epochs: Mapping[str, int | None]) -> dict[str, Mapping[str, Any]]:
        """Returns what the broker says about the topics now.

        A connection that was lost meanwhile is replaced.
        """
        return self._again(
            lambda: {
                topic: state_of(self._connection(), topic, epoch) for topic, epoch in epochs.items()
            }
        )

    def _hold(self, places: Offset) -> None:
        """Move the stream's positions there, if it has a name."""
        if self.options.name:
            self._again(partial(self._move, places))

    def _move(self, places: Offset) -> None:
        client = self._connection()
        self._positions = self._positions or Positions(client, self.options.name)
        for topic, place in places.items():
            self._positions.move(topic, place["epoch"], place["next"])

    def _again(self, function: Callable[[], Result]) -> Result:
        """Calls that, over a new connection if the last one was lost for good."""
        try:
            return function()
        except ConnectionLost:
            self.stop()
            return function()

    def _connection(self) -> AnyClient:
        if self._client is None:
            self._connected = self.options.connect()
            self._client = self._connected.__enter__()
        return self._client


def _check_follows(topic: str, known: Mapping[str, int], end: Mapping[str, int]) -> None:
    """Refuse to go on in another topic of that name, or where the topic has shrunk."""
    # With AvailableNow, the end was noted before anybody knew the checkpoint.
    if known["epoch"] != end["epoch"]:
        event = "The broker was restarted, or the topic was deleted and created again"
        raise other_epoch(topic, known["epoch"], end["epoch"], event)
    _check_end(topic, known["next"], end["next"])


def _check_end(topic: str, known: int, end: int) -> None:
    """Refuse to go on from an offset that a topic lacks: later, another message would have it."""
    if known > end:
        raise CannotRead(
            f"{topic} ends before offset {end}, and was read up to {known} before: an older copy "
            "of it was restored. "
            "Begin with a new checkpoint, and mind the sink, which has messages that the topic has "
            "no more"
        )


def _with_known(start: Offset, ends: Offset) -> Offset:
    """Returns these ends, and below which offset deletions are still nobody's loss."""
    after = {}
    for topic, end in ends.items():
        after[topic] = end
        known_below = start[topic].get("known_below", 0)
        if known_below > end["next"]:
            after[topic] = end | {"known_below": known_below}
    return after


def _shared(start: Offset, ends: Offset, most: int) -> Offset:
    """Returns how far this many messages reach.

    Topics get equal shares; what one cannot use goes to the others.
    """
    nearer = dict(ends)
    waiting = sorted(ends, key=lambda topic: ends[topic]["next"] - start[topic]["next"])
    for number, topic in enumerate(waiting):
        ahead = ends[topic]["next"] - start[topic]["next"]
        taken = min(ahead, -(-most // (len(waiting) - number)))
        nearer[topic] = ends[topic] | {"next": start[topic]["next"] + taken}
        most -= taken
    return nearer
