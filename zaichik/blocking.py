"""A blocking client, for programs without an event loop: one socket, one thread, and the wire's batches as they are.

Spark's workers and `zaichik record` read topics with it. It shares the codec, the errors and the results with the
asynchronous client, and has one more problem to solve. The asynchronous client has a task that reads the socket at all
times; here nothing reads while the caller works on its messages, and a broker whose output is not read for ten
seconds resets the connection (LAG-3). So:

* **Everything that credit allows is read before any of it is given out.** Whether more is on its way need not be
  guessed: as long as a message of the largest size would still fit into the free credit, and the topic is known to
  have more, the broker is bound to send one (CMT-1).
* **Credit is given back when all of it is used up**, in one commit. Until then the broker owes nothing.

Reading and working therefore take turns, and never overlap. In exchange, how long the work takes does not matter.

Unlike the asynchronous client, this one does not reconnect: a lost connection raises `ConnectionLost` at once, and
whether the last batch was stored is not known, unless the program numbers its batches and sends it again over a new
connection (see `publish_batch`). Reading resumes where it was: offsets and epochs are all it needs.

    with blocking.connect() as client, client.subscribe("orders", start=0, until=1000) as orders:
        for message in orders:
            print(message.offset, message.payload)
"""

import json
import logging
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from typing import Any, TypeVar

from zaichik.client.errors import BrokerError, ConnectFailed, ConnectionLost, SubscriptionLost, ZaichikError
from zaichik.client.messages import (
    BatchResult,
    Lagged,
    Message,
    StartAt,
    batch_result,
    check_size,
    messages_of,
    start_at,
)
from zaichik.net.heap import keep_freed_memory
from zaichik_protocol import (
    DEFAULT_PORT,
    FOREVER,
    NEED_DATA,
    Batch,
    Close,
    Closed,
    Commit,
    Delete,
    Deleted,
    Describe,
    Described,
    EndCode,
    Error,
    Frame,
    FrameDecoder,
    GoAway,
    Hello,
    Kind,
    Messages,
    Ping,
    Pong,
    ProtocolError,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Welcome,
    encode,
)
from zaichik_protocol import Lagged as LaggedFrame

logger = logging.getLogger(__name__)

DEFAULT_CREDIT = 100_000  # messages read before any is given out; bytes are the limit that is met first
DEFAULT_CREDIT_BYTES = 8 * 1024 * 1024
RECEIVE_BYTES = 1024 * 1024
DESCRIBE_PAGE = 500
CLOSE_SECONDS = 1.0  # how long an orderly close may take before the socket is just closed

_FIRST_REQUEST = 2**31  # requests are numbered from here, subscriptions from 1

Event = Messages | LaggedFrame | SubscriptionEnded
Reply = TypeVar("Reply", bound=Frame)


@contextmanager
def connect(
    host: str = "127.0.0.1", port: int = DEFAULT_PORT, *, name: str = "", timeout: float = 10.0
) -> Iterator["Client"]:
    """Returns a client that stays connected for as long as the block lasts. Use it from one thread only.

    Args:
        host: the broker's address.
        port: the broker's port.
        name: the client's name in the broker's log and in `describe`.
        timeout: seconds the broker may be silent while it owes a reply or messages; then the connection counts as lost.
            A reader that waits for new messages sends a Ping after each such interval without any.

    Raises:
        ConnectFailed: there is no broker, or none answered in time.
        BrokerError: the broker refused to serve this client, with `TooManyConnections` for example.
    """
    peer = f"{host}:{port}"
    try:
        raw = socket.create_connection((host, port), timeout)
    except OSError as error:
        raise ConnectFailed(
            f"no broker answers at {peer} ({error.strerror or error}). Start one with: zaichik serve"
        ) from error
    keep_freed_memory()
    with closing(raw):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            client = Client(raw, peer, name or f"zaichik-python {version('zaichik')}", timeout)
        except ConnectionLost as error:
            raise ConnectFailed(
                f"{peer} accepts connections but does not answer as a zaichik broker ({error})"
            ) from error
        try:
            yield client
        finally:
            client.close()


