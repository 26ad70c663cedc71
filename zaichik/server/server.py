"""The listener, and what runs alongside the connections: a sweep each second, the graceful stop.

A server is given its listener, so its caller decides about addresses. `stop` begins a graceful
stop: accept no more connections, read no more bytes, carry out the requests that were read (for at
most a second), deliver the messages that were acknowledged to readers with credit, send a GoAway to
each client, close. Connections that are still open after the drain timeout are cancelled. Before
and after that, the disk has as much time to write what waits for it.
"""

# Not compiled: it runs once in a connection, or once a second, so there is nothing to gain.

import logging
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from zaichik.base.clock import SECOND_US, Clock
from zaichik.base.counted import counted
from zaichik.base.process import open_files
from zaichik.core.broker import TURNED_AWAY, Broker
from zaichik.core.settings import BrokerSettings, refused_sockets
from zaichik.core.sharing.quota import Quota
from zaichik.core.sharing.scheduler import CONNECTION_US
from zaichik.net.background import BackgroundTasks, every
from zaichik.net.listener import Listener
from zaichik.net.peers import client_of, is_loopback
from zaichik.net.repeating import Repeating
from zaichik.net.socket_stream import SocketStream
from zaichik.server.bugs import Bugs
from zaichik.server.connection import Connection
from zaichik.server.gate import OPEN, Gate
from zaichik.server.persistence import open_broker, persistence_of
from zaichik.storage.store import Store
from zaichik_protocol import ErrorCode, Refused

logger = logging.getLogger("zaichik.serving.server")

SWEEP_SECONDS = 1.0

# The scheduler's key for all clients whose connections are not accepted yet; it is not an address.
NEWCOMERS = ""

# How long a stopping broker carries out the requests that it has read, and does nothing else.
LAST_ANSWERS_US = SECOND_US


