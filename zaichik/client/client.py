"""The client: topics, publishing and subscribing over one connection."""

# Not compiled: mypyc has no asynchronous generators, which context managers are written as.

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import anyio
from anyio.abc import TaskGroup

from zaichik.base.clock import MILLISECOND_US
from zaichik.client.connection import CLOSE_SECONDS, BrokerConnection
from zaichik.client.dialer import Dialer
from zaichik.client.endpoint import Endpoint, at
from zaichik.client.epochs import Epochs, LostTopic
from zaichik.client.errors import Forbidden
from zaichik.client.inbox import Inbox
from zaichik.client.messages import (
    AckedBy,
    BatchResult,
    CommitMode,
    Duration,
    Key,
    Message,
    Missed,
    PatternEvent,
    Payload,
    PublishResult,
    StartAt,
    Topic,
    batch_of,
    batch_result,
    check_acked_by,
    check_size,
    is_explicit,
    key_bytes,
    milliseconds,
    named_settings,
    overflow_of,
    payload_bytes,
    start_at,
)
from zaichik.client.opening import open_connection, open_further_connection
from zaichik.client.patterns.follower import Follower, Terms
from zaichik.client.patterns.news import News
from zaichik.client.patterns.pattern import Pattern
from zaichik.client.patterns.subscription import PatternSubscription
from zaichik.client.producer import Producer
from zaichik.client.publishing import Publishing
from zaichik.client.questions import Questions
from zaichik.client.subscription import Subscription
from zaichik.client.work.dead import SharedNames
from zaichik.client.work.inbox import WorkInbox
from zaichik.client.work.settling import Settling
from zaichik.client.work.subscription import WorkSubscription
from zaichik.client.work.terms import DEFAULT_CREDIT as WORK_CREDIT
from zaichik.client.work.terms import (
    DEFAULT_MAX_DELIVERIES,
    DEFAULT_TIMEOUT,
    WorkTerms,
    check_known,
    seconds_of,
)
from zaichik.net.background import DetachedTasks, every
from zaichik.net.tls_settings import ClientTls
from zaichik_protocol import (
    DEFAULT_PORT,
    FOREVER,
    AdvanceClock,
    Batch,
    ClockAdvanced,
    CreateTopic,
    Delete,
    Deleted,
    Disconnect,
    Disconnected,
    Ping,
    Pong,
    Setting,
    Start,
    Subscribe,
    TopicCreated,
    Unsubscribe,
    Welcome,
)

if TYPE_CHECKING:
    from zaichik.client.replication.acknowledgement import Acknowledgement
    from zaichik.client.replication.follower import WatermarkFollower
    from zaichik.client.replication.replication import Replication

DEFAULT_CREDIT = 1000  # messages in flight or waiting here: enough to keep a fast reader busy
DEFAULT_CREDIT_BYTES = 8 * 1024 * 1024
# So that the broker soon knows what a slow program has settled, whatever its credit.
COMMIT_SECONDS = 0.1
# The same, while the program waits for more.
WAITING_SECONDS = 0.005
# A broker answers within milliseconds; if this takes longer, it is frozen, or the network is
SILENCE_SECONDS = 30.0
RECONNECT_SECONDS = 60.0  # a broker that was restarted is back by then
MOST_RECONNECT_SECONDS = 300.0  # half as long as a broker remembers numbered batches


