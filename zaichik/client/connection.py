"""A connection to a broker: requests out, replies and events in, by two tasks behind one `async with`.

The reader takes in everything as it comes, at all times. A program that is slow to handle its messages is
therefore never a slow reader of its socket: what it has not handled waits in an `Inbox`, and that is never
more than the credit it asked for. The writer sends all that has gathered since its last send in one piece.

The writer works when the event loop comes to it, a turn later. That is right for what comes in numbers; what is
alone, or large, does not wait for it: `send_now` sends as much as the socket takes at once.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import TypeVar

import anyio

from zaichik.background import BackgroundTasks
from zaichik.client.errors import BrokerError, ConnectFailed, ConnectionLost, ZaichikError
from zaichik.socket_stream import SocketStream
from zaichik_protocol import (
    NEED_DATA,
    Close,
    Closed,
    Error,
    Frame,
    FrameDecoder,
    GoAway,
    Hello,
    Lagged,
    Messages,
    ProtocolError,
    SubscriptionEnded,
    Welcome,
    encode,
    encode_pieces,
)

logger = logging.getLogger(__name__)

_FIRST_REQUEST = 2**31

CLOSE_SECONDS = 1.0  # how long leaving in order may take before we just leave

Event = Messages | Lagged | SubscriptionEnded
Reply = TypeVar("Reply", bound=Frame)
# Makes the error that tells why the connection is gone: a new one for each who asks, because an exception
# that is raised in several tasks would gather all their tracebacks.
Lost = Callable[[], Exception]
OnOutcome = Callable[[Frame | Lost], None]


class Inbox:
    """The events of one subscription that were not looked at yet, in order.

    Attributes:
        lost: makes the error that says why no more will come, once the connection is gone.
    """

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self.lost: Lost | None = None
        self._arrived = anyio.Event()

    def put(self, event: Event) -> None:
        """Take an event in and wake whoever waits for it."""
        self.events.append(event)
        self._arrived.set()

    def close(self, lost: Lost) -> None:
        """No more events will come."""
        self.lost = lost
        self._arrived.set()

    async def wait(self) -> None:
        """Wait for an event, without taking it: of several tasks that wait, any may be the first to do so.

        Raises:
            ZaichikError: there is none, and no more will come.
        """
        if not self.events:
            if self.lost is not None:
                raise self.lost()
            if self._arrived.is_set():
                self._arrived = anyio.Event()  # else another task waits for this one already
            await self._arrived.wait()


class Outcome:
    """What became of a request, for any number of tasks to wait for: the reply, or the loss of the connection."""

    _value: Frame | Lost

    def __init__(self) -> None:
        self._settled = anyio.Event()

    def settle(self, outcome: Frame | Lost) -> None:
        """It is known now."""
        self._value = outcome
        self._settled.set()

    async def wait(self) -> Frame | Lost:
        """The outcome, as soon as it is known."""
        await self._settled.wait()
        return self._value


class Connection:
    """Requests, replies and events over one stream. `open` makes one."""

    welcome: Welcome

    def __init__(self, stream: SocketStream, peer: str) -> None:
        self._stream = stream
        self._peer = peer
        self._lost_text = f"the connection to {peer} was lost"
        self._decoder = FrameDecoder.for_client()
        self._requests = 0
        self._last_subscription = 0
        self._pending: dict[int, OnOutcome] = {}  # by the number of the request
        self._inboxes: dict[int, Inbox] = {}
        self._outbox: list[bytes] = []
        self._calls: list[Callable[[], None]] = []  # for the writer's turn
        self._output = anyio.Event()
        self._is_idle = False  # the writer waits for output
        self._goodbye = ""  # why the broker is about to close, if it said so
        self._lost: Lost | None = None
        self._tasks = anyio.CancelScope(shield=True)

    @classmethod
    @asynccontextmanager
    async def open(cls, host: str, port: int, name: str, timeout: float) -> AsyncIterator["Connection"]:
        """A connection that has said Hello, and says Close at the end.

        Raises:
            ConnectFailed: no broker there, or none that answered within `timeout` seconds.
        """
        peer = f"{host}:{port}"
        deadline = anyio.current_time() + timeout
        try:
            with anyio.fail_after(timeout):
                stream = await SocketStream.connect(host, port)
        except OSError as error:  # TimeoutError is one
            raise ConnectFailed(
                f"no broker answers at {peer} ({str(error) or 'it took too long'}). Start one with: zaichik serve"
            ) from error
        connection = cls(stream, peer)
        async with stream, connection._running():
            hello = Hello(connection.next_id(), client=name or f"zaichik-python {version('zaichik')}")
            try:
                with anyio.fail_after(deadline - anyio.current_time()):
                    connection.welcome = await connection.request(hello, Welcome)
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
        """Send a frame in the writer's turn. On a lost connection it goes nowhere."""
        self._outbox.append(encode(frame))
        self._output.set()

    def send_now(self, frame: Frame) -> None:
        """Send a frame now, unless others are before it; what the socket does not take at once is the writer's."""
        pieces: Sequence[bytes] = encode_pieces(frame)
        if self._is_idle and not self._outbox:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the reader will hear of it
                pieces = [self._stream.send_pieces_nowait(pieces)]
        if any(pieces):  # else the socket has taken all of it
            self._outbox.extend(pieces)
            self._output.set()

    def post(self, request: Frame, on_outcome: OnOutcome) -> None:
        """Send a request now, and have its outcome told, once, by a call that must not fail.

        Raises:
            ConnectionLost: it was not sent.
        """
        if self._lost is not None:
            raise self._lost()
        self.send_now(request)
        self._pending[request.id] = on_outcome

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way, so that it makes no sense to gather anything before sending."""
        return not self._pending and not self._outbox and not self._calls

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call that function, which must not fail, once other tasks have had their turn, or if the connection is lost.

        Raises:
            ConnectionLost: it is lost already.
        """
        if self._lost is not None:
            raise self._lost()
        self._calls.append(call)
        self._output.set()

    async def request(self, frame: Frame, expected: type[Reply]) -> Reply:
        """The reply to a request. If this is cancelled, the request may be carried out all the same.

        Raises:
            BrokerError: the broker refused it.
            ConnectionLost: there was no reply.
        """
        if self._lost is not None:
            raise self._lost()
        outcome = Outcome()
        # One alone goes at once. Those that are made while it waits are sent in one piece, by the writer.
        send = self.send_soon if self._pending else self.send_now
        send(frame)
        self._pending[frame.id] = outcome.settle
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
    def inbox(self, subscription_id: int) -> Iterator[Inbox]:
        """Where the events of a subscription go, as long as the block lasts."""
        inbox = self._inboxes[subscription_id] = Inbox()
        try:
            yield inbox
        finally:
            del self._inboxes[subscription_id]

    # -- the two tasks ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        """Read and write as long as the block lasts, also while it is being cancelled: `_close` needs both."""
        async with BackgroundTasks() as background:
            background.group.start_soon(self._read_and_write)
            try:
                yield
            finally:
                self._tasks.cancel()
                self._lose(partial(ConnectionLost, f"{self._lost_text}: it was closed here"))

    async def _read_and_write(self) -> None:
        with self._tasks:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                tasks.start_soon(self._write)

    async def _write(self) -> None:
        try:
            while True:
                while self._calls or self._outbox:
                    self._make_calls()
                    frames, self._outbox = self._outbox, []
                    await self._stream.send(b"".join(frames))
                self._output = anyio.Event()
                self._is_idle = True
                await self._output.wait()
                self._is_idle = False
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the reader will hear of it too, and may still find the reason in what the broker sent

    def _make_calls(self) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            call()

    async def _read(self) -> None:
        reason = "the broker closed it"
        try:
            await self._stream.receive_each(self._take)
        except anyio.EndOfStream:
            pass
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            reason = "it was reset"
        except ProtocolError as error:
            reason = f"what came is not zaichik's protocol: {error}"
        self._lose(partial(ConnectionLost, f"{self._lost_text}: {self._goodbye or reason}"))

    def _take(self, data: bytes) -> bool:
        self._decoder.receive_data(data)
        while (frame := self._decoder.next_frame()) is not NEED_DATA:
            self._dispatch(frame)
        return True

    def _dispatch(self, frame: Frame) -> None:
        match frame:
            case Messages() | Lagged() | SubscriptionEnded():
                if inbox := self._inboxes.get(frame.id):  # else it is on its way from before an Unsubscribe
                    inbox.put(frame)
            case GoAway():  # what was sent before is still answered, then the broker closes
                self._goodbye = frame.text
            case Error(id=0, fatal=False):
                logger.warning("%s refused a request that wanted no answer: %s", self._peer, frame.message)
            case _:
                if on_outcome := self._pending.pop(frame.id, None):  # else whoever asked was cancelled
                    on_outcome(frame)
                if isinstance(frame, Error) and frame.fatal:  # for all others the connection is lost
                    self._lose(partial(ConnectionLost, f"{self._lost_text}: {frame.message}"))

    def _lose(self, lost: Lost) -> None:
        """The connection is of no more use; the first reason is the one that counts."""
        self._lost = self._lost or lost
        pending, self._pending = self._pending, {}
        for on_outcome in pending.values():
            on_outcome(self._lost)
        self._make_calls()
        for inbox in self._inboxes.values():
            inbox.close(self._lost)

    async def _close(self) -> None:
        """Let the broker finish what it was sent, also when cancelled, but not for long."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
            try:
                await self.request(Close(self.next_id()), Closed)
            except ZaichikError:
                logger.debug("%s went away before saying goodbye", self._peer)
