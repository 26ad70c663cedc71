"""Topic epochs: whether the topics this client publishes to are still those it began with.

If the broker was restarted, a topic that lived in its memory is another topic with another epoch, and everything
published before is gone. A durable topic comes back with its epoch, its messages and its producers. So the epoch
decides what was lost, not the broker's boot number: whether a reader resumes (the broker compares the epoch that its
Subscribe names), and whether batches keep their numbers (see `sequencer`).

After every reconnection, before anything else is sent again:

* Each CreateTopic of the program is repeated with all the settings it named, so that a topic does not come back by its
  first use, with default settings.
* Each other topic it has published to is probed. The same probe is sent just before the first batch to a topic.

A probe is a subscription that ends where it begins (`until=0`), followed by an Unsubscribe. `Subscribed` carries the
epoch, and the broker treats a missing topic as it would for a Publish: it creates the topic, or answers
`NO_SUCH_TOPIC` if it was told to create none. A CreateTopic without settings would create it in any case.
"""

import logging
from dataclasses import dataclass
from functools import partial

from zaichik.client.connection import Connection, Question
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


@dataclass(frozen=True, slots=True)
class LostTopic:
    """A topic that was published to, or created, and was replaced by another one while the connection was lost.

    Attributes:
        topic: its name.
        old_epoch: the epoch it had.
        new_epoch: the epoch of the topic that has its name now; 0: there is none, or the broker did not say.
        refusal: why the broker did not create it again with the settings it had; "" if it did, or was not asked to.
    """

    topic: str
    old_epoch: int
    new_epoch: int
    refusal: str = ""

    def __str__(self) -> str:
        """A sentence for the log."""
        now = f"it is now {self.new_epoch}" if self.new_epoch else "it has none now"
        text = f"topic {self.topic!r} is no longer the same (its epoch was {self.old_epoch}, {now})"
        if self.new_epoch != self.old_epoch:
            text += ": the broker has lost what was published before"
        return text + (f"; it was not created again with its settings: {self.refusal}" if self.refusal else "")


class Epochs:
    """The epochs of the topics that a client creates and publishes to.

    Args:
        connection: the connection to the broker.
        is_strict: whether publishing to a topic fails once it is another one.

    Attributes:
        lost: every change, in the order in which they were noticed.
    """

    def __init__(self, connection: Connection, *, is_strict: bool = False) -> None:
        self.lost: list[LostTopic] = []
        self._connection = connection
        self._is_strict = is_strict
        self._settings: dict[str, dict[int, int]] = {}  # of topics that the program has created
        self._published: set[str] = set()  # other topics
        self._epochs: dict[str, int] = {}  # as far as they are known
        self._failures: dict[str, Error] = {}
        self._before: dict[str, int] | None = None  # those that were known when the connection was lost, until `accept`
        self._answered: set[str] = set()  # topics whose epochs the broker has reported over this socket
        connection.on_reconnect = self._questions

    def created(self, topic: str, settings: tuple[tuple[int, int], ...], reply: object) -> None:
        """Note the answer to the program's CreateTopic."""
        if isinstance(reply, TopicCreated):
            self._settings.setdefault(topic, {}).update(settings)
            self._observe(topic, reply.epoch)

    def publishes(self, topic: str) -> None:
        """Ask for the epoch of a topic, unless it is known, without waiting: a batch for it is about to be sent."""
        if topic in self._epochs or topic in self._published or not self._connection.reconnects:
            return
        questions = self._probe(topic)
        try:
            encode(questions[0][0])
        except Unencodable:
            return  # and so is the Publish, which will raise it
        self._published.add(topic)
        if self._connection.is_open:  # else it is asked after reconnecting
            for question in questions:
                self._connection.ask(question)

    def failure(self, topic: str) -> Error | None:
        """Returns why nothing can be published to that topic any more; None in most cases."""
        return self._failures.get(topic)

    def is_same(self, topic: str) -> bool | None:
        """Returns whether that topic is still the one it was before the connection was lost; False if it is gone.

        None: its epoch was not known before, or the broker has not reported it since.
        """
        if topic not in self._answered:
            return None
        now = self._epochs.get(topic)
        if now is None:
            return False
        before = (self._before or {}).get(topic)
        return None if before is None else before == now

    def accept(self) -> None:
        """Take the epochs known now as those to compare with after the next loss: requests are about to be sent."""
        self._before = None

    # -- questions -------------------------------------------------------------------------------------------

    def _questions(self) -> tuple[list[Question], list[Question]]:
        """Returns the questions to a new socket: those before the subscriptions, and those after them."""
        if self._before is None:  # else a socket was lost before everything was asked, and nothing was sent over it
            self._before = self._epochs.copy()
        self._answered.clear()
        probed = sorted(self._published.difference(self._settings))
        return (
            [self._creation(topic, settings) for topic, settings in self._settings.items()],
            [question for topic in probed for question in self._probe(topic)],
        )

    def _creation(self, topic: str, settings: dict[int, int]) -> Question:
        request = CreateTopic(self._connection.next_id(), topic, tuple(settings.items()))
        return request, partial(self._created_again, topic)

    def _probe(self, topic: str) -> list[Question]:
        connection = self._connection
        probe = Subscribe(connection.next_subscription_id(), topic, "", Start.LATEST, 0, 0, 0, 1, 1)
        return [
            (probe, partial(self._probed, topic)),
            (Unsubscribe(connection.next_id(), probe.id), _ignore),
        ]

    def _probed(self, topic: str, reply: Frame) -> None:
        match reply:
            case Subscribed():
                self._observe(topic, reply.epoch)
            case Error(code=ErrorCode.NO_SUCH_TOPIC):
                self._answered.add(topic)
                self._report(topic, 0)
            case _:
                self._published.discard(topic)  # asked again with the next batch
                logger.debug("the epoch of %s is unknown: %s", topic, reply)

    def _created_again(self, topic: str, reply: Frame) -> None:
        match reply:
            case TopicCreated():
                self._observe(topic, reply.epoch)
            case Error(code=ErrorCode.TOPIC_EXISTS):  # the topic exists, so this CreateTopic only returns its epoch
                request = CreateTopic(self._connection.next_id(), topic, ())
                self._connection.ask((request, partial(self._exists, topic, reply.message)))
            case Error():
                self._report(topic, 0, reply.message)

    def _exists(self, topic: str, refusal: str, reply: Frame) -> None:
        self._report(topic, reply.epoch if isinstance(reply, TopicCreated) else 0, refusal)

    # -- answers ---------------------------------------------------------------------------------------------

    def _observe(self, topic: str, epoch: int) -> None:
        if self._epochs.get(topic, epoch) != epoch:
            self._report(topic, epoch)
        self._epochs[topic] = epoch
        self._answered.add(topic)

    def _report(self, topic: str, epoch: int, refusal: str = "") -> None:
        old = self._epochs.pop(topic, 0)
        if epoch:
            self._epochs[topic] = epoch
            self._answered.add(topic)
        else:
            self._published.discard(topic)  # asked again with the next batch
        if not old:
            return
        lost = LostTopic(topic, old, epoch, refusal)
        self.lost.append(lost)
        logger.warning("%s", lost)
        if self._is_strict:
            text = f"{lost}. Connect again to continue in the new topic."
            self._failures[topic] = Error(0, ErrorCode.EPOCH_CHANGED, Publish.TYPE, "topic", 0, text)


def _ignore(_reply: Frame) -> None:
    """Ignores the reply to a probe's Unsubscribe: whichever it is, the probe has ended."""