@asynccontextmanager
async def connect(
    host: str | Endpoint = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    tls: ClientTls | None = None,
    name: str = "",
    timeout: float = 5.0,
    reconnect: float = RECONNECT_SECONDS,
    silence_timeout: float = SILENCE_SECONDS,
    on_new_epoch: Literal["warn", "raise"] = "warn",
    acked_by: Mapping[str, AckedBy] | None = None,
) -> AsyncIterator["Client"]:
    """Returns a client that stays connected for as long as the block lasts.

    A lost connection is replaced behind the scenes, and no request is lost or carried out twice:
    tasks that wait for a reply, or for messages, wait a little longer. See `zaichik.client` for
    how. Another task may leave the block than has entered it, unless that was one of trio's.

    Args:
        host: the broker's address; or all of it in one, `HOST:PORT` or, with TLS and with
            credentials, `zaichiks://TOKEN@HOST:PORT?pin=sha256:HEX`, as a line of text or as
            `zaichik.endpoint` has parsed it.
        port: the broker's port, if `host` does not name one.
        tls: what to insist on with TLS, if not what the address says: see `zaichik.client_tls`. If
            the address has a pin, it must be in both.
        name: the client's name in the broker's log and in `describe`.
        timeout: seconds the broker may take to accept a connection and answer its Hello. With a
            password, the answer may take 30 seconds, if `timeout` is not longer than that: brokers
            check passwords one at a time.
        reconnect: seconds to keep trying after the connection was lost, before everything raises
            `ConnectionLost`; 0: do not try. The first connection is attempted only once.
        silence_timeout: seconds after which the connection to a broker that owes a reply, and sends
            nothing at all, counts as lost. It must be longer than one batch takes over a slow
            network; `math.inf`: never.
        on_new_epoch: what to do when the broker comes back without a topic that this client created
            or published to, so that a topic of that name is a different one (TOP-5); or with an
            older copy of it. "warn" logs a warning and adds the topic to `Client.lost_topics`;
            "raise" also makes every later publish to that topic raise `EpochChanged`.
        acked_by: by topic, what has to have each message that is published there before the
            publish returns, unless the call itself says so: see `Client.publish`.

    Raises:
        ConnectFailed: there is no broker, or none answered in time, or TLS failed, or the
            credentials would be readable on the way.
        BrokerError: the broker refused to serve this client, with `AuthFailed` for example.
        ValueError: `host` is not an address, `reconnect` is not from 0 to 300, `silence_timeout` is
            not above 0, `on_new_epoch` is neither word, `acked_by` has another word than
            "kafka", or `name` is longer than 65,535 bytes.
    """
    check_terms(reconnect, silence_timeout, on_new_epoch)
    for by in (acked_by or {}).values():
        check_acked_by(by)
    dialer = Dialer(at(host, port), tls)
    async with connect_over(
        dialer,
        name,
        timeout,
        reconnect,
        silence_timeout,
        is_strict=on_new_epoch == "raise",
        acked_by=acked_by,
    ) as client:
        yield client


def check_terms(reconnect: float, silence_timeout: float, on_new_epoch: str) -> None:
    """Refuse arguments of `connect` that are out of range.

    Raises:
        ValueError: one of them is.
    """
    if not 0 <= reconnect <= MOST_RECONNECT_SECONDS:
        raise ValueError(
            f"reconnect must be 0 to {MOST_RECONNECT_SECONDS:g} seconds, not {reconnect!r}: after "
            "600 seconds a broker "
            "has forgotten which batches it stored, and a retry could store one twice"
        )
    if not silence_timeout > 0:
        raise ValueError(f"silence_timeout must be more than 0 seconds, not {silence_timeout!r}")
    if on_new_epoch not in {"warn", "raise"}:
        raise ValueError(f"on_new_epoch must be 'warn' or 'raise', not {on_new_epoch!r}")


@asynccontextmanager
async def connect_over(
    dialer: Dialer,
    name: str,
    timeout: float,
    reconnect: float,
    silence_timeout: float,
    *,
    is_strict: bool = False,
    creates: bool = False,
    acked_by: Mapping[str, AckedBy] | None = None,
) -> AsyncIterator["Client"]:
    """Returns a client whose sockets a dialer opens; see `connect` for the arguments.

    Args:
        dialer: opens each of them.
        name: the client's name.
        timeout: seconds for a connection and its greeting.
        reconnect: seconds to keep trying after a loss; in range.
        silence_timeout: seconds that the broker may be silent; in range.
        is_strict: whether publishing fails once a topic is another one.
        creates: whether topics are created before their first use, because the broker does not.
        acked_by: by topic; its words are known.

    Raises:
        ConnectFailed, BrokerError: see `connect`.
    """
    opening = open_connection(dialer, name, timeout, reconnect, silence_timeout)
    async with opening as connection, DetachedTasks() as tasks:
        epochs = Epochs(connection, is_strict=is_strict, creates=creates)
        publishing = Publishing(connection, tasks.group, epochs)
        another = partial(
            open_further_connection, dialer, name, timeout, reconnect, silence_timeout
        )
        client = Client(connection, publishing, epochs, tasks.group, another, dict(acked_by or {}))
        tasks.group.start_soon(client.commit_regularly)
        try:
            yield client
        finally:
            publishing.close()


