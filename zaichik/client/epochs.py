"""Topic epochs: whether the topics this client publishes to are still those it began with.

If the broker was restarted, a topic that lived in its memory is another topic with another epoch,
and everything published before is gone. A durable topic comes back with its epoch, its messages and
its producers. So the epoch decides what was lost, not the broker's boot number: whether a reader
resumes (the broker compares the epoch that its Subscribe names), and whether batches keep their
numbers (see `sequencer`).

After every reconnection, before anything else is sent again:

* Each CreateTopic of the program is repeated with all the settings it named, so that a topic does
  not come back by its first use, with default settings.
* Each other topic it has published to is probed. The same probe is sent just before the first batch
  to a topic.

A probe is a subscription that ends where it begins (`until=0`), followed by an Unsubscribe.
`Subscribed` carries the epoch, and the broker treats a missing topic as it would for a Publish: it
creates the topic, or answers `NO_SUCH_TOPIC` if it was told to create none. A CreateTopic without
settings would create it in any case: that is what a client asks that `creates` topics, for a broker
that was told to create none. If the user may not create it, the probe is sent after all.

A topic that the program deletes is forgotten here: whatever has its name later, the broker has lost
nothing. While the reply to a Delete is owed, a reconnection does not ask for that topic, because
asking would create it.

A topic that was restored from elsewhere (`zaichik restore`) has its epoch, and knows no producers:
what a client has in flight may be in it, and would be stored again. It is known by its end, which
the probe carries, too: a restore gives up 2^40 offsets behind the last message.
"""

import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial

from zaichik.client.connection import BrokerConnection, OneTimeRequest
from zaichik.client.errors import BrokerError
from zaichik_protocol import (
    CreateTopic,
    Error,
    ErrorCode,
    Frame,
    Publish,
    Start,
    Subscribe,
    Subscribed,
    TopicCreated,
    Unencodable,
    Unsubscribe,
    encode,
)

logger = logging.getLogger(__name__)

# Offsets. No topic gets so many messages while a client has no connection, or ever.
RESTORED_GAP = 2**40


@dataclass(frozen=True, slots=True)
class LostTopic:
    """A topic that was published to, or created, and is not what it was after a reconnection.

    Attributes:
        topic: its name.
        old_epoch: the epoch it had.
        new_epoch: the epoch of the topic that has its name now; 0: there is none, or the broker did
            not say.
        refusal: why the broker did not create it again with the settings it had; "" if it did, or
            was not asked to.
        is_older: whether it is the same topic (`new_epoch` is `old_epoch`) in an earlier state,
            without what was published last: somebody has restored a copy of the broker's folder.
    """

    topic: str
    old_epoch: int
    new_epoch: int
    refusal: str = ""
    is_older: bool = False

    def __str__(self) -> str:
        """A sentence for the log."""
        if self.is_older:
            return (
                f"topic {self.topic!r} has gone back to an earlier state, as after the restore of "
                "an older copy: the broker has lost what was published last"
            )
        now = "it has none now"
        if self.new_epoch:
            now = f"it is now {self.new_epoch}"
        text = f"topic {self.topic!r} is no longer the same (its epoch was {self.old_epoch}, {now})"
        if self.new_epoch != self.old_epoch:
            text += ": the broker has lost what was published before"
        if self.refusal:
            text += f"; it was not created again with its settings: {self.refusal}"
        return text


