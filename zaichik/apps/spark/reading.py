"""Reading a range of a topic's offsets: what tables and streams have in common.

The driver asks the broker where a topic begins and ends, and cuts that into ranges. Every range is
a Spark task: a worker connects, reads it, and hands on what came as Arrow record batches. The
broker ends the subscription at the range's end by itself. Ranges are sent to the workers, so they
hold names and numbers, never a connection.

If some of a range is gone by the time it is read (evicted, or expired), reading fails and says how
many messages: half an answer that looks like a whole one is worse than none. With `onLag=skip` they
are left out, and a warning is in the log. It is the same with deletions of a table's keys that went
before they could be read (TAB-5): what was read before may have rows that are no more.

A durable topic survives its broker, so a task waits for a broker that is restarted, before it reads
and while it does. Other topics are gone with their broker: there is nothing to wait for.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from zaichik import ConnectFailed, DeletionsMissed, Lagged, ZaichikError
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.columns import record_batch
from zaichik.apps.spark.errors import without_traceback
from zaichik.apps.spark.options import MESSAGES_A_TASK, Options
from zaichik.client.client import RECONNECT_SECONDS
from zaichik.client.inbox import check_end
from zaichik.client.messages import Missed, StartAt
from zaichik_protocol import Messages

logger = logging.getLogger("zaichik.spark.reading")

RETRY_SECONDS = 0.1  # between two attempts to connect to a broker that is restarted


class CannotRead(ZaichikError):
    """The topic is not there, is another one, or some of it is gone."""


class TopicIsGone(CannotRead):
    """The topic is not there, or is another one."""


@dataclass(frozen=True)
class Range(InputPartition):
    """What one task reads: the offsets from `start` to `end - 1` of the topic with that epoch.

    Attributes:
        is_durable: whether the topic survives a restart of its broker.
        known_below: deletions of a table below that offset are nobody's loss: whoever reads this
            holds nothing older, or has been told.
        given_up: offsets of the topic that have no message, because a repair or a restore has given
            them up: there may be 2^40 of those, and no task is made for them.
    """

    topic: str
    epoch: int
    start: int
    end: int
    is_durable: bool = False
    known_below: int = 0
    given_up: int = 0

    def split(self, parts: int | None) -> list["Range"]:
        """Returns the same offsets in at most this many ranges of similar size, none of them empty.

        Args:
            parts: how many; None: one for each `MESSAGES_A_TASK`.
        """
        count = self.end - self.start
        there = max(count - self.given_up, 1)
        parts = parts or -(-there // MESSAGES_A_TASK)
        edges = [self.start + count * part // parts for part in range(parts + 1)]
        return [
            replace(self, start=start, end=end) for start, end in pairwise(edges) if start < end
        ]


def tasks(wholes: list[Range], partitions: int | None) -> list[Range]:
    """Returns what is read of each topic, in ranges.

    There is at least one range: Spark makes an empty task of none.
    """
    return [part for whole in wholes for part in whole.split(partitions)] or wholes[:1]


def read_range(
    wanted: Range, options: Options, schema: StructType, *, reconnect: float = RECONNECT_SECONDS
) -> Iterator[pa.RecordBatch]:
    """The messages of a range as record batches, one for each round of credit.

    Args:
        wanted: the range.
        options: the broker, and what to do about lag.
        schema: the columns.
        reconnect: seconds to keep trying after the connection was lost; of a durable topic, always
            the client's.

    Raises:
        CannotRead: some are gone, or deletions are, and `onLag` is fail.
        TopicShrunk: the topic ends before the range does.
    """
    if wanted.start == wanted.end:
        return
    with (
        without_traceback(),
        connected(wanted, options, reconnect) as client,
        client.subscribe(
            wanted.topic, start=wanted.start, until=wanted.end, epoch=wanted.epoch
        ) as subscription,
    ):
        check_end(wanted.topic, subscription.live, wanted.end)
        while not subscription.ended:
            items = subscription.fetch()
            if options.on_lag == "fail":
                _check_whole(wanted, items)
            if frames := [item for item in items if isinstance(item, Messages)]:
                yield record_batch(wanted.topic, frames, schema)


def _check_whole(wanted: Range, items: list[Messages | Missed]) -> None:
    """Refuse to go on without messages that are gone, or deletions."""
    for item in items:
        match item:
            case Lagged():
                raise lost(item)
            case DeletionsMissed() if item.below > wanted.known_below:
                raise deletions_lost(item)
            case _:
                pass


@contextmanager
def connected(wanted: Range, options: Options, reconnect: float) -> Iterator[AnyClient]:
    """A client of the broker that the range was planned with."""
    patience = RECONNECT_SECONDS if wanted.is_durable else 0
    until = time.monotonic() + patience
    with ExitStack() as stack:
        while True:
            connecting = options.connect(max(reconnect, patience))
            try:
                client = stack.enter_context(connecting)
                break
            except ConnectFailed:
                if time.monotonic() >= until:
                    raise
                time.sleep(RETRY_SECONDS)
        yield client


def lost(gone: Lagged, why: str = "") -> CannotRead:
    """The error for messages that are gone; `why` is said before what became of them."""
    if gone.count == 1:
        return CannotRead(
            f"1 message of {gone.topic} is gone (offset {gone.start}): {why}the broker kept "
            "another in its place, or its time was over. To go on without it: onLag=skip"
        )
    return CannotRead(
        f"{gone.count:,} messages of {gone.topic} are gone (offsets {gone.start} to "
        f"{gone.end - 1}): {why}the broker kept others in their place, or their time was over. To "
        "go on without them: onLag=skip"
    )


def deletions_lost(gone: DeletionsMissed) -> CannotRead:
    """The error for tombstones that are gone, so that rows that were read may be deleted."""
    return CannotRead(
        f"keys of {gone.topic} may have been deleted unseen: tombstones below offset {gone.below} "
        "were gone before they could be read. To be exact, begin anew, with a new checkpoint and "
        "without what the sink has; keep tombstones for longer (zaichik create --tombstones 7d). "
        "To go on without them: onLag=skip"
    )


def state_of(client: AnyClient, topic: str, epoch: int | None) -> Mapping[str, Any]:
    """Returns what the broker says about a topic.

    Raises:
        TopicIsGone: it does not exist, or has another epoch.
    """
    state = client.topic(topic)
    if state is None:
        raise TopicIsGone(f"there is no topic {topic!r}; see: zaichik topics")
    if epoch not in (None, state["epoch"]):
        event = "The broker was restarted, or the topic was deleted and created again"
        if is_durable(state):
            event = "The topic was deleted and created again"
        raise other_epoch(topic, epoch, int(state["epoch"]), event)
    return state


def other_epoch(topic: str, known: int | None, now: int, event: str) -> TopicIsGone:
    """The error for a topic that is not the one that was read before; `event` is how that came."""
    return TopicIsGone(
        f"{topic} is another topic than the one that was read before: its epoch is {now}, not "
        f"{known}. "
        f"{event} since, and offsets start again at 0. Begin with a new checkpoint, and mind "
        "the sink: "
        "what it has was of the topic before. A table that is overwritten, or merged by key, "
        "is filled again. "
        "Files and tables that are appended to keep the old rows, so take a new folder or "
        "table, or tell the two "
        "apart by a column of your own"
    )


def check_table(state: Mapping[str, Any]) -> None:
    """Refuse a topic that is no table.

    Raises:
        CannotRead: it is none.
    """
    if not state["settings"].get("table"):
        raise CannotRead(
            f"{state['name']} is not a table, so it has no current state and no deletions: leave "
            "out the option table"
        )


def is_durable(state: Mapping[str, Any]) -> bool:
    """Whether a topic is on its broker's disk."""
    return bool(state["settings"].get("durable"))


