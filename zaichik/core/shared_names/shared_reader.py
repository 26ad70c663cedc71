"""A worker's subscription to a shared name: it is offered messages, and takes them in frames (SHR).

    offer ──gone──▶ Lagged, once
      │   ──a hole, or another of its key is open──▶ the next offer
      │   ──not in memory, or too large for its credit──▶ none for now
      └──there──▶ Messages, with tickets

Nothing is reserved by an offer. What is read, and taken, is one step.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence

from zaichik.base.clock import MILLISECOND_US
from zaichik.core.position import Position
from zaichik.core.retained import Piece
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.subscriber import Subscriber
from zaichik.core.work_queue.outcome import check_outcome, delay_of, outcome_of
from zaichik.core.work_queue.work_queue import Delivery, Offer
from zaichik.core.work_queue.worker import Hand, Worker
from zaichik_protocol import (
    Batch,
    EndCode,
    ErrorCode,
    Frame,
    Lagged,
    Messages,
    Refused,
    Settle,
    Subscribe,
    SubscriptionEnded,
)

# Messages that are taken at once. Each costs some 2 µs beside what the frame costs, and a turn
# should take 30 (LAG-5).
MOST_IN_FRAME = 64
# Offers that bring nothing to send, for each frame: each may open a message of a busy key.
MOST_OFFERS = 16
MOST_NUMBER = 2**16 - 1  # of deliveries, that a frame can say
REMEMBERED_TIMES = 8  # frames of messages whose time is remembered (EXP-3)


class SharedReader(Subscriber):
    """One worker's subscription.

    Args:
        request, on_ready, description, connection: see `Subscriber`.
        position: the name.
        hand: that of its connection.

    Attributes:
        position, connection: see above.
        worker: how the name's queue knows it.
        delivered: messages handed out to it.
        skipped: offsets told to it as lag.
        sent: the first tickets of the latest frames of messages, and when each was taken to be
            sent.
    """

    def __init__(
        self,
        request: Subscribe,
        position: SharedPosition,
        on_ready: Callable[[Subscriber], None],
        description: str,
        connection: int,
        hand: Hand,
    ) -> None:
        super().__init__(request, position.topic, on_ready, description, connection)
        self.position = position
        self.connection = connection
        self.worker = Worker(
            position.queue,
            hand,
            credit=request.credit,
            credit_bytes=request.credit_bytes,
            timeout_us=request.timeout_ms * MILLISECOND_US,
            on_call=self.make_ready,
            owner=request.owner,
            attempt=request.attempt,
        )
        self.delivered = 0
        self.skipped = 0
        self.sent: deque[tuple[int, int]] = deque(maxlen=REMEMBERED_TIMES)
        self._tickets: Collection[int] = request.tickets
        self._max_deliveries = request.max_deliveries
        self._by_key = request.by_key
        self._is_stopped = False
        # Whether there may be more, although its turn is over.
        self._has_more = False

    # -- it comes and goes -----------------------------------------------------------------------

    def join(self) -> None:
        """See `Subscriber`.

        Raises:
            Refused: `TAKEN_OVER`; then it has not joined.
        """
        self.position.join(self, self._tickets)
        self._tickets = ()
        # Not before: a subscription that is refused leaves the name as it was.
        self.position.queue.agree(self._max_deliveries, by_key=self._by_key)
        self.topic.attach(self)
        self._count()

    def leave(self) -> None:
        """See `Subscriber`. What it has is released."""
        self.topic.detach(self)
        self.position.leave(self.worker)
        self._count()

    def lose(self) -> None:
        """See `Subscriber`. What it has waits for its owner."""
        self.topic.detach(self)
        self.position.lose(self.worker, is_lost=True)
        self._count()

    def stop(self) -> None:
        """See `Subscriber`. What it has waits for its owner, who may come after a start."""
        self._is_stopped = True
        self.position.lose(self.worker, is_lost=False)
        self._count()

    def cut_off(self, code: EndCode) -> None:
        """See `Subscriber`. What it settles after that is late."""
        self.leave()
        self.why_cut_off = code
        self.make_ready()

    def check_forget(self) -> None:
        """See `Subscriber`."""
        self.position.check_forget(self)

    # -- what it is sent -------------------------------------------------------------------------

    @property
    def stand(self) -> Position:
        """See `Subscriber`."""
        return self.position

    def stands_at(self) -> tuple[int, int]:
        """See `Subscriber`: the first offset that was not handed out, and the first not settled."""
        ledger = self.position.queue.ledger
        return ledger.next, ledger.needed

    @property
    def waits_for_disk(self) -> bool:
        """See `Subscriber`. A stop does not wait for what would come back at once."""
        return not self._is_stopped and self.topic.retained.is_reading(self.make_ready)

    def take(self, now_us: int) -> Frame | None:
        """See `Subscriber`."""
        self.topic.expire(now_us)
        self._has_more = False
        frame: Frame | None = None
        if not self.ended:
            frame = self._next_frame(now_us)
        # As long as there are frames it is asked again, and the name is told of all at once.
        if frame is None:
            self.is_ready = self._has_more
            if not self.ended:
                self.position.changed()
        self._count()
        return frame

    def _next_frame(self, now_us: int) -> Frame | None:
        if self.why_cut_off is not None:
            return self._end(self.why_cut_off, self.why_cut_off.meaning)
        if self._is_stopped:
            return None
        queue = self.position.queue
        for _ in range(MOST_OFFERS):
            offer = queue.offer(self.worker, self.topic.end)
            if offer is None:
                return self._end_at_damage()
            gone = self._go_over(offer)
            if gone is None:
                found = self._read(offer)
                if isinstance(found, Refused):
                    return self._end(EndCode.DAMAGED, found.message)
                if found is None:
                    queue.decline(self.worker)
                    return None
                frame = self._hand_out(offer, found, now_us)
                if frame is not None:
                    return frame
            elif isinstance(gone, Lagged):
                return gone
        self._has_more = True
        return None

    def _end_at_damage(self) -> Frame | None:
        """Returns the end if what comes next in the topic is unknown, and no other is open."""
        damage = self.topic.retained.damage
        ledger = self.position.queue.ledger
        if damage and ledger.next == self.topic.end and not ledger.open:
            return self._end(EndCode.DAMAGED, damage)
        return None

    def _go_over(self, offer: Offer) -> Lagged | bool | None:
        """Go over what is not there any more of an offer.

        Returns what tells of it; True if nothing has to; None if the first message is there.
        """
        first = offer.first
        retained = self.topic.retained
        readable = retained.readable_from(first)
        if readable == first:
            return None
        lost = retained.lost_until(first)
        is_lost = first < lost
        end = readable
        if is_lost:
            end = lost
        # It says nothing of what follows a message that comes again.
        if not offer.is_new:
            end = first + 1
        if not is_lost:
            self.position.queue.pass_over(first, end)
            return True
        self.position.queue.skip(first, end)
        self.skipped += end - first
        return Lagged(self.id, first, end)

    def _read(self, offer: Offer) -> Piece | Refused | None:
        """Returns what may go to it in one frame; None if that is nothing for now."""
        worker = self.worker
        first = offer.first
        most = min(offer.most, MOST_IN_FRAME)
        try:
            return self.topic.retained.read(
                first,
                first + most,
                most,
                worker.credit_bytes - worker.in_flight_bytes,
                self.make_ready,
                # With nothing in flight, one message goes out whatever its size (CMT-1).
                at_least=int(not worker.in_flight),
            )
        except Refused as damage:
            return damage

    def _hand_out(self, offer: Offer, piece: Piece, now_us: int) -> Messages | None:
        """Returns the frame of these messages; None if another message of the key is open."""
        accepted_us, batch, deltas = piece
        queue = self.position.queue
        first = offer.first
        delivery: Delivery | None
        if not offer.is_new:
            delivery = queue.hand_out(self.worker, first, batch.size, now_us)
        else:
            key = b""
            if queue.settings.by_key:
                key = batch.keys()[0]
            offsets: Sequence[int] = range(first, first + batch.count)
            if deltas:
                offsets = [first + delta for delta in deltas]
            delivery = queue.hand_out_next(self.worker, offsets, _sizes(batch), now_us, key)
        if delivery is None:
            return None
        self.delivered += batch.count
        self.sent.append((delivery.ticket, now_us))
        return Messages(
            self.id,
            first,
            accepted_us,
            batch,
            ticket=delivery.ticket,
            number=min(delivery.number, MOST_NUMBER),
            deltas=deltas,
            holes=bool(deltas),
            redelivered=delivery.is_again,
            tickets=True,
        )

    def _end(self, code: EndCode, text: str) -> SubscriptionEnded:
        self.leave()
        self.ended = True
        return SubscriptionEnded(self.id, code, self.position.queue.ledger.next, text)

    # -- what it says ----------------------------------------------------------------------------

    def commit(self, next_offset: int) -> int:
        """See `Subscriber`: with others, an offset settles nothing."""
        problem = "this subscription shares its name: it settles messages by their tickets"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "subscription")

    def settle(self, request: Settle, now_us: int) -> list[int]:
        """See `Subscriber`."""
        outcome = outcome_of(request)
        delay_us = delay_of(request)
        check_outcome(outcome, delay_us, request.reason)
        late = self.position.settle(
            self.worker, request.tickets, outcome, now_us, delay_us, request.reason
        )
        self._count()
        return late

    def _count(self) -> None:
        """Report what is in flight: what has timed out uses credit as well (SHR-4)."""
        self.in_flight = self.worker.in_flight
        self.in_flight_bytes = self.worker.in_flight_bytes


def _sizes(batch: Batch) -> list[int]:
    """Returns the bytes of key and payload of each message."""
    if batch.count == 1:
        return [batch.size]
    keys = batch.key_offsets
    payloads = batch.payload_offsets
    before = [key + payload for key, payload in zip(keys, payloads, strict=True)]
    return [before[index + 1] - before[index] for index in range(batch.count)]
