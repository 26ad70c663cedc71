"""What a connection and a server do with a gate: nothing is carried out before it has let somebody
in.
"""

import logging
from collections import Counter
from contextlib import asynccontextmanager

import anyio
import pytest
from conversation import batch, broker_with
from limit_probes import MemoryListener
from peer import GUARD, MemoryStream, Peer, connected_to, settled

from zaichik.core.rights import ANYBODY
from zaichik.server.gate import OPEN
from zaichik.server.places import Place
from zaichik.server.server import Server
from zaichik_protocol import (
    Error,
    ErrorCode,
    GoAway,
    GoAwayCode,
    Hello,
    Ping,
    Pong,
    Publish,
    Refused,
    Subscribe,
    Subscribed,
    Welcome,
    encode,
)

pytestmark = pytest.mark.anyio

TOKEN = "zk_token"


class Ana:
    name, how, publishable = "ana", "token:1", ()
    has_left = False

    def may(self, action, topic):
        return topic != "secret"

    def denied(self, action, topic):
        pass

    def is_ended(self, now_us):
        return self.has_left


class OneToken:
    """A gate that knows one user, and waits before it answers until it is told to."""

    def __init__(self):
        self.user, self.asked, self.gone, self.counters = Ana(), [], [], Counter()
        self.may_answer = anyio.Event()
        self.secured = []
        self.here = []

    def arrive(self, place, most):
        self.here.append((place, most))

    def depart(self, place):
        self.here = [(other, most) for other, most in self.here if other is not place]

    async def secure(self, stream, place):
        self.secured.append(stream)
        return stream

    def left(self, place):
        self.gone.append(place.peer)

    async def login(self, hello, stream, place):
        assert stream in self.secured
        self.asked.append((hello.secret, place.peer))
        await self.may_answer.wait()
        if hello.secret != TOKEN:
            raise Refused(ErrorCode.AUTH_FAILED, "the broker does not accept these credentials")
        return self.user

    def recheck(self, now_us):
        return False

    def may_read(self, user, topic):
        return True


@asynccontextmanager
async def running(server):
    """The server, stopped at the end of the block."""
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            yield
            server.stop()


async def gone(peer):
    """Wait until the broker has done with a peer, which has left."""
    peer.end()
    await peer.stream.until(lambda: peer.stream.is_closed)
    await settled()


async def test_a_connection_is_its_users_once_it_has_logged_in():
    gate, peer = OneToken(), Peer(greeting=False)
    gate.may_answer.set()
    broker = broker_with()
    async with connected_to(broker, peer, gate=gate):
        peer.send(Hello(1, auth=1, secret=TOKEN), Subscribe(2, "secret"), Subscribe(3, "open"))
        told = [await peer.receive() for _ in range(3)]
        assert [type(it) for it in told] == [Welcome, Error, Subscribed]
        assert told[1].code == ErrorCode.FORBIDDEN
        (manager,) = broker.managers.values()
        assert (manager.user.name, manager.client) == ("ana", "user:ana")
        assert gate.asked == [(TOKEN, "peer 0")]
    assert broker.memory.used == 0


async def test_nothing_that_comes_with_a_hello_is_carried_out_before_the_answer():
    """hello.5: and if the login is refused, nothing at all."""
    gate, peer = OneToken(), Peer(greeting=False)
    broker = broker_with()
    async with connected_to(broker, peer, gate=gate):
        peer.send(Hello(1, auth=1, secret="wrong"), Publish(2, "t", batch(b"x")))
        await settled()
        assert not peer.stream.sent
        gate.may_answer.set()
        (refusal,) = await peer.rest()
        assert (refusal.code, refusal.fatal) == (ErrorCode.AUTH_FAILED, True)
        assert (refusal.id, refusal.request_type) == (1, Hello.TYPE)
        await gone(peer)
        assert len(broker.registry) == 0
    assert broker.ends["AUTH_FAILED"] == 1


