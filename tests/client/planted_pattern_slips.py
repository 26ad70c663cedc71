"""Bugs in how a client follows topics, and in what it gives out of them.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

FOLLOWER = "client/patterns/test_follower.py"
SUBSCRIPTION = "client/patterns/test_subscription.py"
BLOCKING = "client/blocking/test_pattern_subscription.py"

PATTERN_SLIPS = [
    # -- looking, and following ----------------------------------------------------------------
    Slip(
        "the table of topics is read in any epoch",
        "Follower._look",
        "self._client.subscribe(TOPICS, until=end, epoch=epoch, credit=RECORDS_CREDIT)",
        "self._client.subscribe(TOPICS, until=end, credit=RECORDS_CREDIT)",
        FOLLOWER,
    ),
    Slip(
        "a table of topics that ends while it is read is the end of all",
        "Follower._look",
        "_check_anew(error)",
        "raise",
        FOLLOWER,
    ),
    Slip(
        "a table of topics that never lasts is read without a pause",
        "Follower._pause",
        "await anyio.sleep(next(self._pauses))",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "a program that does not read is not waited for between looks",
        "Follower._pause",
        "await self._has_read()",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "topics that are over and not read hold up nothing",
        "Follower._is_over",
        "self._over += 1",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "topics that are over hold up everything for good",
        "Follower._ended",
        "self._over -= 1",
        "pass",
        FOLLOWER,
    ),
    # -- what cannot be read -------------------------------------------------------------------
    Slip(
        "what there was no room for is forgotten by a look",
        "Follower._look",
        "self._refused | self._cramped",
        "self._refused",
        FOLLOWER,
    ),
    Slip(
        "what there was no room for is never tried again",
        "Follower.retry",
        "await every(RETRY_SECONDS, self._try_again)",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "one that has waited does not go before one that has just come",
        "Follower._take",
        "self._try_cramped()",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "one that found room makes no other try",
        "Follower._replied",
        "self._try_cramped()",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "a topic that was unread once is never reported again",
        "Follower._replied",
        "self._reported.discard(wanted.topic)",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "a topic that is damaged or forbidden ends all others",
        "Follower._event",
        "return self._put_off(wanted, failure)",
        "return self._fail(failure)",
        FOLLOWER,
        nth=1,
    ),
    Slip(
        "a refusal keeps the credit",
        "Follower._refuse",
        "self._credit.give_back(pending.share)",
        "pass",
        FOLLOWER,
    ),
    Slip(
        "a topic that is refused after it went is waited for",
        "Follower._refuse",
        "error.code in _GONE or not self._known.has(wanted.topic, wanted.epoch)",
        "error.code in _GONE",
        FOLLOWER,
    ),
    Slip(
        "a program may fill its connection, and then reads nothing over another",
        "ConnectionPool.run",
        "newest is not self._all[0] and newest.is_useless",
        "newest.is_useless",
        FOLLOWER,
    ),
    # -- what is given out, and settled --------------------------------------------------------
    Slip(
        "a topic that comes as the block ends is read for good",
        "Follower.close",
        "self._is_closed = True",
        "pass",
        SUBSCRIPTION,
    ),
    Slip(
        "what is held for a name is passed over",
        "Follower._want",
        "start = Start.TIME",
        "pass",
        SUBSCRIPTION,
    ),
    Slip(
        "a message of an earlier topic settles those of the next one",
        "patterns.subscription:PatternSubscription.commit",
        "may_be_of(message.topic, member.wanted.epoch)",
        "True",
        SUBSCRIPTION,
    ),
    Slip(
        "what was fetched of a topic is given out though it is read again",
        "InHand.drop",
        "self._items = kept",
        "pass",
        BLOCKING,
    ),
    Slip(
        "a loop over the frame in hand goes on though it is dropped",
        "InHand._leave",
        "deque(self.messages, 0)",
        "self.messages = iter(())",
        BLOCKING,
    ),
    Slip(
        "a forked process is given what its parent has",
        "pattern_subscription:PatternSubscription.inherited",
        "self._inner.in_hand.clear()",
        "pass",
        "client/blocking/test_exiting.py",
    ),
]
