"""A connection to a broker: requests out, replies and events in, over one socket after the other.

When a socket is lost, another one is opened, and unanswered requests are sent again, in order. For
that, each request is kept until its reply has come. First, right after the greeting, topics are
created again and their epochs queried (see `epochs`), and the subscriptions are made again under
the ids they had, which a new connection allows. All other requests are held until the epochs are
known. A program only notices a longer wait for a reply, or for messages.

Requests that are sent again must be idempotent, for the first attempt may have arrived. Most of
them are: creating a topic that exists, committing what is committed, deleting a topic that is gone.
Sequence numbers make publishing so (see `sequencer`). A publish without one is not sent again; its
outcome is that the connection was lost.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import anyio

from zaichik.base.build import VERSION
from zaichik.client.dialer import Dialer
from zaichik.client.errors import BrokerError, ConnectionLost, ZaichikError, name_of
from zaichik.client.forking import ADVICE
from zaichik.client.inbox import Inbox
from zaichik.client.outcome import Lost, OnReply, Outcome, Reply, expected, unexpected
from zaichik.client.receiver import Receiver
from zaichik.client.transport import Transport
from zaichik.net.stream import Stream
from zaichik_protocol import (
    DURABLE,
    HEARTBEAT,
    OWNER,
    SHARED,
    TABLES,
    Close,
    Closed,
    Dead,
    DeadAction,
    DeadPage,
    Delete,
    Deleted,
    DeletionsMissed,
    Error,
    ErrorCode,
    Frame,
    GoAway,
    GoAwayCode,
    Hello,
    Lagged,
    Messages,
    Ping,
    Pong,
    ProtocolError,
    Publish,
    Published,
    Settle,
    Settled,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Welcome,
    encode,
)

logger = logging.getLogger(__name__)

_FIRST_REQUEST = 2**31

CLOSE_SECONDS = 1.0  # how long an orderly close may take before the socket is just closed

# A request that concerns one socket only and is not sent again; and the callback for its reply.
OneTimeRequest = tuple[Frame, Callable[[Frame], None]]

AnyReceiver = TypeVar("AnyReceiver", bound=Receiver)


class BrokerConnection:
    """Requests, replies and events. `opening.open_connection` makes one.

    Attributes:
        welcome: the broker's last greeting.
        on_reconnect: called for each new socket; returns the one-time requests to send first,
            before the subscriptions are made again, and those to send after that.
        on_resend: called before unanswered requests are sent again, with all of them, and with
            whether the broker was restarted since they were sent. Returns the request to send
            instead of each, or None to drop it.
        on_lost: called when the connection is lost for good.
        were_sent: the ids of requests that had no reply when the last socket was lost. Those that
            came later wait for the next one, and were never sent.
    """

    welcome: Welcome

    def __init__(
        self,
        dialer: Dialer,
        name: str = "",
        timeout: float = 5.0,
        reconnect: float = 0.0,
        silence_timeout: float = math.inf,
    ) -> None:
        self.on_reconnect: Callable[[], tuple[list[OneTimeRequest], list[OneTimeRequest]]] = (
            lambda: ([], [])
        )
        self.on_resend: Callable[[list[Frame], bool], Sequence[Frame | None]] = (
            lambda requests, _is_new: requests
        )
        self.on_lost: Callable[[Lost], None] = lambda _: None
        self.were_sent: set[int] = set()
        # Whether no socket was good for them since.
        self._is_between_sockets = False
        self._dialer = dialer
        self._name = name or f"zaichik-python {VERSION}"
        self._reconnect = reconnect
        self._transport = Transport(dialer, self, timeout, reconnect, silence_timeout)
        self._requests = 0
        self._last_subscription = 0
        # Requests without a reply, by their ids, in the order they were sent.
        self._pending: dict[int, tuple[Frame, OnReply]] = {}
        # The ids of one-time requests, which concern this socket only.
        self._one_time: set[int] = set()
        # Whether requests wait until all one-time requests are answered.
        self._is_held = False
        # The ids of requests that were sent while the others were held.
        self._ahead: set[int] = set()
        # The ids of requests over this socket whose tasks wait for the reply no more.
        self._abandoned: set[int] = set()
        # Whether the broker was restarted since requests were last sent.
        self._is_new = False
        self._receivers: dict[int, Receiver] = {}
        # The id of the last Hello.
        self._hello = 0
        # The name of the code with which the broker announced the end of the last socket.
        self._ended_by = ""
        self._lost: Lost | None = None
        # The answer to the first Hello, and the callback for that to the next one.
        self._greeting = Outcome(self._greeted)
        self._on_greeting = self._greeting.settle
        self._tasks = anyio.CancelScope(shield=True)
        # A name that cannot be encoded is refused here, not where it is sent.
        encode(self._next_hello())

    # -- requests --------------------------------------------------------------------------------

    def next_id(self) -> int:
        """Returns an id for a request, from the upper half of all ids; they wrap around."""
        self._requests += 1
        return _FIRST_REQUEST + self._requests % _FIRST_REQUEST

    def next_subscription_id(self) -> int:
        """Returns an id for a Subscribe: these must rise for as long as the connection lasts."""
        self._last_subscription += 1
        return self._last_subscription

    def send_soon(self, frame: Frame) -> None:
        """Send a frame that needs no reply, in the writer's turn. Without a socket, it is dropped.

        So is an Unsubscribe whose Subscribe is still held.
        """
        if isinstance(frame, Unsubscribe):
            was_made = not self._is_held or frame.subscription in self._ahead
            if not was_made:
                return
        self._transport.send_soon(frame)

    def send_now(self, frame: Frame) -> None:
        """Send a frame that needs no reply, at once unless others are queued.

        Without a socket, it is dropped.
        """
        self._transport.send_now(frame)

    def post(self, request: Frame, on_reply: OnReply) -> None:
        """Send a request now; `on_reply`, which must not fail, is called once, with the outcome.

        Raises:
            ConnectionLost: the connection is lost, and the request was not sent.
        """
        if self._lost is not None:
            raise self._lost()
        if self._is_held:
            # One that cannot be encoded is refused here, not where it is sent later.
            encode(request)
        else:
            self._transport.send_now(request)
        self._pending[request.id] = request, on_reply

    def post_once(self, request: Frame, on_reply: Callable[[Frame], None]) -> None:
        """Send a one-time request over this socket, now, even while others are held.

        If the socket is lost, it is not sent again, and `on_reply` is not called.
        """
        self._transport.send_now(request)
        self._pending[request.id] = request, partial(self._replied_once, request.id, on_reply)
        self._one_time.add(request.id)

    def _replied_once(
        self, request_id: int, on_reply: Callable[[Frame], None], outcome: Frame | Lost
    ) -> None:
        self._one_time.discard(request_id)
        if not isinstance(outcome, Frame):
            return
        # It may send another one, for which the others have to wait, too.
        on_reply(outcome)
        if self._is_held and not self._one_time:
            self._release()

    @property
    def _peer(self) -> str:
        """The address, which may have changed since the last socket."""
        return str(self._dialer.endpoint)

    @property
    def transport(self) -> Transport:
        """The current socket, for a thread that sends and receives by hand."""
        return self._transport

    @property
    def is_lost(self) -> bool:
        """Whether it is lost for good, or closed."""
        return self._lost is not None

    @property
    def is_open(self) -> bool:
        """Whether there is a socket, and the broker has greeted us on it."""
        return self._transport.is_open

    @property
    def reconnects(self) -> bool:
        """Whether a lost socket is replaced by another one."""
        return self._transport.may_reopen

    @property
    def deleting(self) -> set[str]:
        """The topics with a Delete that has no reply yet."""
        topics: set[str] = set()
        for request, _ in self._pending.values():
            if isinstance(request, Delete):
                topics.add(request.topic)
        return topics

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in flight, so that coalescing would gain nothing."""
        return not self._pending and self._transport.is_quiet

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call a function once other tasks have had their turn, or when the connection is lost.

        The function must not fail.

        Raises:
            ConnectionLost: it is lost already.
        """
        if self._lost is not None:
            raise self._lost()
        self._transport.call_soon(call)

    async def request(
        self, frame: Frame, kind: type[Reply], on_reply: OnReply | None = None
    ) -> Reply:
        """Returns the reply to a request.

        If this is cancelled, the request may be carried out all the same.

        Args:
            frame: the request.
            kind: the type of reply that is expected.
            on_reply: called with the outcome as well, before anything received after it is handled.

        Raises:
            BrokerError: the broker refused it.
            ConnectionLost: there was no reply.
        """
        if self._lost is not None:
            raise self._lost()
        outcome = Outcome(on_reply)
        if self._is_held and isinstance(frame, Subscribe):
            # It is not held: the next probe of a topic is a Subscribe, which is sent at once, and
            # their ids must rise.
            self._transport.send_soon(frame)
            self._ahead.add(frame.id)
        elif self._is_held:
            # As in `post`.
            encode(frame)
        elif self._pending:
            # A lone request is sent at once. Those made while it waits are sent together, by the
            # writer.
            self._transport.send_soon(frame)
        else:
            self._transport.send_now(frame)
        self._pending[frame.id] = frame, outcome.settle
        try:
            reply = await outcome.wait()
        finally:
            # It is still there if this task was cancelled.
            self._abandon(frame.id)
        return expected(kind, type(frame), reply)

    async def try_out(self) -> None:
        """Returns when the broker has answered a request; the connection is not replaced meanwhile.

        Raises:
            BrokerError: the broker does not serve this connection.
            ConnectionLost: there was no reply.
        """
        reconnects = self._transport.may_reopen
        self._transport.may_reopen = False
        await self.request(Ping(self.next_id()), Pong)
        self._transport.may_reopen = reconnects

    def _abandon(self, number: int) -> None:
        """Forget a request, if it still waits for its reply. That may come nevertheless."""
        if self._pending.pop(number, None) is None:
            return
        was_sent = not self._is_held or number in self._ahead
        if was_sent and self._transport.is_open:
            self._abandoned.add(number)

    @contextmanager
    def receiving(self, receiver: AnyReceiver) -> Iterator[AnyReceiver]:
        """Returns the receiver, which gets the events of its subscription while the block lasts."""
        self._receivers[receiver.id] = receiver
        try:
            yield receiver
        finally:
            del self._receivers[receiver.id]
            ended = "the subscription has ended, with its `async with` block"
            receiver.close(partial(RuntimeError, ended))
            # It is there while the subscription is being made again.
            self._abandon(receiver.id)

    async def subscribe(self, request: Subscribe) -> Subscribed:
        """Make a subscription that has a receiver; returns the reply.

        Raises:
            BrokerError: the broker refused it.
            ConnectionLost: there was no reply.
        """
        receiver = self._receivers[request.id]
        try:
            return await self.request(self._owned(request), Subscribed, receiver.answer)
        except anyio.get_cancelled_exc_class():
            # The broker may have made it all the same.
            self.send_soon(Unsubscribe(0, request.id))
            receiver.is_live = False
            raise

    def subscribe_nowait(self, request: Subscribe, on_reply: OnReply) -> None:
        """Make a subscription that has a receiver; `on_reply` is called once, with the outcome.

        Raises:
            ConnectionLost: the connection is lost, and the request was not sent.
        """
        if self._lost is not None:
            raise self._lost()
        receiver = self._receivers[request.id]
        owned = self._owned(request)
        if self._is_held:
            # It is not held: see `request`.
            self._ahead.add(request.id)
        self._transport.send_soon(owned)
        self._pending[request.id] = owned, partial(_answered, receiver, on_reply)

    async def start_over(self, inbox: Inbox, request: Subscribe) -> Subscribed:
        """Make another subscription for an inbox whose first one has ended; returns the reply.

        Raises:
            BrokerError, ConnectionLost: see `subscribe`.
        """
        # What is still on its way has the old number.
        del self._receivers[inbox.id]
        inbox.start_over(request)
        self._receivers[request.id] = inbox
        return await self.subscribe(request)

    # -- receiving -------------------------------------------------------------------------------

    def take(self, frame: Frame) -> None:
        """Handle a frame that was received.

        Raises:
            ProtocolError: no right broker sends it here.
        """
        match frame:
            case Messages() | Lagged() | DeletionsMissed() | SubscriptionEnded():
                receiver = self._receivers.get(frame.id)
                if receiver is not None:
                    receiver.put(frame)
                elif not 0 < frame.id <= self._last_subscription:
                    # One that this client has left may still have events: those that were sent
                    # before an Unsubscribe arrived.
                    raise _wrong(frame, f"comes for subscription {frame.id}, which there never was")
            case GoAway():
                # What was sent before is still answered, then the broker closes.
                self._transport.goodbye = frame.text
                self._ended_by = name_of(GoAwayCode, frame.code)
            case Error(id=0, fatal=False):
                logger.warning(
                    "%s refused a request that asked for no reply: %s",
                    self._peer,
                    BrokerError.of(frame),
                )
            case Error(fatal=True, retryable=True) if self._transport.may_reopen:
                # Another socket may do: the request that it answers is sent again.
                self._ended_by = name_of(ErrorCode, frame.code)
                self._transport.end(frame.message, hopeless=False)
            case Error(fatal=True):
                # An id of 0 answers the Hello, if it still waits.
                pending = self._pending.pop(frame.id or self._hello, None)
                if pending is not None:
                    _, on_reply = pending
                    on_reply(frame)
                # For all other requests, the connection is lost.
                self._ended_by = name_of(ErrorCode, frame.code)
                self._transport.end(frame.message, hopeless=True)
                self.lost(frame.message)
            case _:
                self._take_reply(frame)

    def _take_reply(self, frame: Frame) -> None:
        """Handle a reply, unless it cannot be the one of a request."""
        number = frame.id or self._hello
        pending = self._pending.get(number)
        if pending is None:
            if number not in self._abandoned:
                raise _wrong(frame, "answers no request")
            self._abandoned.discard(number)
            return
        if number != self._hello and not self._transport.is_open:
            raise _wrong(frame, "comes before the Hello is answered")
        request, on_reply = pending
        match frame:
            case Published() if isinstance(request, Publish):
                # A duplicate is the answer of the first time, and a program that numbers its
                # batches by itself may send another one under that number.
                count = request.batch.count
                if frame.stored + frame.compacted != count and not frame.duplicate:
                    raise _wrong(frame, f"is about another number of messages than {count}")
            case Subscribed():
                receiver = self._receivers.get(number)
                if receiver is not None and isinstance(request, Subscribe):
                    receiver.check(frame)
            case Settled() if isinstance(request, Settle):
                if not set(frame.late).issubset(request.tickets):
                    raise _wrong(frame, "calls tickets late that were not settled")
            case Welcome() if isinstance(request, Hello):
                if not request.version_min <= frame.version <= request.version_max:
                    raise _wrong(frame, f"is of version {frame.version}, which was not offered")
            case _:
                pass
        del self._pending[number]
        on_reply(frame)

    def _greeted(self, outcome: Frame | Lost) -> None:
        """Handle the answer to the first Hello."""
        if isinstance(outcome, Welcome):
            self.welcome = outcome
            self._on_greeting = self._greeted_again
            self._transport.may_reopen = self._reconnect > 0
            self._transport.open(_idle_seconds(outcome))

    def _greeted_again(self, outcome: Frame | Lost) -> None:
        """Make the subscriptions again, and send again every request that waits for a reply."""
        if isinstance(outcome, Welcome):
            is_new = outcome.boot != self.welcome.boot
            self.welcome = outcome
            self._transport.open(_idle_seconds(outcome))
            restarted = ""
            if is_new:
                restarted = "; the broker was restarted"
            logger.info("reconnected to %s%s", self._peer, restarted)
            self._resume(is_new=is_new)
        elif isinstance(outcome, Frame):
            self._transport.end(unexpected(Hello, outcome).message, hopeless=True)

    def _resume(self, *, is_new: bool) -> None:
        """Send one-time requests and make the subscriptions again.

        Everything else is held until the one-time requests are answered.
        """
        self._is_held = True
        if is_new:
            self._is_new = True
        before, after = self.on_reconnect()
        for request, on_reply in before:
            self.post_once(request, on_reply)
        subscribing = self._resubscribe()
        for request, on_reply in after:
            self.post_once(request, on_reply)
        self._ahead = self._one_time | subscribing
        if not self._one_time:
            self._release()

    def _resubscribe(self) -> set[int]:
        """Make the subscriptions again; returns the ids of their requests."""
        for number, receiver in self._receivers.items():
            request = receiver.again()
            if request is not None:
                self._pending[number] = request, receiver.answer
        subscribing: dict[int, Subscribe] = {}
        for number, (pending, _) in self._pending.items():
            if isinstance(pending, Subscribe):
                subscribing[number] = pending
        # In order, for their ids must rise.
        for number in sorted(subscribing):
            owned = self._owned(subscribing[number])
            _, on_reply = self._pending[number]
            self._pending[number] = owned, on_reply
            self._transport.send_soon(owned)
        return set(subscribing)

    def _release(self) -> None:
        """Send again all other requests that wait for a reply."""
        self._is_held = False
        waiting = [entry for number, entry in self._pending.items() if number not in self._ahead]
        requests = self.on_resend([request for request, _ in waiting], self._is_new)
        self._is_new = False
        self._is_between_sockets = False
        for (old, on_reply), request in zip(waiting, requests, strict=True):
            if request is None:
                self._pending.pop(old.id)
                continue
            self._pending[request.id] = request, _answered_again(request, on_reply)
            self._transport.send_soon(request)

    def _owned(self, request: Subscribe) -> Subscribe:
        """Returns the request for a name as the owner's next attempt (CMT-3).

        An anonymous one is returned as it is.
        """
        return self._receivers[request.id].owned(request, self.welcome.features)

    # -- the transport and its end ---------------------------------------------------------------

    def hello(self) -> Hello:
        """Returns the Hello that a new socket begins with."""
        self._ended_by = ""
        self._abandoned.clear()
        # It is still there if the last socket was lost before its answer.
        self._pending.pop(self._hello, None)
        hello = self._next_hello()
        self._pending[hello.id] = hello, self._on_greeting
        self._hello = hello.id
        return hello

    def _next_hello(self) -> Hello:
        features = HEARTBEAT | OWNER | DURABLE | TABLES | SHARED
        known = self._dialer.endpoint.credentials
        # Without a secret, we are nobody in particular, or the user that our certificate names.
        if known is None or not known.secret:
            return Hello(self.next_id(), features=features, client=self._name)
        return Hello(
            self.next_id(),
            features=features,
            client=self._name,
            auth=known.auth,
            user=known.user,
            secret=known.secret,
        )

    @property
    def is_waiting(self) -> bool:
        """Whether the broker owes a reply."""
        return bool(self._pending)

    def heartbeat(self) -> None:
        """Send a Ping: the broker hears from us, and we from the broker (TIM-3)."""
        self.post_once(Ping(self.next_id()), lambda _: None)

    def interrupted(self, reason: str) -> None:
        """Fail the requests that cannot be sent again safely, and drop one-time requests."""
        if not self._is_between_sockets:
            self._is_between_sockets = True
            self.were_sent = set(self._pending)
        for number in self._one_time:
            del self._pending[number]
        self._one_time.clear()
        for receiver in self._receivers.values():
            receiver.interrupted()
        lost = self._loss(reason)
        unsafe: list[int] = []
        for number, (request, _) in self._pending.items():
            if isinstance(request, Publish) and not request.producer:
                unsafe.append(number)
        for number in unsafe:
            _, on_reply = self._pending.pop(number)
            on_reply(lost)

    def lost(self, reason: str) -> None:
        """Fail everything that waits: the connection is lost for good.

        The first reason is the one that counts.
        """
        lost = self._lost or self._loss(reason)
        self._lost = lost
        pending = self._pending
        self._pending = {}
        for _, on_reply in pending.values():
            on_reply(lost)
        self.on_lost(lost)
        self._transport.run_scheduled()
        for receiver in self._receivers.values():
            receiver.close(lost)

    def inherited(self) -> None:
        """See `forking`.

        The tasks that wait are not woken, because their event loop does not run here.
        """
        lost = partial(RuntimeError, ADVICE)
        self._lost = lost
        self._transport.is_open = False
        for receiver in self._receivers.values():
            receiver.drop()
            receiver.lost = lost

    def _loss(self, reason: str) -> Lost:
        text = f"the connection to {self._peer} was lost: {reason}"
        return partial(ConnectionLost, text, self._ended_by)

    async def greeted(self) -> None:
        """Returns when the broker has accepted the first Hello.

        Raises:
            BrokerError: it refused to serve this client.
            ConnectionLost: it did not answer as a broker does.
        """
        expected(Welcome, Hello, await self._greeting.wait())

    async def run(self, stream: Stream) -> None:
        """Read and write until `end`.

        This goes on while the task is being cancelled, because `close` needs both.
        """
        try:
            with self._tasks:
                await self._transport.run(stream)
        finally:
            # If the event loop ends, or there is a bug here, nobody waits in vain.
            self.lost("this client has stopped")

    def end(self) -> None:
        """Have `run` return; requests without a reply fail."""
        self._tasks.cancel()
        self.lost("this client has closed it")

    async def close(self) -> None:
        """Let the broker carry out what it was sent, for `CLOSE_SECONDS` at most.

        It gets that time even if this task is cancelled.
        """
        self._transport.may_reopen = False
        # What is being coalesced is sent before the Close.
        self._transport.run_scheduled()
        if self._lost is not None:
            logger.debug("%s went away before saying goodbye", self._peer)
            return
        # Between two sockets, there is nowhere to send a Close.
        if not self._transport.is_open:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
            try:
                await self.request(Close(self.next_id()), Closed)
            except ZaichikError:
                logger.debug("%s went away before saying goodbye", self._peer)


def _answered(receiver: Receiver, on_reply: OnReply, outcome: Frame | Lost) -> None:
    receiver.answer(outcome)
    on_reply(outcome)


def _answered_again(request: Frame, on_reply: OnReply) -> OnReply:
    """Returns a callback for a request that is sent again.

    If what it was to remove is gone, the first attempt may have done it.
    """
    match request:
        case Delete():
            gone = (ErrorCode.NO_SUCH_TOPIC, ErrorCode.EPOCH_CHANGED)
            return partial(_removed, on_reply, gone, Deleted(request.id))
        case Dead(action=DeadAction.FORGET_NAME):
            gone = (ErrorCode.NO_SUCH_TOPIC, ErrorCode.NO_SUCH_NAME)
            return partial(_removed, on_reply, gone, DeadPage(request.id, 0, 1, 0))
        case _:
            return on_reply


def _removed(
    on_reply: OnReply, gone: tuple[ErrorCode, ErrorCode], success: Frame, outcome: Frame | Lost
) -> None:
    if isinstance(outcome, Error) and outcome.code in gone:
        outcome = success
    on_reply(outcome)


def _wrong(frame: Frame, what: str) -> ProtocolError:
    problem = f"this {type(frame).__name__} {what}"
    return ProtocolError(ErrorCode.MALFORMED, problem, request_id=frame.id)


def _idle_seconds(welcome: Welcome) -> float:
    """Returns the seconds of silence after which the broker closes the connection; 0: never."""
    if not welcome.features & HEARTBEAT:
        return 0.0
    return welcome.idle_ms / 1000
