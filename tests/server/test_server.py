"""The listener, the sweeper and the orderly end, over real sockets on loopback."""

import logging
import socket
import struct
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import anyio
import framed
import pytest
from anyio.abc import SocketAttribute
from conversation import batch
from limit_probes import MemoryListener
from peer import GUARD, Peer, settled

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik.net.listener import Listener
from zaichik.server import connection as connection_module
from zaichik.server import server as server_module
from zaichik.server.running import running_broker, serve
from zaichik.server.server import Server
from zaichik_protocol import (
    HEARTBEAT,
    CreateTopic,
    Describe,
    Described,
    ErrorCode,
    GoAway,
    Hello,
    Ping,
    Pong,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    TopicCreated,
    Welcome,
    encode,
)

pytestmark = pytest.mark.anyio


class Client(framed.Client):
    async def ask(self, request):
        (reply,) = await super().ask(request)
        return reply


@asynccontextmanager
async def client_of(server):
    async with await anyio.connect_tcp(server.host, server.port) as stream:
        client = Client(stream)
        assert isinstance(await client.ask(Hello(1)), Welcome)
        yield client


@asynccontextmanager
async def run(server):
    """A server running in the background; whoever stops it waits for its end here."""
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            yield server


class Watch:
    """Wakes whoever waits when a connection comes or goes."""

    def __init__(self, monkeypatch):
        self._changed = anyio.Event()
        for name in ("connect", "disconnect"):
            self._wrap(monkeypatch, name)

    def _wrap(self, monkeypatch, name):
        real = getattr(Broker, name)

        def wrapped(broker, *arguments):
            result = real(broker, *arguments)
            self._changed.set()
            self._changed = anyio.Event()
            return result

        monkeypatch.setattr(Broker, name, wrapped)

    async def until(self, condition):
        with anyio.fail_after(GUARD):
            while not condition():
                await self._changed.wait()


@pytest.fixture
def watch(patchable, monkeypatch):
    return Watch(monkeypatch)


# -- limits


@pytest.fixture
def no_operators(monkeypatch):
    """Nobody comes from the broker's own machine."""
    monkeypatch.setattr(server_module, "is_loopback", lambda _: False)


@pytest.mark.usefixtures("no_operators")
async def test_a_connection_beyond_the_limit_is_told_so(watch):
    """P6: with two allowed, the third is turned away; when one has gone, there is room again."""
    async with running_broker(settings=BrokerSettings(max_connections=2)) as server:
        async with client_of(server), client_of(server) as second:
            async with await anyio.connect_tcp(server.host, server.port) as stream:
                third = Client(stream)
                error = await third.receive()
                assert (error.code, error.fatal, error.retryable) == (
                    ErrorCode.TOO_MANY_CONNECTIONS,
                    True,
                    True,
                )
                assert await third.receive() is None
            await watch.until(lambda: len(server.broker.managers) == 2)
            assert await second.ask(Ping(2, 5)) == Pong(2, 5)
        await watch.until(lambda: not server.broker.managers)
        async with client_of(server) as again:
            assert await again.ask(Ping(2, 5)) == Pong(2, 5)
        assert server.broker.ends["TOO_MANY_CONNECTIONS"] == 1


async def test_connections_are_accepted_in_turns_of_the_scheduler():
    """LAG-5: whoever dials as fast as they can has one share of the processor, and others have
    theirs.
    """
    peer = Peer()
    server = Server(Broker(BrokerSettings()), MemoryListener([peer]))
    scheduler = server.broker.scheduler
    with ExitStack() as no_turns:
        no_turns.enter_context(scheduler.between_turns())
        async with run(server):
            await settled()
            assert not server.broker.managers
            no_turns.close()
            await settled()
            assert len(server.broker.managers) == 1
            peer.end()
            server.stop()


