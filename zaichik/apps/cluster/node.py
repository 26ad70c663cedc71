"""A node, from start to stop: a session, a coordinator with its inbox, and the brokers.

One task takes events out of the inbox and hands them to the coordinator. Everything else that runs
here only puts something in, or does what was decided.
"""

import logging
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from zaichik.apps.cluster.coordinator import Coordinator, Known, Machine, Overdue, Retry
from zaichik.apps.cluster.engine import Engine, Event, Listener, State, StateChanged
from zaichik.apps.cluster.folder import Folder
from zaichik.apps.cluster.hosting import BrokerHosting, Launcher, Publisher, Watcher
from zaichik.net.background import BackgroundTasks

logger = logging.getLogger("zaichik.cluster.node")

# Pauses before what could not be asked is asked again, in seconds.
FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 30.0
# Sessions that a former process of this machine may take to expire: ZooKeeper may be set to give
# more time than was asked for.
OVERDUE_SESSIONS = 4
ANSWER_S = 2.0  # after which it is said that nobody answers


class RunningEngine(Engine, Protocol):
    """The six calls, and what begins and ends a session."""

    def running(self, listener: Listener) -> AbstractAsyncContextManager[None]:
        """Has events sent to the listener during the block."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a node says once it serves.

    Attributes:
        shards: how many shards the cluster has.
        served: those that are here, with their addresses.
    """

    shards: int
    served: dict[int, str]


class Node:
    """One machine of a cluster.

    Args:
        machine: its name, and what it is ready to serve.
        engine: what nodes agree through.
        folder: its folder.
        launch: returns the running broker of a shard, for a block.
        publish: has a broker keep a map.
        watch: returns once a broker keeps another one.
        session_s: the silence after which the engine takes a machine for gone.
        serves_alone: whether to serve what was known last before the engine has answered.
        now_us: the clock.
    """

    def __init__(
        self,
        machine: Machine,
        engine: RunningEngine,
        folder: Folder,
        launch: Launcher,
        publish: Publisher,
        watch: Watcher,
        *,
        session_s: float,
        serves_alone: bool,
        now_us: Callable[[], int],
    ) -> None:
        self._machine = machine
        self._engine = engine
        self._folder = folder
        self._launch = launch
        self._publish = publish
        self._watch = watch
        self._session_s = session_s
        self._serves_alone = serves_alone
        self._now_us = now_us
        self._hosting: BrokerHosting | None = None
        self._has_begun = anyio.Event()

    def hang_up(self) -> None:
        """Have all brokers read their users and rules again."""
        if self._hosting is not None:
            self._hosting.hang_up()

    async def run(self, on_ready: Callable[[Ready], None]) -> None:
        """Serve until cancelled; then brokers are stopped in order, and the session is given up.

        Args:
            on_ready: is called once, when all shards that are here are served.

        Raises:
            NameTaken, Incompatible, Denied: this machine cannot be in this cluster.
            UnusableFolder: what the folder has kept is damaged.
        """
        send, inbox = anyio.create_memory_object_stream[Event](math.inf)
        # Brokers before the session: a machine is gone when its brokers are.
        async with (
            send,
            inbox,
            self._engine.running(send.send_nowait),
            BackgroundTasks() as brokers,
            BackgroundTasks() as beside,
        ):
            hosting = BrokerHosting(self._launch, self._publish, self._watch, brokers.group)
            self._hosting = hosting
            coordinator = Coordinator(
                self._machine,
                self._engine,
                hosting,
                self._save,
                self._now_us,
                self._folder.known(),
                serves_alone=self._serves_alone,
            )
            beside.group.start_soon(self._announce, coordinator, hosting, on_ready)
            beside.group.start_soon(self._report)
            if self._serves_alone:
                coordinator.begin()
                self._has_begun.set()
            await self._coordinate(coordinator, inbox)

    async def _coordinate(
        self, coordinator: Coordinator, inbox: MemoryObjectReceiveStream[Event]
    ) -> None:
        """Hand in one event after the other, and what is due meanwhile."""
        overdue = math.inf
        pause = FIRST_RETRY_S
        retry = math.inf
        while True:
            event: Event | Retry | Overdue = Retry()
            if overdue < retry:
                event = Overdue()
            with anyio.CancelScope(deadline=min(overdue, retry)):
                event = await inbox.receive()
            self._tell_state(event)
            await coordinator.handle(event)
            now = anyio.current_time()
            if not coordinator.is_waiting:
                overdue = math.inf
            elif isinstance(event, Overdue | StateChanged) or overdue == math.inf:
                overdue = now + OVERDUE_SESSIONS * self._session_s
            # While it is away nothing is tried: that it is back is an event.
            if coordinator.is_behind and self._engine.state is State.CONNECTED:
                retry = now + pause
                pause = min(2 * pause, LONGEST_RETRY_S)
            else:
                retry = math.inf
                pause = FIRST_RETRY_S
            if coordinator.has_seen:
                self._has_begun.set()

    async def _announce(
        self, coordinator: Coordinator, hosting: BrokerHosting, on_ready: Callable[[Ready], None]
    ) -> None:
        await self._has_begun.wait()
        served = await hosting.all_ready()
        addresses = {shard: self._machine.address(shard) for shard in sorted(served)}
        on_ready(Ready(coordinator.shards, addresses))

    async def _report(self) -> None:
        """Say it when nobody answers for a while at the start."""
        with anyio.move_on_after(ANSWER_S):
            await self._has_begun.wait()
            return
        if self._engine.state is State.AWAY:
            logger.warning(
                "ZooKeeper does not answer yet: it is tried again, and no shard is served before "
                "it has answered once, since they may be elsewhere by now (--serve-alone serves "
                "what was here last)"
            )

    def _tell_state(self, event: Event | Retry | Overdue) -> None:
        """Say that the service is away, or back."""
        if not self._has_begun.is_set():
            return
        match event:
            case StateChanged(State.AWAY):
                logger.warning("ZooKeeper is away: brokers go on, and nothing can be placed")
            case StateChanged():
                logger.info("ZooKeeper answers")

    def _save(self, known: Known) -> None:
        try:
            self._folder.save(known)
        except OSError as error:
            logger.warning("what is known of the cluster cannot be kept: %s", error)
