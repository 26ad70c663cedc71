"""A client of a cluster for programs without an event loop.

All shards' clients live in one event loop, in a thread of its own. So each call crosses into that
thread and back: a lone request costs 200 µs of processor time more than at a single broker, where
the calling thread drives it. Streams cost the same: many messages cross at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from zaichik.client.blocking.client import DEFAULT_CREDIT, Client
from zaichik.client.blocking.driver import LoopCaller
from zaichik.client.blocking.pattern_subscription import PatternSubscription
from zaichik.client.blocking.thread import LoopThread, waiting
from zaichik.client.client import DEFAULT_CREDIT_BYTES, RECONNECT_SECONDS, SILENCE_SECONDS
from zaichik.client.cluster import cluster as asynchronous
from zaichik.client.cluster.map import ClusterMap
from zaichik.client.endpoint import Endpoint
from zaichik.client.forking import unwatch, watch
from zaichik.client.messages import AckedBy, BatchResult, Key, Payload, batch_of
from zaichik.net.tls_settings import ClientTls
from zaichik_protocol import Batch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@contextmanager
def cluster(
    *brokers: str | Endpoint,
    tls: ClientTls | None = None,
    name: str = "",
    timeout: float = 5.0,
    reconnect: float = RECONNECT_SECONDS,
    silence_timeout: float = SILENCE_SECONDS,
    on_new_epoch: Literal["warn", "raise"] = "warn",
    acked_by: Mapping[str, AckedBy] | None = None,
) -> Iterator["Cluster"]:
    """Returns a client of a cluster that stays connected for as long as the block lasts.

    Arguments are those of `zaichik.cluster`.

    Raises:
        ConnectFailed, ClusterMapUnusable, BrokerError, ValueError: see there.
    """
    connecting = asynchronous.cluster(
        *brokers,
        tls=tls,
        name=name,
        timeout=timeout,
        reconnect=reconnect,
        silence_timeout=silence_timeout,
        on_new_epoch=on_new_epoch,
        acked_by=acked_by,
    )
    with LoopThread.running() as thread, thread.entered(connecting) as inner:
        yield Cluster(thread, inner)


def _routed_block(
    method: Callable[Concatenate[Client, str, Arguments], AbstractContextManager[Result]],
) -> Callable[Concatenate["Cluster", str, Arguments], AbstractContextManager[Result]]:
    """Returns a method that enters this block of the client of a topic's shard."""

    @wraps(method)
    def enter(
        self: "Cluster", topic: str, /, *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> AbstractContextManager[Result]:
        return method(self.client(topic), topic, *arguments, **options)

    return enter


class Cluster:
    """A client of a cluster; `cluster` makes one. Many threads may call its methods at once.

    Errors are those of `zaichik.Cluster`.
    """

    def __init__(self, thread: LoopThread, inner: asynchronous.Cluster) -> None:
        self._thread = thread
        self._inner = inner
        self._caller = LoopCaller(thread)

    @property
    def map(self) -> ClusterMap:
        """Where the shards are, as far as this client knows."""
        return self._inner.map

    def client(self, topic: str) -> Client:
        """Returns the client of the topic's shard, which has all methods of a `Client`.

        Use it for whatever is about this topic. Once its connection was lost for good, ask again.
        """
        inner = self._thread.call(partial(self._inner.client, topic))
        return Client(self._thread, self._caller, inner)

    def shard_client(self, shard: int) -> Client:
        """Returns the client of a shard, by its number.

        Raises:
            ValueError: there is no shard of that number.
        """
        inner = self._thread.call(partial(self._inner.shard_client, shard))
        return Client(self._thread, self._caller, inner)

    create_topic = waiting(asynchronous.Cluster.create_topic)
    delete_topic = waiting(asynchronous.Cluster.delete_topic)
    topic = waiting(asynchronous.Cluster.topic)
    explain = waiting(asynchronous.Cluster.explain)
    publish = waiting(asynchronous.Cluster.publish)
    topics = waiting(asynchronous.Cluster.topics)
    describe = waiting(asynchronous.Cluster.describe)
    producer = _routed_block(Client.producer)
    subscribe = _routed_block(Client.subscribe)

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
            BatchTooLarge, SequenceGap, ProducerUnknown, TableFull, ValueError, NotLossless,
                NoSuchTopic, ReplicationLost: see there.
        """
        # Here, because it may run the program's own code, for any length of time.
        if not isinstance(batch, Batch):
            batch, tombstones = batch_of(batch, tombstones=tombstones)
        publish = partial(
            self._inner.publish_batch,
            topic,
            batch,
            producer=producer,
            number=number,
            tombstones=tombstones,
            acked_by=acked_by,
        )
        return self._thread.call(publish)

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
        """Returns one subscription to all topics that match, at whichever shard they are.

        Arguments are those of `zaichik.Cluster.subscribe_pattern`, except that more messages may be
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
                self._thread, self._caller, inner, events=events
            )
            watch(subscription.inherited)
            try:
                yield subscription
            finally:
                unwatch(subscription.inherited)