class Server:
    """A broker on a listener.

    Args:
        broker: the state that all connections share.
        listener: accepts connections; closed when `run` returns.
        store: has the durable topics of the broker; closed when `run` returns. None if there can be
            none.
        gate: encrypts connections, and logs users in.

    Attributes:
        broker: see above.
        gate: see above; another one may take its place before `run`.
        host, port: the address of the listener.
        bugs: exceptions that sweeps and goodbyes have run into.
    """

    def __init__(
        self, broker: Broker, listener: Listener, store: Store | None = None, gate: Gate = OPEN
    ) -> None:
        self.broker = broker
        self.host = listener.host
        self.port = listener.port
        self.bugs = Bugs(logger, lambda: self.clock.now_us())
        self.gate = gate
        self._listener = listener
        self._persistence = persistence_of(broker, store, self.bugs)
        self._stopping = anyio.Event()

        # The turns of all connections, and those in which another one is accepted.
        scheduler = broker.scheduler
        self._turns = Repeating(scheduler.run, lambda: scheduler.is_waited_for, scheduler.note_idle)
        scheduler.on_waiting = self._turns.wake
        self._accepting = scheduler.join(NEWCOMERS, self._accept_turn)
        self._may_accept = anyio.Event()

        # The connections that are served, each with the client that is charged for it.
        self._connections: dict[Connection, str | None] = {}
        self._quota = Quota(broker.settings.max_connections)
        # One more is accepted beyond the limit, for an operator (CLO-5). Nobody is charged for it.
        self._operator: Connection | None = None
        self._most_refused = refused_sockets(open_files())

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
        async with AsyncExitStack() as undo:
            listener = await Listener.open(host, port)
            undo.push_async_callback(listener.aclose)
            broker, store = await open_broker(data, settings, clock)
            if store is not None:
                undo.callback(store.release)
            server = cls(broker, listener, store, gate)
            undo.pop_all()
        return server

    @property
    def clock(self) -> Clock:
        """The clock of connections and logins."""
        return self.broker.connection_clock

    @property
    def longest_stop_s(self) -> float:
        """How many seconds a graceful stop takes at most, without the checkpoints at its end."""
        for_clients = self.broker.settings.drain_timeout
        for_disk = 2 * self._persistence.longest_drain_s
        return LAST_ANSWERS_US / SECOND_US + for_clients + for_disk

    def sweep(self) -> None:
        """Expire what is due and disconnect clients past a deadline.

        `run` calls this once a second. An exception in one part is logged and counted; the other
        parts are swept all the same.
        """
        # All of it is synchronous, so no connection comes or goes meanwhile.
        with self.broker.scheduler.between_turns():
            with self.bugs.contained("a sweep of the topics"):
                self.broker.sweep()
            now_us = self.clock.now_us()
            self._recheck_rights(now_us)
            for connection in self._connections:
                with self.bugs.contained("the deadlines of a connection"):
                    connection.check_deadlines(now_us)

    def _recheck_rights(self, now_us: int) -> None:
        """End logins and subscriptions that are not allowed any more (ACC-4)."""
        if self.gate is OPEN:
            return
        rights = False
        with self.bugs.contained("looking after logins and rights"):
            rights = self.gate.recheck(now_us)
            if rights:
                self.broker.waive(self.gate.may_read)
        for manager in list(self.broker.managers.values()):
            with self.bugs.contained("the rights of a connection"):
                manager.recheck(now_us, rights=rights)

    def stop(self) -> None:
        """Begin the graceful stop (CLO-2); `run` returns when it is done."""
        self._stopping.set()

    async def aclose(self) -> None:
        """Release the address and the folder. Only a server that never runs needs this."""
        await self._listener.aclose()
        self._persistence.release()

    async def run(self) -> None:
        """Serve until `stop` or until cancelled; both stop gracefully.

        After a second of requests, it waits up to the drain timeout for the disk, for its clients,
        and for the disk again: see `longest_stop_s`.

        Raises:
            StorageFailed: the disk of the durable topics cannot be trusted any more.
        """
        self.broker.access = self.gate.counters
        # Rights may have changed since the names on the disk were made. Once there are clients,
        # this would count as a change, and they would follow the topics from the beginning again.
        self._recheck_rights(self.clock.now_us())
        async with BackgroundTasks() as background:
            background.group.start_soon(every, SWEEP_SECONDS, self.sweep)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._serve_connections)
                try:
                    await self._stopping.wait()
                finally:
                    # Also when this is cancelled: the connections are shielded, and end gracefully.
                    self.stop()
        self._persistence.check()

    async def _serve_connections(self) -> None:
        """Accept until stopping, then drain."""
        with anyio.CancelScope(shield=True):
            try:
                async with BackgroundTasks() as scheduling:
                    scheduling.group.start_soon(self._turns.run)
                    scheduling.group.start_soon(self._persistence.run, self._give_up)
                    async with anyio.create_task_group() as connections:
                        await self._accept_and_drain(connections)
                    await self._persistence.drain()  # what was committed meanwhile
                await self._persistence.close()
            finally:
                # Also after a bug: the program may go on, and begin another broker.
                self._persistence.release()

    def _give_up(self) -> None:
        """End every connection: the disk has failed.

        The replies that wait for it will never come.
        """
        self._send_away(at_once=True)
        self.stop()

    def _send_away(self, *, at_once: bool) -> None:
        """See `Connection.go_away`: a bug in one goodbye does not keep the others from theirs."""
        with self.broker.scheduler.between_turns():
            for connection in self._connections:
                with self.bugs.contained("the goodbye of a connection"):
                    connection.go_away(at_once=at_once)

    async def _accept_and_drain(self, connections: TaskGroup) -> None:
        async with self._listener, BackgroundTasks() as accepting:
            accepting.group.start_soon(
                self._listener.serve, self._serve_one, connections, self._wait_to_accept
            )
            await self._stopping.wait()
        with self.broker.scheduler.between_turns():
            until_us = self.clock.now_us() + LAST_ANSWERS_US
            for connection in self._connections:
                connection.finish_requests(until_us)
        await self._persistence.drain()
        # After all requests, so that everything that was published is delivered before a GoAway.
        self._send_away(at_once=False)
        seconds = self.broker.settings.drain_timeout
        connections.cancel_scope.deadline = anyio.current_time() + seconds

    async def _wait_to_accept(self) -> None:
        """Wait for the turn of newcomers.

        Accepting is work, too, and anyone can cause it (LAG-5).
        """
        # If it is waiting already, another listening socket has asked for the same turn.
        if not self._accepting.is_waiting:
            self._may_accept = anyio.Event()
            self.broker.scheduler.ask(self._accepting)
        await self._may_accept.wait()

    def _accept_turn(self) -> bool:
        # Its client is charged the same when it joins. But whose connection it is shows only when
        # it has been accepted.
        self.broker.scheduler.charge(self._accepting, CONNECTION_US)
        self._may_accept.set()
        return False

    async def _serve_one(self, stream: SocketStream, peer: str) -> None:
        """Serve one connection, from accept to close. An exception ends that connection only."""
        client = client_of(peer)
        has_room = self._quota.has_room(client)
        is_operator = not has_room and self._operator is None and is_loopback(peer)
        # Connections that are being refused take descriptors, too, up to a second each if they do
        # not leave. If there are too many, one more is closed without an Error. It is not left in
        # the backlog, because an operator would then wait behind it: whose connection it is shows
        # only when it has been accepted.
        is_crowded = len(self.broker.managers) - len(self._connections) >= self._most_refused
        if stream.is_reset or (is_crowded and not has_room and not is_operator):
            self._note_turned_away(stream, peer)
            return await stream.aclose()

        connection = Connection(stream, self.broker, peer, client, self.gate)
        if has_room:
            self._quota.take(client)
            self._connections[connection] = client
        elif is_operator:
            self._operator = connection
            self._connections[connection] = None
            connection.restrict_to_operators()
        # One that is refused is not in the quota: while it closes, it must not keep others out.
        else:
            connection.refuse(self._too_many())
        # It was accepted at the last moment, when the others had had their GoAway already.
        if self._stopping.is_set():
            connection.go_away()
        try:
            await connection.run()
        except Exception:
            logger.exception("%s: a bug ended this connection", peer)
        finally:
            if connection is self._operator:
                self._operator = None
            charged = self._connections.pop(connection, None)
            if charged is not None:
                self._quota.take(charged, -1)

    def _note_turned_away(self, stream: SocketStream, peer: str) -> None:
        """Count and log a connection that is closed before it was served."""
        reason = TURNED_AWAY
        if stream.is_reset:
            reason = "RESET"
        self.broker.ends[reason] += 1
        logger.info("%s disconnected: %s before it was served", peer, reason)

    def _too_many(self) -> Refused:
        """Returns the Error for a connection that there is no room for."""
        problem = (
            f"the broker has {counted(self._quota.used, 'connection')}; its limit "
            "(max_connections) is "
            f"{self._quota.limit}, "
            "and no single client may take all that is left. Try again later."
        )
        return Refused(ErrorCode.TOO_MANY_CONNECTIONS, problem)
