"""The listener, and what runs alongside the connections: the sweep once a second, and the graceful stop.

A server is given its listener, so its caller decides about addresses. `stop` begins a graceful stop: accept no more
connections, read no more bytes, carry out the requests that were read (for at most a second), deliver the messages that
were acknowledged to readers with credit, send a GoAway to each client, close. Connections that are still open after the
drain timeout are cancelled.
"""

import logging
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from zaichik.broker.broker import Broker
from zaichik.broker.clock import Clock
from zaichik.broker.settings import BrokerSettings, open_files, refused_sockets
from zaichik.bugs import Bugs
from zaichik.log.storage import Storage
from zaichik.log.store import Store
from zaichik.net.background import BackgroundTasks, every
from zaichik.net.listener import Listener
from zaichik.net.peers import client_of, is_loopback
from zaichik.net.repeating import Repeating
from zaichik.net.socket_stream import SocketStream
from zaichik.serving.connection import Connection
from zaichik.serving.gate import OPEN, Gate
from zaichik.sharing.quota import Quota
from zaichik.sharing.scheduler import CONNECTION_US
from zaichik_protocol import ErrorCode, Refused

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
NEWCOMERS = ""  # the scheduler's key for all clients whose connections are not accepted yet: not an address
LAST_ANSWERS_US = 1_000_000  # for which a stopping broker carries out what it has read, and does nothing else


