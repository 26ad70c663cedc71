"""A connection to a broker: requests out, replies and events in, over one socket after the other.

When a socket is lost, another one is opened, and unanswered requests are sent again, in order. For that, each request
is kept until its reply has come. First, right after the greeting, topics are created again and their epochs queried
(see `epochs`), and the subscriptions are made again under the ids they had, which a new connection allows. All
other requests are held until the epochs are known. A program only notices a longer wait for a reply, or for messages.

Requests that are sent again must be idempotent, for the first attempt may have arrived. Most of them are: creating a
topic that exists, committing what is committed, deleting a topic that is gone. Sequence numbers make publishing so (see
`sequencer`). A publish without one is not sent again; its outcome is that the connection was lost.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import anyio

from zaichik.build import VERSION
from zaichik.client.dialer import Dialer
from zaichik.client.errors import BrokerError, ConnectionLost, ZaichikError, name_of
from zaichik.client.inbox import Inbox
from zaichik.client.outcome import Lost, OnOutcome, Outcome, Reply, expected, unexpected
from zaichik.client.transport import Transport
from zaichik.net.stream import Stream
from zaichik_protocol import (
    DURABLE,
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
    GoAwayCode,
    Hello,
    Lagged,
    Messages,
    Ping,
    Publish,
    Subscribe,
    SubscriptionEnded,
    Unsubscribe,
    Welcome,
    encode,
)

logger = logging.getLogger(__name__)

_FIRST_REQUEST = 2**31

CLOSE_SECONDS = 1.0  # how long an orderly close may take before the socket is just closed

Question = tuple[Frame, Callable[[Frame], None]]  # a request, and the callback for its reply


class Connection:
    """Requests, replies and events. `opening.opened` makes one.

    Attributes:
        welcome: the broker's last greeting.
        on_reconnect: called for each new socket; returns the questions to ask first, before the subscriptions are made
            again, and those to ask after that.
        on_resend: called before unanswered requests are sent again, with all of them, and with whether the broker was
            restarted since they were sent. Returns the request to send instead of each, or None to drop it.
        on_lost: called when the connection is lost for good.
    """

    welcome: Welcome

    def __init__(
        self,
        dialer: Dialer,
        name: str = "",
        timeout: float = 5.0,
        reconnect: float = 0.0,
        silence: float = math.inf,
    ) -> None:
        self.on_reconnect: Callable[[], tuple[list[Question], list[Question]]] = lambda: ([], [])
        self.on_resend: Callable[[list[Frame], bool], Sequence[Frame | None]] = lambda requests, _is_new: requests
        self.on_lost: Callable[[Lost], None] = lambda _: None
        self._dialer = dialer
        self._peer = str(dialer.endpoint)
        self._name = name or f"zaichik-python {VERSION}"
        self._reconnect = reconnect
        self._transport = Transport(dialer, self, timeout, reconnect, silence)
        self._requests = 0
        self._last_subscription = 0
        self._pending: dict[int, tuple[Frame, OnOutcome]] = {}  # by the request's id, in the order they were sent
        self._asked: set[int] = set()  # ids of questions, which concern this socket only
        self._is_held = False  # requests wait until all questions are answered
        self._ahead: set[int] = set()  # ids of requests that were sent while the others were held
        self._is_new = False  # the broker was restarted since requests were last sent
        self._inboxes: dict[int, Inbox] = {}
        self._hello = 0  # the id of the last one
        self._ended_by = ""  # the name of the code with which the broker announced the end of the last socket
        self._lost: Lost | None = None
        self._greeting = Outcome(self._greeted)  # the first one
        self._on_greeting = self._greeting.settle
        self._tasks = anyio.CancelScope(shield=True)
        encode(self._next_hello())  # a name that cannot be encoded is refused here, not where it is sent

    # -- requests --------------------------------------------------------------------------------------------

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
        if not (self._is_held and isinstance(frame, Unsubscribe) and frame.subscription not in self._ahead):
            self._transport.send_soon(frame)

    def send_now(self, frame: Frame) -> None:
        """Send a frame that needs no reply, at once unless others are queued. Without a socket, it is dropped."""
        self._transport.send_now(frame)

    def post(self, request: Frame, on_outcome: OnOutcome) -> None:
        """Send a request now; `on_outcome`, which must not fail, is called once.

        Raises:
            ConnectionLost: the connection is lost, and the request was not sent.
        """
        if self._lost is not None:
            raise self._lost()
        self._send(self._transport.send_now, request)
        self._pending[request.id] = request, on_outcome

    def _send(self, send: Callable[[Frame], None], request: Frame) -> None:
        if self._is_held:
            encode(request)  # a request that cannot be encoded is refused here, not where it is sent later
        else:
            send(request)

    def ask(self, question: Question) -> None:
        """Ask the broker a question over this socket, now, even while requests are held. It is not sent again."""
        request, on_reply = question
        self._transport.send_now(request)
        self._pending[request.id] = request, partial(self._answered, request.id, on_reply)
        self._asked.add(request.id)

    def _answered(self, request_id: int, on_reply: Callable[[Frame], None], outcome: Frame | Lost) -> None:
        self._asked.discard(request_id)
        if isinstance(outcome, Frame):
            on_reply(outcome)  # which may ask more
            if self._is_held and not self._asked:
                self._release()

    @property
    def is_open(self) -> bool:
        """Whether there is a socket, and the broker has greeted us on it."""
        return self._transport.is_open

    @property
    def reconnects(self) -> bool:
        """Whether a lost socket is replaced by another one."""
        return self._transport.may_reopen

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in flight, so that coalescing would gain nothing."""
        return not self._pending and self._transport.is_quiet

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call a function, which must not fail, once other tasks have had their turn, or when the connection is lost.

        Raises:
            ConnectionLost: it is lost already.
        """
        if self._lost is not None:
            raise self._lost()
        self._transport.call_soon(call)

    async def request(self, frame: Frame, kind: type[Reply], on_reply: OnOutcome | None = None) -> Reply:
        """Returns the reply to a request. If this is cancelled, the request may be carried out all the same.

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
        # A lone request is sent at once. Those made while it waits are sent together, by the writer.
        self._send(self._transport.send_soon if self._pending else self._transport.send_now, frame)
        self._pending[frame.id] = frame, outcome.settle
        try:
            reply = await outcome.wait()
        finally:
            self._pending.pop(frame.id, None)  # still there if cancelled
        return expected(kind, type(frame), reply)

    @contextmanager
    def inbox(self, request: Subscribe) -> Iterator[Inbox]:
        """Returns the inbox for the events of a subscription, as long as the block lasts."""
        inbox = self._inboxes[request.id] = Inbox(request)
        try:
            yield inbox
        finally:
            del self._inboxes[request.id]
            inbox.close(partial(RuntimeError, "the subscription has ended, with its `async with` block"))
            self._pending.pop(request.id, None)  # it was being made again

    # -- receiving -------------------------------------------------------------------------------------------

    def take(self, frame: Frame) -> None:
        """Handle a frame that was received."""
        match frame:
            case Messages() | Lagged() | SubscriptionEnded():
                if inbox := self._inboxes.get(frame.id):  # else it was sent before an Unsubscribe arrived
                    inbox.put(frame)
            case GoAway():  # what was sent before is still answered, then the broker closes
                self._transport.goodbye = frame.text
                self._ended_by = name_of(GoAwayCode, frame.code)
            case Error(id=0, fatal=False):
                logger.warning("%s refused a request that asked for no reply: %s", self._peer, BrokerError.of(frame))
            case Error(fatal=True, retryable=True) if self._transport.may_reopen:
                self._ended_by = name_of(ErrorCode, frame.code)
                self._transport.end(frame.message, hopeless=False)  # a request it answers is sent again
            case _:
                # An id of 0 answers the Hello, if it still waits. One with an unknown id is to a cancelled request.
                if pending := self._pending.pop(frame.id or self._hello, None):
                    pending[1](frame)
                if isinstance(frame, Error) and frame.fatal:  # for all others the connection is lost
                    self._ended_by = name_of(ErrorCode, frame.code)
                    self._transport.end(frame.message, hopeless=True)
                    self.lost(frame.message)

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
            logger.info("reconnected to %s%s", self._peer, "; the broker was restarted" if is_new else "")
            self._begin_again(is_new=is_new)
        elif isinstance(outcome, Frame):
            self._transport.end(unexpected(Hello, outcome).message, hopeless=True)

    def _begin_again(self, *, is_new: bool) -> None:
        """Ask about topics, make the subscriptions again, and hold everything else until the answers have come."""
        self._is_held, self._is_new = True, self._is_new or is_new
        before, after = self.on_reconnect()
        for question in before:
            self.ask(question)
        for number, inbox in self._inboxes.items():
            if request := inbox.again():
                self._pending[number] = request, inbox.answer
        waiting = self._pending.items()
        subscribing = {number: request for number, (request, _) in waiting if isinstance(request, Subscribe)}
        for number, request in sorted(subscribing.items()):
            owned, on_reply = self._owned(request), self._pending[number][1]
            self._pending[number] = owned, on_reply
            self._transport.send_soon(owned)
        for question in after:
            self.ask(question)
        self._ahead = self._asked | subscribing.keys()
        if not self._asked:
            self._release()

    def _release(self) -> None:
        """Send again all other requests that wait for a reply."""
        self._is_held = False
        waiting = [entry for number, entry in self._pending.items() if number not in self._ahead]
        requests = self.on_resend([request for request, _ in waiting], self._is_new)
        self._is_new = False
        for (old, on_outcome), request in zip(waiting, requests, strict=True):
            if request is None:
                self._pending.pop(old.id)
            else:
                again = _or_deleted(on_outcome) if isinstance(request, Delete) else on_outcome
                self._pending[request.id] = request, again
                self._transport.send_soon(request)

    def _owned(self, request: Subscribe) -> Subscribe:
        """Returns the request for a name as the owner's next attempt (CMT-3); an anonymous one as it is."""
        return self._inboxes[request.id].owned(request, self.welcome.features)

    # -- the transport and its end --------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """Returns the Hello that a new socket begins with."""
        self._ended_by = ""
        self._pending.pop(self._hello, None)  # the last socket was lost before its answer
        hello = self._next_hello()
        self._pending[hello.id] = hello, self._on_greeting
        self._hello = hello.id
        return hello

    def _next_hello(self) -> Hello:
        features, known = HEARTBEAT | OWNER | DURABLE, self._dialer.endpoint.credentials
        if known is None or not known.secret:  # nobody in particular, or whom a certificate names
            return Hello(self.next_id(), features=features, client=self._name)
        user, secret = known.user, known.secret
        return Hello(self.next_id(), features=features, client=self._name, auth=known.auth, user=user, secret=secret)

    @property
    def is_waiting(self) -> bool:
        """Whether the broker owes a reply."""
        return bool(self._pending)

    def heartbeat(self) -> None:
        """Send a Ping: the broker hears from us, and we from the broker (TIM-3)."""
        self.ask((Ping(self.next_id()), lambda _: None))

    def interrupted(self, reason: str) -> None:
        """Fail the requests that cannot be sent again safely, and drop the questions to the lost socket."""
        for number in self._asked:
            del self._pending[number]
        self._asked.clear()
        lost = self._loss(reason)
        unsafe = [
            request for request, _ in self._pending.values() if isinstance(request, Publish) and not request.producer
        ]
        for request in unsafe:
            self._pending.pop(request.id)[1](lost)

    def lost(self, reason: str) -> None:
        """Fail everything that waits: the connection is lost for good. The first reason is the one that counts."""
        self._lost = lost = self._lost or self._loss(reason)
        pending, self._pending = self._pending, {}
        for _, on_outcome in pending.values():
            on_outcome(lost)
        self.on_lost(lost)
        self._transport.make_calls()
        for inbox in self._inboxes.values():
            inbox.close(lost)

    def _loss(self, reason: str) -> Lost:
        return partial(ConnectionLost, f"the connection to {self._peer} was lost: {reason}", self._ended_by)

    async def greeted(self) -> None:
        """Returns when the broker has accepted the first Hello.

        Raises:
            BrokerError: it refused to serve this client.
            ConnectionLost: it did not answer as a broker does.
        """
        expected(Welcome, Hello, await self._greeting.wait())

    async def run(self, stream: Stream) -> None:
        """Read and write until `end`, also while the task is being cancelled: `close` needs both."""
        with self._tasks:
            await self._transport.run(stream)

    def end(self) -> None:
        """Have `run` return; requests without a reply fail."""
        self._tasks.cancel()
        self.lost("this client has closed it")

    async def close(self) -> None:
        """Let the broker carry out what it was sent, even when cancelled, but for `CLOSE_SECONDS` at most."""
        self._transport.may_reopen = False
        self._transport.make_calls()  # what is being coalesced is sent before the Close
        if self._lost is None and not self._transport.is_open:
            return  # between two sockets, there is nowhere to send a Close
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
            try:
                await self.request(Close(self.next_id()), Closed)
            except ZaichikError:
                logger.debug("%s went away before saying goodbye", self._peer)


def _or_deleted(on_outcome: OnOutcome) -> OnOutcome:
    """Returns a callback for a Delete that is sent again: if the topic is gone, the first attempt may have done it."""

    def on_reply(outcome: Frame | Lost) -> None:
        if isinstance(outcome, Error) and outcome.code in (ErrorCode.NO_SUCH_TOPIC, ErrorCode.EPOCH_CHANGED):
            outcome = Deleted(outcome.id)
        on_outcome(outcome)

    return on_reply


def _idle_seconds(welcome: Welcome) -> float:
    """Returns the seconds of silence after which the broker closes the connection; 0: never."""
    return welcome.idle_ms / 1000 if welcome.features & HEARTBEAT else 0.0
