"""The book of turns: how much each of them does, and who has to wait for whom (LAG-5).

The scheduler is asked nothing. The ledger stands between it and the connections, and sees who asks
and whose turn comes. Whoever has used nothing for a while is behind nobody, by any account of what
is fair: it may have to wait until each of the others has had a turn, and not until one of them has
had two.
"""

from collections import Counter
from functools import partial

import trio

from zaichik.core.shared_names.shared_reader import SharedReader
from zaichik.core.subscription_manager import MESSAGES_A_TURN
from zaichik.server.connection import REQUESTS_A_TURN

from .trace import Anomaly

WHILE = 0.1  # simulated seconds; all that ever waits at the same time takes less


class TurnLedger:
    """All turns of one life of a world's broker.

    Args:
        world: which.
        scheduler: the broker's.
    """

    def __init__(self, world, scheduler):
        self._world = world
        self._hosts = {}  # of turns, as long as they have not left
        self._used_at = {}  # host: when it last had a turn, or a new connection
        # host that waits, and is behind nobody: how many turns each other has had meanwhile
        self._waiting = {}
        self._current = None
        self._join, self._ask, self._leave = scheduler.join, scheduler.ask, scheduler.leave
        scheduler.join, scheduler.ask, scheduler.leave = self._joins, self._asks, self._leaves

    def _joins(self, host, take):
        turns = self._join(host, take)
        turns.take = partial(self._turn, turns, take)
        self._hosts[turns] = host
        self._used_at[host] = trio.current_time()
        return turns

    def _asks(self, turns, **how):
        host = self._hosts.get(turns)
        if (
            host
            and turns is not self._current
            and trio.current_time() - self._used_at[host] > WHILE
        ):
            self._waiting.setdefault(host, Counter())
        self._ask(turns, **how)

    def _leaves(self, turns):
        host = self._hosts.pop(turns)
        self._waiting.pop(host, None)
        self._leave(turns)
        turns.take = partial(self._empty_turn, host)

    def _empty_turn(self, host):
        """A connection that has left still asks if an answer comes for it from the disk.

        That costs next to nothing.
        """
        self._waiting.pop(host, None)
        return False

    def _turn(self, turns, take):
        connection, host = take.__self__, self._hosts[turns]
        self._note_order(host)
        before = self._sight(connection)
        subscriptions = list(connection._manager.readers.values())
        self._current = turns
        is_more = take()
        self._current = None
        self._check_size(before, self._sight(connection))
        if connection._manager.reason == "STOPPED":
            self._check_goodbye(connection, subscriptions)
        return is_more

    def _note_order(self, host):
        self._used_at[host] = trio.current_time()
        self._waiting.pop(host, None)
        for waiting, had in self._waiting.items():
            had[host] += 1
            if had[host] > 1:
                self._fail(
                    "P5",
                    f"{host} has {had[host]} turns while {waiting} waits, which has had none for "
                    "long",
                )

    def _fail(self, promise, text):
        self._world.fail(
            Anomaly(promise, text)
        )  # this is called by the broker; see `ConnectionLedger.say`

    def _sight(self, connection):
        book = self._world.books[connection._stream.number]
        return connection._frames, book.events

    def _check_size(self, before, after):
        """A turn's bytes are looked at by the book of the connection."""
        requests, events = (new - old for old, new in zip(before, after, strict=True))
        if requests > REQUESTS_A_TURN or events > MESSAGES_A_TURN:
            self._fail("P5", f"a turn has {requests} requests and {events} events")

    def _check_goodbye(self, connection, subscriptions):
        """All was delivered that there was credit for (CLO-2)."""
        book = self._world.books[connection._stream.number]
        for subscription in subscriptions:
            # A worker gets nothing more: it would come back at once.
            if isinstance(subscription, SharedReader):
                continue
            free_bytes = subscription.credit_bytes - subscription.in_flight_bytes
            has_room = not subscription.in_flight or free_bytes >= self._world.settings.max_message
            is_cut_off = subscription.why_cut_off is not None
            is_over = subscription.ended or is_cut_off or subscription.cursor >= subscription.until
            if subscription.ahead and subscription.has_credit and has_room and not is_over:
                left = f"{subscription.ahead} messages of {subscription.topic.name}"
                self._fail(
                    "P3", f"{book.name} is told that the broker stops, and has credit for {left}"
                )