@pytest.mark.usefixtures("no_operators")
async def test_a_refused_connection_does_not_count(watch, monkeypatch):
    """P6: though it does not go."""
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", GUARD)
    async with running_broker(settings=BrokerSettings(max_connections=1)) as server:
        async with client_of(server) as first:
            await first.ask(Ping(2))
            refused = await anyio.connect_tcp(server.host, server.port)
            assert (await Client(refused).receive()).code == ErrorCode.TOO_MANY_CONNECTIONS
        async with refused:
            await watch.until(lambda: "CLOSED" in server.broker.ends)
            assert server.broker.managers, "the one that was turned away has not gone"
            await anyio.wait_all_tasks_blocked()
            async with client_of(server) as again:
                assert await again.ask(Ping(2, 5)) == Pong(2, 5)


async def refused_by(server, here):
    """Returns an open connection that has been sent its Error."""
    client = Client(
        await here.enter_async_context(await anyio.connect_tcp(server.host, server.port))
    )
    assert (await client.receive()).code == ErrorCode.TOO_MANY_CONNECTIONS
    return client


async def assert_turned_away(server):
    async with await anyio.connect_tcp(server.host, server.port) as stream:
        with anyio.fail_after(GUARD), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()


@pytest.fixture
async def crowded(monkeypatch, no_operators):
    """A server that has the connections it may have, one, and refuses as many as it may at once,
    two.
    """
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", GUARD)
    monkeypatch.setattr(server_module, "refused_sockets", lambda _: 2)
    settings = BrokerSettings(max_connections=1)
    async with (
        running_broker(settings=settings) as server,
        AsyncExitStack() as here,
        client_of(server) as first,
    ):
        refused = [await refused_by(server, here), await refused_by(server, here)]
        yield server, first, refused


async def test_one_more_than_may_be_refused_at_once_is_closed_without_an_error(
    crowded, watch, caplog
):
    """CLO-5, P7: descriptors are bounded, and the end has a reason."""
    server, _, refused = crowded
    caplog.set_level(logging.INFO, "zaichik.serving.server")
    await assert_turned_away(server)
    assert server.broker.ends == {"TURNED_AWAY": 1}
    (record,) = caplog.records
    assert record.getMessage().endswith(" disconnected: TURNED_AWAY before it was served")
    await refused.pop().stream.aclose()
    await watch.until(lambda: len(server.broker.managers) == 2)
    async with AsyncExitStack() as here:
        await refused_by(server, here)
        await assert_turned_away(server)


async def test_an_operator_gets_in_beside_all_that_are_refused(crowded, monkeypatch):
    """CLO-5: one at a time."""
    server, *_ = crowded
    monkeypatch.setattr(server_module, "is_loopback", lambda _: True)
    async with client_of(server) as operator:
        assert isinstance(await operator.ask(Describe(2, 0)), Described)
        await assert_turned_away(server)


async def test_beside_all_that_are_refused_those_for_whom_there_is_room_are_served(crowded, watch):
    """CLO-5: for whoever comes when one has gone."""
    server, first, _ = crowded
    await first.stream.aclose()
    await watch.until(lambda: "CLOSED" in server.broker.ends)
    await anyio.wait_all_tasks_blocked()
    async with client_of(server) as client:
        assert await client.ask(Ping(2, 5)) == Pong(2, 5)


async def test_a_client_without_a_hello_is_disconnected():
    """TIM-1: as soon as its time is over."""
    settings = BrokerSettings(handshake_timeout=0.01)
    async with (
        running_broker(settings=settings) as server,
        await anyio.connect_tcp(server.host, server.port) as stream,
    ):
        assert (await Client(stream).receive()).code == ErrorCode.HANDSHAKE_TIMEOUT