def position(client: AnyClient, state: Mapping[str, Any], at: StartAt) -> int:
    """The offset that a start or end means in a topic.

    Raises:
        CannotRead: it is beyond the topic's end.
    """
    topic, head, next_offset = state["name"], state["head"], state["next_offset"]
    match at:
        # The head may be too early: old messages go with their file.
        case "earliest" if is_durable(state):
            return _start_of(client, topic, at)
        case "earliest":
            return int(head)
        case "latest":
            return int(next_offset)
        case int() if at > next_offset:
            raise CannotRead(
                f"{topic} ends before offset {next_offset}, so there is no {at} in it yet"
            )
        case int():
            return at
        case _:  # a time; the broker knows which offset that is
            return _start_of(client, topic, at)


def _start_of(client: AnyClient, topic: str, at: StartAt) -> int:
    """The offset at which a subscription that starts there begins."""
    with client.subscribe(topic, start=at, until=0) as subscription:
        return subscription.start


def whole(
    state: Mapping[str, Any], start: int, end: int, on_lag: str, known_below: int = 0
) -> Range:
    """These offsets of a topic, without those that are gone already.

    Args:
        state: the topic's.
        start: the first offset.
        end: the offset after the last one.
        on_lag: see `Options`.
        known_below: see `Range`.

    Raises:
        CannotRead: some are, or deletions are, and `on_lag` is "fail".
    """
    topic, first = state["name"], min(int(state["head"]), end)
    if start < first:
        gone = Lagged(topic, start, first)
        if on_lag == "fail":
            raise lost(gone)
        what = f"{gone.count:,} messages are"
        if gone.count == 1:
            what = "1 message is"
        last = first - 1
        logger.warning("%s: %s gone and left out (offsets %d to %d)", topic, what, start, last)
        start = first
    deleted_below = int(state.get("deleted_below", 0))
    if start < min(deleted_below, end) and known_below < deleted_below:
        missed = DeletionsMissed(topic, deleted_below)
        if on_lag == "fail":
            raise deletions_lost(missed)
        logger.warning(
            "%s: keys may have been deleted unseen, below offset %d", topic, deleted_below
        )
        known_below = deleted_below
    epoch = int(state["epoch"])
    given_up = int(state.get("damaged", 0))
    return Range(topic, epoch, start, max(start, end), is_durable(state), known_below, given_up)