class Client:
    """A connection to a broker; `connect` makes one.

    Besides the errors it names, each method raises `ConnectionLost` when the connection is lost.

    Attributes:
        welcome: the broker's greeting: its limits, name and boot number.
    """

    def __init__(self, raw: socket.socket, peer: str, name: str, timeout: float) -> None:
        self._raw = raw
        self._peer = peer
        self._timeout = timeout
        self._decoder = FrameDecoder.for_client()
        self._ids = 0
        self._replies: dict[int, Frame] = {}
        self._events: dict[int, deque[Event]] = {}
        self._goodbye = ""  # why the broker is about to close, if it said so
        self._is_greeted = False
        self._heard = time.monotonic()  # when something last came
        self.welcome = self._request(Hello(self._next_id(), client=name), Welcome)
        self._is_greeted = True

    # -- topics and publishing -------------------------------------------------------------------------------

    def topic(self, name: str) -> dict[str, Any] | None:
        """Returns the state of one topic, see `docs/describe.md`; None if there is no topic of that name."""
        # These are the names that begin with it, sorted: if the name itself is there, it is the first.
        page, _ = self._describe(name, "", 1)
        return page[0] if page and page[0]["name"] == name else None

    def topics(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the state of every topic whose name begins with `prefix`, sorted by name."""
        topics, more = self._describe(prefix, "", DESCRIBE_PAGE)
        while more:
            page, more = self._describe(prefix, topics[-1]["name"], DESCRIBE_PAGE)
            topics += page
        return topics

    def _describe(self, prefix: str, after: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
        reply = self._request(Describe(self._next_id(), Kind.TOPICS, prefix, after, limit), Described)
        topics: list[dict[str, Any]] = json.loads(reply.json)["topics"]
        return topics, bool(reply.more)

    def delete_topic(self, topic: str, *, if_empty: bool = False, epoch: int = 0) -> None:
        """Returns when the topic is gone, with its messages, its named positions and its journal (TOP-6).

        Args:
            topic: its name.
            if_empty: only if it holds no message and has no reader and no named position.
            epoch: only the topic with this epoch; 0: any.

        Raises:
            NoSuchTopic, NotEmpty, EpochChanged, InvalidField; Unsupported: the broker is too old to know this request.
        """
        self._request(Delete(self._next_id(), topic, epoch, if_empty=if_empty), Deleted)

    def publish_batch(self, topic: str, batch: Batch, *, producer: int = 0, number: int = 0) -> BatchResult:
        """Publishes several messages, all or none; returns their result (PUB-2).

        Args:
            topic: where to; created if it does not exist.
            batch: the messages.
            producer: 64 random bits that make the batch safe to send again (PUB-4), or 0. A batch that was stored
                before is not stored again: its first result is repeated.
            number: of the batch, counted from 0 for each producer and topic.

        Raises:
            BatchTooLarge: more messages than `welcome.max_batch`, more bytes than `welcome.max_message`, or more than
                the topic's ring holds. Nothing was stored.
            SequenceGap, ProducerUnknown: a batch before this one is missing, or the broker has forgotten the producer.
        """
        check_size(batch.count, batch.size, self.welcome)
        request = Publish(self._next_id(), topic, batch, producer=producer, sequence=number)
        reply = self._request(request, Published)
        return batch_result(reply, batch.count)

    # -- subscribing -----------------------------------------------------------------------------------------

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
    ) -> Iterator["Subscription"]:
        """Returns a subscription that lasts as long as the block. Iterate over it, its `pieces` or its `batches`.

        Args:
            topic: the topic to read; created if it does not exist.
            start: "earliest" (what retention has kept), "latest" (only what is new), an offset, or a datetime:
                messages accepted since then (RET-4).
            until: stop before this offset; None: never.
            epoch: fail with `EpochChanged` unless the topic still has this epoch (TOP-5).
            credit: the most messages that are read ahead.
            credit_bytes: the most bytes of keys and payloads that are read ahead.

        Raises:
            OffsetAhead, EpochChanged, NoSuchTopic, InvalidField.
        """
        where, value = start_at(start)
        self._ids += 1
        end = FOREVER if until is None else until
        request = Subscribe(self._ids, topic, "", where, value, epoch or 0, end, credit, credit_bytes)
        self._events[request.id] = deque()
        try:
            subscription = Subscription(self, request, self._request(request, Subscribed))
            try:
                yield subscription
            finally:
                with suppress(ConnectionLost):
                    self.send(Unsubscribe(0, request.id))
        finally:
            del self._events[request.id]

    # -- frames ----------------------------------------------------------------------------------------------

    def _next_id(self) -> int:
        self._ids += 1
        return _FIRST_REQUEST + self._ids

    def send(self, frame: Frame) -> None:
        """Send a frame without waiting for its reply, if it has one."""
        try:
            self._raw.settimeout(self._timeout)
            self._raw.sendall(encode(frame))
        except TimeoutError as error:
            raise self._lost(f"the broker read nothing for {self._timeout:g} s") from error
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from error

    def _request(self, frame: Frame, expected: type[Reply]) -> Reply:
        self.send(frame)
        while (reply := self._replies.pop(frame.id, None)) is None:
            self.receive_owed()
        match reply:
            case Error():
                raise BrokerError.of(reply)
            case _ if isinstance(reply, expected):
                return reply
            case _:
                raise ZaichikError(f"{self._peer} answered {type(frame).__name__} with {type(reply).__name__}")

    def events(self, subscription: int) -> deque[Event]:
        """Returns the events of a subscription that were not read yet."""
        return self._events[subscription]

    def receive(self, timeout: float | None) -> bool:
        """Receive what the socket holds, or gets within `timeout` seconds (None: no limit).

        Returns:
            Whether anything came.

        Raises:
            ConnectionLost: nothing more will come.
        """
        try:
            self._raw.settimeout(timeout)
            data = self._raw.recv(RECEIVE_BYTES)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from error
        if not data:
            raise self._lost("the broker closed it")
        self._heard = time.monotonic()
        try:
            self._decoder.receive_data(data)
            while (frame := self._decoder.next_frame()) is not NEED_DATA:
                self._dispatch(frame)
        except ProtocolError as error:
            raise self._lost(f"the bytes received are not zaichik's protocol: {error}") from error
        return True

    def wait(self, timeout: float | None) -> bool:
        """Returns whether anything came within `timeout` seconds (None: no limit) from a broker that is alive.

        One that is silent for as long as `connect` allows is sent a Ping: TCP would not notice a frozen broker.

        Raises:
            ConnectionLost: nothing more will come, or the broker does not answer.
        """
        if self.receive(self._timeout if timeout is None else timeout):
            return True
        if timeout is not None and time.monotonic() - self._heard < self._timeout:
            return False
        self._request(Ping(self._next_id()), Pong)
        return True  # the Pong at least

    def receive_owed(self) -> None:
        """Receive something that the broker is bound to send.

        Raises:
            ConnectionLost: nothing came in time.
        """
        if not self.receive(self._timeout):
            raise self._lost(f"the broker was silent for {self._timeout:g} s")

    def _dispatch(self, frame: Frame) -> None:
        match frame:
            case Messages() | LaggedFrame() | SubscriptionEnded():
                if (events := self._events.get(frame.id)) is not None:  # else it was sent before an Unsubscribe arrived
                    events.append(frame)
            case GoAway():  # what was sent before is still answered, then the broker closes
                self._goodbye = frame.text
            case Error(fatal=True) if not self._is_greeted:
                raise BrokerError.of(frame)
            case Error(fatal=True):
                self._goodbye = frame.message
                raise self._lost("")
            case Error(id=0):
                logger.warning("%s refused a request that asked for no reply: %s", self._peer, frame.message)
            case _ if frame.id:
                self._replies[frame.id] = frame

    def _lost(self, reason: str) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self._peer} was lost: {self._goodbye or reason}")

    def close(self) -> None:
        """Let the broker carry out what it was sent, for `CLOSE_SECONDS` at most. `connect` calls this."""
        self._timeout = CLOSE_SECONDS
        with suppress(ZaichikError):
            self._request(Close(self._next_id()), Closed)


class Subscription:
    """A subscription to a topic; `Client.subscribe` makes one.

    Attributes:
        topic: the topic's name.
        epoch: the topic's identity, for subscribing again later.
        start: the first offset that may be delivered.
        live: the topic's next offset when the subscription began: what lies below is history (RET-3).
        next: the offset after the last message given out.
        lagged: the number of messages that were gone before they could be delivered.
        ended: whether `until` was reached.
    """

    def __init__(self, client: Client, request: Subscribe, reply: Subscribed) -> None:
        self.topic = request.topic
        self.epoch = reply.epoch
        self.start = self.next = reply.start
        self.live = reply.live
        self.lagged = 0
        self.ended = False
        self._client = client
        self._request = request
        self._in_flight = self._in_flight_bytes = 0

    def __iter__(self) -> Iterator[Message]:
        """Returns the messages, one by one, up to `until`. Lag is counted and logged."""
        for frame in self.batches():
            yield from messages_of(frame, self.topic)

    def pieces(self) -> Iterator[list[Message]]:
        """Returns the same in lists, as they came, each of at least one message."""
        return ([*messages_of(frame, self.topic)] for frame in self.batches())

    def batches(self) -> Iterator[Messages]:
        """Returns the same in the wire's own batches: `base`, `accepted_us`, and the columns in `batch`."""
        while not self.ended:
            yield from (item for item in self.fetch() if isinstance(item, Messages))

    def fetch(self, timeout: float | None = None) -> list[Messages | Lagged]:
        """Returns all that credit allows, at least one item unless `until` is reached; settles the last fetch.

        Args:
            timeout: seconds after which to return nothing if nothing came; None: never.

        Raises:
            SubscriptionLost: the broker ended the subscription.
        """
        if self._in_flight:
            self._client.send(Commit(0, self._request.id, self.next))
            self._in_flight = self._in_flight_bytes = 0
        items: list[Messages | Lagged] = []
        while True:
            items += self._taken()
            if self.ended:
                return items
            if self._is_owed_more:
                self._client.receive_owed()
            elif not (self._client.receive(0) if items else self._client.wait(timeout)):
                return items

    @property
    def _is_owed_more(self) -> bool:
        """Whether the broker is bound to send more than was received so far: see the module's docstring."""
        request, limits = self._request, self._client.welcome
        has_credit = self._in_flight == 0 or (
            self._in_flight < request.credit and self._in_flight_bytes + limits.max_message <= request.credit_bytes
        )
        # The end needs no credit (RET-4).
        return self.next >= request.until or (has_credit and self.next < self.live)

    def _taken(self) -> Iterator[Messages | Lagged]:
        """Yields what was received, and counts it as in flight."""
        events = self._client.events(self._request.id)
        while events:
            match events.popleft():
                case Messages() as frame:
                    count = frame.batch.count
                    self.next = frame.base + (frame.deltas[-1] + 1 if frame.holes else count)
                    self._in_flight += count
                    self._in_flight_bytes += frame.batch.size
                    yield frame
                case LaggedFrame() as event:
                    lagged = Lagged(self.topic, event.from_offset, event.to_offset)
                    self.next = lagged.end
                    self.lagged += lagged.count
                    logger.warning(
                        "%s: %d messages were gone before they could be read (offsets %d to %d)",
                        self.topic, lagged.count, lagged.start, lagged.end - 1,
                    )  # fmt: skip
                    yield lagged
                case SubscriptionEnded(code=EndCode.UNTIL):
                    self.ended = True
                case SubscriptionEnded() as end:
                    raise SubscriptionLost(f"the subscription to {self.topic} was ended: {end.text}")
