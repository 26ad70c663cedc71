"""Asks the broker, once for all pages that see it as the same user.

A hub has two connections: one for single topics, the other for slow questions, such as a sweep over
all topics, which must not make a picture stutter. A `Poller` on each keeps the cost to the broker
low, however many pages are open.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import partial

import anyio
from anyio.abc import TaskGroup
from starlette.exceptions import HTTPException

from zaichik import AuthFailed, Client, ConnectionLost, Endpoint, ZaichikError, connect
from zaichik.apps.watch.polling import Poller
from zaichik.apps.web.events import Frame, Mailbox
from zaichik.apps.web.interests import INTERESTS, Interest, View
from zaichik.base.escapes import harmless
from zaichik.client.backoff import backoff
from zaichik.net.background import BackgroundTasks

logger = logging.getLogger("zaichik.web.hub")

SILENCE_S = 3.0  # a broker that owes an answer for this long is frozen, and the page says so
# an interest without pages is kept this long: a page that is reloaded finds its rates again
LINGER_S = 10.0
MOST_INTERESTS = 64
NOT_UNDERSTOOD = (
    "this cannot be shown: the broker's answer is not understood; the page's log says why"
)
RECONNECT_S = (0.25, 4.0)


class Hub:
    """One user's view of one broker.

    Args:
        endpoint: the broker, with the user's credentials, if it takes any.
        turn: held while connecting: a broker checks passwords one at a time, and lets few wait.

    Attributes:
        user: the user's name at the broker; "" without access control.
        trouble: the problem if the broker does not answer, in a sentence; "" if it does.
        refused: why the broker will never let this user in; "" if it does. If set, the hub has
            ended.
        poller: asks, with pauses; None before the first connection.
        settled: set when the first attempt to connect has ended.
        scope: ends the hub, when cancelled.
    """

    def __init__(self, endpoint: Endpoint, turn: anyio.Lock) -> None:
        self._endpoint, self._turn = endpoint, turn
        self.user = ""
        self.trouble = f"connecting to {endpoint}"
        self.refused = ""
        self.settled = anyio.Event()
        self.scope = anyio.CancelScope()
        self.poller: Poller | None = None
        self._pollers: dict[bool, Poller] = {}  # by whether its answers may be large
        self._interests: dict[tuple[str, str], Interest] = {}
        self._tasks: TaskGroup | None = None  # as long as it is connected

    async def run(self) -> None:
        """Stay connected until `scope` is cancelled, or the broker refuses the user."""
        waits = backoff(*RECONNECT_S)
        with self.scope:
            while not self.refused:
                try:
                    await self._serve()
                except* AuthFailed as errors:
                    self.refused = _sentence(errors)
                except* (ZaichikError, UnicodeError) as errors:  # the name cannot be that of a host
                    # The broker was there until now, so waits begin from the shortest.
                    waits = waits if self.trouble else backoff(*RECONNECT_S)
                    self.trouble = _sentence(errors)
                except* Exception as errors:
                    self.trouble = _not_understood(self.trouble, errors)
                self.settled.set()
                self._tell()
                await anyio.sleep(next(waits))

    async def _serve(self) -> None:
        """Answer all interests for as long as the connections last."""
        async with AsyncExitStack() as stack:
            async with self._turn:
                clients = [await stack.enter_async_context(self._connecting()) for _ in range(2)]
            self._pollers = {False: Poller(clients[0]), True: Poller(clients[1])}
            self.poller = self._pollers[False]
            self.user = str((await clients[0].describe()).get("user", ""))
            self.trouble = ""
            self.settled.set()
            try:
                async with anyio.create_task_group() as self._tasks:
                    for key, interest in self._interests.items():
                        self._tasks.start_soon(self._ask_forever, key, interest)
                    await anyio.sleep_forever()
            finally:
                self._tasks = None

    def _connecting(self) -> AbstractAsyncContextManager[Client]:
        return connect(self._endpoint, name="zaichik web", reconnect=0, silence_timeout=SILENCE_S)

    async def _ask_forever(self, key: tuple[str, str], interest: Interest) -> None:
        """Ask for an interest until no page has it any longer."""
        poller = self._pollers[interest.is_large]
        async with BackgroundTasks() as background:
            await self._told(interest, partial(interest.ask, poller))
            background.group.start_soon(self._told, interest, interest.follow)
            while self._interests.get(key) is interest:
                if not interest.mailboxes and anyio.current_time() - interest.left_at >= LINGER_S:
                    del self._interests[key]
                    break
                began = anyio.current_time()
                await self._told(interest, partial(interest.ask, poller))
                interest.put()
                await anyio.sleep_until(began + interest.seconds)

    async def _told(self, interest: Interest, question: Callable[[], Awaitable[None]]) -> None:
        """Ask; errors are shown on the pages that have asked, and on no others."""
        try:
            await question()
        except ConnectionLost:
            raise
        except ZaichikError as error:
            interest.trouble = error.message
        except Exception as error:
            interest.trouble = _not_understood(interest.trouble, error)

    def _tell(self) -> None:
        for interest in self._interests.values():
            interest.put()
            if self.refused:
                for mailbox in interest.mailboxes:
                    mailbox.end(self.refused, login=True)

    @contextmanager
    def watching(self, view: View, mailbox: Mailbox) -> Iterator[Callable[[], Frame | None]]:
        """Returns a function that returns the newest for a view.

        The mailbox gets its news as long as the block lasts.

        Raises:
            HTTPException: there is no room for another interest.
        """
        interest = self._interests.get(view.interest) or self._added(view)
        interest.mailboxes.add(mailbox)
        if self.refused:
            mailbox.end(self.refused, login=True)
        try:
            yield partial(self._frame, interest, view)
        finally:
            interest.mailboxes.remove(mailbox)
            interest.left_at = anyio.current_time()

    def _added(self, view: View) -> Interest:
        for key, idle in (
            list(self._interests.items()) if len(self._interests) >= MOST_INTERESTS else ()
        ):
            if not idle.mailboxes:  # it only lingers
                del self._interests[key]
        if len(self._interests) >= MOST_INTERESTS:
            raise HTTPException(
                503, f"{MOST_INTERESTS} topics are open, which is the limit; close a page"
            )
        interest = self._interests[view.interest] = INTERESTS[view.kind](view.topic)
        if self._tasks is not None:
            self._tasks.start_soon(self._ask_forever, view.interest, interest)
        return interest

    def _frame(self, interest: Interest, view: View) -> Frame | None:
        if trouble := self.trouble or interest.trouble:
            return "trouble", {"text": trouble}
        try:
            return interest.show(view)
        except Exception as error:
            interest.trouble = _not_understood(interest.trouble, error)
            return "trouble", {"text": interest.trouble}


def _not_understood(before: str, error: Exception) -> str:
    """Returns the problem with an answer that we do not understand, from a newer broker.

    Only one view fails.

    The reason is logged once, and not ten times a second: not if the last problem was the same.
    """
    if before != NOT_UNDERSTOOD:
        logger.error("a view cannot be shown", exc_info=error)
    return NOT_UNDERSTOOD


def _sentence(errors: BaseExceptionGroup[Exception]) -> str:
    """Returns the text of the first error of a group."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return harmless(error.message if isinstance(error, ZaichikError) else str(error))
