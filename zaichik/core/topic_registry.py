"""All topics by name, created on first use.

The check for existence and the creation are one synchronous step. If each step took a lock of its
own, two creators could both find nothing, and the second would replace a topic whose readers then
wait forever. With no `await` in between, there is nothing to lock (TOP-1).
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik.core.checks import check_name
from zaichik.core.directory import Directory
from zaichik.core.durable import Durable
from zaichik.core.following.following import Following
from zaichik.core.in_memory import InMemory
from zaichik.core.journal import Journal
from zaichik.core.log import Log, Logs
from zaichik.core.pending import Pending
from zaichik.core.retained import Retained
from zaichik.core.rights import ANYBODY, TOPICS, User
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.sharing.budget import Budget
from zaichik.core.sharing.quota import Quota
from zaichik.core.tables.durable_table import DurableTable
from zaichik.core.tables.keep_last import KeepLast
from zaichik.core.tables.table import Table
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Frame, Publish, Published, Refused, TopicCreated

logger = logging.getLogger("zaichik.broker.topic_registry")

REFUSED_AS_FULL = (ErrorCode.TOPIC_FULL, ErrorCode.TABLE_FULL)


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
        # By the name of the topic that is journalled.
        self._journals: dict[str, Journal] = {}
        self._following = Following(settings, self.budget)
        self._topics: dict[str, TopicController] = {}
        self.directory: Directory[TopicController] = Directory()
        # The greatest epoch of any deleted topic: later topics get greater ones.
        self._last_deleted = 0

    def __iter__(self) -> Iterator[TopicController]:
        """Returns every topic, in order of creation."""
        return iter(self._topics.values())

    def __len__(self) -> int:
        """Returns the number of topics, journals included."""
        return len(self._topics)

    def find(self, name: str) -> TopicController | None:
        """Returns the topic of that name, if there is one."""
        return self._topics.get(name)

    def remember(
        self, request: Frame, outcome: Refused | Published, user: str, connection: int, now_us: int
    ) -> None:
        """Remember that a batch was refused, or came twice (EXP-1)."""
        if not isinstance(request, Publish):
            return
        topic = self._topics.get(request.topic)
        if topic is None:
            return
        topic.decisions.answered(now_us, request.batch, outcome, user, connection)
        if isinstance(outcome, Refused) and outcome.code in REFUSED_AS_FULL:
            topic.refused += 1

    def scope(self, name: str) -> str:
        """Returns where producers' numbers for a topic of that name count.

        See `Retained.scope`. For a topic that does not exist yet, as its first use would make it.
        """
        topic = self._topics.get(name)
        if topic is not None:
            return topic.retained.scope
        if self._settings.topic.durable:
            return name
        return ""

    def record_refusal(self, request: Publish, refusal: Refused, now_us: int) -> Pending | None:
        """Record that a batch was refused: see `Retained`. None if there is no such topic."""
        topic = self._topics.get(request.topic)
        if topic is None:
            return None
        retained = topic.retained
        return retained.record_refusal(refusal, now_us, request.producer, request.sequence)

    def durable(self, name: str) -> TopicController | None:
        """Returns the topic of that name, if it is durable."""
        topic = self._topics.get(name)
        if topic is None or not topic.settings.durable:
            return None
        return topic

    def restore(
        self,
        name: str,
        epoch: int,
        settings: dict[str, int],
        log: Log,
        lost: Sequence[tuple[int, int]] = (),
        positions: Mapping[str, int] | None = None,
        kept: KeepLast | None = None,
    ) -> TopicController:
        """Returns a durable topic that was on the disk; see `Durable` and `DurableTable`."""
        stored = TopicSettings(**settings)

        def retain(topic: TopicController, known: TopicSettings) -> Retained:
            if known.table:
                return DurableTable(topic, known, self._settings, log, kept, lost, positions)
            return Durable(topic, known, log, lost, positions)

        topic = TopicController(
            name,
            stored,
            epoch,
            explicit=True,
            budget=self.budget,
            retain=retain,
        )
        self._keep(topic)
        return topic

    def get(self, name: str, epoch: int) -> TopicController:
        """Returns the topic of that name and epoch (TOP-5).

        Raises:
            Refused: `EPOCH_CHANGED`, `INVALID_FIELD`.
        """
        topic = self._topics.get(name)
        if topic is None:
            # It may have been there: it is not kept over a restart, say.
            if name != TOPICS:
                check_name(name, "topic")
            now = "there is no topic of that name"
        elif topic.epoch != epoch:
            now = f"it has epoch {topic.epoch}"
        else:
            return topic
        problem = (
            f"topic {name!r} is no longer the one with epoch {epoch}: {now} now, and the old "
            "offsets mean nothing. Subscribe again without an epoch, from the beginning."
        )
        raise Refused(ErrorCode.EPOCH_CHANGED, problem, "epoch")

    def get_or_create(
        self, name: str, now_us: int, client: str = "", creator: User = ANYBODY
    ) -> TopicController:
        """Returns the topic of that name, which is created if there is none (TOP-3).

        A new topic has the default settings.

        Args:
            name: the topic's name.
            now_us: the clock's reading.
            client: the client that a new topic is charged to.
            creator: the user, who needs the right to create it.

        Raises:
            Refused: `NO_SUCH_TOPIC` if it may not be created, `INVALID_FIELD`, `TOO_MANY_TOPICS`.
        """
        topic = self._topics.get(name)
        if topic is None and name == TOPICS:
            return self._follow(now_us)
        if topic is None:
            check_name(name, "topic")
            may_create = self._settings.auto_create and creator.may("create", name)
            if not may_create:
                problem = (
                    f"there is no topic {name!r}, and it is not created on first use: this broker "
                    "does not do that, or you lack the right to create it."
                )
                raise Refused(ErrorCode.NO_SUCH_TOPIC, problem, "topic")
            topic = self._add(name, (), now_us, client, explicit=False)
        topic.unused_us = None
        return topic

    def create(
        self, name: str, pairs: tuple[tuple[int, int], ...], now_us: int, client: str = ""
    ) -> tuple[TopicController, bool]:
        """Returns the topic of that name with these settings (TOP-1, TOP-2).

        The second value is whether this call created it.

        Raises:
            Refused: `TOPIC_EXISTS`, `INVALID_FIELD`, `UNSUPPORTED`, `TOO_MANY_TOPICS`, `NO_MEMORY`
                (RET-9).
        """
        check_name(name, "topic")
        topic = self._topics.get(name)
        if topic is None:
            topic = self._add(name, pairs, now_us, client, explicit=True)
            return topic, True
        wanted = topic.settings.merged(pairs)
        if wanted.journal_bytes and name not in self._journals:
            # A journal is charged to the client of its topic.
            self._check_room(topic.client, 1)
        self._check_logs(name, wanted)
        topic.create_again(pairs)
        self._give_journal(topic)
        return topic, False

    def when_written(self, topic: TopicController, reply: TopicCreated) -> Frame | Pending:
        """Returns the reply to a CreateTopic.

        For a durable topic, as one to come when the topic is on the disk.
        """
        answer = topic.retained.when_written(reply)
        if isinstance(answer, Pending) and reply.created:
            answer.then(partial(self._undo, topic))
        return answer

    def _undo(self, topic: TopicController, outcome: TopicCreated | Refused) -> None:
        """Remove a new topic that has found no room on the disk, unless it is used already."""
        if not isinstance(outcome, Refused):
            return
        if topic.end or topic.names or topic.readers:
            return
        # While this waited for the disk, the topic may have been deleted, and created again.
        if self._topics.get(topic.name) is topic:
            self._remove(topic, "there is no room for it on the disk")

    def on_disk(self) -> dict[str, int | None]:
        """Returns what the logs of all durable topics take, for `describe`.

        Nothing if there can be none.
        """
        logs = self._logs
        if logs is None:
            return {}
        return {"disk_bytes": logs.used, "sync_p99_us": logs.sync_p99_us()}

    def delete(self, name: str, epoch: int, now_us: int, *, if_empty: bool) -> Pending | None:
        """Delete the topic of that name, and its journal (TOP-6). Epoch 0 matches any.

        Returns what is settled when it is gone from the disk; None if it was never there.

        Raises:
            Refused: `INVALID_FIELD`, `NO_SUCH_TOPIC`, `EPOCH_CHANGED`, `NOT_EMPTY`.
        """
        check_name(name, "topic")
        topic = self._topics.get(name)
        if topic is None:
            raise Refused(ErrorCode.NO_SUCH_TOPIC, f"there is no topic {name!r}", "topic")
        if epoch not in (0, topic.epoch):
            problem = (
                f"topic {name!r} has epoch {topic.epoch}; the one with epoch {epoch} no "
                "longer exists"
            )
            raise Refused(ErrorCode.EPOCH_CHANGED, problem, "epoch")
        if if_empty:
            topic.check_empty(now_us)
        return self._remove(topic, "on request", now_us)

    def sweep(self, now_us: int) -> None:
        """Sweep every topic (RET-7), and delete those that were unused for `topic_ttl` (TOP-7)."""
        ttl_us = self._settings.topic_ttl * SECOND_US
        for topic in list(self._topics.values()):
            topic.sweep(now_us)
            if topic.is_unused(now_us, ttl_us):
                self._remove(topic, "unused", now_us)
        for journal in self._journals.values():
            journal.forget_closed()
        self._following.sweep(now_us)

    def stop_following(self) -> None:
        """Delete `$topics`, if it is there: rights may have changed (PAT-5)."""
        topic = self._topics.get(TOPICS)
        if topic is not None:
            self._following.end()
            self._quota.take(topic.client)
            self._remove(topic, "")

    def _follow(self, now_us: int) -> TopicController:
        """Returns a new `$topics` (PAT-1)."""
        epoch = max(now_us, self._last_deleted + 1)
        topic = self._following.begin(self._topics.values(), epoch, now_us)
        self._keep(topic)
        # It does not count: nobody has created it.
        self._quota.take(topic.client, -1)
        return topic

    def _remove(self, topic: TopicController, why: str, now_us: int = 0) -> Pending | None:
        """Delete a topic, and log why. The broker's own are not logged: nor is their creation.

        Args:
            topic: the topic.
            why: for the log.
            now_us: the clock's reading; 0 where it is not known.
        """
        self._drop_journal(topic)
        name, client = topic.name, topic.client
        del self._topics[name]
        self.directory.remove(name)
        self._quota.take(client, -1)
        gone = topic.delete()
        self.on_delete(topic)
        self._following.went(topic, now_us)
        self._last_deleted = max(self._last_deleted, topic.epoch)
        if why:
            logger.info("topic %s of %s deleted: %s", name, client or "nobody", why)
        return gone

    def _add(
        self,
        name: str,
        pairs: tuple[tuple[int, int], ...],
        now_us: int,
        client: str,
        *,
        explicit: bool,
    ) -> TopicController:
        settings = self._settings.topic.merged(pairs)
        self._check_logs(name, settings)
        topics = 1
        if settings.journal_bytes:
            topics += 1
        self._check_room(client, topics)
        epoch = max(now_us, self._last_deleted + 1)
        topic = TopicController(
            name,
            settings,
            epoch,
            explicit=explicit,
            budget=self.budget,
            client=client,
            retain=self._retain,
        )
        self._keep(topic)
        self._following.came(topic, now_us)
        self._give_journal(topic)
        logger.info("topic %s created by %s", name, client or "nobody")
        return topic

    def _keep(self, topic: TopicController) -> None:
        self._topics[topic.name] = topic
        self.directory.add(topic.name, topic)
        self._quota.take(topic.client)

    def _check_logs(self, name: str, settings: TopicSettings) -> None:
        """Refuse a durable topic for which there can be no log.

        Any topic is refused if its name has a log that is unreadable.
        """
        if self._logs is not None:
            # A durable topic has passed this check, and has the log of that name.
            if self.durable(name) is None:
                self._logs.check(name)
        elif settings.durable:
            problem = (
                "this broker has no folder for durable topics; give it one: zaichik serve "
                "--data DIR"
            )
            raise Refused(ErrorCode.UNSUPPORTED, problem, "settings")

    def _retain(self, topic: TopicController, settings: TopicSettings) -> Retained:
        """Returns what a topic with these settings retains: here its kind is chosen."""
        logs = self._logs
        if settings.durable and logs is not None:
            log = logs.create(topic.name, topic.epoch, settings.by_name())
            if settings.table:
                return DurableTable(topic, settings, self._settings, log)
            return Durable(topic, settings, log)
        if settings.table:
            return Table(topic, settings, self._settings)
        return InMemory(topic, settings)

    def _check_room(self, client: str, topics: int) -> None:
        """Refuse this many more topics beyond the limit, or the client's share of it (TOP-8).

        A journal counts as a topic (JRN-2).
        """
        if not self._quota.has_room(client, topics):
            problem = (
                f"the broker has {counted(self._quota.used, 'topic')}; its limit (max_topics) is "
                f"{self._quota.limit}, and no single client may take all that is left. "
                "Use an existing topic, or delete one."
            )
            raise Refused(ErrorCode.TOO_MANY_TOPICS, problem, "topic")

    def _give_journal(self, topic: TopicController) -> None:
        """Create, resize or delete the topic's journal, as its settings ask (JRN-1)."""
        if not topic.settings.journal_bytes:
            self._drop_journal(topic)
            return
        journal = self._journals.get(topic.name)
        if journal is None:
            journal = Journal(topic, self.budget)
            self._journals[topic.name] = journal
            self._keep(journal.topic)
        else:
            journal.resize()

    def _drop_journal(self, topic: TopicController) -> None:
        journal = self._journals.pop(topic.name, None)
        if journal is not None:
            topic.observer = None
            self._remove(journal.topic, "")
