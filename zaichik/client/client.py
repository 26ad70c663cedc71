"""The client: topics, publishing and subscribing over one connection."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal, overload

import anyio

from zaichik.client.coalescing import PublishCalls
from zaichik.client.connection import CLOSE_SECONDS, Connection
from zaichik.client.epochs import Epochs, LostTopic
from zaichik.client.messages import (
    BatchResult,
    Duration,
    Key,
    Lagged,
    Message,
    PublishResult,
    StartAt,
    Topic,
    batch_result,
    check_size,
    key_bytes,
    milliseconds,
    overflow_of,
    payload_bytes,
    start_at,
)
from zaichik.client.opening import opened
from zaichik.client.outcome import Outcome, expected
from zaichik.client.producer import Producer
from zaichik.client.sequencer import Sequencers
from zaichik.client.subscription import Subscription
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import (
    DEFAULT_PORT,
    FOREVER,
    Batch,
    CreateTopic,
    Delete,
    Deleted,
    Describe,
    Described,
    Disconnect,
    Disconnected,
    Kind,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    Subscribe,
    Subscribed,
    TopicCreated,
    Unsubscribe,
    Welcome,
)

DEFAULT_CREDIT = 1000  # messages on their way or waiting here: enough to keep a fast reader busy
DEFAULT_CREDIT_BYTES = 8 * 1024 * 1024
DESCRIBE_PAGE = 500
COMMIT_SECONDS = 0.1  # so that the broker soon knows what a slow program has done, whatever its credit
SILENCE_SECONDS = 30.0  # a broker answers within milliseconds; what takes longer by far is frozen, or the network is
RECONNECT_SECONDS = 60.0  # a broker that is started anew is there by then
MOST_RECONNECT_SECONDS = 300.0  # half of what a broker remembers numbered batches for


@asynccontextmanager
async def connect(
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    name: str = "",
    timeout: float = 5.0,
    reconnect: float = RECONNECT_SECONDS,
    silence_timeout: float = SILENCE_SECONDS,
    on_new_epoch: Literal["warn", "raise"] = "warn",
) -> AsyncIterator["Client"]:
    """A client that is connected as long as the block lasts.

    If the connection is lost, it is made again behind the scenes, and nothing is lost or done twice: whoever waits for
    an answer, or for messages, waits a little longer. See `zaichik.client` for how.

    Args:
        host: the broker's address.
        port: likewise.
        name: what the broker's log and `describe` call this client.
        timeout: seconds the broker may take to accept a connection and to greet.
        reconnect: seconds to go on trying when the connection was lost, before everything raises `ConnectionLost`;
            0: not at all. The first connection is tried once.
        silence_timeout: seconds after which a broker that owes an answer, and from which nothing at all is heard, is
            taken to be frozen: the connection counts as lost, then. It must be longer than one batch takes over a slow
            network; `math.inf`: never.
        on_new_epoch: what is done when the broker comes back without a topic that this client has created or published
            to, so that a topic of that name is another one (TOP-5): "warn", in the log, see `Client.lost_topics`; or
            "raise" `EpochChanged` also wherever the program publishes to that topic from then on.

    Raises:
        ConnectFailed: no broker there, or none that answered in time.
        BrokerError: the broker answered that it does not serve this client, `TooManyConnections` for example.
        ValueError: `reconnect` is not from 0 to 300, `silence_timeout` is not above 0, `on_new_epoch` is another
            word, or `name` is longer than 65,535 bytes.
    """
    if not 0 <= reconnect <= MOST_RECONNECT_SECONDS:
        raise ValueError(
            f"reconnect is 0 to {MOST_RECONNECT_SECONDS:g} seconds, not {reconnect!r}: after 600 a broker has "
            "forgotten which batches it has stored, and to send one again could store it twice"
        )
    if not silence_timeout > 0:
        raise ValueError(f"silence_timeout is more than 0 seconds, not {silence_timeout!r}")
    if on_new_epoch not in {"warn", "raise"}:
        raise ValueError(f"on_new_epoch is 'warn' or 'raise', not {on_new_epoch!r}")
    opening = opened(host, port, name, timeout, reconnect, silence_timeout)
    async with opening as connection, BackgroundTasks() as tasks:
        epochs = Epochs(connection, is_strict=on_new_epoch == "raise")
        sequencers = Sequencers(connection, tasks.group, epochs)
        client = Client(connection, sequencers, epochs)
        tasks.group.start_soon(client.commit_regularly)
        try:
            yield client
        finally:
            sequencers.close()


class Client:
    """A connection to a broker; `connect` makes one. All methods may be called by many tasks at once.

    Besides the errors named, each raises `ConnectionLost` when the connection is gone for good.
    """

    def __init__(self, connection: Connection, sequencers: Sequencers, epochs: Epochs) -> None:
        self._connection = connection
        self._sequencers = sequencers
        self._epochs = epochs
        self._calls = PublishCalls(connection, sequencers)
        self._subscriptions: set[Subscription[Any]] = set()

    @property
    def welcome(self) -> Welcome:
        """The broker's greeting: its limits, name and boot number."""
        return self._connection.welcome

    @property
    def lost_topics(self) -> tuple[LostTopic, ...]:
        """Topics that this client has created or published to, and that the broker has lost since (TOP-5).

        They are found whenever a connection that was lost is made again. A broker that keeps its topics loses none.
        """
        return tuple(self._epochs.lost)

    # -- topics ----------------------------------------------------------------------------------------------

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
    ) -> Topic:
        """The topic, with these settings; made if it was not there. Those left out are the broker's choice.

        Args:
            topic: 1 to 200 bytes of UTF-8, no control characters, not beginning with "$".
            retention_ttl: how long messages stay readable for latecomers: seconds, a timedelta or "forever".
            compaction_window: how long a key's first message keeps later ones out; 0 is off.
            capacity: messages kept at most, the oldest go first.
            max_bytes: likewise in bytes.
            max_keys: keys whose windows are remembered at most.
            journal: bytes of its journal, the topic `$journal/NAME` that tells of every message published (JRN-1);
                0: none.
            overflow: what a full topic does with messages that a reader still needs: "evict" them, or "reject" what is
                published until there is room, for which publishing waits (RET-9).

        Raises:
            ValueError: a word that is none of those.
            TopicExists: it is there with other settings than those named (TOP-2).
            InvalidField: a name or a value is out of range.
        """
        settings = {
            Setting.RETENTION_TTL_MS: None if retention_ttl is None else milliseconds(retention_ttl),
            Setting.COMPACTION_WINDOW_MS: None if compaction_window is None else milliseconds(compaction_window),
            Setting.CAPACITY: capacity,
            Setting.MAX_BYTES: max_bytes,
            Setting.MAX_KEYS: max_keys,
            Setting.JOURNAL_BYTES: journal,
            Setting.OVERFLOW: None if overflow is None else overflow_of(overflow),
        }
        pairs = tuple((int(number), value) for number, value in settings.items() if value is not None)
        request = CreateTopic(self._connection.next_id(), topic, pairs)
        created = partial(self._epochs.created, topic, pairs)
        reply = await self._connection.request(request, TopicCreated, created)
        known = set(Setting)  # a newer broker may have settings that this client cannot name
        names = {Setting(number).name.lower(): value for number, value in reply.settings if number in known}
        return Topic(topic, bool(reply.created), reply.epoch, names)

    async def delete_topic(self, topic: str, *, if_empty: bool = False, epoch: int = 0) -> None:
        """Returns when the topic is gone, with its messages, its named positions and its journal (TOP-6).

        Its readers get `SubscriptionLost`. If the connection was lost meanwhile, and the topic is not there now, that
        counts as done: the broker may have deleted it before it could say so.

        Args:
            topic: its name.
            if_empty: only if it holds no message and has no reader and no named position.
            epoch: only the topic of this epoch, as `create_topic` and subscriptions tell it; 0: any.

        Raises:
            NoSuchTopic: there is none.
            NotEmpty: with `if_empty`.
            EpochChanged: it is another topic.
            InvalidField: the name is out of range, or the broker's own.
            Unsupported: the broker is older than this.
        """
        request = Delete(self._connection.next_id(), topic, epoch, if_empty=if_empty)
        await self._connection.request(request, Deleted)

    async def disconnect(self, connection: int) -> None:
        """Returns when the broker has begun to end that connection, of another client (CLO-4); it may connect again.

        Args:
            connection: its number, as `connections` tells it.

        Raises:
            InvalidField: there is none of that number, or it is this one.
            Unsupported: the broker is older than this.
        """
        await self._connection.request(Disconnect(self._connection.next_id(), connection), Disconnected)

    async def describe(self) -> dict[str, Any]:
        """What the broker tells of itself; see `docs/describe.md`."""
        (page,) = [page async for page in self._describe(Kind.BROKER, "")]
        return page

    async def topics(self, prefix: str = "") -> list[dict[str, Any]]:
        """The state of every topic whose name begins so, in the order of names; see `docs/describe.md`."""
        return [state async for page in self._describe(Kind.TOPICS, prefix) for state in page["topics"]]

    async def subscriptions(self, prefix: str = "") -> list[dict[str, Any]]:
        """The state of every subscription to a topic whose name begins so, live or named; see `docs/describe.md`."""
        return [state async for page in self._describe(Kind.SUBSCRIPTIONS, prefix) for state in page["subscriptions"]]

    async def connections(self) -> list[dict[str, Any]]:
        """Every connection of the broker, in the order of their numbers; see `docs/describe.md`.

        Raises:
            InvalidField: the broker is older than this.
        """
        return [state async for page in self._describe(Kind.CONNECTIONS, "") for state in page["connections"]]

    async def _describe(self, kind: Kind, prefix: str) -> AsyncIterator[dict[str, Any]]:
        after = ""
        while True:
            reply = await self._connection.request(
                Describe(self._connection.next_id(), kind, prefix, after, DESCRIBE_PAGE), Described
            )
            page: dict[str, Any] = json.loads(reply.json)
            yield page
            if not reply.more:
                return
            after = next(iter(page.values()))[-1]["name"]

    async def ping(self) -> None:
        """Returns when the broker has carried out everything sent before."""
        await self._connection.request(Ping(self._connection.next_id()), Pong)

    # -- publishing ------------------------------------------------------------------------------------------

    async def publish(self, topic: str, payload: bytes, key: Key = None) -> PublishResult:
        """Store one message and wait until it is readable (PUB-1).

        Calls of many tasks at once share batches. For a stream of messages `producer` is faster still.

        Raises:
            MessageTooLarge: more bytes than `welcome.max_message`.
        """
        key, payload = key_bytes(key), payload_bytes(payload)
        check_size(1, len(key) + len(payload), self.welcome)
        return await self._calls.publish(topic, key, payload)

    async def publish_batch(self, topic: str, batch: Batch | Iterable[tuple[Key, bytes]]) -> BatchResult:
        """Store several messages, given as (key, payload), all at once and at one time (PUB-2).

        Raises:
            BatchTooLarge: more than `welcome.max_batch` messages, `welcome.max_message` bytes, or than the
                topic's ring holds. Nothing of it was stored.
        """
        if not isinstance(batch, Batch):
            batch = Batch.of((key_bytes(key), payload_bytes(payload)) for key, payload in batch)
        check_size(batch.count, batch.size, self.welcome)
        outcome = Outcome()
        withdraw = self._sequencers.post(topic, batch, outcome.settle)
        try:
            reply = expected(Published, Publish, await outcome.wait())
        except anyio.get_cancelled_exc_class():
            withdraw()  # but what was sent keeps its number until it is answered
            raise
        return batch_result(reply, batch.count)

    @asynccontextmanager
    async def producer(
        self, topic: str, *, max_batch: int = 1000, max_bytes: int = 256 * 1024
    ) -> AsyncIterator[Producer]:
        """A producer for the topic, flushed when the block ends, unless by being cancelled.

        Args:
            topic: where to.
            max_batch: messages sent in one piece at most.
            max_bytes: likewise in bytes; one message may have more.
        """
        limits = self.welcome
        producer = Producer(
            self._connection,
            self._sequencers,
            topic,
            min(max_batch, limits.max_batch),
            min(max_bytes, limits.max_message),
        )
        try:
            yield producer
            await producer.flush()
        except Exception:
            # The block's own failure is the one to tell, and a broker that hangs must not keep it back.
            with suppress(Exception), anyio.move_on_after(CLOSE_SECONDS):
                await producer.flush()
            raise
        finally:
            producer.close(partial(RuntimeError, "a producer ends with its `async with` block; this one has"))

    # -- subscribing -----------------------------------------------------------------------------------------

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
    ) -> AbstractAsyncContextManager[Subscription[Message]]: ...

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
    ) -> AbstractAsyncContextManager[Subscription[Message | Lagged]]: ...

    @asynccontextmanager
    async def subscribe(
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
    ) -> AsyncIterator[Subscription[Any]]:
        """A subscription that lives as long as the block. Iterate over it to get messages.

        Args:
            topic: what to read; made if it is not there.
            start: "earliest" (what retention has kept), "latest" (only what is new), an offset, or the
                datetime since which messages were accepted (RET-4).
            until: stop before this offset; None: never.
            epoch: fail with `EpochChanged` if the topic is not this one any more (TOP-5).
            credit: messages that may be on their way or waiting here.
            credit_bytes: likewise in bytes.
            name: under which the broker keeps the position for a while when this one is gone, for the next one of that
                name to go on there; `start` is for a name it does not know (CMT-3). "": no name, no position.
            events: whether to yield `Lagged` beside messages. Lag is counted and logged in any case.

        Raises:
            OffsetAhead, EpochChanged, NoSuchTopic, TooManySubscriptions, InvalidField.
        """
        where, value = start_at(start)
        request = Subscribe(
            id=self._connection.next_subscription_id(),
            topic=topic,
            name=name,
            start=where,
            value=value,
            epoch=epoch or 0,
            until=FOREVER if until is None else until,
            credit=credit,
            credit_bytes=credit_bytes,
        )
        connection = self._connection
        with connection.inbox(request) as inbox:
            try:
                asked = inbox.owned(request, self.welcome.features)
                reply = await connection.request(asked, Subscribed, inbox.answer)
            except anyio.get_cancelled_exc_class():
                connection.send_soon(Unsubscribe(0, request.id))  # it may have been made all the same
                raise
            subscription: Subscription[Any] = Subscription(connection, request, reply, inbox, events=events)
            self._subscriptions.add(subscription)
            try:
                yield subscription
            finally:
                self._subscriptions.remove(subscription)
                subscription.commit_settled()
                if inbox.is_live:
                    connection.send_soon(Unsubscribe(0, request.id))

    async def commit_regularly(self) -> None:
        """Commit what slow programs have settled, ten times a second."""
        while True:
            await anyio.sleep(COMMIT_SECONDS)
            for subscription in self._subscriptions:
                subscription.commit_settled()
