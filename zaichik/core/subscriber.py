"""What a connection and a topic know of a subscription, whoever reads there and how.

    Reader         reads on from a position of its own; see there
    SharedReader   gets its share of the messages of a shared name; see there

Everything that a subscription is sent comes out of `take`, one frame per call. It is called in
turns: a subscription asks for one with `make_ready`.
"""

from abc import abstractmethod
from collections.abc import Callable

from zaichik.core.position import Position
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import EndCode, Frame, Settle, Subscribe


# No ABC, for the reason that `Position` is none.
class Subscriber:
    """The broker's end of one subscription. It takes part when it has joined.

    Args:
        request: the Subscribe, already checked.
        topic: the topic read.
        on_ready: called when `take` may return something again; see `make_ready`.
        description: its number and client, for error texts.
        connection: the number of its connection.

    Attributes:
        id: the id of the Subscribe.
        name: what `describe` calls it, which sorts by topic, connection and id.
        topic, description: see above.
        credit, credit_bytes: the most that may be in flight.
        in_flight: messages sent and not settled.
        in_flight_bytes: their keys and payloads.
        is_ready: whether it has asked for turns, and `take` may have another frame.
        why_cut_off: the code with which it was ended from outside; None if it was not.
        ended: whether `SubscriptionEnded` was sent: nothing follows it.
    """

    def __init__(
        self,
        request: Subscribe,
        topic: TopicController,
        on_ready: Callable[["Subscriber"], None],
        description: str,
        connection: int,
    ) -> None:
        self.id = request.id
        self.name = f"{topic.name}#{connection:08}.{request.id:010}"
        self.topic = topic
        self.description = description
        self.credit = request.credit
        self.credit_bytes = request.credit_bytes
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.is_ready = False
        self.ended = False
        self.why_cut_off: EndCode | None = None
        self._on_ready = on_ready

    # -- it comes and goes -----------------------------------------------------------------------

    @abstractmethod
    def join(self) -> None:
        """Attach to the topic and the position."""

    @abstractmethod
    def leave(self) -> None:
        """Detach from them, in good order (CLO-3). A named position stays."""

    def lose(self) -> None:
        """Detach from them: the connection is lost."""
        self.leave()

    def stop(self) -> None:
        """Take nothing more that has to be done: the broker is about to stop (CLO-2)."""

    @abstractmethod
    def cut_off(self, code: EndCode) -> None:
        """End the subscription from outside: its name was taken over, or its topic deleted, say.

        Rules: CMT-3, TOP-6, ACC-4. `SubscriptionEnded` is its next frame.
        """

    def check_forget(self) -> None:
        """Refuse to forget the position, if others need it.

        Raises:
            Refused: `NOT_EMPTY`.
        """

    # -- what it is sent, and says ---------------------------------------------------------------

    @property
    @abstractmethod
    def stand(self) -> Position:
        """The position where it stands: one of its own, or that of its name."""

    @abstractmethod
    def stands_at(self) -> tuple[int, int]:
        """Returns the next offset to be delivered, and that below which everything is settled."""

    @property
    @abstractmethod
    def waits_for_disk(self) -> bool:
        """Whether its next messages are being read."""

    def make_ready(self) -> None:
        """Ask for turns, by calling `on_ready` once.

        After that, not again until `take` has nothing more.
        """
        if not self.is_ready:
            self.is_ready = True
            self._on_ready(self)

    @abstractmethod
    def take(self, now_us: int) -> Frame | None:
        """Returns its next frame; None if there is none now.

        If it is not ready afterwards, `make_ready` is called when it is.
        """

    @abstractmethod
    def commit(self, next_offset: int) -> int:
        """Settles every offset below `next_offset` and returns the committed offset (CMT-2).

        Raises:
            Refused: `NOT_IN_FLIGHT`; `INVALID_FIELD`: this is not how it settles.
        """

    @abstractmethod
    def settle(self, request: Settle, now_us: int) -> list[int]:
        """Settles messages by their tickets (SHR-3), and returns those that are late.

        Raises:
            Refused: `INVALID_FIELD`.
        """
