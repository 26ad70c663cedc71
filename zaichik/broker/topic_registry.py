"""All topics by name. Whoever needs one gets it here, made on first use.

"Is it there?" and "make it" are one synchronous step. With a lock taken twice, once for each, two creators can
both find nothing and the second replaces the topic whose readers then wait forever; with no `await` between,
there is nothing to lock (TOP-1).
"""

import unicodedata
from collections.abc import Iterator

from zaichik.broker.budget import Budget
from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.journal import Journal
from zaichik.broker.settings import BrokerSettings
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Overflow, Refused

OWN_TOPICS = "$"  # what the names of the broker's own topics begin with
MAX_NAME = 200  # bytes: room for a sentence, and a thousand names fit a page of `describe`


class TopicRegistry:
    """The topics of one broker.

    Args:
        settings: the broker's; `settings.topic` are the defaults of new topics.

    Attributes:
        budget: the bytes all topics may hold together.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.budget = Budget(settings.max_bytes)
        self._topics: dict[str, TopicController] = {}
        self._last_deleted = 0  # the greatest epoch of a topic that is gone: no later one has it, or a smaller one

    def __iter__(self) -> Iterator[TopicController]:
        """Every topic, in order of creation."""
        return iter(self._topics.values())

    def __len__(self) -> int:
        """Number of topics."""
        return len(self._topics)

    def get(self, name: str, epoch: int) -> TopicController:
        """The topic that had that name in that epoch (TOP-5).

        Raises:
            Refused: `EPOCH_CHANGED`, `INVALID_FIELD`.
        """
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "topic")
        if topic is None or topic.epoch != epoch:
            what = "there is none now" if topic is None else f"now it has epoch {topic.epoch}, it is another topic"
            raise Refused(
                ErrorCode.EPOCH_CHANGED,
                f"topic {name!r} had epoch {epoch}: {what}, and the old offsets mean nothing. "
                "Start again from its beginning, without an epoch.",
                "epoch",
            )
        return topic

    def get_or_create(self, name: str, now_us: int) -> TopicController:
        """The topic of that name, created with default settings if there is none (TOP-3).

        Raises:
            Refused: `NO_SUCH_TOPIC` if the broker creates nothing by itself, `INVALID_FIELD`, `TOO_MANY_TOPICS`.
        """
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "topic")
            if not self._settings.auto_create:
                raise Refused(
                    ErrorCode.NO_SUCH_TOPIC,
                    f"there is no topic {name!r} and this broker creates none on first use. Create it first.",
                    "topic",
                )
            topic = self._add(name, (), now_us, explicit=False)
        topic.unused_us = None
        return topic

    def create(self, name: str, pairs: tuple[tuple[int, int], ...], now_us: int) -> tuple[TopicController, bool]:
        """The topic of that name with these settings, and whether this call made it (TOP-1, TOP-2).

        Raises:
            Refused: `TOPIC_EXISTS`, `INVALID_FIELD`, `UNSUPPORTED`, `TOO_MANY_TOPICS`, `NO_MEMORY` (RET-9).
        """
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "topic")
            return self._add(name, pairs, now_us, explicit=True), True
        if topic.journal is None and topic.settings.merged(pairs).journal_bytes:
            self._check_room(1)
        topic.create_again(pairs)
        self._give_journal(topic)
        return topic, False

    def delete(self, name: str, epoch: int, now_us: int, *, if_empty: bool) -> list[TopicController]:
        """Take the topic of that name away, and its journal; those that are gone (TOP-6). Epoch 0 is any.

        Raises:
            Refused: `INVALID_FIELD`, `NO_SUCH_TOPIC`, `EPOCH_CHANGED`, `NOT_EMPTY`.
        """
        check_name(name, "topic")
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.NO_SUCH_TOPIC, f"there is no topic {name!r}", "topic")
        if epoch not in (0, topic.epoch):
            problem = f"topic {name!r} has epoch {topic.epoch}: the one that had {epoch} is gone already"
            raise Refused(ErrorCode.EPOCH_CHANGED, problem, "epoch")
        if if_empty:
            topic.check_empty(now_us)
        return self._remove(topic)

    def sweep(self, now_us: int) -> None:
        """Free what time has freed, in every topic (RET-7), and those that were never used (TOP-7)."""
        for topic in list(self._topics.values()):
            topic.sweep(now_us)
            if topic.is_unused(now_us, self._settings.topic_ttl * MICROSECONDS):
                self._remove(topic)

    def _remove(self, topic: TopicController) -> list[TopicController]:
        gone = [topic] if topic.journal is None else [topic, topic.journal.topic]
        for each in gone:
            del self._topics[each.name]
            each.delete()
        if topic.settings.overflow == Overflow.REJECT:
            self.budget.give_back(topic.settings.max_bytes)
        self._last_deleted = max(self._last_deleted, topic.epoch)
        return gone

    def _add(self, name: str, pairs: tuple[tuple[int, int], ...], now_us: int, *, explicit: bool) -> TopicController:
        settings = self._settings.topic.merged(pairs)
        self._check_room(2 if settings.journal_bytes else 1)
        epoch = max(now_us, self._last_deleted + 1)
        topic = TopicController(name, settings, epoch, explicit=explicit, budget=self.budget)
        self._topics[name] = topic
        self._give_journal(topic)
        return topic

    def _check_room(self, topics: int) -> None:
        """Refuse so many more topics if they are too many; a journal is one (JRN-2)."""
        most = self._settings.max_topics
        if len(self._topics) + topics > most:
            problem = f"the broker holds {len(self._topics)} topics of {most} it may. Use one of them."
            raise Refused(ErrorCode.TOO_MANY_TOPICS, problem, "topic")

    def _give_journal(self, topic: TopicController) -> None:
        """Make the topic's journal, if it wants one and has none (JRN-1)."""
        if topic.settings.journal_bytes and topic.journal is None:
            topic.journal = Journal(topic, self.budget)
            self._topics[topic.journal.topic.name] = topic.journal.topic


def check_name(name: str, field: str) -> None:
    """Refuse what is no good name, for a topic (TOP-4) or a subscription (CMT-3).

    Raises:
        Refused: `INVALID_FIELD`.
    """
    size = len(name.encode())
    if not 1 <= size <= MAX_NAME:
        problem = f"it has {size} bytes; 1 to {MAX_NAME} are allowed"
    elif any(unicodedata.category(letter) == "Cc" for letter in name):
        problem = "it has control characters"
    elif field == "topic" and name.startswith(OWN_TOPICS):
        problem = "names beginning with $ belong to the broker"
    else:
        return
    what = "topic name" if field == "topic" else "subscription name"
    raise Refused(ErrorCode.INVALID_FIELD, f"{what} {name[:40]!r}: {problem}", field)
