"""Watches the queue that `zaichik work` works on: how much is left, and why nothing is handed out.

It asks the broker again and again, which costs one small page each time.
"""

import sys

import anyio

from zaichik.apps.work.queue_state import QueueState, state_of, user_of, what_holds
from zaichik.cli.work_screen import WorkScreen
from zaichik.client.client import Client

SHOWN_SECONDS = 1.0  # between two questions, if there is a line that shows the answers
UNSEEN_SECONDS = 10.0  # the same, if there is none
EMPTY_SECONDS = 0.25  # the same, if the end of the queue is waited for
HOLDING_SECONDS = 10.0  # between two looks at what holds the log


class QueueWatch:
    """Shows the state of a queue, and waits for its end.

    Args:
        client: a client.
        topic: the topic.
        name: the shared name.
        shown: where it is shown.
    """

    def __init__(self, client: Client, topic: str, name: str, shown: WorkScreen) -> None:
        self._client = client
        self._topic = topic
        self._name = name
        self._shown = shown
        # Whose name it is; None until the broker has been asked.
        self._user: str | None = None
        self._looked = -HOLDING_SECONDS
        # Of messages, before this worker came.
        self._deaths: int | None = None
        self._state: QueueState | None = None

    @property
    def exit_code(self) -> int:
        """1 if messages have died, or the queue cannot become empty; else 0."""
        state = self._state
        if state is None or self._deaths is None:
            return 0
        has_died = state.deaths > self._deaths or self._shown.tally.dead
        return int(bool(has_died) or (state.is_stuck and state.left > 0))

    async def go_on(self) -> None:
        """Show the state, until this is cancelled."""
        seconds = UNSEEN_SECONDS
        if sys.stderr.isatty():
            seconds = SHOWN_SECONDS
        while True:
            await self._look()
            await anyio.sleep(seconds)

    async def until_empty(self) -> None:
        """Show the state, until nothing is left, or nothing more will be handed out."""
        while True:
            state = await self._look()
            if state is not None and (not state.left or state.is_stuck):
                return
            await anyio.sleep(EMPTY_SECONDS)

    async def _look(self) -> QueueState | None:
        if self._user is None:
            self._user = await user_of(self._client)
        state = await state_of(self._client, self._topic, self._name, self._user)
        if state is None:
            return None
        self._state = state
        if self._deaths is None:
            self._deaths = state.deaths
        holding = ""
        if anyio.current_time() >= self._looked + HOLDING_SECONDS:
            self._looked = anyio.current_time()
            holding = await what_holds(self._client, self._topic, self._name, self._user)
        await self._shown.show_queue(state, holding)
        return state
