"""A connection to a broker: requests out, replies and events in, over one socket after the other.

When a socket is lost, another one is opened, and what was not answered is sent again, in order. For that the requests
are kept, each until its reply has come. First of all, right after the greeting, the subscriptions are made again with
the numbers they had: a new connection counts anew. So a program waits a little longer for a reply, or for messages,
and does not notice more.

Sending again must do no harm if the first time did arrive. Most requests are of that kind: to create a topic that is
there, to settle what is settled. To delete a topic that is gone counts as done. Publishing is made to be so, by numbers
(see `lanes`). A publish without number is not sent again, and whoever waits for its reply is told that the connection
was lost.
"""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.metadata import version
from typing import TypeVar

import anyio

from zaichik.client.errors import BrokerError, ConnectFailed, ConnectionLost, ZaichikError
from zaichik.client.inbox import Inbox
from zaichik.client.link import Link
from zaichik.client.outcome import Lost, OnOutcome, Outcome
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import (
    HEARTBEAT,
    OWNER,
    Close,
    Closed,
    Delete,
    Deleted,
    Error,
    ErrorCode,
    Frame,
    GoAway,
    Hello,
    Lagged,
    Messages,
    Ping,
    Publish,
    Subscribe,
    SubscriptionEnded,
    Welcome,
    encode,
)

logger = logging.getLogger(__name__)

_FIRST_REQUEST = 2**31

CLOSE_SECONDS = 1.0  # how long leaving in order may take before we just leave

Reply = TypeVar("Reply", bound=Frame)


