"""Bugs for the simulation to find in our own client: each a slip in what must go well when a
connection is lost.

They are planted as those of `planted_bugs` are, and are in a table of their own: only some worlds
have our client.
"""

from dataclasses import replace
from functools import partial

from zaichik.client.connection import BrokerConnection
from zaichik.client.inbox import Inbox
from zaichik.client.sequencer import Sequencer
from zaichik.client.subscription import Subscription
from zaichik.client.transport import Transport
from zaichik_protocol import ErrorCode, Start

from . import planted_bugs
from .planted_bugs import around

BUGS = {}
bug = partial(planted_bugs.bug, table=BUGS)


# -- publishing ----------------------------------------------------------------------------------


@bug("P1", "P3")
def what_is_sent_again_gets_a_new_number(monkeypatch):
    def make(real):
        def resume(self, *, is_new, is_same, is_restored):
            real(self, is_new=True, is_same=False)

        return resume

    around(monkeypatch, Sequencer, "resume", make)


@bug("P5")
def what_waits_for_an_answer_is_not_sent_again(monkeypatch):
    def make(real):
        def release(self):
            waiting = self._pending
            self._pending = {
                number: entry for number, entry in waiting.items() if number in self._ahead
            }
            real(self)
            self._pending |= waiting

        return release

    around(monkeypatch, BrokerConnection, "_release", make)


@bug("P3", "P5")  # P3: the number of the batch that is given up is given to another one
def who_publishes_is_told_of_gaps(monkeypatch):
    def make(real):
        def is_retried(self, request, error):
            return real(self, request, error) and error.code != ErrorCode.SEQUENCE_GAP

        return is_retried

    around(monkeypatch, Sequencer, "_is_retried", make)


@bug(
    "P2", "P3", "P5", "ERR"
)  # P3: the end of one frame as the end of another is a message that nobody published
def half_a_frame_of_the_last_socket_is_kept(monkeypatch):
    def make(real):
        async def write(self):  # the first thing that happens on a socket
            self._decoder = self.kept = getattr(self, "kept", self._decoder)
            await real(self)

        return write

    around(monkeypatch, Transport, "_write", make)


# -- reading -------------------------------------------------------------------------------------


@bug("P2", "P3")
def what_was_not_given_out_is_not_asked_for_again(monkeypatch):
    def make(real):
        def again(self):
            delivered = self.delivered
            request = real(self)
            if request is not None:
                request = replace(request, value=max(request.value, delivered))
                self._asked = request
            return request

        return again

    around(monkeypatch, Inbox, "again", make)


@bug("P2")
def after_a_loss_only_what_is_new_is_asked_for(monkeypatch):
    def make(real):
        def again(self):
            request = real(self)
            if request is not None:
                request = replace(request, start=Start.LATEST, value=0)
                self._asked = request
            return request

        return again

    around(monkeypatch, Inbox, "again", make)


@bug("P2")
def what_comes_again_is_given_out_again(monkeypatch):
    def make(real):
        def take_messages(self, frame):
            self._inbox.taken = 0
            real(self, frame)

        return take_messages

    around(monkeypatch, Subscription, "_take_messages", make)


@bug("P2")
def the_message_in_hand_is_committed(monkeypatch):
    """At most once, where at least once was promised."""

    def make(real):
        def commit_settled(self):
            self._stepped, in_hand = max(self._stepped, self._inbox.taken), self.in_hand
            self.in_hand = None
            real(self)
            self.in_hand = in_hand

        return commit_settled

    around(monkeypatch, Subscription, "commit_settled", make)


@bug("P2")
def a_program_is_not_told_of_lag(monkeypatch):
    def make(real):
        def take_lag(self, event):
            real(self, event)

        return take_lag

    around(monkeypatch, Subscription, "_take_lag", make)
