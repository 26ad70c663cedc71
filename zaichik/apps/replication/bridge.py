"""A bridge: copies a topic into a topic of Kafka, each message exactly once, and says how far.

Kafka says where to go on (see `position`), and the subscription `replica/kafka` is asked for what
comes from there. Each round is a transaction; after its commit, the watermark goes to the topic
`replicated/TOPIC`, and the name is committed. Both follow what is in Kafka and are never the truth:
whatever ends a bridge, wherever it was, the next one goes on after the last committed record.

It ends rather than write what does not continue what is there: another epoch, an offset that the
topic has not reached, or a name that is ahead of Kafka's data. It looks before it fences an earlier
bridge, so that one that was started by mistake ends nothing; and again afterwards.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from zaichik import (
    EpochChanged,
    NoSuchTopic,
    OffsetAhead,
    SubscriptionLost,
    TakenOver,
    ZaichikError,
    blocking,
)
from zaichik.apps.replication.destination import DEFAULT_REPLICATION, Destination, Place
from zaichik.apps.replication.errors import CannotReplicate, ProducerLost, Replaced, Stopped
from zaichik.apps.replication.position import CommittedEnd, Position
from zaichik.apps.replication.round import Round
from zaichik.apps.replication.servers import Servers, Waiting
from zaichik.apps.replication.source import NAME, Source, is_lossless
from zaichik.apps.replication.transactions import TIMEOUT_SECONDS, Transactions

logger = logging.getLogger("zaichik.replication.bridge")

POLL_SECONDS = 0.25  # how long it takes to notice that it is to stop, or was reconnected
LOOK_SECONDS = 1.0  # between two looks at the topic's end
LOG_SECONDS = 60.0  # between two lines of progress in the log
PAUSE_SECONDS = 1.0  # before another producer takes over from one that was lost


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a bridge is.

    Attributes:
        epoch: the topic's.
        next: the offset after the last one that Kafka has.
        end: the topic's next offset, a moment ago.
        missing: how many messages were gone before they could be read, since it was started.
    """

    epoch: int
    next: int
    end: int
    missing: int = 0

    @property
    def lag(self) -> int:
        """How many messages Kafka does not have yet."""
        return max(0, self.end - self.next)


