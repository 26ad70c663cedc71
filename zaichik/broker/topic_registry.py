"""All topics by name. Whoever needs one gets it here, made on first use.

"Is it there?" and "make it" are one synchronous step. With a lock taken twice, once for each, two creators can
both find nothing and the second replaces the topic whose readers then wait forever; with no `await` between,
there is nothing to lock (TOP-1).
"""

from collections.abc import Callable, Iterator

from zaichik.broker.checks import check_name
from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.journal import Journal
from zaichik.broker.settings import BrokerSettings
from zaichik.broker.topic_controller import TopicController
from zaichik.observing.directory import Directory
from zaichik.sharing.budget import Budget
from zaichik.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Refused


class TopicRegistry:
    """The topics of one broker.

    Args:
        settings: the broker's; `settings.topic` are the defaults of new topics.

    Attributes:
        budget: the bytes all topics may hold together.
        directory: the topics in the order of their names.
        on_delete: called with each topic that is deleted.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.budget = Budget(settings.max_bytes)
        self.on_delete: Callable[[TopicController], None] = lambda _: None
        self._quota = Quota(settings.max_topics)
        self._journals: dict[str, Journal] = {}  # by the name of the topic each is about
        self._topics: dict[str, TopicController] = {}
        self.directory: Directory[TopicController] = Directory()
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

    def get_or_create(self, name: str, now_us: int, client: str = "") -> TopicController:
        """The topic of that name, created for that client with default settings if there is none (TOP-3).

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
            topic = self._add(name, (), now_us, client, explicit=False)
        topic.unused_us = None
        return topic

    def create(
        self, name: str, pairs: tuple[tuple[int, int], ...], now_us: int, client: str = ""
    ) -> tuple[TopicController, bool]:
        """The topic of that name with these settings, and whether this call made it (TOP-1, TOP-2).

        Raises:
            Refused: `TOPIC_EXISTS`, `INVALID_FIELD`, `UNSUPPORTED`, `TOO_MANY_TOPICS`, `NO_MEMORY` (RET-9).
        """
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "topic")
            return self._add(name, pairs, now_us, client, explicit=True), True
        if name not in self._journals and topic.settings.merged(pairs).journal_bytes:
            self._check_room(topic.client, 1)  # a journal is its topic's, and counts as its client's
        topic.create_again(pairs)
        self._give_journal(topic)
        return topic, False

    def delete(self, name: str, epoch: int, now_us: int, *, if_empty: bool) -> None:
        """Take the topic of that name away, and its journal (TOP-6). Epoch 0 is any.

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
        self._remove(topic)

    def sweep(self, now_us: int) -> None:
        """Free what time has freed, in every topic (RET-7), and those that were never used (TOP-7)."""
        for topic in list(self._topics.values()):
            topic.sweep(now_us)
            if topic.is_unused(now_us, self._settings.topic_ttl * MICROSECONDS):
                self._remove(topic)
        for journal in self._journals.values():
            journal.forget_closed()

    def _remove(self, topic: TopicController) -> None:
        if journal := self._journals.pop(topic.name, None):
            topic.observer = None
            self._remove(journal.topic)
        del self._topics[topic.name]
        self.directory.remove(topic.name)
        self._quota.take(topic.client, -1)
        topic.delete()
        self.on_delete(topic)
        self._last_deleted = max(self._last_deleted, topic.epoch)

    def _add(
        self, name: str, pairs: tuple[tuple[int, int], ...], now_us: int, client: str, *, explicit: bool
    ) -> TopicController:
        settings = self._settings.topic.merged(pairs)
        self._check_room(client, 2 if settings.journal_bytes else 1)
        epoch = max(now_us, self._last_deleted + 1)
        topic = TopicController(name, settings, epoch, explicit=explicit, budget=self.budget, client=client)
        self._keep(topic)
        self._give_journal(topic)
        return topic

    def _keep(self, topic: TopicController) -> None:
        self._topics[topic.name] = topic
        self.directory.add(topic.name, topic)
        self._quota.take(topic.client)

    def _check_room(self, client: str, topics: int) -> None:
        """Refuse so many more topics if they are too many, of all clients or of this one; a journal is one (JRN-2)."""
        if not self._quota.has_room(client, topics):
            problem = (
                f"the broker has {len(self._topics)} topics; its limit (max_topics) is {self._quota.limit}, of which "
                "no client may use up the rest. Use one of them, or delete one."
            )
            raise Refused(ErrorCode.TOO_MANY_TOPICS, problem, "topic")

    def _give_journal(self, topic: TopicController) -> None:
        """Make the topic's journal what its settings ask for (JRN-1)."""
        journal = self._journals.get(topic.name)
        if not topic.settings.journal_bytes:
            if journal is not None:
                del self._journals[topic.name]
                topic.observer = None
                self._remove(journal.topic)
        elif journal is None:
            journal = self._journals[topic.name] = Journal(topic, self.budget)
            self._keep(journal.topic)
        else:
            journal.resize()
