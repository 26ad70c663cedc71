"""An inbox that gives out nothing above the watermark (AK-2).

    put ──▶ held ──▶ events ──▶ Subscription
             ▲ the watermark

What was received and is not replicated yet waits in `held`. A frame that the watermark stands in is
cut in two. For the subscription it is as if the rest had not come: it settles, resumes and counts
as ever, and what is held uses its credit, so the broker sends no more than that.

After a lost connection it waits for the watermark as it is then, and for what it held to be sent
again: the broker may be another one, with a topic that was restored and has lost what was held.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from zaichik.client.errors import ReplicationLost
from zaichik.client.inbox import Inbox, end_of
from zaichik.client.receiver import Event
from zaichik.client.replication.watermark import Watermark
from zaichik_protocol import EndCode, Messages, Subscribe, Subscribed, SubscriptionEnded


class HeldInbox(Inbox):
    """The events of one subscription that its program may have.

    Args:
        request: the Subscribe that was sent, or is about to be.
        on_made: called when the broker has made it, each time: it needs a watermark.
        explicit: whether the program says what is settled.
    """

    def __init__(
        self, request: Subscribe, on_made: Callable[[], None], *, explicit: bool = False
    ) -> None:
        super().__init__(request, explicit=explicit)
        self._on_made = on_made
        self._incoming = deque()
        self._watermark: Watermark | None = None

    def release(self, watermark: Watermark) -> None:
        """Give out what this watermark has passed."""
        self._watermark = watermark
        if self._move():
            self._wake()

    def put(self, event: Event) -> None:
        """See `Receiver`."""
        super().put(event)
        # What is not replicated by the end of a topic never will be.
        if isinstance(event, SubscriptionEnded) and event.code != EndCode.UNTIL:
            self._incoming.clear()
            self._incoming.append(event)
        self._move()

    def _move(self) -> bool:
        """Move what may be given out; returns whether anything was."""
        moved = False
        while self._incoming:
            event = self._incoming[0]
            if isinstance(event, Messages) and not self._is_replicated(event):
                return moved
            self.events.append(self._incoming.popleft())
            moved = True
        return moved

    def _is_replicated(self, frame: Messages) -> bool:
        """Returns whether the first frame may be given out, which is cut if only a part of it may.

        If the bridge was too late for one of its messages, nothing more may be.
        """
        watermark = self._watermark
        if watermark is None or watermark.epoch != self._epoch or self.lost is not None:
            return False
        end = end_of(frame)
        if watermark.next < end:
            if watermark.next <= frame.base:
                return False
            kept = watermark.next - frame.base
            rest = replace(
                frame, base=watermark.next, batch=frame.batch.cut(kept, frame.batch.count)
            )
            frame = replace(frame, batch=frame.batch.cut(0, kept))
            self._incoming[0] = frame
            self._incoming.insert(1, rest)
            end = watermark.next
        missing = watermark.first_missing(frame.base, end)
        if missing is not None:
            reason = f"it is not in {watermark.by}: it was gone before the bridge could read it"
            self.close(partial(ReplicationLost, self._request.topic, missing, reason))
            return False
        return True

    # -- what is held goes with the rest ---------------------------------------------------------

    def interrupted(self) -> None:
        """See `Receiver`."""
        super().interrupted()
        self._watermark = None
        # After its end, nothing is sent again.
        if not self._has_ended():
            self._incoming.clear()

    def drop(self) -> None:
        """See `Receiver`."""
        self._incoming.clear()
        super().drop()

    def finish(self, text: str) -> None:
        """See `Inbox`."""
        self._incoming.clear()
        super().finish(text)

    def start_over(self, request: Subscribe) -> None:
        """See `Inbox`."""
        self._incoming.clear()
        super().start_over(request)

    def _has_ended(self) -> bool:
        # An end that is held back is the last event all the same.
        if self._incoming:
            return self._is_over(self._incoming[-1])
        return super()._has_ended()

    def _made(self, reply: Subscribed) -> None:
        super()._made(reply)
        self._on_made()