class Client(Questions, SharedNames):
    """A connection to a broker; `connect` makes one. Many tasks may call its methods at once.

    Besides the errors it names, each method raises `ConnectionLost` once the connection is lost for
    good.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        publishing: Publishing,
        epochs: Epochs,
        tasks: TaskGroup,
        another: Callable[[], AbstractAsyncContextManager[BrokerConnection]],
        acked_by: Mapping[str, AckedBy],
    ) -> None:
        super().__init__(connection)
        self._publishing = publishing
        self._epochs = epochs
        # Its background.
        self._tasks = tasks
        # Opens one more connection, for as long as its block lasts.
        self._another = another
        # What acknowledges publishes to a topic, if a call does not say so itself.
        self.acked_by = acked_by
        # Made when it is first needed.
        self._replication: Replication | None = None
        self._subscriptions: set[Subscription[Any] | PatternSubscription[Any]] = set()
        # Set when there is one of them.
        self._subscribed = anyio.Event()
        # Set when a loop over one of them begins to wait for more.
        self._waits = anyio.Event()

    @property
    def connection(self) -> BrokerConnection:
        """The connection, for `zaichik.blocking`."""
        return self._connection

    @property
    def welcome(self) -> Welcome:
        """The broker's greeting: its limits, name and boot number."""
        return self._connection.welcome

    @property
    def lost_topics(self) -> tuple[LostTopic, ...]:
        """Topics of this client that the broker has lost since (TOP-5).

        Those are topics that it created or published to. They are looked for after every
        reconnection. A broker that was not restarted has lost none, and what this client has
        deleted is not lost.
        """
        return tuple(self._epochs.lost)

    # -- topics ----------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        *,
        retention_ttl: Duration | None = None,
        compaction_window: Duration | None = None,
        capacity: int | None = None,
        max_bytes: int | None = None,
        max_keys: int | None = None,
        journal: int | None = None,
        overflow: Literal["evict", "reject"] | None = None,
        durable: bool | None = None,
        log_bytes: int | None = None,
        segment_bytes: int | None = None,
        table: bool | None = None,
        tombstones: Duration | None = None,
    ) -> Topic:
        """Returns the topic, created with these settings if it does not exist.

        Settings left out take the broker's defaults in a new topic, and are not compared in an
        existing one (TOP-2).

        Args:
            topic: 1 to 200 bytes of UTF-8, no control characters, not beginning with "$".
            retention_ttl: how long messages stay readable for latecomers: seconds, a timedelta or
                "forever".
            compaction_window: how long a key's first message keeps later ones out; 0 is off.
            capacity: most messages kept; the oldest are evicted first.
            max_bytes: most bytes kept; as above.
            max_keys: most keys whose windows are remembered.
            journal: bytes of its journal, the topic `$journal/NAME` that records every message
                published (JRN-1); 0: none.
            overflow: what a full topic does with messages that a reader still needs: "evict" drops
                them; "reject" refuses new messages until there is room, and publishing waits for
                that (RET-9).
            durable: whether messages are on the disk before they are answered and delivered
                (DUR-1). Then they are kept for ever unless `retention_ttl` says otherwise, and
                `capacity` and `max_bytes` bound those in memory.
            log_bytes: of a durable topic: most bytes on the disk; the oldest messages are evicted
                first.
            segment_bytes: of a durable topic: bytes of each file of the log.
            table: whether the topic is a table, which keeps the last message of each key (TAB-1).
                Then nothing is evicted: `capacity` and `max_bytes` bound what can be read, and a
                publish beyond them raises `TableFull`.
            tombstones: of a table: how long it keeps the messages that delete keys (TAB-5).

        Raises:
            ValueError: a duration or `overflow` is not one of the values allowed, or a number does
                not fit its field.
            TopicExists: it exists with settings other than those named (TOP-2).
            InvalidField: a name or a value is out of range.
        """
        named: dict[Setting, int | None] = {
            Setting.RETENTION_TTL_MS: None,
            Setting.COMPACTION_WINDOW_MS: None,
            Setting.CAPACITY: capacity,
            Setting.MAX_BYTES: max_bytes,
            Setting.MAX_KEYS: max_keys,
            Setting.JOURNAL_BYTES: journal,
            Setting.OVERFLOW: None,
            Setting.DURABLE: None,
            Setting.LOG_BYTES: log_bytes,
            Setting.SEGMENT_BYTES: segment_bytes,
            Setting.TABLE: None,
            Setting.TOMBSTONES_MS: None,
        }
        if retention_ttl is not None:
            named[Setting.RETENTION_TTL_MS] = milliseconds(retention_ttl)
        if compaction_window is not None:
            named[Setting.COMPACTION_WINDOW_MS] = milliseconds(compaction_window)
        if overflow is not None:
            named[Setting.OVERFLOW] = overflow_of(overflow)
        if durable is not None:
            named[Setting.DURABLE] = int(durable)
        if table is not None:
            named[Setting.TABLE] = int(table)
        if tombstones is not None:
            named[Setting.TOMBSTONES_MS] = milliseconds(tombstones)
        pairs = _pairs(named)
        request = CreateTopic(self._connection.next_id(), topic, pairs)
        reply = await self._connection.request(
            request, TopicCreated, partial(self._epochs.created, topic, pairs)
        )
        return Topic(topic, bool(reply.created), reply.epoch, named_settings(reply.settings))

    async def delete_topic(self, topic: str, *, if_empty: bool = False, epoch: int = 0) -> None:
        """Returns when the topic is gone, with its messages, named positions and journal (TOP-6).

        Its readers get `SubscriptionLost`. If the connection is lost meanwhile and the topic is
        gone afterwards, that counts as success: the broker may have deleted it before its reply was
        lost.

        Args:
            topic: its name.
            if_empty: only if it holds no message and has no reader and no named position.
            epoch: only the topic with this epoch, as returned by `create_topic` or a subscription;
                0: any.

        Raises:
            NoSuchTopic: there is no topic of that name.
            NotEmpty: with `if_empty`, it is not.
            EpochChanged: the topic has another epoch.
            InvalidField: the name is not valid, or reserved for the broker.
            Unsupported: the broker is too old to know this request.
        """
        request = Delete(self._connection.next_id(), topic, epoch, if_empty=if_empty)
        try:
            await self._connection.request(
                request, Deleted, partial(self._publishing.deleted, topic)
            )
        except anyio.get_cancelled_exc_class():
            # It may be carried out all the same, and is then no loss.
            self._publishing.forget(topic)
            raise

    async def disconnect(self, connection: int) -> None:
        """Returns when the broker has begun to close another connection (CLO-4).

        Its client may connect again.

        Args:
            connection: its number, from `connections`.

        Raises:
            InvalidField: no connection has that number, or this one has it.
            Unsupported: the broker is too old to know this request.
        """
        await self._connection.request(
            Disconnect(self._connection.next_id(), connection), Disconnected
        )

    async def advance_clock(self, by: Duration) -> int:
        """Returns the broker's time once its clock has been moved forward by that much (TIM-4).

        It is in µs since 1970. What that time ends has ended by then: messages have expired,
        compaction windows are over, names of readers that are away are forgotten. Deadlines of
        connections are not affected.

        Args:
            by: seconds, exact to the millisecond, or a timedelta. If two clients do this at once,
                it may count once.

        Raises:
            ValueError: it is negative, and no clock can be set back; or it is more than 584,942
                years.
            InvalidField: the clock would be beyond the year 9799, or another client has moved it
                further meanwhile.
            Unsupported: the broker's clock moves by itself, or the broker is too old to know this
                request.
            Forbidden: with access control, for a user without the right to delete `$broker`.
        """
        # A time, and not a duration, so that a request that is sent again changes nothing.
        to_us = int((await self.describe())["now_us"]) + milliseconds(by) * MILLISECOND_US
        await self._connection.request(
            AdvanceClock(self._connection.next_id(), to_us), ClockAdvanced
        )
        return to_us

    async def ping(self) -> None:
        """Returns when the broker has carried out everything sent before."""
        await self._connection.request(Ping(self._connection.next_id()), Pong)

    # -- publishing ------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: Payload | None,
        key: Key = None,
        *,
        acked_by: AckedBy | None = None,
    ) -> PublishResult:
        """Publishes one message; returns its result once it is readable (PUB-1).

        Concurrent calls share batches. For a stream of messages, `producer` is faster still.

        With `acked_by="kafka"` it returns when Kafka has the message, too (AK-1). That waits for a
        bridge (`zaichik bridge`), for ever if none runs: put a time limit around it. A call that is
        cancelled may have stored its message, and a bridge may copy it later.

        Args:
            topic: where to; created if it does not exist.
            payload: its bytes; None deletes the key from a table (TAB-5). In another topic that is
                a message with an empty payload.
            key: its key, if it has one.
            acked_by: "kafka": see above; None: as `connect` was told for this topic.

        Raises:
            MessageTooLarge: more bytes than `welcome.max_message`.
            TableFull: the table would hold more than it may. Nothing was stored.
            InvalidField: an empty payload with a key, for a table: None deletes the key.
            ValueError: a key is to be deleted, and none is named; or `acked_by` is another word.
            NotLossless, NoSuchTopic: with `acked_by`, the topic could lose messages before they are
                replicated, or is not there. Nothing was stored.
            ReplicationLost: it is stored, and is not replicated, or that is not known.
        """
        name = b""
        if key is not None:
            name = key_bytes(key)
        is_tombstone = payload is None
        if type(payload) is not bytes:
            payload = payload_bytes(payload, name)
        acknowledgement: Acknowledgement | None = None
        if acked_by is not None or self.acked_by:
            acknowledgement = await self._expected(topic, acked_by)
        result = await self._publishing.publish(topic, name, payload, is_tombstone=is_tombstone)
        if acknowledgement is not None:
            await acknowledgement.confirm(result)
        return result

    async def publish_batch(
        self,
        topic: str,
        batch: Batch | Iterable[tuple[Key, Payload | None]],
        *,
        producer: int = 0,
        number: int = 0,
        tombstones: bool = False,
        acked_by: AckedBy | None = None,
    ) -> BatchResult:
        """Publishes several messages, all or none; returns their result (PUB-2).

        The client numbers its batches, so that none is stored twice however often it is sent. A
        program that wants to be safe from its own repetitions as well numbers them itself: a batch
        that was stored before is not stored again, and its first result is repeated (PUB-4).

        Args:
            topic: where to; created if it does not exist.
            batch: the messages, as (key, payload) pairs or as the wire's batch. A payload of None
                deletes its key from a table (TAB-5).
            producer: 64 random bits that the program has chosen; 0: the client numbers the batch.
            number: of the batch, counted from 0 for each producer and topic, if the program numbers
                it. It is sent when it is published: the program waits for one result before it
                publishes the next batch.
            tombstones: whether all empty payloads with a key are meant to delete it, as in a copy
                of messages from a table.
            acked_by: what has to have them before this returns: see `publish`. If a topic in memory
                was deleted and made again, a batch with a number that it was published under before
                is answered with its old offsets (TOP-6), and may be acknowledged for them.

        Raises:
            BatchTooLarge: more messages than `welcome.max_batch`, more bytes than
                `welcome.max_message`, or more than the topic's ring holds. Nothing was stored.
            SequenceGap, ProducerUnknown: a batch before this one is missing, or the broker has
                forgotten the producer.
            TableFull: the table would hold more than it may. Nothing was stored.
            ValueError: of empty payloads with a key, some are None and others not: publish them in
                two batches.
            NotLossless, NoSuchTopic, ReplicationLost: with `acked_by`: see `publish`.
        """
        if not isinstance(batch, Batch):
            batch, tombstones = batch_of(batch, tombstones=tombstones)
        check_size(batch.count, batch.size, self.welcome)
        acknowledgement: Acknowledgement | None = None
        if acked_by is not None or self.acked_by:
            acknowledgement = await self._expected(topic, acked_by)
        if producer:
            reply = await self._publishing.send_numbered(
                topic, batch, producer, number, tombstones=tombstones
            )
        else:
            reply = await self._publishing.store(topic, batch, tombstones=tombstones)
        result = batch_result(reply, batch.count)
        if acknowledgement is not None:
            await acknowledgement.confirm(result)
        return result

    async def acknowledgement(self, topic: str, by: AckedBy = "kafka") -> "Acknowledgement":
        """Returns what will say that the next publish to the topic is replicated (AK-1).

        `publish(..., acked_by="kafka")` does this in one call. It is for programs that go on
        publishing meanwhile, such as front ends: publish without `acked_by`, then wait for
        `acknowledgement.confirm(result)`, in whichever task.

        Args:
            topic: where the messages will be published.
            by: what has to have them.

        Raises:
            NotLossless, NoSuchTopic, ValueError: see `publish`.
        """
        return await self._replicated().acknowledgement(topic, by)

    def acknowledges(self, topic: str, acked_by: AckedBy | None = None) -> AckedBy | None:
        """Returns what has to have a message of the topic before its publish returns.

        None: nothing but the broker.

        Args:
            topic: where it is published.
            acked_by: what the call says; None: nothing.
        """
        return acked_by or self.acked_by.get(topic)

    async def _expected(self, topic: str, acked_by: AckedBy | None) -> "Acknowledgement | None":
        by = self.acknowledges(topic, acked_by)
        if by is None:
            return None
        return await self.acknowledgement(topic, by)

    def _replicated(self) -> "Replication":
        if self._replication is None:
            # Few programs need it.
            from zaichik.client.replication.replication import Replication

            self._replication = Replication(self._connection, self._tasks, self.topic)
        return self._replication

    @asynccontextmanager
    async def producer(
        self,
        topic: str,
        *,
        max_batch: int = 1000,
        max_bytes: int = 256 * 1024,
        acked_by: AckedBy | None = None,
    ) -> AsyncIterator[Producer]:
        """Returns a producer for the topic.

        It is flushed when the block ends, unless the block is cancelled.

        Args:
            topic: the topic to publish to.
            max_batch: the most messages in a batch.
            max_bytes: the most bytes in a batch; a single message may have more.
            acked_by: "kafka": `flush`, and the end of the block, wait until Kafka has the messages,
                too (AK-1); None: as `connect` was told for this topic.

        Raises:
            NotLossless, NoSuchTopic, ValueError: with `acked_by`: see `publish`.
        """
        max_batch = min(max_batch, self.welcome.max_batch)
        max_bytes = min(max_bytes, self.welcome.max_message)
        by = self.acknowledges(topic, acked_by)
        follower: WatermarkFollower | None = None
        if by is not None:
            follower = await self._replicated().following(topic, by)
        producer = Producer(
            self._connection, self._publishing, topic, max_batch, max_bytes, follower
        )
        try:
            yield producer
            await producer.flush()
        except Exception:
            # The block's own exception is raised, and a broker that hangs must not delay it.
            with suppress(Exception), anyio.move_on_after(CLOSE_SECONDS):
                await producer.flush()
            raise
        finally:
            ended = "the producer has ended, with its `async with` block"
            producer.close(partial(RuntimeError, ended))

    # -- subscribing -----------------------------------------------------------------------------

    @overload
    def subscribe(
        self,
        topic: str,
        *,
        start: StartAt = ...,
        until: int | None = ...,
        epoch: int | None = ...,
        credit: int | None = ...,
        credit_bytes: int = ...,
        name: str = ...,
        events: Literal[False] = ...,
        commit: CommitMode = ...,
        acked_by: AckedBy | None = ...,
        shared: Literal[False] = ...,
    ) -> AbstractAsyncContextManager[Subscription[Message]]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        *,
        start: StartAt = ...,
        until: int | None = ...,
        epoch: int | None = ...,
        credit: int | None = ...,
        credit_bytes: int = ...,
        name: str = ...,
        events: bool,
        commit: CommitMode = ...,
        acked_by: AckedBy | None = ...,
        shared: Literal[False] = ...,
    ) -> AbstractAsyncContextManager[Subscription[Message | Missed]]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        *,
        name: str,
        shared: Literal[True],
        timeout: Duration = ...,
        max_deliveries: int = ...,
        by_key: bool = ...,
        start: StartAt = ...,
        epoch: int | None = ...,
        credit: int | None = ...,
        credit_bytes: int = ...,
    ) -> AbstractAsyncContextManager[WorkSubscription]: ...

    def subscribe(
        self,
        topic: str,
        *,
        start: StartAt = "earliest",
        until: int | None = None,
        epoch: int | None = None,
        credit: int | None = None,
        credit_bytes: int = DEFAULT_CREDIT_BYTES,
        name: str = "",
        events: bool = False,
        commit: CommitMode = "automatic",
        acked_by: AckedBy | None = None,
        shared: bool = False,
        timeout: Duration = DEFAULT_TIMEOUT,
        max_deliveries: int = DEFAULT_MAX_DELIVERIES,
        by_key: bool = False,
    ) -> AbstractAsyncContextManager[Any]:
        """Returns a subscription that lasts as long as the block. Iterate over it to get messages.

        With `shared=True` the name is a work queue: each message goes to one of its workers, and is
        settled by itself. Then this returns a `WorkSubscription` of `WorkMessage`s (SHR).

        Args:
            topic: the topic to read; created if it does not exist.
            start: "earliest" (what retention has kept), "latest" (only what is new), an offset, or
                a datetime: messages accepted since then (RET-4).
            until: stop before this offset; None: never. Not for a shared name.
            epoch: fail with `EpochChanged` unless the topic still has this epoch (TOP-5).
            credit: the most messages in flight, including those that wait here. None: 1000; for a
                shared name 1, so that nothing waits here behind a long job (SHR-4).
            credit_bytes: the most bytes of keys and payloads in flight.
            name: the name under which the broker keeps the position for a while after this
                subscription ends, so that the next one of that name resumes there; `start` only
                applies to a name the broker does not know (CMT-3). "": anonymous; no position is
                kept.
            events: whether to yield `Lagged` and `DeletionsMissed` among the messages. Both are
                logged in any case, and lag is counted. Not for a shared name.
            commit: what settles a message: "automatic", the step to the next one; or "explicit",
                `subscription.commit(offset)` or `commit_nowait` alone, for programs that finish
                messages in another order. Then no more than `credit` messages come until some are
                committed (CMT-1). Not for a shared name.
            acked_by: "kafka": hold back what Kafka does not have yet (AK-2). What is held back uses
                credit. Not for a shared name.
            shared: whether the name is shared with other workers (SHR-1). It is forgotten by
                `forget_name` alone.
            timeout: of a shared name: how long this program may take for a message before it goes
                to another worker (SHR-4): at most 24 hours; 0 or "forever": as long as it likes.
            max_deliveries: of a shared name: a message that has failed so often is dead (SHR-5); 0:
                never. The workers of a name must agree in it.
            by_key: of a shared name: whether messages of a key are handed out one at a time, in
                their order (SHR-8). The workers must agree in it, too.

        Raises:
            OffsetAhead, EpochChanged, NoSuchTopic, TooManySubscriptions: by the broker, when the
                block begins.
            InvalidField: a value is out of range; or the name is shared and this is not, or the
                other way round; or its workers have agreed in something else.
            Unsupported: the broker has no shared names.
            ValueError: the start, `commit` or `acked_by` is none; or an argument is for shared
                names alone, or not for them, or out of range.
            NotLossless: with `acked_by`, the topic could lose messages before they are replicated.
        """
        explicit = is_explicit(commit)
        where, value = start_at(start)
        if until is None:
            until = FOREVER
        if credit is None:
            credit = WORK_CREDIT if shared else DEFAULT_CREDIT
        # Its number is drawn when the block begins, for numbers must rise.
        request = Subscribe(
            id=0,
            topic=topic,
            name=name,
            start=where,
            value=value,
            epoch=epoch or 0,
            until=until,
            credit=credit,
            credit_bytes=credit_bytes,
        )
        terms = WorkTerms(timeout, max_deliveries, by_key)
        if shared:
            if acked_by is not None:
                raise ValueError(
                    "acked_by is not for shared names: workers take messages as they come"
                )
            return self._work(terms.applied(request, events=events, explicit=explicit))
        terms.check_unused()
        if acked_by is not None:
            check_acked_by(acked_by)
        return self._read(request, acked_by, events=events, explicit=explicit)

    async def _create_first(self, request: Subscribe) -> None:
        """Create a topic that is about to be read, if the broker would not (see `epochs`)."""
        # Nobody creates a topic that must be the one of that epoch, or one of the broker's own.
        if not self._epochs.creates or request.epoch or request.topic.startswith("$"):
            return
        # Who may read it need not be allowed to create it.
        with suppress(Forbidden):
            await self.create_topic(request.topic)

    @asynccontextmanager
    async def _read(
        self, request: Subscribe, acked_by: AckedBy | None, *, events: bool, explicit: bool
    ) -> AsyncIterator[Subscription[Any]]:
        """Returns a subscription that reads a topic in order."""
        await self._create_first(request)
        connection = self._connection
        follower: WatermarkFollower | None = None
        if acked_by is not None:
            follower = await self._replicated().following(request.topic, acked_by)
        request = replace(request, id=connection.next_subscription_id())
        made: AbstractContextManager[Inbox]
        if follower is None:
            made = nullcontext(Inbox(request, explicit=explicit))
        else:
            made = follower.holding_back(request, explicit=explicit)
        with made as inbox, connection.receiving(inbox):
            reply = await connection.subscribe(request)
            subscription = Subscription[Any](
                connection,
                request,
                reply,
                inbox,
                self._commit_soon,
                events=events,
                explicit=explicit,
            )
            try:
                with self.committing(subscription):
                    yield subscription
            finally:
                subscription.commit_settled()
                if inbox.is_live:
                    connection.send_soon(Unsubscribe(0, inbox.id))

    @asynccontextmanager
    async def _work(self, request: Subscribe) -> AsyncIterator[WorkSubscription]:
        """Returns a worker of a shared name."""
        connection = self._connection
        check_known(connection.welcome.features)
        await self._create_first(request)
        request = replace(request, id=connection.next_subscription_id())
        timeout = seconds_of(request)
        settling = Settling(connection, request.id, timeout)
        with connection.receiving(WorkInbox(request, settling)) as inbox:
            reply = await connection.subscribe(request)
            work = WorkSubscription(connection, request, reply, inbox, settling, timeout)
            looking = anyio.CancelScope()
            self._tasks.start_soon(_look_regularly, work, looking)
            try:
                yield work
                await work.answered()
            except BaseException as error:
                await work.leave(error, (anyio.get_cancelled_exc_class(),))
                raise
            else:
                await work.leave(None, ())
            finally:
                looking.cancel()

    @overload
    def subscribe_pattern(
        self,
        pattern: str,
        *,
        start: Literal["earliest", "latest"] | datetime = ...,
        credit: int = ...,
        credit_bytes: int = ...,
        name: str = ...,
        events: Literal[False] = ...,
    ) -> AbstractAsyncContextManager[PatternSubscription[Message]]: ...

    @overload
    def subscribe_pattern(
        self,
        pattern: str,
        *,
        start: Literal["earliest", "latest"] | datetime = ...,
        credit: int = ...,
        credit_bytes: int = ...,
        name: str = ...,
        events: bool,
    ) -> AbstractAsyncContextManager[PatternSubscription[Message | PatternEvent]]: ...

    @asynccontextmanager
    async def subscribe_pattern(
        self,
        pattern: str,
        *,
        start: Literal["earliest", "latest"] | datetime = "earliest",
        credit: int = DEFAULT_CREDIT,
        credit_bytes: int = DEFAULT_CREDIT_BYTES,
        name: str = "",
        events: bool = False,
    ) -> AsyncIterator[PatternSubscription[Any]]:
        """Returns one subscription to all topics that match, those that come later included.

        When the block begins, those that are there are subscribed to. A topic that comes later is
        read from its first message, or from what is left of it; what was missed is reported
        (PAT-2).

        Args:
            pattern: `*` stands for one or more characters but a dot, `**` for any number of any
                characters. The broker's own topics, whose names begin with `$`, never match.
            start: where to begin in topics that are there already: "earliest", "latest", or a
                datetime.
            credit: the most messages in flight, of all topics together; but one for each topic at
                least. Each has a share, which stays as it is: that of a single topic is an eighth.
            credit_bytes: the most bytes of keys and payloads in flight, in the same way.
            name: the name under which the broker keeps the position in each topic; see `subscribe`.
            events: whether to yield, among the messages, what is reported of topics: `TopicGone`,
                `TopicMissed`, `TopicUnread`, `Lagged` and `DeletionsMissed`; one of `$topics` means
                that topics may have come and gone unseen. Otherwise they are logged.

        Raises:
            ValueError: the pattern is empty, or can match nothing; or the start is not of these; or
                a value does not fit its field.
            InvalidField, Unsupported: the broker is too old to tell its topics.
            TooManySubscriptions: this connection has no room for `$topics`, which takes one place.
            ConnectionLost: the connection is lost.
            BrokerError: the broker refuses to have a topic read in this way.
            UnexpectedReply: what the broker says of its topics means nothing.
        """
        matching = Pattern(pattern)
        terms = pattern_terms(start, credit, credit_bytes, name)
        async with self.following(matching, terms, events=events) as follower:
            subscription = PatternSubscription[Any](matching, name, follower.turns, events=events)
            with self.committing(subscription):
                yield subscription

    @asynccontextmanager
    async def following(
        self, matching: Pattern, terms: Terms, news: News | None = None, *, events: bool
    ) -> AsyncIterator[Follower]:
        """Returns a follower of this broker's topics, once all that are there are read.

        Args:
            matching: the pattern.
            terms: how to read.
            news: see `Turns`.
            events: see `subscribe_pattern`, for errors as well.
        """
        follower = Follower(
            self,
            self._another,
            self._commit_soon,
            matching,
            terms,
            events=events,
            news=news,
        )
        async with DetachedTasks() as tasks:
            tasks.group.start_soon(follower.pool.run)
            tasks.group.start_soon(follower.run)
            tasks.group.start_soon(follower.retry)
            try:
                await follower.begun()
                yield follower
            finally:
                follower.close()

    @contextmanager
    def committing(
        self, subscription: Subscription[Any] | PatternSubscription[Any]
    ) -> Iterator[None]:
        """Have what a subscription has settled committed regularly, as long as the block lasts."""
        self._subscriptions.add(subscription)
        self._subscribed.set()
        try:
            yield
        finally:
            self._subscriptions.remove(subscription)

    def _commit_soon(self) -> None:
        self._waits.set()

    async def commit_regularly(self) -> None:
        """Commit what is settled.

        That is soon after a loop has come to wait, and ten times a second for slow programs.
        """
        while True:
            # Without a subscription there is nothing to commit, and no reason to wake up.
            if not self._subscriptions:
                self._subscribed = anyio.Event()
                await self._subscribed.wait()
            with anyio.move_on_after(COMMIT_SECONDS):
                await self._waits.wait()
                await anyio.sleep(WAITING_SECONDS)
            self._waits = anyio.Event()
            for subscription in self._subscriptions:
                subscription.commit_settled()