async def test_a_sweep_disconnects_a_client_that_takes_too_long():
    """TIM-3."""
    clock = ManualClock()
    async with (
        running_broker(clock=clock) as server,
        await anyio.connect_tcp(server.host, server.port) as stream,
    ):
        client = Client(stream)
        assert isinstance(await client.ask(Hello(1, features=HEARTBEAT)), Welcome)
        for _ in range(92):
            clock.advance(1)
            server.sweep()
        assert (await client.receive()).code == ErrorCode.IDLE_TIMEOUT


async def test_a_sweep_resets_a_connection_that_takes_nothing(watch):
    """LAG-3: what waits in the system's buffers is dropped with it."""
    clock = ManualClock()

    async def read_all(stream):
        with anyio.fail_after(GUARD):
            while True:
                await stream.receive()

    async with (
        running_broker(clock=clock, settings=BrokerSettings(write_timeout=5)) as server,
        await anyio.connect_tcp(server.host, server.port) as stream,
        client_of(server) as other,
    ):
        await stream.send(
            encode(Hello(1)) + encode(Subscribe(2, "t", credit=10_000, credit_bytes=2**30))
        )
        for number in range(32):
            await other.ask(Publish(2 + number, "t", batch(b"p" * 2**20)))
        for _ in range(10):
            clock.advance(1)
            server.sweep()
            await anyio.lowlevel.checkpoint()
        await watch.until(lambda: len(server.broker.managers) == 1)
        assert server.broker.ends == {"SLOW_CONSUMER": 1}
        with pytest.raises(anyio.BrokenResourceError):
            await read_all(stream)


# -- serving


async def test_a_free_port_is_taken_and_reported():
    async with running_broker() as server:
        assert server.host == "127.0.0.1"
        assert server.port > 0
        async with client_of(server) as client:
            assert await client.ask(Ping(2, 5)) == Pong(2, 5)


async def test_settings_and_clock_are_the_brokers():
    clock = ManualClock(7)
    async with running_broker(settings=BrokerSettings(max_topics=1), clock=clock) as server:
        assert server.clock is clock
        async with client_of(server) as client:
            assert (await client.ask(CreateTopic(2, "a"))).epoch == 7
            assert (await client.ask(CreateTopic(3, "b"))).code == ErrorCode.TOO_MANY_TOPICS


async def test_a_port_in_use_is_an_os_error():
    async with running_broker() as server:
        with pytest.raises(OSError, match=r".+"):
            await serve("127.0.0.1", server.port)
        with pytest.raises(OSError, match=r".+"):
            async with running_broker(port=server.port):
                pytest.fail("two brokers on one port")


async def test_two_brokers_take_two_ports_and_share_nothing():
    async with running_broker() as one, running_broker() as two:
        assert one.port != two.port
        async with client_of(one) as first, client_of(two) as second:
            assert (await first.ask(CreateTopic(2, "t"))).created == 1
            assert (await second.ask(CreateTopic(2, "t"))).created == 1


