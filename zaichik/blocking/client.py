"""The blocking client: each method calls its namesake of the asynchronous client in the thread, and waits."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, overload

from zaichik.access.contexts import ClientTls
from zaichik.blocking.producer import Producer
from zaichik.blocking.subscription import Subscription
from zaichik.blocking.thread import LoopThread, waiting
from zaichik.client import client as asynchronous
from zaichik.client.client import DEFAULT_CREDIT_BYTES, RECONNECT_SECONDS, SILENCE_SECONDS
from zaichik.client.endpoint import Endpoint
from zaichik.client.epochs import LostTopic
from zaichik.client.messages import Lagged, Message, StartAt
from zaichik_protocol import DEFAULT_PORT, Welcome

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
) -> Iterator["Client"]:
    """Returns a client that stays connected for as long as the block lasts. Arguments are those of `zaichik.connect`.

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
    )
    with LoopThread.running() as thread, thread.entered(connecting) as inner:
        yield Client(thread, inner)


class Client:
    """A connection to a broker; `connect` makes one. Many threads may call its methods at once.

    Besides the errors it names, each method raises `ConnectionLost` once the connection is lost for good.
    """

    def __init__(self, thread: LoopThread, inner: asynchronous.Client) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def welcome(self) -> Welcome:
        """The broker's greeting: its limits, name and boot number."""
        return self._inner.welcome

    @property
    def lost_topics(self) -> tuple[LostTopic, ...]:
        """Topics that this client created or published to, and that the broker has lost since (TOP-5)."""
        return self._inner.lost_topics

    create_topic = waiting(asynchronous.Client.create_topic)
    delete_topic = waiting(asynchronous.Client.delete_topic)
    disconnect = waiting(asynchronous.Client.disconnect)
    advance_clock = waiting(asynchronous.Client.advance_clock)
    describe = waiting(asynchronous.Client.describe)
    topic = waiting(asynchronous.Client.topic)
    topics = waiting(asynchronous.Client.topics)
    subscriptions = waiting(asynchronous.Client.subscriptions)
    connections = waiting(asynchronous.Client.connections)
    counters = waiting(asynchronous.Client.counters)
    windows = waiting(asynchronous.Client.windows)
    marks = waiting(asynchronous.Client.marks)
    furthest = waiting(asynchronous.Client.furthest)
    describe_page = waiting(asynchronous.Client.describe_page)
    explain = waiting(asynchronous.Client.explain)
    ping = waiting(asynchronous.Client.ping)
    publish = waiting(asynchronous.Client.publish)
    publish_batch = waiting(asynchronous.Client.publish_batch)

    def producer(
        self, topic: str, *, max_batch: int = 1000, max_bytes: int = 256 * 1024
    ) -> AbstractContextManager[Producer]:
        """Returns a producer for the topic, which is flushed when the block ends, unless by Ctrl-C.

        Args:
            topic: the topic to publish to.
            max_batch: the most messages in a batch.
            max_bytes: the most bytes in a batch; a single message may have more.
        """
        return self._thread.entered(Producer.of(self._thread, self._inner, topic, max_batch, max_bytes))

    @overload
    def subscribe(
        self,
        topic: str,
        *,
        start: StartAt = ...,
        until: int | None = ...,
        epoch: int | None = ...,
        credit: int = ...,
        credit_bytes: int = ...,
        name: str = ...,
        events: Literal[False] = ...,
    ) -> AbstractContextManager[Subscription[Message]]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        *,
        start: StartAt = ...,
        until: int | None = ...,
        epoch: int | None = ...,
        credit: int = ...,
        credit_bytes: int = ...,
        name: str = ...,
        events: bool,
    ) -> AbstractContextManager[Subscription[Message | Lagged]]: ...

    @contextmanager
    def subscribe(
        self,
        topic: str,
        *,
        start: StartAt = "earliest",
        until: int | None = None,
        epoch: int | None = None,
        credit: int = DEFAULT_CREDIT,
        credit_bytes: int = DEFAULT_CREDIT_BYTES,
        name: str = "",
        events: bool = False,
    ) -> Iterator[Subscription[Any]]:
        """Returns a subscription that lasts as long as the block. Iterate over it, its `pieces` or its `batches`.

        Arguments are those of `zaichik.Client.subscribe`, except that more messages may be in flight by default.

        Raises:
            OffsetAhead, EpochChanged, NoSuchTopic, TooManySubscriptions, InvalidField.
        """
        subscribing = self._inner.subscribe(
            topic,
            start=start,
            until=until,
            epoch=epoch,
            credit=credit,
            credit_bytes=credit_bytes,
            name=name,
        )
        with self._thread.entered(subscribing) as inner:
            yield Subscription(self._thread, inner, events=events)