class Server:
    """A broker on a listener.

    Args:
        broker: the state that all connections share.
        listener: accepts connections; closed when `run` returns.
        store: has the durable topics of the broker; closed when `run` returns. None if there can be none.
        gate: encrypts connections, and logs users in.

    Attributes:
        broker: see above.
        gate: see above; another one may take its place before `run`.
        host, port: the address of the listener.
        bugs: exceptions that sweeps have run into.
    """

    def __init__(self, broker: Broker, listener: Listener, store: Store | None = None, gate: Gate = OPEN) -> None:
        self.broker = broker
        self._storage = Storage(broker, store)
        self.host, self.port = listener.host, listener.port
        self.bugs = Bugs(logger, lambda: self.clock.now_us())
        self._listener = listener
        self.gate = gate
        self._stopping = anyio.Event()
        scheduler = broker.scheduler
        self._turns = Repeating(scheduler.run, lambda: scheduler.is_waited_for, scheduler.rest)
        scheduler.on_waiting = self._turns.wake
        self._accepting = scheduler.join(NEWCOMERS, self._accept_turn)
        self._may_accept = anyio.Event()
        self._quota = Quota(broker.settings.max_connections)
        self._most_refused = refused_sockets(open_files())
        self._operator: Connection | None = None  # the one connection accepted beyond the limit (CLO-5)
        self._connections: dict[Connection, str | None] = {}  # with the client that is charged; None for the operator

    @classmethod
    async def listening(
        cls,
        host: str,
        port: int,
        settings: BrokerSettings | None = None,
        clock: Clock | None = None,
        data: Path | None = None,
        gate: Gate = OPEN,
    ) -> "Server":
        """Returns a server that listens on that address; port 0 takes a free one.

        Args:
            host: the address.
            port: see above.
            settings: the broker's limits and defaults.
            clock: its source of time.
            data: the folder of durable topics; by default there can be none.
            gate: see `Server`.

        Raises:
            OSError: the address is not available.
            CannotOpen: the folder cannot be used.
        """
        listener = await Listener.open(host, port)
        try:
            storage = await Storage.opened(data, settings, clock)
        except BaseException:
            await listener.aclose()
            raise
        return cls(storage.broker, listener, storage.store, gate)

    @property
    def clock(self) -> Clock:
        """The clock of connections and logins."""
        return self.broker.connection_clock

    def sweep(self) -> None:
        """Expire what is due and disconnect clients past a deadline; `run` calls this once a second.

        An exception in one part is logged and counted; the other parts are swept all the same.
        """
        with self.broker.scheduler.between_turns():  # synchronous: no connection comes or goes meanwhile
            with self.bugs.contained("a sweep of the topics"):
                self.broker.sweep()
            now_us = self.clock.now_us()
            rights = False
            with self.bugs.contained("looking after logins and rights"):
                if rights := self.gate.recheck(now_us):
                    self.broker.waive(self.gate.may_read)
            for manager in [] if self.gate is OPEN else list(self.broker.managers.values()):
                with self.bugs.contained("the rights of a connection"):
                    manager.recheck(now_us, rights=rights)
            for connection in self._connections:
                with self.bugs.contained("the deadlines of a connection"):
                    connection.check_deadlines(now_us)

    def stop(self) -> None:
        """Begin the graceful stop (CLO-2); `run` returns when it is done."""
        self._stopping.set()

    async def aclose(self) -> None:
        """Release the address and the folder. Only a server that never runs needs this."""
        await self._listener.aclose()
        self._storage.release()

    async def run(self) -> None:
        """Serve until `stop` or until cancelled; both stop gracefully, within the drain timeout.

        Raises:
            StorageFailed: the disk of the durable topics cannot be trusted any more.
        """
        self.broker.access = self.gate.counters
        async with BackgroundTasks() as background:
            background.group.start_soon(every, SWEEP_SECONDS, self.sweep)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._serve_connections)
                try:
                    await self._stopping.wait()
                finally:
                    self.stop()  # also when cancelled: the shielded connections still end gracefully
        self._storage.check()

    async def _serve_connections(self) -> None:
        """Accept until stopping, then drain."""
        with anyio.CancelScope(shield=True):
            async with BackgroundTasks() as scheduling:
                scheduling.group.start_soon(self._turns.run)
                scheduling.group.start_soon(self._storage.run, self._give_up)
                async with anyio.create_task_group() as connections:
                    await self._accept_and_drain(connections)
                await self._storage.drain()  # what was committed meanwhile
            await self._storage.close()

    def _give_up(self) -> None:
        """End every connection: the disk has failed, and what waits for it will never be answered."""
        with self.broker.scheduler.between_turns():
            for connection in self._connections:
                connection.go_away(at_once=True)
        self.stop()

    async def _accept_and_drain(self, connections: TaskGroup) -> None:
        async with self._listener, BackgroundTasks() as accepting:
            accepting.group.start_soon(self._listener.serve, self._serve_one, connections, self._wait_to_accept)
            await self._stopping.wait()
        with self.broker.scheduler.between_turns():  # no request is interrupted by a turn
            until_us = self.clock.now_us() + LAST_ANSWERS_US
            for connection in self._connections:
                connection.finish_requests(until_us)
        await self._storage.drain()
        with self.broker.scheduler.between_turns():
            for connection in self._connections:  # not before: what was published is delivered first
                connection.go_away()
        connections.cancel_scope.deadline = anyio.current_time() + self.broker.settings.drain_timeout

    async def _wait_to_accept(self) -> None:
        """Wait for the turn of newcomers: accepting is work, too, and anyone can cause it (LAG-5)."""
        if not self._accepting.is_waiting:  # or else for another listening socket
            self._may_accept = anyio.Event()
            self.broker.scheduler.ask(self._accepting)
        await self._may_accept.wait()

    def _accept_turn(self) -> bool:
        # Its client is charged the same when it joins. But whose connection it is shows only when it has been accepted.
        self.broker.scheduler.charge(self._accepting, CONNECTION_US)
        self._may_accept.set()
        return False

    async def _serve_one(self, stream: SocketStream, peer: str) -> None:
        """Serve one connection, from accept to close. An exception ends that connection only."""
        client = client_of(peer)
        has_room = self._quota.has_room(client)
        is_operator = not has_room and self._operator is None and is_loopback(peer)
        # Connections that are being refused take descriptors, too, up to a second each if they do not leave. If there
        # are too many, one more is closed without an Error. It is not left in the backlog, because an operator would
        # then wait behind it: whose connection it is shows only when it has been accepted.
        is_crowded = len(self.broker.managers) - len(self._connections) >= self._most_refused
        is_unwelcome = self.gate.turns_away(peer)
        if stream.is_reset or is_unwelcome or (is_crowded and not has_room and not is_operator):
            self.broker.ends[reason := "RESET" if stream.is_reset else "TURNED_AWAY"] += 1
            level = logging.DEBUG if is_unwelcome else logging.INFO  # or else strangers could fill the log
            logger.log(level, "%s disconnected: %s before it was served", peer, reason)
            return await stream.aclose()
        connection = Connection(stream, self.broker, peer, client, self.gate)
        if has_room:
            self._quota.take(client)
            self._connections[connection] = client
        elif is_operator:
            self._operator = connection
            self._connections[connection] = None
            connection.restrict_to_operators()
        else:  # not in the quota: while it closes, it must not keep others out
            problem = (
                f"the broker has {self._quota.used} connections; its limit (max_connections) is {self._quota.limit}, "
                "and no single client may take all that is left. Try again later."
            )
            connection.refuse(Refused(ErrorCode.TOO_MANY_CONNECTIONS, problem))
        if self._stopping.is_set():  # accepted at the last moment, when the others had their GoAway already
            connection.go_away()
        try:
            await connection.run()
        except Exception:
            logger.exception("%s: a bug ended this connection", peer)
        finally:
            if connection is self._operator:
                self._operator = None
            if (counted := self._connections.pop(connection, None)) is not None:
                self._quota.take(counted, -1)