class Connection:
    """Requests, replies and events. `open` makes one.

    Attributes:
        welcome: the broker's last greeting.
        on_again: called with all requests that wait for their replies before they are sent again, and whether to
            another run of the broker, which has lost its memory; the requests it returns are sent instead.
        on_lost: called when the connection is lost for good.
    """

    welcome: Welcome

    def __init__(
        self,
        address: tuple[str, int],
        name: str = "",
        timeout: float = 5.0,
        reconnect: float = 0.0,
        silence: float = math.inf,
    ) -> None:
        self.on_again: Callable[[list[Frame], bool], list[Frame]] = lambda requests, _is_new: requests
        self.on_lost: Callable[[Lost], None] = lambda _: None
        self._address = address
        self._peer = "{}:{}".format(*address)
        self._name = name or f"zaichik-python {version('zaichik')}"
        self._reconnect = reconnect
        self._link = Link(address, self, timeout, reconnect, silence)
        self._requests = 0
        self._last_subscription = 0
        self._pending: dict[int, tuple[Frame, OnOutcome]] = {}  # by the number of the request, in the order they left
        self._inboxes: dict[int, Inbox] = {}
        self._hello = 0  # the number of the last one
        self._lost: Lost | None = None
        self._greeting = Outcome(self._greeted)  # the first one
        self._on_greeting = self._greeting.settle
        self._tasks = anyio.CancelScope(shield=True)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, host: str, port: int, name: str, timeout: float, reconnect: float = 0.0, silence: float = math.inf
    ) -> AsyncIterator["Connection"]:
        """A connection that has said Hello, and says Close at the end.

        Raises:
            ConnectFailed: no broker there, or none that answered within `timeout` seconds.
            BrokerError: the broker answered that it does not serve this client, `TooManyConnections` for example.
            Unencodable: the name is longer than a Hello can tell.
        """
        connection = cls((host, port), name, timeout, reconnect, silence)
        encode(connection._greeting_frame())  # raised here, not where it is sent
        peer = connection._peer
        deadline = anyio.current_time() + timeout
        try:
            with anyio.fail_after(timeout):
                stream = await SocketStream.connect(host, port)
        except OSError as error:  # TimeoutError is one
            raise ConnectFailed(
                f"no broker answers at {peer} ({str(error) or 'it took too long'}). Start one with: zaichik serve"
            ) from error
        async with stream, connection._running(stream):
            try:
                with anyio.fail_after(deadline - anyio.current_time()):
                    connection.expected(Welcome, Hello, await connection._greeting.wait())
            except (TimeoutError, ConnectionLost) as error:
                raise ConnectFailed(
                    f"{peer} accepts connections but does not answer as a zaichik broker "
                    f"({str(error) or 'it took too long'})"
                ) from error
            try:
                yield connection
            finally:
                await connection._close()

    # -- requests --------------------------------------------------------------------------------------------

    def next_id(self) -> int:
        """A number for a request: from the upper half of all numbers, around and around."""
        self._requests += 1
        return _FIRST_REQUEST + self._requests % _FIRST_REQUEST

    def next_subscription_id(self) -> int:
        """A number for a Subscribe: these must rise for as long as the connection lasts."""
        self._last_subscription += 1
        return self._last_subscription

    def send_soon(self, frame: Frame) -> None:
        """Send a frame that wants no reply in the writer's turn. While there is no socket it goes nowhere."""
        self._link.send_soon(frame)

    def send_now(self, frame: Frame) -> None:
        """Send a frame that wants no reply now, unless others are before it. Else likewise."""
        self._link.send_now(frame)

    def post(self, request: Frame, on_outcome: OnOutcome) -> None:
        """Send a request now, and have its outcome told, once, by a call that must not fail.

        Raises:
            ConnectionLost: it was not sent.
        """
        if self._lost is not None:
            raise self._lost()
        self._link.send_now(request)
        self._pending[request.id] = request, on_outcome

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way, so that it makes no sense to gather anything before sending."""
        return not self._pending and self._link.is_quiet

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call that function, which must not fail, once other tasks have had their turn, or if the connection is lost.

        Raises:
            ConnectionLost: it is lost already.
        """
        if self._lost is not None:
            raise self._lost()
        self._link.call_soon(call)

    async def request(self, frame: Frame, expected: type[Reply], told: OnOutcome | None = None) -> Reply:
        """The reply to a request. If this is cancelled, the request may be carried out all the same.

        Args:
            frame: the request.
            expected: the type of reply.
            told: also called with the outcome, before anything that came after it is taken in.

        Raises:
            BrokerError: the broker refused it.
            ConnectionLost: there was no reply.
        """
        if self._lost is not None:
            raise self._lost()
        outcome = Outcome(told)
        # One alone goes at once. Those that are made while it waits are sent in one piece, by the writer.
        send = self._link.send_soon if self._pending else self._link.send_now
        send(frame)
        self._pending[frame.id] = frame, outcome.settle
        try:
            reply = await outcome.wait()
        finally:
            self._pending.pop(frame.id, None)  # still there if cancelled
        return self.expected(expected, type(frame), reply)

    def expected(self, expected: type[Reply], asked: type[Frame], outcome: Frame | Lost) -> Reply:
        """The outcome of a request of type `asked` if it is the reply wanted; everything else is raised."""
        match outcome:
            case reply if isinstance(reply, expected):
                return reply
            case Error():
                raise BrokerError.of(outcome)
            case Frame():
                raise self.unexpected(asked, outcome)
            case lost:
                raise lost()

    def unexpected(self, asked: type[Frame], reply: Frame) -> ZaichikError:
        """The error that says so."""
        return ZaichikError(f"{self._peer} answered {asked.__name__} with {type(reply).__name__}")

    @contextmanager
    def inbox(self, request: Subscribe) -> Iterator[Inbox]:
        """Where the events of a subscription go, as long as the block lasts."""
        inbox = self._inboxes[request.id] = Inbox(request)
        try:
            yield inbox
        finally:
            del self._inboxes[request.id]
            inbox.close(partial(RuntimeError, "a subscription ends with its `async with` block; this one has"))
            self._pending.pop(request.id, None)  # it was being made again

    # -- what comes ------------------------------------------------------------------------------------------

    def take(self, frame: Frame) -> None:
        """A frame has come."""
        match frame:
            case Messages() | Lagged() | SubscriptionEnded():
                if inbox := self._inboxes.get(frame.id):  # else it is on its way from before an Unsubscribe
                    inbox.put(frame)
            case GoAway():  # what was sent before is still answered, then the broker closes
                self._link.goodbye = frame.text
            case Error(id=0, fatal=False):
                logger.warning("%s refused a request that wanted no answer: %s", self._peer, frame.message)
            case Error(fatal=True, retryable=True) if self._link.may_reopen:
                self._link.end(frame.message, hopeless=False)  # and the request, if it is one's, is sent again
            case _:
                # What answers no request answers the Hello, if that is open. Else whoever asked was cancelled.
                if pending := self._pending.pop(frame.id or self._hello, None):
                    pending[1](frame)
                if isinstance(frame, Error) and frame.fatal:  # for all others the connection is lost
                    self._link.end(frame.message, hopeless=True)
                    self.lost(frame.message)

    def _greeted(self, outcome: Frame | Lost) -> None:
        """The first greeting was answered."""
        if isinstance(outcome, Welcome):
            self.welcome = outcome
            self._on_greeting = self._greeted_again
            self._link.may_reopen = self._reconnect > 0
            self._link.open(_idle_seconds(outcome))

    def _greeted_again(self, outcome: Frame | Lost) -> None:
        """Make the subscriptions again and send everything again that waits for a reply."""
        if isinstance(outcome, Welcome):
            is_new = outcome.boot != self.welcome.boot
            self.welcome = outcome
            self._link.open(_idle_seconds(outcome))
            logger.info("connected to %s again%s", self._peer, ", where another broker runs now" if is_new else "")
            self._send_again(is_new=is_new)
        elif isinstance(outcome, Frame):
            self._link.end(str(self.unexpected(Hello, outcome)), hopeless=True)

    def _send_again(self, *, is_new: bool) -> None:
        made_again = {number: inbox.again() for number, inbox in sorted(self._inboxes.items())}
        waiting = [entry for entry in self._pending.values() if not made_again.get(entry[0].id)]
        requests = self.on_again([self._owned(request) for request, _ in waiting], is_new)
        self._pending = {
            number: (self._owned(request), self._inboxes[number].answer)
            for number, request in made_again.items()
            if request
        }
        for request, (_, on_outcome) in zip(requests, waiting, strict=True):
            told = _or_deleted(on_outcome) if isinstance(request, Delete) else on_outcome
            self._pending[request.id] = request, told
        for request, _ in self._pending.values():
            self._link.send_soon(request)

    def _owned(self, request: Frame) -> Frame:
        """A Subscribe that says which owner asks, and for which time; all else as it is."""
        if not isinstance(request, Subscribe):
            return request
        return self._inboxes[request.id].owned(request, self.welcome.features)

    # -- the link and its end --------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """What a socket begins with."""
        self._pending.pop(self._hello, None)  # a socket before this one has not lasted until the answer
        hello = self._greeting_frame()
        self._pending[hello.id] = hello, self._on_greeting
        self._hello = hello.id
        return hello

    def _greeting_frame(self) -> Hello:
        return Hello(self.next_id(), features=HEARTBEAT | OWNER, client=self._name)

    @property
    def is_waiting(self) -> bool:
        """Whether the broker owes a reply."""
        return bool(self._pending)

    def heartbeat(self) -> None:
        """Send a Ping, for its own sake and for that of its answer (TIM-3)."""
        self.post(Ping(self.next_id()), lambda _: None)

    def interrupted(self, reason: str) -> None:
        """What cannot be sent again safely is lost with the socket."""
        lost = self._loss(reason)
        unsafe = [
            request for request, _ in self._pending.values() if isinstance(request, Publish) and not request.producer
        ]
        for request in unsafe:
            self._pending.pop(request.id)[1](lost)

    def lost(self, reason: str) -> None:
        """The connection is of no more use; the first reason is the one that counts."""
        self._lost = lost = self._lost or self._loss(reason)
        pending, self._pending = self._pending, {}
        for _, on_outcome in pending.values():
            on_outcome(lost)
        self.on_lost(lost)
        self._link.make_calls()
        for inbox in self._inboxes.values():
            inbox.close(lost)

    def _loss(self, reason: str) -> Lost:
        return partial(ConnectionLost, f"the connection to {self._peer} was lost: {reason}")

    @asynccontextmanager
    async def _running(self, stream: SocketStream) -> AsyncIterator[None]:
        """Read and write as long as the block lasts, also while it is being cancelled: `_close` needs both."""
        async with BackgroundTasks() as background:
            background.group.start_soon(self._run, stream)
            try:
                yield
            finally:
                self._tasks.cancel()
                self.lost("it was closed here")

    async def _run(self, stream: SocketStream) -> None:
        with self._tasks:
            await self._link.run(stream)

    async def _close(self) -> None:
        """Let the broker finish what it was sent, also when cancelled, but not for long."""
        self._link.may_reopen = False
        self._link.make_calls()  # what gathers leaves before the Close
        if self._lost is None and not self._link.is_open:
            return  # between two sockets there is nobody to say it to
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
            try:
                await self.request(Close(self.next_id()), Closed)
            except ZaichikError:
                logger.debug("%s went away before saying goodbye", self._peer)


def _or_deleted(on_outcome: OnOutcome) -> OnOutcome:
    """For a Delete that is sent again: that there is no such topic may be what it has done the first time."""

    def told(outcome: Frame | Lost) -> None:
        if isinstance(outcome, Error) and outcome.code in (ErrorCode.NO_SUCH_TOPIC, ErrorCode.EPOCH_CHANGED):
            outcome = Deleted(outcome.id)
        on_outcome(outcome)

    return told


def _idle_seconds(welcome: Welcome) -> float:
    """Silence after which the broker closes the connection; 0: never."""
    return welcome.idle_ms / 1000 if welcome.features & HEARTBEAT else 0.0
