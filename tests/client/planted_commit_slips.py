"""Bugs in explicit commits: too much is settled, too little, or too much is in flight.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

EXPLICIT = "client/test_explicit_commits.py"
BLOCKING = "client/blocking/test_explicit_commits.py"

COMMIT_SLIPS = [
    Slip(
        "a step settles what the program has not committed",
        "client.subscription:Subscription._advance",
        "not self._is_explicit",
        "True",
        EXPLICIT,
    ),
    Slip(
        "what was fetched is settled though the program has not committed it",
        "client.subscription:Subscription._pass",
        "not self._is_explicit",
        "True",
        EXPLICIT,
    ),
    Slip(
        "all below the message in hand is settled though the program has not said so",
        "client.subscription:Subscription.commit_settled",
        "self.in_hand is not None and not self._is_explicit",
        "self.in_hand is not None",
        EXPLICIT,
    ),
    Slip(
        "what was sent and not given out can be committed",
        "client.subscription:Subscription.commit",
        "check_given(self.topic, next_offset - 1, self._given())",
        "pass",
        EXPLICIT,
    ),
    Slip(
        "the offset after the last one that was given out can be committed",
        "client.subscription:check_given",
        "offset >= given",
        "offset > given",
        EXPLICIT,
    ),
    Slip(
        "of a piece only the first message can be committed",
        "client.subscription:Subscription._given",
        "max(self._passed, self._piece_end, self._fetched)",
        "max(self._passed, self._fetched)",
        EXPLICIT,
    ),
    Slip(
        "a commit that was cancelled or lost is never made",
        "client.subscription:Subscription.commit",
        "self._stepped = max(self._stepped, next_offset)",
        "pass",
        EXPLICIT,
    ),
    Slip(
        "what was committed before it started over is settled in the next one",
        "client.subscription:Subscription.commit",
        "self._is_explicit and self._inbox.id == subscription",
        "self._is_explicit",
        EXPLICIT,
    ),
    Slip(
        "each lost connection gives an anonymous reader its credit anew",
        "client.inbox:Inbox.__init__",
        "explicit or bool(request.name)",
        "bool(request.name)",
        EXPLICIT,
    ),
    Slip(
        "the end of a table cannot be committed",
        "client.subscription:Subscription._take_event",
        "self._passed = max(self._passed, event.next)",
        "pass",
        EXPLICIT,
    ),
    Slip(
        "what has crossed to a thread can be committed before the program has it",
        "blocking.subscription:Subscription.commit",
        "check_given(self.topic, message, self.next)",
        "pass",
        BLOCKING,
    ),
    Slip(
        "the last messages can be committed as soon as the end has crossed",
        "blocking.subscription:Subscription.commit",
        "self.ended and self._frame is None",
        "self.ended",
        BLOCKING,
    ),
    Slip(
        "lag that was reported to a thread cannot be committed",
        "blocking.subscription:Subscription._next_item",
        "self._next = item.end",
        "pass",
        BLOCKING,
    ),
]
