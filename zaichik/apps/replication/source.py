"""The broker's side: the topic to be replicated, the name that keeps its place, the watermark."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

from zaichik import Message, NoSuchSubscription, blocking
from zaichik.apps.replication.acceptable import POSITION
from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.position import Position
from zaichik.client.messages import Missed
from zaichik.client.replication import watermark
from zaichik.client.replication.watermark import Watermark
from zaichik_protocol import FOREVER, Overflow

NAME = "replica/kafka"
# Of both, half is a round at most.
CREDIT = 100_000
CREDIT_BYTES = 16 * 1024 * 1024


class Source:
    """A topic of the broker.

    Args:
        client: connected to it.
        topic: its name.

    Raises:
        CannotReplicate: its name is too long for a watermark.
    """

    def __init__(self, client: blocking.Client, topic: str) -> None:
        self.topic = topic
        self._client = client
        self._greeting: object = None
        try:
            self._watermark_topic = watermark.topic_of(topic)
        except ValueError as error:
            raise CannotReplicate(str(error)) from error

    @property
    def max_message(self) -> int:
        """Bytes of the largest message that the broker takes."""
        return self._client.welcome.max_message

    def state(self) -> Mapping[str, Any]:
        """Returns what the broker says about the topic.

        Raises:
            CannotReplicate: it is not there, or is a table.
        """
        state = self._client.topic(self.topic)
        if state is None:
            raise CannotReplicate(
                f"there is no topic {self.topic!r}; `zaichik topics` lists the broker's topics, "
                "and `zaichik create` makes one"
            )
        if state["settings"].get("table"):
            raise CannotReplicate(
                f"{self.topic} is a table, which supersedes its messages: a bridge copies topics "
                "that keep them"
            )
        return state

    def end(self, epoch: int) -> int | None:
        """Returns the topic's next offset; None if it is not there, or of another epoch."""
        state = self._client.topic(self.topic)
        if state is None or state["epoch"] != epoch:
            return None
        return int(state["next_offset"])

    # -- the name --------------------------------------------------------------------------------

    def check_name(self, position: Position, kafka_topic: str, accepted: frozenset[str]) -> None:
        """Refuse to go on where the broker may have forgotten what Kafka does not have.

        Args:
            position: how far Kafka has the topic.
            kafka_topic: the topic's name there.
            accepted: if `POSITION` is among them, the name is forgotten instead.

        Raises:
            CannotReplicate: the name is ahead of Kafka.
        """
        settled = self._settled()
        if settled <= position.next:
            return
        if POSITION in accepted:
            self._forget_name()
            return
        raise self.ahead(position, settled, kafka_topic)

    def ahead(self, position: Position, settled: int, kafka_topic: str) -> CannotReplicate:
        """Returns the error for a name that has settled what Kafka does not have."""
        return CannotReplicate(
            f"offsets {position.next} to {settled - 1} of {self.topic} are settled by {NAME}, and "
            f"Kafka's topic {kafka_topic} does not have them: did it lose them, or is it the wrong "
            f"topic? To go on all the same, with what the broker still has: --accept {POSITION}"
        )

    def _settled(self) -> int:
        """Returns the offset below which the name has settled everything; 0: there is none yet."""
        for row in self._client.subscriptions(self.topic):
            if row["topic"] == self.topic and row["session"] == NAME:
                return int(row["committed"])
        return 0

    def _forget_name(self) -> None:
        with (
            self._client.subscribe(self.topic, name=NAME) as subscription,
            suppress(NoSuchSubscription),
        ):
            subscription.forget()

    def subscribe(
        self, position: Position
    ) -> AbstractContextManager[blocking.Subscription[Message | Missed]]:
        """Returns the subscription that reads on from there, and keeps what is not settled."""
        return self._client.subscribe(
            self.topic,
            start=position.next,
            epoch=position.epoch,
            name=NAME,
            events=True,
            commit="explicit",
            credit=CREDIT,
            credit_bytes=CREDIT_BYTES,
        )

    # -- the watermark ---------------------------------------------------------------------------

    @property
    def was_reconnected(self) -> bool:
        """Whether the broker may have lost the watermark since it was published."""
        return self._client.welcome is not self._greeting

    def make_watermark(self) -> None:
        """Make the watermark's topic, unless it is there."""
        self._client.create_topic(
            self._watermark_topic, capacity=watermark.CAPACITY, retention_ttl=watermark.RETENTION
        )

    def publish_watermark(self, position: Position) -> None:
        """Say how far Kafka has the topic."""
        # Before, so that a reconnection meanwhile is noticed.
        self._greeting = self._client.welcome
        gaps = position.gaps
        mark = Watermark(position.epoch, position.next, gaps.ranges, gaps.complete_from)
        self._client.publish(self._watermark_topic, mark.encoded())


def is_lossless(state: Mapping[str, Any]) -> bool:
    """Returns whether a topic waits for its readers, and keeps everything for them (RET-9)."""
    settings = state["settings"]
    is_kept = settings.get("retention_ttl_ms") == FOREVER
    return is_kept and bool(settings.get("overflow") == Overflow.REJECT)