async def test_several_addresses_serve_one_broker():
    """A name such as localhost may stand for several addresses."""
    sockets = [socket.create_server((host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    ports = [raw.getsockname()[1] for raw in sockets]
    server = Server(Broker(), Listener(sockets))
    assert (server.host, server.port) == ("127.0.0.1", ports[0])
    async with run(server):
        for host, port, created in (("127.0.0.1", ports[0], 1), ("127.0.0.2", ports[1], 0)):
            async with await anyio.connect_tcp(host, port) as stream:
                client = Client(stream)
                await client.ask(Hello(1))
                assert (await client.ask(CreateTopic(2, "t"))).created == created
        server.stop()


async def test_a_hundred_creators_make_one_topic():
    """TOP-1."""
    created = []

    async def create(server):
        async with client_of(server) as client:
            reply = await client.ask(CreateTopic(2, "t"))
            assert isinstance(reply, TopicCreated)
            created.append(reply.created)

    async with running_broker() as server, anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(create, server)
    assert sorted(created) == [0] * 99 + [1]


async def test_a_connection_that_is_gone_leaves_nothing(watch):
    """CLO-3: ended, closed or reset."""
    async with running_broker() as server:
        for linger in (None, struct.pack("ii", 1, 0)):  # the second closes with a reset
            async with client_of(server) as client:
                await client.ask(Subscribe(2, "t"))
                if linger:
                    raw = client.stream.extra(SocketAttribute.raw_socket)
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            await watch.until(lambda: not server.broker.managers)
        await anyio.wait_all_tasks_blocked()
        assert not server._connections
        (topic,) = server.broker.registry
        assert not topic.readers
        assert not topic.retained.ring._waiting


async def test_a_bug_in_a_turn_ends_only_that_connection(monkeypatch, caplog, watch):
    """P5: one traceback for the log, nothing for the others."""
    real = SubscriptionManager.next_output

    def turn(self, now_us):
        if self.client_name == "victim":
            raise ZeroDivisionError
        return real(self, now_us)

    monkeypatch.setattr(SubscriptionManager, "next_output", turn)
    async with running_broker() as server, client_of(server) as other:
        async with await anyio.connect_tcp(server.host, server.port) as stream:
            victim = Client(stream)
            await victim.send(Hello(1, client="victim"))
            with anyio.fail_after(GUARD):
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
        await watch.until(lambda: len(server.broker.managers) == 1)
        assert await other.ask(Ping(2)) == Pong(2, 0)
        await anyio.wait_all_tasks_blocked()
        assert len(server._connections) == 1
        assert server.broker.ends == {"INTERNAL": 1}
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "a bug ended this connection" in record.message


async def test_a_connection_that_is_reset_before_it_is_served_leaves_its_address_and_a_reason(
    caplog,
):
    """P7: as a port scan leaves them."""
    caplog.set_level(logging.INFO, "zaichik.serving.server")
    raw = socket.create_server(("127.0.0.1", 0))
    scanner = socket.create_connection(raw.getsockname())
    peer = f"127.0.0.1:{scanner.getsockname()[1]}"
    scanner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    scanner.close()
    async with run(Server(Broker(), Listener([raw]))) as server:
        async with client_of(server) as client:  # it was accepted after the other one
            assert await client.ask(Ping(2)) == Pong(2, 0)
        assert server.broker.ends["RESET"] == 1
        server.stop()
    (record,) = caplog.records
    assert record.getMessage() == f"{peer} disconnected: RESET before it was served"
    assert record.args[0] == peer


# -- the sweeper


@pytest.mark.usefixtures("patchable")
async def test_time_frees_memory_by_itself(monkeypatch):
    """RET-7: of a topic nobody uses."""
    monkeypatch.setattr(server_module, "SWEEP_SECONDS", 0.001)
    swept = anyio.Event()
    clock = ManualClock()
    async with running_broker(clock=clock) as server:
        async with client_of(server) as client:
            await client.ask(CreateTopic(2, "t", ((1, 1),)))
            await client.ask(Publish(3, "t", batch(b"p" * 1000)))
        (topic,) = server.broker.registry
        assert topic.retained.ring.bytes > 1000
        real = topic.retained.ring.expire_below
        monkeypatch.setattr(
            topic.retained.ring, "expire_below", lambda offset: (real(offset), swept.set())
        )
        clock.advance(1)
        with anyio.fail_after(GUARD):
            await swept.wait()
        assert topic.retained.ring.bytes == 0


@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_a_sweep_is_logged_once_and_the_broker_continues(monkeypatch, caplog):
    """P5: at each of three sweeps; the count tells of all of them."""
    monkeypatch.setattr(server_module, "SWEEP_SECONDS", 0.001)
    swept = [anyio.Event() for _ in range(3)]
    waiting = iter(swept)

    def sweep(_):
        next(waiting, swept[-1]).set()
        raise ZeroDivisionError

    async with running_broker(clock=ManualClock()) as server:
        async with client_of(server) as client:
            monkeypatch.setattr(server.broker.registry, "sweep", sweep)
            with anyio.fail_after(GUARD):
                await swept[-1].wait()
            assert await client.ask(Ping(2)) == Pong(2, 0)
        assert server.bugs.count >= 2
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_a_sweep_of_topics_or_of_one_connection_keeps_no_other_from_being_swept(
    watch, monkeypatch
):
    """P5, TIM-1."""
    clock = ManualClock()
    async with (
        running_broker(clock=clock) as server,
        await anyio.connect_tcp(server.host, server.port),
        await anyio.connect_tcp(server.host, server.port),
    ):
        await watch.until(lambda: len(server.broker.managers) == 2)
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(server.broker.registry, "sweep", lambda _: 1 / 0)
        first, second = server._connections
        checked = []
        monkeypatch.setattr(first, "check_deadlines", lambda _: [][0])
        monkeypatch.setattr(second, "check_deadlines", checked.append)
        for _ in range(6):
            clock.advance(1)
            server.sweep()
        assert len(checked) == 6
        assert server.bugs.count == 12


# -- the orderly end


async def test_stop_tells_every_client_and_waits_for_output_in_flight():
    """CLO-2: what was read is answered, then comes GoAway, then the end."""
    server = await Server.listening("127.0.0.1", 0)
    async with run(server), client_of(server) as one, client_of(server) as two:
        assert (await two.ask(Subscribe(2, "t", credit=9))).start == 0
        assert isinstance(await one.ask(Publish(2, "t", batch(b""))), Published)
        server.stop()
        assert isinstance(await one.receive(), GoAway)
        assert await one.receive() is None
        assert (await two.receive()).base == 0
        assert isinstance(await two.receive(), GoAway)
        assert await two.receive() is None
    assert not server.broker.managers


async def test_messages_acknowledged_while_the_broker_stops_are_delivered():
    """CLO-2: to subscribers that read and have credit, before any client gets its GoAway."""
    early, writer, late = Peer(), Peer(room=1), Peer()
    server = Server(Broker(BrokerSettings(max_replies=100)), MemoryListener([early, writer, late]))
    async with run(server):
        for reader in (early, late):
            reader.send(Subscribe(2, "t", credit=1000))
            assert [type(await reader.receive()) for _ in range(2)] == [Welcome, Subscribed]
        writer.send(*[Publish(2 + number, "t", batch(b"")) for number in range(100)])
        await settled()
        assert (
            server.broker.registry.get_or_create("t", 0).retained.ring.next_offset < 20
        )  # the others wait until it reads
        server.stop()
        await settled()
        writer.read_on()
        assert [type(frame) for frame in await writer.rest()] == [
            Welcome,
            *[Published] * 100,
            GoAway,
        ]
        for reader in (early, late):
            *messages, last = await reader.rest()
            assert [frame.base for frame in messages] == list(range(100))
            assert isinstance(last, GoAway)
        for peer in (early, writer, late):
            peer.end()


async def test_a_connection_that_is_accepted_as_the_broker_stops_is_told_too():
    """CLO-2: its task begins when all others were told."""
    peer = Peer()

    class LastMoment:
        host, port = "memory", 0

        async def serve(self, handler, tasks, turn):
            self.accept = lambda: tasks.start_soon(handler, peer.stream, "memory:0")
            await anyio.sleep_forever()

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            self.accept()

    server = Server(Broker(BrokerSettings(drain_timeout=2 * GUARD)), LastMoment())
    async with run(server):
        await anyio.wait_all_tasks_blocked()
        server.stop()
        assert isinstance(await peer.receive(), GoAway)
        peer.end()


@pytest.mark.parametrize("step", ["_apply_next", "go_away"])
@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_the_last_requests_of_one_client_ends_nobody_elses(step, monkeypatch):
    """P5, CLO-2: the others are told, and the stop ends in order."""
    settings = BrokerSettings(drain_timeout=0.1)
    server = await Server.listening("127.0.0.1", 0, settings)
    async with run(server), client_of(server) as victim, client_of(server) as other:
        for client in (victim, other):
            await client.ask(Ping(2))
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(next(iter(server._connections)), step, lambda *_, **__: 1 / 0)
        server.stop()
        assert isinstance(await other.receive(), GoAway)
        assert await other.receive() is None
    assert not server.broker.managers


async def test_a_stopped_broker_accepts_no_connections(monkeypatch):
    """CLO-2: from the first moment, also while others are still there."""
    server = await Server.listening("127.0.0.1", 0)
    async with run(server), client_of(server) as client:
        server.stop()
        assert isinstance(await client.receive(), GoAway)
        with pytest.raises(OSError, match=r".+"):
            await anyio.connect_tcp(server.host, server.port)


async def test_stop_before_run_is_an_end_at_once():
    server = await Server.listening("127.0.0.1", 0)
    server.stop()
    with anyio.fail_after(GUARD):
        await server.run()
    with pytest.raises(OSError, match=r".+"):
        await anyio.connect_tcp(server.host, server.port)


async def test_a_stuck_peer_delays_the_end_by_the_drain_timeout_at_most(watch):
    """CLO-2: it holds unread messages, more than all buffers take."""
    settings = BrokerSettings(drain_timeout=0.1, write_timeout=2 * GUARD)
    server = await Server.listening("127.0.0.1", 0, settings)
    async with run(server), await anyio.connect_tcp(server.host, server.port) as stream:
        stuck = Client(stream)
        await stuck.send(Hello(1), Subscribe(2, "t", credit=10_000, credit_bytes=2**30))
        async with client_of(server) as client:
            for _ in range(32):
                await client.ask(Publish(2, "t", batch(b"p" * 2**20)))
        await watch.until(lambda: len(server.broker.managers) == 1)
        await anyio.wait_all_tasks_blocked()
        (subscription,) = next(iter(server.broker.registry)).readers
        assert subscription.ahead > 0
        server.stop()
        await watch.until(lambda: not server.broker.managers)
    assert not server._connections


@pytest.mark.parametrize(("is_durable", "seconds"), [(False, 1 + 7), (True, 1 + 3 * 7)])
async def test_how_long_a_stop_may_take_is_known_before_it(tmp_path, is_durable, seconds):
    """CLO-2, DUR-6: with durable topics, the disk has as long as the clients, before and after."""
    data = tmp_path if is_durable else None
    server = await Server.listening("127.0.0.1", 0, BrokerSettings(drain_timeout=7), data=data)
    assert server.longest_stop_s == seconds
    await server.aclose()


async def test_a_cancelled_server_stops_gracefully_too():
    """CLO-2."""
    server = await Server.listening("127.0.0.1", 0)
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def serve_until_cancelled():
                with scope:
                    await server.run()

            tasks.start_soon(serve_until_cancelled)
            async with client_of(server) as client:
                await client.send(Ping(2))
                assert await client.receive() == Pong(2, 0)
                scope.cancel()
                assert isinstance(await client.receive(), GoAway)
                assert await client.receive() is None
    assert scope.cancelled_caught
    assert not server.broker.managers


async def test_a_cancelled_server_closes_all_it_listens_on():
    raw = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    server = Server(Broker(), Listener(raw))
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert [item.fileno() for item in raw] == [-1, -1]


async def test_the_block_of_a_running_broker_raises_what_it_raises(monkeypatch):
    monkeypatch.setattr(connection_module, "LINGER_SECONDS", 0.01)
    with pytest.raises(ZeroDivisionError):
        async with running_broker() as server, client_of(server):
            raise ZeroDivisionError


async def test_serve_runs_until_cancelled():
    with anyio.move_on_after(0.05) as scope:
        await serve(port=0)
    assert scope.cancelled_caught