@pytest.mark.parametrize("when", ["before the goodbye", "after the goodbye", "never"])
@pytest.mark.parametrize("secret", [TOKEN, "wrong"])
@pytest.mark.parametrize(
    "second", [Hello(2), Ping(2), Publish(2, "t", batch(b"x"))], ids=["Hello", "Ping", "Publish"]
)
async def test_a_stop_lets_nobody_in_whose_login_waits(second, secret, when):
    """CLO-2, hello.5: what came with the Hello is not carried out, and a second Hello is none."""
    gate, peer = OneToken(), Peer(greeting=False)
    broker = broker_with()
    async with connected_to(broker, peer, gate=gate) as (connection,):
        peer.send(Hello(1, auth=1, secret=secret), second)
        await settled()
        with broker.scheduler.between_turns():
            connection.finish_requests(broker.clock.now_us() + 1_000_000)
        if when == "before the goodbye":
            gate.may_answer.set()
            await settled()
        with broker.scheduler.between_turns():
            connection.go_away()
        if when == "after the goodbye":
            gate.may_answer.set()
        (last,) = await peer.rest()
        if when == "before the goodbye" and secret != TOKEN:
            assert (type(last), last.code) == (Error, ErrorCode.AUTH_FAILED)
        else:
            assert (type(last), last.code) == (GoAway, GoAwayCode.STOPPING)
        (manager,) = broker.managers.values()
        assert (manager.greeted, len(broker.registry)) == (False, 0)
        await gone(peer)


async def test_a_peer_that_leaves_while_it_is_asked_is_gone():
    gate, peer = OneToken(), Peer(greeting=False)
    broker = broker_with()
    async with connected_to(broker, peer, gate=gate):
        peer.send(Hello(1, auth=1, secret=TOKEN))
        peer.end()
        await settled()
        gate.may_answer.set()
        await gone(peer)
        assert not broker.managers


async def test_what_is_said_goes_over_the_stream_that_the_gate_returns():
    class Wrapping(OneToken):
        async def secure(self, stream, place):
            assert stream is outer.stream
            self.secured.append(inner.stream)
            return inner.stream

    inner, outer = Peer(greeting=False), Peer(greeting=False)
    gate = Wrapping()
    gate.may_answer.set()
    async with connected_to(broker_with(), outer, gate=gate):
        inner.send(Hello(1, auth=1, secret=TOKEN), Ping(2, 7))
        assert [type(await inner.receive()) for _ in range(2)] == [Welcome, Pong]
        assert not outer.stream.sent


async def test_a_peer_that_does_not_speak_tls_is_told_so_in_plain():
    """tls.2."""

    class Strict(OneToken):
        async def secure(self, stream, place):
            raise Refused(ErrorCode.TLS_REQUIRED, "this port speaks TLS")

    peer = Peer()
    broker = broker_with()
    async with connected_to(broker, peer, gate=Strict()):
        (refusal,) = await peer.rest()
        assert (refusal.code, refusal.fatal) == (ErrorCode.TLS_REQUIRED, True)
        await gone(peer)
    assert broker.ends["TLS_REQUIRED"] == 1


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(20)], ids=["nothing", "HTTP", "nonsense"]
)
async def test_a_peer_that_goes_without_a_hello_is_charged(sent):
    gate, peer = OneToken(), Peer(greeting=False)
    async with connected_to(broker_with(), peer, gate=gate):
        if sent:
            peer.send_bytes(sent)
        await gone(peer)
        assert gate.gone == ["peer 0"]


async def test_a_sweep_ends_the_connections_of_a_login_that_has_ended():
    """ACC-4."""
    gate, peers = OneToken(), [Peer(greeting=False), Peer(greeting=False)]
    gate.may_answer.set()
    server = Server(broker_with(), MemoryListener(peers), gate=gate)
    async with running(server):
        for peer in peers:
            peer.send(Hello(1, auth=1, secret=TOKEN))
            assert isinstance(await peer.receive(), Welcome)
        server.sweep()
        gate.user.has_left = True
        server.sweep()
        for peer in peers:
            (goodbye,) = await peer.rest()
            assert (type(goodbye), goodbye.code) == (GoAway, GoAwayCode.CREDENTIALS_ENDED)
            peer.end()


async def test_a_gate_that_fails_to_look_after_its_files_ends_nothing(caplog):
    class Broken(OneToken):
        def recheck(self, now_us):
            raise OSError("no such file")

    server = Server(broker_with(), MemoryListener([]), gate=Broken())
    async with running(server):
        server.sweep()
        assert "logins and rights" in caplog.text