class Epochs:
    """The epochs of the topics that a client creates and publishes to.

    Args:
        connection: the connection to the broker.
        is_strict: whether publishing to a topic fails once it is another one.
        creates: whether this client creates the topics that it publishes to.

    Attributes:
        creates: see above.
        lost: every change, in the order in which they were noticed.
        in_flight: returns the topics with batches that have no reply.
        settled: topics to which a batch may be sent without `check`: nothing has failed, and their
            epochs are known or were asked for.
    """

    def __init__(
        self, connection: BrokerConnection, *, is_strict: bool = False, creates: bool = False
    ) -> None:
        self.creates = creates
        self.lost: list[LostTopic] = []
        self.settled: set[str] = set()
        self.in_flight: Callable[[], Set[str]] = frozenset
        self._connection = connection
        self._is_strict = is_strict
        # The offsets after the last messages, as the broker has told over this socket, and what was
        # known when the connection was lost.
        self._ends: dict[str, int] = {}
        self._ends_before: dict[str, int] = {}
        # Of topics that the program has created.
        self._settings: dict[str, dict[int, int]] = {}
        # Other topics that it has published to.
        self._published: set[str] = set()
        # The epochs that are known.
        self._epochs: dict[str, int] = {}
        self._failures: dict[str, Error] = {}
        # Those that were known when the connection was lost, until `accept`.
        self._before: dict[str, int] | None = None
        # Topics whose epochs the broker has reported over this socket.
        self._answered: set[str] = set()
        # Topics that were not asked for over this socket, because they were being deleted.
        self._unasked: set[str] = set()
        connection.on_reconnect = self._one_time_requests

    def created(self, topic: str, settings: tuple[tuple[int, int], ...], reply: object) -> None:
        """Note the answer to the program's CreateTopic."""
        if isinstance(reply, TopicCreated):
            self._settings.setdefault(topic, {}).update(settings)
            self._observe(topic, reply.epoch)

    def forget(self, topic: str) -> None:
        """Forget a topic that the program has deleted; the next of that name has nothing to lose.

        It is not created again after a reconnection either.
        """
        self._settings.pop(topic, None)
        self._published.discard(topic)
        self._epochs.pop(topic, None)
        self._ends.pop(topic, None)
        self._ends_before.pop(topic, None)
        self._failures.pop(topic, None)
        self._answered.discard(topic)
        self._unasked.discard(topic)
        if self._before is not None:
            self._before.pop(topic, None)
        self._update(topic)

    def not_deleted(self, topic: str) -> None:
        """Note that the program's Delete was refused.

        If the topic was not asked for because of it, that is done now: it may be another one.
        """
        if topic in self._unasked:
            self._unasked.discard(topic)
            for request, on_reply in self._questions(topic):
                self._connection.post_once(request, on_reply)

    def check(self, topic: str) -> None:
        """Ask for the epoch of a topic, unless it is known: a batch for it is about to be sent.

        This does not wait for the answer.

        Raises:
            EpochChanged: nothing can be published to it any more, because it is another one.
        """
        failure = self._failures.get(topic)
        if failure is not None:
            raise BrokerError.of(failure)
        if topic in self.settled or not (self._connection.reconnects or self.creates):
            return
        requests = self._first_questions(topic)
        try:
            question, _ = requests[0]
            encode(question)
        except Unencodable:
            # So is the Publish, which will raise it.
            return
        self._published.add(topic)
        self._update(topic)
        # Without a socket, it is asked after reconnecting.
        if self._connection.is_open:
            for request, on_reply in requests:
                self._connection.post_once(request, on_reply)

    def _update(self, topic: str) -> None:
        """Note whether the topic is settled; called after each change of what is known of it."""
        is_asked = topic in self._epochs or topic in self._published
        if is_asked and topic not in self._failures:
            self.settled.add(topic)
        else:
            self.settled.discard(topic)

    def failure(self, topic: str) -> Error | None:
        """Returns why nothing can be published to that topic any more; None in most cases."""
        return self._failures.get(topic)

    def is_same(self, topic: str) -> bool | None:
        """Returns whether that topic is still the one it was before the connection was lost.

        False: it is another one, or gone. None: its epoch was not known before, or the broker has
        not reported it since.
        """
        if topic not in self._answered:
            return None
        now = self._epochs.get(topic)
        if now is None:
            return False
        if self._before is None or topic not in self._before:
            return None
        return self._before[topic] == now

    def is_restored(self, topic: str, known_end: int) -> bool:
        """Returns whether that topic was restored while the connection was lost (RS-3).

        Args:
            topic: its name.
            known_end: an offset that it had reached before.
        """
        end = self._ends.get(topic, 0)
        return end - max(known_end, self._ends_before.get(topic, 0)) >= RESTORED_GAP

    def accept(self) -> None:
        """Take the epochs known now as those to compare with after the next loss.

        Requests are about to be sent.
        """
        self._before = None

    # -- one-time requests -----------------------------------------------------------------------

    def _one_time_requests(self) -> tuple[list[OneTimeRequest], list[OneTimeRequest]]:
        """Returns what to send over a new socket before the subscriptions, and after them."""
        # None: the last loss is dealt with. Else a socket was lost before all answers came, and the
        # older epochs count.
        if self._before is None:
            self._before = self._epochs.copy()
            self._ends_before = self._ends
        self._ends = {}
        self._answered.clear()
        self._unasked = self._connection.deleting
        creations: list[OneTimeRequest] = []
        for topic in self._settings:
            if topic not in self._unasked:
                creations += self._questions(topic)
        probes: list[OneTimeRequest] = []
        for topic in sorted(self._published.difference(self._settings, self._unasked)):
            probes += self._questions(topic)
        # The answer to a creation has no end.
        for topic in sorted(self._settings.keys() & (self.in_flight() - self._unasked)):
            probes += self._probe(topic, self._ended)
        return creations, probes

    def _questions(self, topic: str) -> list[OneTimeRequest]:
        """Returns what asks for the epoch of a topic; if the program has created it, a creation."""
        settings = self._settings.get(topic)
        if settings is None:
            return self._first_questions(topic)
        return [self._creation(topic, settings)]

    def _first_questions(self, topic: str) -> list[OneTimeRequest]:
        """Returns what asks for the epoch of a topic that the program has not created."""
        if not self.creates or topic.startswith("$"):
            return self._probe(topic)
        request = CreateTopic(self._connection.next_id(), topic, ())
        return [(request, partial(self._created_first, topic))]

    def _created_first(self, topic: str, reply: Frame) -> None:
        """Note the answer to a CreateTopic that the program has not asked for."""
        if isinstance(reply, TopicCreated):
            self._observe(topic, reply.epoch)
            return
        # Perhaps it is there, and this user may not create it.
        for request, on_reply in self._probe(topic):
            self._connection.post_once(request, on_reply)

    def _creation(self, topic: str, settings: dict[int, int]) -> OneTimeRequest:
        request = CreateTopic(self._connection.next_id(), topic, tuple(settings.items()))
        return request, partial(self._created_again, topic)

    def _probe(
        self, topic: str, on_reply: Callable[[str, Frame], None] | None = None
    ) -> list[OneTimeRequest]:
        connection = self._connection
        probe = Subscribe(
            id=connection.next_subscription_id(),
            topic=topic,
            name="",
            start=Start.LATEST,
            value=0,
            epoch=0,
            until=0,
            credit=1,
            credit_bytes=1,
        )
        end = Unsubscribe(connection.next_id(), probe.id)
        on_reply = on_reply or self._probed
        return [(probe, partial(on_reply, topic)), (end, _ignore)]

    def _ended(self, topic: str, reply: Frame) -> None:
        if isinstance(reply, Subscribed):
            self._ends[topic] = reply.live

    def _probed(self, topic: str, reply: Frame) -> None:
        match reply:
            case Subscribed():
                self._ended(topic, reply)
                self._observe(topic, reply.epoch)
            case Error(code=ErrorCode.NO_SUCH_TOPIC):
                self._answered.add(topic)
                self._report(topic, 0)
            case _:
                # It is asked again with the next batch.
                self._published.discard(topic)
                self._update(topic)
                logger.debug("the epoch of %s is unknown: %s", topic, reply)

    def _created_again(self, topic: str, reply: Frame) -> None:
        match reply:
            case TopicCreated():
                self._observe(topic, reply.epoch)
            case Error(code=ErrorCode.TOPIC_EXISTS):
                # The topic exists, so this CreateTopic only returns its epoch.
                request = CreateTopic(self._connection.next_id(), topic, ())
                self._connection.post_once(request, partial(self._exists, topic, reply.message))
            case Error():
                self._report(topic, 0, reply.message)

    def _exists(self, topic: str, refusal: str, reply: Frame) -> None:
        epoch = 0
        if isinstance(reply, TopicCreated):
            epoch = reply.epoch
        self._report(topic, epoch, refusal)

    # -- answers ---------------------------------------------------------------------------------

    def _observe(self, topic: str, epoch: int) -> None:
        if self._epochs.get(topic, epoch) != epoch:
            self._report(topic, epoch)
        self._epochs[topic] = epoch
        self._answered.add(topic)
        self._update(topic)

    def _report(self, topic: str, epoch: int, refusal: str = "") -> None:
        old = self._epochs.pop(topic, 0)
        if epoch:
            self._epochs[topic] = epoch
            self._answered.add(topic)
        else:
            # It is asked again with the next batch.
            self._published.discard(topic)
        if old:
            self._lose(LostTopic(topic, old, epoch, refusal), "in the new topic")
        self._update(topic)

    def gone_back(self, topic: str) -> None:
        """Note that the topic is the same one in an earlier state: see `LostTopic.is_older`."""
        epoch = self._epochs.get(topic, 0)
        self._lose(LostTopic(topic, epoch, epoch, is_older=True), "where it is now")
        self._update(topic)

    def _lose(self, lost: LostTopic, where: str) -> None:
        self.lost.append(lost)
        logger.warning("%s", lost)
        if self._is_strict:
            text = f"{lost}. Connect again to continue {where}."
            self._failures[lost.topic] = Error(
                0, ErrorCode.EPOCH_CHANGED, Publish.TYPE, "topic", 0, text
            )


def _ignore(_reply: Frame) -> None:
    """Ignores the reply to a probe's Unsubscribe: whichever it is, the probe has ended."""
