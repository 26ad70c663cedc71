"""The outcome of a request: its reply, or the loss of the connection."""

from collections.abc import Callable
from typing import TypeVar

from zaichik.client.errors import BrokerError, UnexpectedReply
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import Error, Frame

Reply = TypeVar("Reply", bound=Frame)

# Makes the error that says why the connection is gone: a new one for each task, because an
# exception that is raised in several tasks would gather all their tracebacks.
Lost = Callable[[], Exception]
# Called once, with the reply or the loss.
OnReply = Callable[[Frame | Lost], None]


class Outcome:
    """The outcome of a request, for any number of tasks to wait for.

    Args:
        on_reply: called with it at once, a reply or not; the tasks run a turn later.
    """

    _value: Frame | Lost

    def __init__(self, on_reply: OnReply | None = None) -> None:
        self._on_reply = on_reply
        self._settled = Wakeup()

    def settle(self, outcome: Frame | Lost) -> None:
        """Set the outcome and wake the tasks that wait for it."""
        if self._on_reply is not None:
            self._on_reply(outcome)
        self._value = outcome
        self._settled.set()

    async def wait(self) -> Frame | Lost:
        """Returns the outcome, as soon as it is known."""
        await self._settled.wait()
        return self._value


def expected(kind: type[Reply], asked: type[Frame], outcome: Frame | Lost) -> Reply:
    """Returns the outcome of a request of type `asked` if it is the reply wanted.

    Everything else is raised.
    """
    match outcome:
        case reply if isinstance(reply, kind):
            return reply
        case Error():
            raise BrokerError.of(outcome)
        case Frame():
            raise unexpected(asked, outcome)
        case lost:
            raise lost()


def unexpected(asked: type[Frame], reply: Frame) -> UnexpectedReply:
    """Returns the error for a reply of the wrong type."""
    return UnexpectedReply(f"the broker answered {asked.__name__} with {type(reply).__name__}")
