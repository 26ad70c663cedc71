"""All topics by name, created on first use.

The check for existence and the creation are one synchronous step. If each step took a lock of its own, two creators
could both find nothing, and the second would replace a topic whose readers then wait forever. With no `await` in
between, there is nothing to lock (TOP-1).
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from zaichik.broker.checks import check_name
from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.durable import Durable, Log, Logs
from zaichik.broker.journal import Journal
from zaichik.broker.pending import Pending
from zaichik.broker.rights import ANYBODY, User
from zaichik.broker.settings import BrokerSettings, TopicSettings
from zaichik.broker.topic_controller import TopicController
from zaichik.observing.directory import Directory
from zaichik.sharing.budget import Budget
from zaichik.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Frame, Publish, Published, Refused, TopicCreated

logger = logging.getLogger(__name__)


class TopicRegistry:
    """The topics of one broker.

    Args:
        settings: the broker's; `settings.topic` has the defaults of new topics.
        logs: where the logs of durable topics are; None if there can be none.

    Attributes:
        budget: the bytes that all topics may hold together.
        directory: the topics in the order of their names.
        on_delete: called with each topic that is deleted.
    """

    def __init__(self, settings: BrokerSettings, logs: Logs | None = None) -> None:
        self._settings = settings
        self._logs = logs
        self.budget = Budget(settings.max_bytes)
        self.on_delete: Callable[[TopicController], None] = lambda _: None
        self._quota = Quota(settings.max_topics)
        self._journals: dict[str, Journal] = {}  # by the name of the topic that is journalled
        self._topics: dict[str, TopicController] = {}
        self.directory: Directory[TopicController] = Directory()
        self._last_deleted = 0  # the greatest epoch of any deleted topic: later topics get greater ones

    def __iter__(self) -> Iterator[TopicController]:
        """Returns every topic, in order of creation."""
        return iter(self._topics.values())

    def __len__(self) -> int:
        """Returns the number of topics, journals included."""
        return len(self._topics)

    def find(self, name: str) -> TopicController | None:
        """Returns the topic of that name, if there is one."""
        return self._topics.get(name)

    def remember(self, request: Frame, outcome: Refused | Published, user: str, connection: int, now_us: int) -> None:
        """Remember that a batch was refused, or came twice (EXP-1)."""
        if isinstance(request, Publish) and (topic := self._topics.get(request.topic)) is not None:
            topic.decisions.answered(now_us, request.batch, outcome, user, connection)
            topic.refused += isinstance(outcome, Refused) and outcome.code == ErrorCode.TOPIC_FULL

    def durable(self, name: str) -> TopicController | None:
        """Returns the topic of that name, if it is durable."""
        return topic if (topic := self._topics.get(name)) and topic.durable else None

    def scope(self, name: str) -> str:
        """Returns the scope of producers' numbers: the name of a topic that is or would be durable, else ""."""
        topic = self._topics.get(name)
        return name if (self._settings.topic if topic is None else topic.settings).durable else ""

    def restore(self, name: str, epoch: int, settings: dict[str, int], log: Log) -> TopicController:
        """Returns a durable topic that was on the disk."""
        known = TopicSettings(**settings)
        topic = TopicController(name, known, epoch, explicit=True, budget=self.budget)
        topic.durable = Durable(topic, log)
        self._keep(topic)
        return topic

    def get(self, name: str, epoch: int) -> TopicController:
        """Returns the topic of that name and epoch (TOP-5).

        Raises:
            Refused: `EPOCH_CHANGED`, `INVALID_FIELD`.
        """
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "topic")
        if topic is None or topic.epoch != epoch:
            now = "there is no topic of that name" if topic is None else f"it has epoch {topic.epoch}"
            raise Refused(
                ErrorCode.EPOCH_CHANGED,
                f"topic {name!r} is no longer the one with epoch {epoch}: {now} now, and the old offsets mean nothing. "
                "Subscribe again without an epoch, from the beginning.",
                "epoch",
            )
        return topic

    def get_or_create(self, name: str, now_us: int, client: str = "", creator: User = ANYBODY) -> TopicController:
        """Returns the topic of that name; if there is none, creates it with default settings (TOP-3).

        Args:
            name: the topic's name.
            now_us: the clock's reading.
            client: the client that a new topic is charged to.
            creator: the user, who needs the right to create it.

        Raises:
            Refused: `NO_SUCH_TOPIC` if it may not be created, `INVALID_FIELD`, `TOO_MANY_TOPICS`.
        """
        if (topic := self._topics.get(name)) is None:
            check_name(name, "topic")
            if not (self._settings.auto_create and creator.may("create", name)):
                raise Refused(
                    ErrorCode.NO_SUCH_TOPIC,
                    f"there is no topic {name!r}, and it is not created on first use here. Create it first.",
                    "topic",
                )
            topic = self._add(name, (), now_us, client, explicit=False)
        topic.unused_us = None
        return topic

    def create(
        self, name: str, pairs: tuple[tuple[int, int], ...], now_us: int, client: str = ""
    ) -> tuple[TopicController, bool]:
        """Returns the topic of that name with these settings, and whether this call created it (TOP-1, TOP-2).

        Raises:
            Refused: `TOPIC_EXISTS`, `INVALID_FIELD`, `UNSUPPORTED`, `TOO_MANY_TOPICS`, `NO_MEMORY` (RET-9).
        """
        topic = self._topics.get(name)
        if topic is None:
            check_name(name, "topic")
            return self._add(name, pairs, now_us, client, explicit=True), True
        wanted = topic.settings.merged(pairs)
        if name not in self._journals and wanted.journal_bytes:
            self._check_room(topic.client, 1)  # a journal is charged to the client of its topic
        self._check_logs(name, wanted)
        topic.create_again(pairs)
        self._give_log(topic)
        self._give_journal(topic)
        return topic, False

    def when_written(self, topic: TopicController, reply: TopicCreated) -> TopicCreated | Pending:
        """Returns the reply to a CreateTopic; for a durable topic, as one to come when the topic is on the disk."""
        if topic.durable is None:
            return reply
        answer = topic.durable.after_all(reply)
        if reply.created:
            answer.then(partial(self._undo, topic))
        return answer

    def _undo(self, topic: TopicController, outcome: TopicCreated | Refused) -> None:
        """Remove a new topic that has found no room on the disk, unless it is used already."""
        is_used = topic.end or topic.names or topic.readers
        if isinstance(outcome, Refused) and not is_used and self._topics.get(topic.name) is topic:
            self._remove(topic, "there is no room for it on the disk")

    def on_disk(self) -> dict[str, int | None]:
        """Returns what the logs of all durable topics take, for `describe`; nothing if there can be none."""
        logs = self._logs
        return {} if logs is None else {"disk_bytes": logs.used, "sync_p99_us": logs.sync_p99_us()}

    def delete(self, name: str, epoch: int, now_us: int, *, if_empty: bool) -> Pending | None:
        """Delete the topic of that name, and its journal (TOP-6). Epoch 0 matches any.

        Returns what is settled when it is gone from the disk; None if it was never there.

        Raises:
            Refused: `INVALID_FIELD`, `NO_SUCH_TOPIC`, `EPOCH_CHANGED`, `NOT_EMPTY`.
        """
        check_name(name, "topic")
        if (topic := self._topics.get(name)) is None:
            raise Refused(ErrorCode.NO_SUCH_TOPIC, f"there is no topic {name!r}", "topic")
        if epoch not in (0, topic.epoch):
            problem = f"topic {name!r} has epoch {topic.epoch}; the one with epoch {epoch} no longer exists"
            raise Refused(ErrorCode.EPOCH_CHANGED, problem, "epoch")
        if if_empty:
            topic.check_empty(now_us)
        return self._remove(topic, "on request")

    def sweep(self, now_us: int) -> None:
        """Sweep every topic (RET-7), and delete those that have been unused for `topic_ttl` (TOP-7)."""
        for topic in list(self._topics.values()):
            topic.sweep(now_us)
            if topic.is_unused(now_us, self._settings.topic_ttl * MICROSECONDS):
                self._remove(topic, "unused")
        for journal in self._journals.values():
            journal.forget_closed()

    def _remove(self, topic: TopicController, why: str) -> Pending | None:
        """Delete a topic, and log why. Journals are not logged: neither is their creation."""
        self._drop_journal(topic)
        del self._topics[topic.name]
        self.directory.remove(topic.name)
        self._quota.take(topic.client, -1)
        gone = topic.delete()
        self.on_delete(topic)
        self._last_deleted = max(self._last_deleted, topic.epoch)
        if why:
            logger.info("topic %s of %s deleted: %s", topic.name, topic.client or "nobody", why)
        return gone

    def _add(
        self, name: str, pairs: tuple[tuple[int, int], ...], now_us: int, client: str, *, explicit: bool
    ) -> TopicController:
        settings = self._settings.topic.merged(pairs)
        self._check_logs(name, settings)
        self._check_room(client, 2 if settings.journal_bytes else 1)
        epoch = max(now_us, self._last_deleted + 1)
        topic = TopicController(name, settings, epoch, explicit=explicit, budget=self.budget, client=client)
        self._give_log(topic)
        self._keep(topic)
        self._give_journal(topic)
        logger.info("topic %s created by %s", name, client or "nobody")
        return topic

    def _keep(self, topic: TopicController) -> None:
        self._topics[topic.name] = topic
        self.directory.add(topic.name, topic)
        self._quota.take(topic.client)

    def _check_logs(self, name: str, settings: TopicSettings) -> None:
        """Refuse a durable topic for which there can be no log, and any topic of a name whose log is unreadable."""
        if self._logs is not None and self.durable(name) is None:
            self._logs.check(name)
        elif self._logs is None and settings.durable:
            problem = "this broker has no folder for durable topics; give it one: zaichik serve --data DIR"
            raise Refused(ErrorCode.UNSUPPORTED, problem, "settings")

    def _give_log(self, topic: TopicController) -> None:
        if topic.settings.durable and topic.durable is None and self._logs is not None:
            topic.durable = Durable(topic, self._logs.create(topic.name, topic.epoch, topic.settings.by_name()))

    def _check_room(self, client: str, topics: int) -> None:
        """Refuse this many more topics if they exceed the limit or the client's share of it (TOP-8).

        A journal counts as a topic (JRN-2).
        """
        if not self._quota.has_room(client, topics):
            problem = (
                f"the broker has {len(self._topics)} topics; its limit (max_topics) is {self._quota.limit}, and no "
                "single client may take all that is left. Use an existing topic, or delete one."
            )
            raise Refused(ErrorCode.TOO_MANY_TOPICS, problem, "topic")

    def _give_journal(self, topic: TopicController) -> None:
        """Create, resize or delete the topic's journal, as its settings ask (JRN-1)."""
        if not topic.settings.journal_bytes:
            self._drop_journal(topic)
        elif (journal := self._journals.get(topic.name)) is None:
            journal = self._journals[topic.name] = Journal(topic, self.budget)
            self._keep(journal.topic)
        else:
            journal.resize()

    def _drop_journal(self, topic: TopicController) -> None:
        if journal := self._journals.pop(topic.name, None):
            topic.observer = None
            self._remove(journal.topic, "")
