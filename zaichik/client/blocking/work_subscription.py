"""Working on a shared name from threads: each call is driven by the thread that makes it.

Nothing crosses in advance here, unlike in `subscription`. A message that has crossed would be taken
from the other workers, and a job takes far longer than a call.
"""

from contextlib import suppress
from types import TracebackType
from typing import Self

from zaichik.client.blocking.driver import Caller, driving
from zaichik.client.work import message as asynchronous_message
from zaichik.client.work import subscription as asynchronous
from zaichik.client.work.verdict import failures


class WorkMessage:
    """One message of a shared name, for this program alone until it is settled (SHR-2).

        for message in work:
            with message:
                ...

    Leaving the block settles the message, as with `zaichik.WorkMessage`: as done, or as failed if
    the block has raised an exception. Ctrl-C in the block gives the message back. Any thread may
    settle it. Attributes, results and errors are those of `zaichik.WorkMessage`.
    """

    def __init__(self, driver: Caller, inner: asynchronous_message.WorkMessage) -> None:
        self.topic = inner.topic
        self.offset = inner.offset
        self.timestamp = inner.timestamp
        self.key = inner.key
        self.payload = inner.payload
        self.delivery = inner.delivery
        self.redelivered = inner.redelivered
        self.ticket = inner.ticket
        self._driver = driver
        self._inner = inner

    def __repr__(self) -> str:
        """For a log: where it is, and which delivery this is."""
        return repr(self._inner)

    @property
    def is_tombstone(self) -> bool:
        """Whether it has a key and no payload: in a table, its key was deleted (TAB-5)."""
        return self._inner.is_tombstone

    @property
    def is_settled(self) -> bool:
        """Whether the program has settled it, or has begun to."""
        return self._inner.is_settled

    @property
    def due(self) -> float:
        """When its time is over, as `time.monotonic` counts; `math.inf`: never."""
        return self._inner.due

    done = driving(asynchronous_message.WorkMessage.done)
    retry = driving(asynchronous_message.WorkMessage.retry)
    reject = driving(asynchronous_message.WorkMessage.reject)
    give_back = driving(asynchronous_message.WorkMessage.give_back)
    extend = driving(asynchronous_message.WorkMessage.extend)

    def __enter__(self) -> Self:
        """Returns the message, which is settled when the block ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Settle the message, unless that is done.

        Raises:
            ConnectionLost: the block has ended, and whether the message is done is not known.
        """
        if error is None:
            # Waiting for the answer is what reads the socket here.
            self.done()
            return
        # If the client has ended, the exception of the block counts more.
        with suppress(RuntimeError):
            self._driver.call(self._fail, error)

    async def _fail(self, error: BaseException) -> None:
        self._inner.fail(error, ())


class WorkSubscription:
    """An iterator over the messages that this worker is handed out.

    `Client.subscribe` makes one, with `shared=True`. Any number of threads may iterate over it at
    once; each message goes to one of them. With a credit of as many, each has one to work on.
    """

    def __init__(self, driver: Caller, inner: asynchronous.WorkSubscription) -> None:
        self._driver = driver
        self._inner = inner

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._inner.topic

    @property
    def epoch(self) -> int:
        """The topic's identity."""
        return self._inner.epoch

    @property
    def name(self) -> str:
        """The shared name."""
        return self._inner.name

    @property
    def timeout(self) -> float:
        """Seconds that the program has for each message; `math.inf`: for ever."""
        return self._inner.timeout

    @property
    def is_draining(self) -> bool:
        """Whether it takes no more messages: see `drain`."""
        return self._inner.is_draining

    @property
    def lagged(self) -> int:
        """The number of messages that were gone before they could be handed out (SHR-7)."""
        return self._inner.lagged

    @property
    def failure(self) -> Exception | None:
        """Why no more messages will come; None if more may."""
        return self._inner.failure

    def __iter__(self) -> Self:
        """Returns itself. Loops over it share its messages."""
        return self

    def __next__(self) -> WorkMessage:
        """Returns the next message. It is open until it is settled, whatever is asked for next.

        Raises:
            StopIteration: it is draining.
            SubscriptionLost, EpochChanged, BrokerError, ConnectionLost: as when iterating over a
                `zaichik.WorkSubscription`.
        """
        try:
            inner = self._driver.call(self._inner.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None
        return WorkMessage(self._driver, inner)

    def drain(self) -> None:
        """Take no more messages: loops end, and what waits here is released to other workers.

        What the program has stays open, and is settled as ever; then leave the block. The handler
        of a signal may call this.
        """
        self._driver.call(self._drain)

    async def _drain(self) -> None:
        self._inner.drain()

    def fail(self, error: BaseException) -> None:
        """Settle what is open as failed, if an exception says so that the event loop cannot raise.

        It sees `SystemExit` and the like as a cancellation (see `LoopThread.entered`).
        """
        if isinstance(error, Exception) or not failures(error, ()):
            return
        # The client may have ended.
        with suppress(RuntimeError):
            self._driver.call(self._inner.leave, error, ())