async def _look_regularly(work: WorkSubscription, looking: anyio.CancelScope) -> None:
    """Look after what waits in a worker's inbox, until that is cancelled."""
    with looking:
        await every(work.look_seconds, work.look)


def pattern_terms(
    start: Literal["earliest", "latest"] | datetime, credit: int, credit_bytes: int, name: str
) -> Terms:
    """Returns how the topics of a pattern are read; see `Client.subscribe_pattern`.

    Raises:
        ValueError: the start is an offset, or a value does not fit its field.
    """
    where, value = start_at(start)
    if where == Start.OFFSET:
        raise ValueError(
            f"a pattern starts at 'earliest', 'latest' or a datetime, not at {start!r}: an "
            "offset is of one topic"
        )
    return Terms(name, where, value, credit, credit_bytes)


def _pairs(named: dict[Setting, int | None]) -> tuple[tuple[int, int], ...]:
    """Returns the settings that have values, as the wire carries them.

    Raises:
        ValueError: a value does not fit its field.
    """
    pairs: list[tuple[int, int]] = []
    for number, value in named.items():
        if value is None:
            continue
        if not 0 <= value < 2**64:
            raise ValueError(f"{number.name.lower()} must be 0 to 2^64 - 1, not {value}")
        pairs.append((int(number), value))
    return tuple(pairs)