class Bridge:
    """Copies one topic. Runs in a thread, and is stopped by an event.

    Args:
        client: connected to the broker.
        topic: the topic's name.
        servers: makes clients of Kafka.
        kafka_topic: the topic's name there.
        stop: set when it is to stop.
        create: whether to make the topic of Kafka if it is not there.
        replication: on how many of Kafka's servers it is.
        accepted: what may differ from what is asked for: see `acceptable`.
        tell: called with the progress, when the bridge has begun and whenever it changes.
        waiting: for a Kafka that is away.
        timeout_s: how long Kafka gives a transaction.

    Raises:
        CannotReplicate: the topic's name is too long for a watermark.
    """

    def __init__(
        self,
        client: blocking.Client,
        topic: str,
        servers: Servers,
        kafka_topic: str,
        *,
        stop: threading.Event,
        create: bool = False,
        replication: int = DEFAULT_REPLICATION,
        accepted: frozenset[str] = frozenset(),
        tell: Callable[[Progress], None] = lambda _: None,
        waiting: Waiting | None = None,
        timeout_s: float = TIMEOUT_SECONDS,
    ) -> None:
        self._source = Source(client, topic)
        self._servers = servers
        self._kafka_topic = kafka_topic
        self._stop = stop
        self._create = create
        self._accepted = accepted
        self._tell = tell
        self._waiting = waiting or Waiting(stop)
        self._timeout_s = timeout_s
        self._destination = Destination(
            servers,
            kafka_topic,
            self._waiting,
            max_message=self._source.max_message,
            replication=replication,
            accepted=accepted,
        )
        self._committed = CommittedEnd(servers, kafka_topic, self._waiting, accepted)
        # How far Kafka has the topic; what a producer that was lost may have left.
        self._position = Position.at_the_start(0)
        self._possible: frozenset[int] = frozenset()
        self._settings: dict[str, int] | None = None
        self._end = 0
        self._missing = 0
        # When it was done last.
        self._looked = 0.0
        self._logged = time.monotonic()
        self._logged_next = 0

    def run(self) -> None:
        """Replicate until the bridge is to stop.

        Raises:
            CannotReplicate: it cannot go on, or cannot begin; `Replaced`: another bridge has come.
            ZaichikError: the broker is gone for good, or refuses.
        """
        with suppress(Stopped):
            while not self._stop.is_set():
                try:
                    self._run_with_one_producer()
                except ProducerLost as lost:
                    logger.warning("Kafka has given up a round; looking how far it is: %s", lost)
                    self._stop.wait(PAUSE_SECONDS)

    def _run_with_one_producer(self) -> None:
        place = self._place()
        self._look_where()
        transactions = Transactions(
            self._servers,
            self._kafka_topic,
            place.cluster,
            place.most_bytes,
            self._waiting,
            self._timeout_s,
        )
        transactions.begin()
        # By now no other bridge can add anything, and all it has added is there.
        self._committed.wait_for_others()
        self._position = self._look_where()
        self._possible = frozenset({self._position.next})
        self._source.make_watermark()
        self._source.publish_watermark(self._position)
        self._begin()
        try:
            self._follow(transactions, place)
        except (EpochChanged, NoSuchTopic, OffsetAhead, SubscriptionLost) as error:
            raise self._explained(error) from error

    # -- before it begins ------------------------------------------------------------------------

    def _place(self) -> Place:
        """Returns what identifies the topic of Kafka, made or checked."""
        # The broker is here, and says at once what is wrong; Kafka may have to be waited for.
        self._source.state()
        if self._create and self._destination.create():
            logger.info("made the topic %s of Kafka", self._kafka_topic)
        return self._destination.checked()

    def _look_where(self) -> Position:
        """Returns where to go on.

        Raises:
            CannotReplicate: what Kafka has is not the beginning of the broker's topic, or the name
                is ahead of it.
            Replaced: another bridge has written since this one has lost its producer.
        """
        state = self._source.state()
        found = self._committed.position()
        if found is None:
            found = Position.at_the_start(state["epoch"])
        if found.epoch != state["epoch"]:
            raise self._another_epoch(found.epoch, state["epoch"])
        if found.next > state["next_offset"]:
            raise self._went_back(found.next, state["next_offset"])
        if self._possible and found.next not in self._possible:
            raise Replaced(
                f"another bridge has written to Kafka's topic {self._kafka_topic}, which is at "
                f"offset {found.next} now"
            )
        self._source.check_name(found, self._kafka_topic, self._accepted)
        return found

    def _begin(self) -> None:
        state = self._source.state()
        topic = self._source.topic
        self._settings = dict(state["settings"])
        self._end = int(state["next_offset"])
        logger.info(
            "bridging %s to the topic %s of Kafka at %s, which has what is below offset %d",
            topic,
            self._kafka_topic,
            self._servers.addresses,
            self._position.next,
        )
        if not is_lossless(state):
            logger.warning(
                "%s does not wait for the bridge: messages that are evicted or expire before Kafka "
                "has them are missing there, and told as a gap; a topic that waits is created with "
                "--overflow reject --retention forever",
                topic,
            )
        self._report()

    # -- the loop --------------------------------------------------------------------------------

    def _follow(self, transactions: Transactions, place: Place) -> None:
        with self._source.subscribe(self._position) as subscription:
            # Somebody may have committed it since it was looked at.
            if subscription.start > self._position.next:
                raise self._source.ahead(self._position, subscription.start, self._kafka_topic)
            while not self._stop.is_set():
                items = subscription.fetch(timeout=POLL_SECONDS)
                if items:
                    part = Round(items, self._kafka_topic, self._position, self._settings)
                    self._replicate(part, transactions, place)
                    self._commit(subscription)
                self._look()

    def _replicate(self, part: Round, transactions: Transactions, place: Place) -> None:
        """Have Kafka have a round, all or none, and publish how far it is."""
        # A name that was behind Kafka is sent what is there already.
        if part.after is self._position:
            return
        self._possible = frozenset({self._position.next, part.after.next})
        transactions.send(part.write, lambda: self._check_place(place))
        self._possible = frozenset({part.after.next})
        self._position = part.after
        self._settings = None
        for start, end in part.gaps:
            self._missing += end - start
            logger.warning(
                "%s: offsets %d to %d were gone before they could be replicated",
                self._source.topic,
                start,
                end - 1,
            )
        self._source.publish_watermark(self._position)

    def _commit(self, subscription: blocking.Subscription[Any]) -> None:
        """Settle what Kafka has."""
        settled = min(self._position.next, subscription.next)
        if settled > subscription.committed:
            subscription.commit_nowait(settled - 1)

    def _check_place(self, place: Place) -> None:
        """Refuse to go on if the topic of Kafka is another one than at the start.

        Kafka commits what was written to a topic that is being deleted. If the topic is the same
        one after the commit, the round is in it.
        """
        if self._destination.topic_id() != place.topic_id:
            raise CannotReplicate(
                f"Kafka's topic {self._kafka_topic} was deleted and made again: what was there is "
                "gone, and the broker may not have it any more. Start the bridge again to see"
            )

    def _look(self) -> None:
        """Do what is not done for each round."""
        # A broker that was restarted has lost the watermark, which is in memory.
        if self._source.was_reconnected:
            self._source.publish_watermark(self._position)
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._end = self._source.end(self._position.epoch) or self._end
            self._report()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            self._log()

    def _report(self) -> None:
        position = self._position
        self._tell(Progress(position.epoch, position.next, self._end, self._missing))

    def _log(self) -> None:
        if self._logged_next != self._position.next:
            self._logged_next = self._position.next
            logger.info(
                "%s: Kafka has what is below offset %d; messages to come: %d",
                self._source.topic,
                self._position.next,
                max(0, self._end - self._position.next),
            )

    # -- why it ends -----------------------------------------------------------------------------

    def _explained(self, error: ZaichikError) -> Exception:
        """Returns why the topic is not the one any more that was replicated."""
        topic, known = self._source.topic, self._position
        if isinstance(error, TakenOver):
            return Replaced(
                f"another bridge reads {topic} as {NAME} now: a topic has one bridge, for it has "
                "one watermark"
            )
        try:
            state = self._source.state()
        except CannotReplicate:
            return CannotReplicate(
                f"{topic} is gone: it was deleted, or it was in memory and the broker was "
                f"restarted. Kafka has its messages below offset {known.next}, of epoch "
                f"{known.epoch}"
            )
        if state["epoch"] != known.epoch:
            return self._another_epoch(known.epoch, state["epoch"])
        if state["next_offset"] < known.next:
            return self._went_back(known.next, state["next_offset"])
        return error

    def _another_epoch(self, known: int, epoch: int) -> CannotReplicate:
        return CannotReplicate(
            f"Kafka's topic {self._kafka_topic} has the messages of a topic of epoch {known}, and "
            f"{self._source.topic} is of epoch {epoch} now: it is another topic, or it was deleted "
            "and made again, or it was in memory and the broker was restarted. Nothing is added; "
            "bridge it to another topic of Kafka"
        )

    def _went_back(self, known: int, end: int) -> CannotReplicate:
        return CannotReplicate(
            f"Kafka has {self._source.topic} up to offset {known - 1}, and the broker's ends "
            f"before offset {end}: it has gone back to an earlier state, as after the restore of "
            "an older copy, and would give these offsets to other messages. Nothing is added; "
            "`zaichik restore` makes the topic again from Kafka"
        )
