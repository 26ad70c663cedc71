"""The book of a named subscription, whose position outlives its connections (CMT-3).

A commit that was answered is kept; one that was only asked for may have been carried out before the
connection broke, or not. So a reader that comes back goes on between the two. What had been said to
it before comes again, marked.
"""

import math

from .topic_ledger import offsets_of
from .trace import Anomaly


class SessionLedger:
    """One name in one topic.

    Attributes:
        claims: how often somebody has asked to be its reader; the last one is, or will be.
        dropped: the claim that was given up last.
        is_known: whether the broker has said that it is there.
        committed: a commit up to here was answered.
        asked: one up to here was asked for.
        delivered: up to here it was told messages; None if nobody knows.
        live: what is older may have been gone before it was there.
        seen_us: when it was there for certain.
    """

    # The power may be cut at any time. Of the commits that were answered, those of the last two
    # seconds may be on the disk or not (DUR-5), so all of them are remembered, for as long as the
    # broker lives.

    def __init__(self):
        self.claims = self.dropped = 0
        self.is_known = False
        self.committed = self.asked = 0
        self.delivered = None
        self.live = 0
        self.seen_us = -math.inf
        self._commits = []  # time and position

    def begins(self, subscription, reply, now_us, ttl_us):
        """The broker has said so; is it as it should be?"""
        name = f"{subscription.topic.name} {subscription.request.name}"
        if reply.resumed:
            if self.is_known and not self.committed <= reply.start <= self.asked:
                raise Anomaly(
                    "P2", f"{name}: {self.committed} was committed, and it goes on at {reply.start}"
                )
            if not self.is_known and self.claims < 2:
                raise Anomaly("P2", f"{name} goes on and has never begun")
        elif now_us - self.seen_us < ttl_us:
            raise Anomaly("P3", f"{name}: its position was forgotten within {ttl_us} µs")
        if not (reply.resumed and self.is_known):
            self.live = reply.live
            self.delivered = None if reply.resumed else reply.start
            self.asked = reply.start
        self.is_known = True
        self.committed = reply.start
        self.asked = max(self.asked, reply.start)
        self._is_at(reply.start, now_us)

    def messages(self, subscription, frame, now_us):
        """Its reader is told these messages."""
        end, delivered = offsets_of(frame)[-1] + 1, self.delivered
        if delivered is not None:
            wanted = end <= delivered if frame.redelivered else frame.base >= delivered
            if not wanted:
                marked = "" if frame.redelivered else "not "
                told = f"{frame.base} to {end - 1} are {marked}marked as redelivered"
                raise Anomaly(
                    "P2",
                    f"{subscription.topic.name}: {told}; {delivered} is the first it was not told",
                )
            self.delivered = max(delivered, end)
        if self._is_reader(subscription):
            self.seen_us = now_us

    def settled(self, subscription, next_offset, now_us):
        """A commit of its reader was answered."""
        if self._is_reader(subscription):
            self.committed = max(self.committed, next_offset)
            self._is_at(next_offset, now_us)

    def _is_at(self, position, now_us):
        self._commits.append((now_us, position))
        self.seen_us = now_us

    def survives(self, end, written_us):
        """The broker has started again, and the topic ends there; what was committed by that time
        is on the disk.
        """
        written = [position for now_us, position in self._commits if now_us <= written_us]
        self._commits = []
        if written:
            self.committed = max(written)
            self.delivered = end
            self._commits.append((-math.inf, self.committed))
        else:
            self.is_known, self.seen_us = False, -math.inf

    def _is_reader(self, subscription):
        """Whether it is for certain; who was taken over commits nothing."""
        return subscription.claim == self.claims > self.dropped

    def asks(self, next_offset):
        """A commit is on its way."""
        self.asked = max(self.asked, next_offset)

    def is_forgotten(self):
        """It is to be dropped: nothing is promised any more, until somebody else asks for it."""
        self.dropped = self.claims
        self.seen_us = -math.inf
        self.is_known = False
        self._commits = []
