"""A worker of a shared name whose broker ends at any system call, and what is certain of its jobs.

The judge is that of the simulated worlds: `NameLedger`. Its times are numbers of moments here:
whatever is heard has a later one than all that was written before.
"""

import copy
from collections import deque
from types import SimpleNamespace

from conversation import Conversation
from simulation.share_ledger import NameLedger, ShareLedger

from zaichik.core.broker import Broker
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import (
    SHARED,
    Error,
    ErrorCode,
    Hello,
    Lagged,
    Messages,
    Outcome,
    Settle,
    Settled,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

NAME = "w"
MOST = 2  # deliveries
OUTCOMES = [Outcome.DONE, Outcome.DONE, Outcome.REJECT, Outcome.RETRY]


class CutWorker:
    """The only worker of the name, in one topic, over all lives of the broker.

    Args:
        topic: the topic's name.

    Attributes:
        moment: that of the latest frames that were heard.
        written: what was heard by that moment is on the disk.
    """

    def __init__(self, topic: str) -> None:
        self.moment = 0
        self.written = -1
        self._topic = topic
        self._settled = 0
        about = SimpleNamespace(name=topic, settings=SimpleNamespace(table=0))
        self._book = NameLedger(about, MOST)
        # With the broker of this life.
        self._talk: Conversation | None = None
        self._share: ShareLedger | None = None
        self._ids = 2
        self._asked: dict[int, Settle] = {}
        self._has: deque[int] = deque()

    def lose_broker(self) -> None:
        """Forget the connection: it makes another one when it is next asked to work."""
        self._talk = None
        self._share = None
        self._ids = 2
        self._asked = {}
        self._has = deque()

    def forked(self) -> "CutWorker":
        """Returns another one with the same past."""
        other = copy.copy(self)
        other._book = copy.deepcopy(self._book)
        other.lose_broker()
        return other

    # -- its broker lives ------------------------------------------------------------------------

    def work(self, broker: Broker) -> None:
        """Take what there is, and settle some of it.

        It needs no random numbers, which would make all that follows another history.
        """
        if self._talk is None:
            self._talk = Conversation(broker, greeted=False)
            request = Subscribe(
                2,
                self._topic,
                NAME,
                Start.EARLIEST,
                credit=6,
                max_deliveries=MOST,
                shared=True,
            )
            self._share = ShareLedger(self._book, request)
            self._talk.tell(Hello(1, features=SHARED), request)
        self.listen()
        for _ in range(3):
            if self._has:
                self._settled += 1
                self._settle(self._has.popleft(), OUTCOMES[self._settled % len(OUTCOMES)])
        self.listen()

    def _settle(self, ticket: int, outcome: Outcome) -> None:
        assert self._talk is not None
        self._ids += 1
        how = {}
        if outcome == Outcome.RETRY:
            how = {"delayed": True, "delay_ms": 1000}
        request = Settle(self._ids, 2, outcome, reason="so", tickets=(ticket,), **how)
        self._asked[request.id] = request
        self._book.asks(request, self.moment)
        self._talk.tell(request)

    def listen(self) -> None:
        """Hear what the broker has said."""
        if self._talk is None:
            return
        book = self._book
        self.moment += 1
        for frame in self._talk.heard():
            match frame:
                case Subscribed():
                    book.begins(self.moment)
                case Messages():
                    book.hand_out(self._share, frame, self.moment)
                    self._has.extend(range(frame.ticket, frame.ticket + frame.batch.count))
                case Lagged():
                    book.lose(frame.from_offset, frame.to_offset, self.moment)
                case Settled():
                    book.settled(self._asked.pop(frame.id), frame, self.moment)
                case SubscriptionEnded():
                    self._has.clear()
                case Error(code=ErrorCode.NO_SUCH_SUBSCRIPTION):
                    # The topic was deleted.
                    self._has.clear()

    # -- and starts again ------------------------------------------------------------------------

    def survives(self, topic: TopicController) -> None:
        """Compare what a start has found with what is certain; then that is certain, too."""
        self.lose_broker()
        book = self._book
        book.survives(topic.end, self.written)
        position = topic.names.get(NAME)
        if position is None:
            assert not book.is_written, "a shared name is gone"
            return
        assert isinstance(position, SharedPosition)
        ledger = position.queue.ledger
        handed_out = set(range(ledger.start, ledger.next))
        dead = {offset for offset in handed_out if ledger.dead.get(offset) is not None}
        settled = {offset for offset in handed_out - dead if ledger.find(offset) is None}
        assert book.done | book.told <= settled, "what was settled is open, or dead"
        assert book.rejected <= dead, "what was dead is not"
        book.finds(settled, dead)