async def test_an_open_gate_lets_everybody_in():
    stream = MemoryStream()
    closed = []
    place = Place("somebody:1", lambda: closed.append(1))
    OPEN.arrive(place, 0)
    assert not place.is_beyond
    assert await OPEN.secure(stream, place) is stream
    OPEN.left(place)
    OPEN.depart(place)
    assert not closed
    assert OPEN.may_read("", "t")
    assert await OPEN.login(Hello(1), stream, place) is ANYBODY
    assert OPEN.recheck(0) is False


@pytest.mark.parametrize("is_let_in", [True, False])
async def test_who_was_not_let_in_leaves_no_line_in_the_log(caplog, is_let_in):
    """Or else whoever reaches the port could fill the disk."""
    caplog.set_level(logging.INFO)
    gate, peer = OneToken(), Peer(greeting=False)

    async def secure(stream, place):
        raise anyio.EndOfStream

    if not is_let_in:
        gate.secure = secure
    async with connected_to(broker_with(), peer, gate=gate):
        await gone(peer)
    assert ("peer 0 connected" in caplog.text, "peer 0 '' disconnected" in caplog.text) == (
        is_let_in,
        is_let_in,
    )


class Beyond(OneToken):
    """All that come are beyond an allowance, until they log in."""

    def arrive(self, place, most):
        super().arrive(place, most)
        place.is_beyond = True

    async def login(self, hello, stream, place):
        user = await super().login(hello, stream, place)
        place.is_beyond = False
        return user


async def test_a_connection_that_ends_frees_its_place_however_it_ends():
    gate = OneToken()
    gate.may_answer.set()
    good, wrong, silent = (Peer(greeting=False) for _ in range(3))
    async with connected_to(broker_with(), good, wrong, silent, gate=gate):
        good.send(Hello(1, auth=1, secret=TOKEN))
        wrong.send(Hello(1, auth=1, secret="wrong"))
        await good.receive()
        await wrong.rest()
        # The place is also for the time in which a refusal is read.
        assert {place.peer for place, _ in gate.here} == {"peer 0", "peer 1", "peer 2"}
        for peer in (good, wrong, silent):
            await gone(peer)
        assert gate.here == []


async def test_an_address_may_have_three_quarters_of_all_connections_without_a_login():
    gate, peer = OneToken(), Peer(greeting=False)
    async with connected_to(broker_with(max_connections=100), peer, gate=gate):
        await settled()
        assert [most for _, most in gate.here] == [75]
        await gone(peer)


@pytest.mark.parametrize(
    "sent",
    [b"", b"\0", encode(Hello(1, auth=1, secret="wrong"))],
    ids=["nothing", "a part of a Hello", "a wrong Hello"],
)
async def test_who_loses_its_place_is_closed_at_once_and_counted(caplog, sent):
    """Also while it reads a refusal; and without a line in the log."""
    caplog.set_level(logging.INFO)
    gate, stranger, ana = Beyond(), Peer(greeting=False), Peer(greeting=False)
    gate.may_answer.set()
    broker = broker_with()
    async with connected_to(broker, stranger, ana, gate=gate):
        if sent:
            stranger.send_bytes(sent)
        await settled()
        assert not stranger.stream.is_closed
        (place,) = [place for place, _ in gate.here if place.peer == "peer 0"]
        place.lose()
        await stranger.stream.until(lambda: stranger.stream.is_closed)
        await settled()
        assert broker.ends["TURNED_AWAY"] == 1
        assert not broker.recent_ends
        assert not caplog.messages
        ana.send(Hello(1, auth=1, secret=TOKEN))
        assert isinstance(await ana.receive(), Welcome)
        assert len(broker.managers) == 1
        await gone(ana)


@pytest.mark.parametrize("secret", [TOKEN, "wrong"])
async def test_beyond_an_allowance_only_who_logs_in_is_in_the_log(caplog, secret):
    caplog.set_level(logging.INFO)
    gate, peer = Beyond(), Peer(greeting=False)
    gate.may_answer.set()
    broker = broker_with()
    async with connected_to(broker, peer, gate=gate):
        peer.send(Hello(1, auth=1, secret=secret, client="the one"))
        await peer.receive()
        await gone(peer)
    is_let_in = secret == TOKEN
    assert ("'the one' disconnected" in caplog.text) == is_let_in
    assert len(broker.recent_ends) == is_let_in
    assert broker.ends["TURNED_AWAY"] == (not is_let_in)
