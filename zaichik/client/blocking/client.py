"""The blocking client: each method is the asynchronous client's, driven until it returns.

Most are driven by the thread that calls (see `driver`). Those that may wait for a timer, and those
that last, such as subscriptions, are driven by the event loop.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Literal, overload

from zaichik.client import client as asynchronous
from zaichik.client.blocking.driver import Caller, Driver, driving
from zaichik.client.blocking.pattern_subscription import PatternSubscription
from zaichik.client.blocking.producer import Producer
from zaichik.client.blocking.subscription import Subscription
from zaichik.client.blocking.thread import LoopThread, waiting
from zaichik.client.blocking.work_subscription import WorkSubscription
from zaichik.client.client import DEFAULT_CREDIT_BYTES, RECONNECT_SECONDS, SILENCE_SECONDS
from zaichik.client.endpoint import Endpoint
from zaichik.client.epochs import LostTopic
from zaichik.client.forking import unwatch, watch
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
    batch_of,
)
from zaichik.client.subscription import Subscription as AsynchronousSubscription
from zaichik.client.work.subscription import WorkSubscription as AsynchronousWorkSubscription
from zaichik.client.work.terms import DEFAULT_MAX_DELIVERIES, DEFAULT_TIMEOUT
from zaichik.net.tls_settings import ClientTls
from zaichik_protocol import DEFAULT_PORT, Batch, Welcome

DEFAULT_CREDIT = 100_000  # messages in flight or waiting here: the limit in bytes is reached first


@contextmanager
def connect(
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
) -> Iterator["Client"]:
    """Returns a client that stays connected for as long as the block lasts.

    Arguments are those of `zaichik.connect`.

    Raises:
        ConnectFailed: there is no broker, or none answered in time.
        BrokerError: the broker refused to serve this client, with `TooManyConnections` for example.
        ValueError: an argument is out of range.
    """
    connecting = asynchronous.connect(
        host,
        port,
        tls=tls,
        name=name,
        timeout=timeout,
        reconnect=reconnect,
        silence_timeout=silence_timeout,
        on_new_epoch=on_new_epoch,
        acked_by=acked_by,
    )
    with LoopThread.running() as thread, thread.entered(connecting) as inner:
        driver = Driver(thread, inner.connection)
        try:
            yield Client(thread, driver, inner)
        finally:
            driver.close()


class Client:
    """A connection to a broker; `connect` makes one. Many threads may call its methods at once.

    Besides the errors it names, each method raises `ConnectionLost` once the connection is lost for
    good.
    """

    def __init__(self, thread: LoopThread, driver: Caller, inner: asynchronous.Client) -> None:
        self._thread = thread
        self._driver = driver
        self._inner = inner

    @property
    def welcome(self) -> Welcome:
        """The broker's greeting: its limits, name and boot number."""
        return self._inner.welcome

    @property
    def lost_topics(self) -> tuple[LostTopic, ...]:
        """Topics of this client that the broker has lost since (TOP-5).

        Those are topics that it created or published to.
        """
        return self._inner.lost_topics

    create_topic = driving(asynchronous.Client.create_topic)
    delete_topic = waiting(asynchronous.Client.delete_topic)
    disconnect = driving(asynchronous.Client.disconnect)
    advance_clock = driving(asynchronous.Client.advance_clock)
    describe = driving(asynchronous.Client.describe)
    topic = driving(asynchronous.Client.topic)
    topics = driving(asynchronous.Client.topics)
    subscriptions = driving(asynchronous.Client.subscriptions)
    connections = driving(asynchronous.Client.connections)
    counters = driving(asynchronous.Client.counters)
    windows = driving(asynchronous.Client.windows)
    marks = driving(asynchronous.Client.marks)
    furthest = driving(asynchronous.Client.furthest)
    describe_page = driving(asynchronous.Client.describe_page)
    explain = driving(asynchronous.Client.explain)
    dead = driving(asynchronous.Client.dead)
    revive = driving(asynchronous.Client.revive)
    forget_dead = driving(asynchronous.Client.forget_dead)
    forget_name = driving(asynchronous.Client.forget_name)
    ping = driving(asynchronous.Client.ping)

    def publish(
        self,
        topic: str,
        payload: Payload | None,
        key: Key = None,
        *,
        acked_by: AckedBy | None = None,
    ) -> PublishResult:
        """Publishes one message; returns its result once it is readable (PUB-1).

        With `acked_by`, once it is replicated, too (AK-1). See `zaichik.Client.publish`.

        Raises:
            MessageTooLarge, TableFull, InvalidField, ValueError: see there.
            NotLossless, NoSuchTopic, ReplicationLost: see there.
        """
        publish = asynchronous.Client.publish
        by = acked_by or self._inner.acked_by.get(topic)
        if by is None:
            return self._driver.call(publish, self._inner, topic, payload, key)
        # It waits for more than a reply.
        return self._thread.call(partial(publish, self._inner, topic, payload, key, acked_by=by))

    def publish_batch(
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

        See `zaichik.Client.publish_batch`.

        Raises:
            BatchTooLarge, SequenceGap, ProducerUnknown, TableFull, ValueError: see there.
            NotLossless, NoSuchTopic, ReplicationLost: see there.
        """
        # Here, because it may run the program's own code, for any length of time.
        if not isinstance(batch, Batch):
            batch, tombstones = batch_of(batch, tombstones=tombstones)
        publish = asynchronous.Client.publish_batch
        by = acked_by or self._inner.acked_by.get(topic)
        if producer or by is not None:
            # It may wait for a timer, or for more than a reply.
            crossing = partial(
                publish,
                self._inner,
                topic,
                batch,
                producer=producer,
                number=number,
                tombstones=tombstones,
                acked_by=by,
            )
            return self._thread.call(crossing)
        return self._driver.call(publish, self._inner, topic, batch, tombstones=tombstones)

    def producer(
        self,
        topic: str,
        *,
        max_batch: int = 1000,
        max_bytes: int = 256 * 1024,
        acked_by: AckedBy | None = None,
    ) -> AbstractContextManager[Producer]:
        """Returns a producer for the topic, which is flushed when the block ends, unless by Ctrl-C.

        Args:
            topic: the topic to publish to.
            max_batch: the most messages in a batch.
            max_bytes: the most bytes in a batch; a single message may have more.
            acked_by: "kafka": `flush`, and the end of the block, wait until Kafka has the messages,
                too (AK-1).

        Raises:
            NotLossless, NoSuchTopic, ValueError: see `zaichik.Client.publish`.
        """
        return self._thread.entered(
            Producer.of(self._thread, self._inner, topic, max_batch, max_bytes, acked_by)
        )

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
    ) -> AbstractContextManager[Subscription[Message]]: ...

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
    ) -> AbstractContextManager[Subscription[Message | Missed]]: ...

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
    ) -> AbstractContextManager[WorkSubscription]: ...

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
    ) -> AbstractContextManager[Any]:
        """Returns a subscription that lasts as long as the block.

        Iterate over it, its `pieces` or its `batches`. With `shared=True` it is a
        `WorkSubscription`, to iterate over.

        Arguments are those of `zaichik.Client.subscribe`, except that more messages may be in
        flight by default: 100,000, unless the name is shared.

        Raises:
            OffsetAhead, EpochChanged, NoSuchTopic, TooManySubscriptions, InvalidField, Unsupported,
                NotLossless, ValueError: see there.
        """
        if credit is None and not shared:
            credit = DEFAULT_CREDIT
        # Which of them fit together, the asynchronous client knows.
        arguments: dict[str, Any] = {
            "start": start,
            "until": until,
            "epoch": epoch,
            "credit": credit,
            "credit_bytes": credit_bytes,
            "name": name,
            "events": events,
            "commit": commit,
            "acked_by": acked_by,
            "shared": shared,
            "timeout": timeout,
            "max_deliveries": max_deliveries,
            "by_key": by_key,
        }
        subscribing: Any = self._inner.subscribe(topic, **arguments)
        if shared:
            return self._work(subscribing)
        return self._read(subscribing, events=events)

    @contextmanager
    def _read(
        self,
        subscribing: AbstractAsyncContextManager[AsynchronousSubscription[Any]],
        *,
        events: bool,
    ) -> Iterator[Subscription[Any]]:
        with self._thread.entered(subscribing) as inner:
            subscription = Subscription[Any](self._thread, self._driver, inner, events=events)
            watch(subscription.inherited)
            try:
                yield subscription
            finally:
                unwatch(subscription.inherited)

    @contextmanager
    def _work(
        self, subscribing: AbstractAsyncContextManager[AsynchronousWorkSubscription]
    ) -> Iterator[WorkSubscription]:
        with self._thread.entered(subscribing) as inner:
            work = WorkSubscription(self._driver, inner)
            try:
                yield work
            except BaseException as error:
                work.fail(error)
                raise

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
    ) -> AbstractContextManager[PatternSubscription[Message]]: ...

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
    ) -> AbstractContextManager[PatternSubscription[Message | PatternEvent]]: ...

    @contextmanager
    def subscribe_pattern(
        self,
        pattern: str,
        *,
        start: Literal["earliest", "latest"] | datetime = "earliest",
        credit: int = DEFAULT_CREDIT,
        credit_bytes: int = DEFAULT_CREDIT_BYTES,
        name: str = "",
        events: bool = False,
    ) -> Iterator[PatternSubscription[Any]]:
        """Returns one subscription to all topics that match, those that come later included.

        Arguments are those of `zaichik.Client.subscribe_pattern`, except that more messages may be
        in flight by default.

        Raises:
            ValueError, InvalidField, Unsupported, TooManySubscriptions, ConnectionLost,
                BrokerError, UnexpectedReply: see there.
        """
        subscribing = self._inner.subscribe_pattern(
            pattern,
            start=start,
            credit=credit,
            credit_bytes=credit_bytes,
            name=name,
            events=events,
        )
        with self._thread.entered(subscribing) as inner:
            subscription = PatternSubscription[Any](
                self._thread, self._driver, inner, events=events
            )
            watch(subscription.inherited)
            try:
                yield subscription
            finally:
                unwatch(subscription.inherited)
