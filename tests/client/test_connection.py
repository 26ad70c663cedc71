import logging
import socket
import struct
from contextlib import asynccontextmanager
from importlib.metadata import version

import anyio
import pytest
from brokers import GUARD, HANG_UP, fake_broker, fake_client, messages, real_broker
from peer import MemoryStream

import zaichik
from zaichik.client import connection as connection_module
from zaichik.client import opening
from zaichik.client.dialer import Dialer
from zaichik.client.endpoint import Endpoint
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import (
    Close,
    CreateTopic,
    Describe,
    Error,
    ErrorCode,
    GoAway,
    Hello,
    Lagged,
    Ping,
    Pong,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Welcome,
    encode,
)

pytestmark = pytest.mark.anyio


def silent(_frame):
    return None


def fatal(request_id, code=ErrorCode.INTERNAL):
    return Error(
        request_id, code, Ping.TYPE, "", 0, code.meaning, retryable=code.retryable, fatal=True
    )


# -- connecting ----------------------------------------------------------------------------------


async def test_the_broker_learns_the_clients_name():
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port, name="me") as client,
        client.subscribe("t"),
    ):
        (state,) = await client.subscriptions()
    assert state["client"] == "me"


async def test_a_client_without_a_name_gives_its_version():
    async with fake_client() as (broker, _):
        hello = await broker.has_received(Hello)
    assert hello.client == f"zaichik-python {version('zaichik')}"


async def test_an_unencodable_name_is_raised_unwrapped():
    with pytest.raises(ValueError, match="Hello cannot be encoded"):
        async with zaichik.connect(port=1, name="x" * 70_000):
            pass


async def test_the_brokers_greeting_is_kept():
    async with fake_client() as (_, client):
        assert (client.welcome.broker, client.welcome.boot, client.welcome.max_batch) == (
            "fake",
            7,
            8192,
        )


async def test_a_missing_broker_is_reported_with_the_next_step():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(zaichik.ConnectFailed, match=f"127.0.0.1:{port}.*zaichik serve"):
        async with zaichik.connect(port=port):
            pass


async def test_a_host_that_has_no_address_is_not_told_to_start_a_broker(monkeypatch):
    async def unknown(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(SocketStream, "connect", unknown)
    told = (
        r"^no broker answers at typo:8889 \(Name or service not known\)\. Is the host's name "
        r"right\?"
    )
    with pytest.raises(zaichik.ConnectFailed, match=told):
        async with zaichik.connect("typo"):
            pass


async def test_an_address_that_does_not_accept_in_time_is_no_broker(monkeypatch):
    async def never(*_):
        await anyio.sleep_forever()

    monkeypatch.setattr(SocketStream, "connect", never)
    with pytest.raises(zaichik.ConnectFailed, match="took too long"):
        async with zaichik.connect(timeout=0.001):
            pass


async def test_no_answer_to_hello_in_time_is_no_broker(monkeypatch):
    monkeypatch.setattr(Dialer, "greeting_seconds", lambda *_: 1)
    async with fake_broker({Hello: silent}) as broker:
        with pytest.raises(zaichik.ConnectFailed, match="does not answer as a zaichik broker"):
            async with zaichik.connect(port=broker.port, timeout=GUARD):
                pass


async def test_the_timeout_is_for_connecting_and_greeting_together(monkeypatch):
    connect, fail_after, given = SocketStream.connect, anyio.fail_after, []

    async def takes_20_seconds(*address):
        monkeypatch.setattr(anyio, "current_time", lambda: began + 20)
        return await connect(*address)

    def recorded(seconds):
        given.append(seconds)
        return fail_after(seconds)

    async with fake_broker() as broker:
        monkeypatch.setattr(SocketStream, "connect", takes_20_seconds)
        monkeypatch.setattr(anyio, "fail_after", recorded)
        began = anyio.current_time()
        async with zaichik.connect(port=broker.port, timeout=30):
            pass
    assert given == [30, pytest.approx(10, abs=1)]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 12, b""])
async def test_a_peer_that_answers_otherwise_is_not_a_broker(answer):
    async with fake_broker({Hello: lambda _: [answer, HANG_UP]}) as broker:
        with pytest.raises(
            zaichik.ConnectFailed, match=r"as a zaichik broker \([^][]+\) \[CONNECT_FAILED\]$"
        ):
            async with zaichik.connect(port=broker.port):
                pass


async def test_a_broker_that_is_full_says_so(monkeypatch):
    monkeypatch.setattr(
        "zaichik.server.server.is_loopback", lambda _: False
    )  # who may be an operator (CLO-5)
    async with real_broker(max_connections=1) as broker, zaichik.connect(port=broker.port):
        with pytest.raises(zaichik.TooManyConnections, match="the broker has 1 connection"):
            async with zaichik.connect(port=broker.port):
                pass


async def test_a_broker_that_is_stopping_cannot_be_connected_to():
    async with fake_broker(
        {Hello: lambda _: [GoAway(0, 1, "the broker is stopping"), HANG_UP]}
    ) as broker:
        with pytest.raises(zaichik.ConnectFailed, match="the broker is stopping"):
            async with zaichik.connect(port=broker.port):
                pass


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, zaichik.UnsupportedVersion),
        (ErrorCode.TOO_MANY_CONNECTIONS, zaichik.TooManyConnections),
        (ErrorCode.AUTH_FAILED, zaichik.AuthFailed),
    ],
)
async def test_a_refused_hello_raises_the_refusal(code, kind):
    async with fake_broker({Hello: lambda frame: fatal(frame.id, code)}) as broker:
        with pytest.raises(kind):
            async with zaichik.connect(port=broker.port):
                pass


async def test_a_hello_answered_with_something_else_is_an_error():
    async with fake_broker({Hello: lambda frame: Pong(frame.id, 0)}) as broker:
        with pytest.raises(
            zaichik.UnexpectedReply, match=r"answered Hello with Pong \[UNEXPECTED_REPLY\]$"
        ):
            async with zaichik.connect(port=broker.port):
                pass


async def test_cancelling_while_connecting_leaves_nothing_behind():
    async with fake_broker({Hello: silent}) as broker, anyio.create_task_group() as tasks:

        async def connect():
            async with zaichik.connect(port=broker.port):
                pass

        tasks.start_soon(connect)
        await broker.has_received(Hello)
        tasks.cancel_scope.cancel()


# -- requests and replies ------------------------------------------------------------------------


async def test_a_reply_of_another_type_is_an_error_and_the_connection_continues():
    async with fake_client({CreateTopic: lambda frame: Pong(frame.id, 0)}) as (_, client):
        with pytest.raises(zaichik.UnexpectedReply, match="answered CreateTopic with Pong"):
            await client.create_topic("t")
        await client.ping()


async def test_late_replies_to_cancelled_requests_are_ignored():
    async with fake_client({Ping: silent}) as (broker, client):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.ping)
                tasks.start_soon(client.ping)
                await broker.has_received(Ping, 2)
                scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"")
            await broker.has_received(Publish)
            await broker.send(*(Pong(ping.id, 0) for ping in broker.of(Ping)))
        assert scope.cancelled_caught
        assert client._connection._pending == {}


async def test_replies_go_to_the_requests_they_answer_in_whatever_order_they_come():
    async with fake_client({Publish: silent}) as (broker, client):
        results = {}

        async def publish(payload):
            results[payload] = await client.publish(
                payload.decode(), payload
            )  # of one topic they would gather

        async with anyio.create_task_group() as tasks:
            for payload in (b"a", b"b", b"c"):
                tasks.start_soon(publish, payload)
            await broker.has_received(Publish, 3)
            requests = {frame.id: frame.batch.payloads()[0] for frame in broker.of(Publish)}
            for request_id in sorted(requests, reverse=True):
                await broker.send(Published(request_id, ord(requests[request_id]), 1, 0, 0))
        assert {payload: result.offset for payload, result in results.items()} == {
            b"a": 97,
            b"b": 98,
            b"c": 99,
        }


async def test_a_refusal_of_a_request_without_a_reply_is_logged(caplog):
    async with fake_client() as (broker, client):
        await broker.send(Error(0, ErrorCode.NOT_IN_FLIGHT, 6, "next", 0, "too far"))
        await client.ping()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "too far" in record.getMessage()


async def test_events_of_a_subscription_that_was_left_are_dropped():
    async with fake_client() as (broker, client):
        async with client.subscribe("t"):
            pass
        await broker.messages(0, b"late", subscription=1)
        await client.ping()


# -- what no right broker sends ------------------------------------------------------------------

LOST = r"was lost: the bytes received are not zaichik's protocol: .*{} \[CONNECTION_LOST\]$"


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (messages(0, b"", subscription=0), "subscription 0, which there never was"),
        (messages(0, b"", subscription=2), "subscription 2, which there never was"),
        (Lagged(2, 0, 1), "subscription 2, which there never was"),
        (SubscriptionEnded(2, 1, 0, ""), "subscription 2, which there never was"),
        (messages(1, b"a"), "was sent offset 1 where 0 comes next"),
        (SubscriptionEnded(1, 1, 0, ""), "when the broker said that it has ended there"),
        (Published(77, 0, 1, 0, 0), "this Published answers no request"),
        (Published(0, 0, 1, 0, 0), "this Published answers no request"),
        (Pong(5, 0), "this Pong answers no request"),
        (Subscribed(1, 1, 0, 0, 0), "this Subscribed answers no request"),
    ],
)
async def test_a_frame_out_of_its_place_ends_the_connection(frame, problem):
    """It is not tried again: the next connection would be to the same broker, or proxy."""
    async with fake_client() as (broker, client):
        async with client.subscribe("t") as subscription:
            await broker.send(frame)
            with pytest.raises(zaichik.ConnectionLost, match=LOST.format(problem)):
                await anext(subscription)
        with pytest.raises(zaichik.ConnectionLost, match=LOST.format(problem)):
            await client.ping()
        assert len(broker.of(Hello)) == 1


async def test_what_came_before_such_a_frame_is_given_out():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        await broker.send(messages(0, b"a", b"b"), messages(0, b"a", b"b"))
        assert [(await anext(subscription)).payload for _ in range(2)] == [b"a", b"b"]
        with pytest.raises(zaichik.ConnectionLost, match="offset 0 where 2 comes next"):
            await anext(subscription)


@pytest.mark.parametrize(
    ("kind", "answer", "problem"),
    [
        (Publish, lambda f: Published(f.id + 1, 0, 1, 0, 0), "Published answers no request"),
        (Publish, lambda f: Published(f.id, 0, 2, 0, 0), "another number of messages than 1"),
        (Publish, lambda f: Published(f.id, 0, 0, 0, 0), "another number of messages than 1"),
        (
            Publish,
            lambda f: Published(f.id, 2**64 - 1, 2**32 - 1, 0, 0),
            "another number of messages than 1",
        ),
    ],
)
async def test_a_publish_that_is_answered_wrongly_is_not_confirmed(kind, answer, problem):
    async with fake_client({kind: answer}) as (_, client):
        with pytest.raises(zaichik.ConnectionLost, match=LOST.format(problem)):
            await client.publish("t", b"a")


async def test_a_batch_that_a_program_numbers_is_answered_as_the_first_time():
    """PUB-4: whatever it has under that number now."""
    duplicate = lambda f: Published(f.id, 3, 5, 0, 0, duplicate=True)  # noqa: E731
    async with fake_client({Publish: duplicate}) as (_, client):
        result = await client.publish_batch("t", [(None, b"a")], producer=7, number=0)
        assert (result.first_offset, result.stored) == (3, 5)


async def test_a_subscription_to_another_topic_than_asked_for_is_not_begun():
    """TOP-5."""
    async with fake_client({Subscribe: lambda f: Subscribed(f.id, 7, 0, 0, 0)}) as (_, client):
        with pytest.raises(zaichik.ConnectionLost, match=LOST.format("epoch 6, and was made of 7")):
            async with client.subscribe("t", epoch=6):
                pass


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_a_version_that_was_not_offered_is_not_spoken(version):
    """hello.9."""

    def welcome(frame):
        return Welcome(frame.id, version, 0, 7, 2**21, 8192, 2**20, 10**6, 0, "fake")

    problem = f"this Welcome is of version {version}, which was not offered"
    async with fake_broker({Hello: welcome}) as broker:
        with pytest.raises(zaichik.ConnectFailed, match=problem):
            async with zaichik.connect(port=broker.port):
                pass
    assert len(broker.of(Hello)) == 1


async def test_a_reply_before_the_next_greeting_is_no_reply():
    """open.3: over this socket, nothing else was asked yet."""
    async with fake_client({Ping: silent}) as (broker, client):

        def early(frame):
            return Pong(broker.of(Ping)[0].id, 0)

        broker.answers[Hello] = early
        raised = []

        async def ping():
            with pytest.raises(zaichik.ConnectionLost) as caught:
                await client.ping()
            raised.append(str(caught.value))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ping)
            await broker.has_received(Ping)
            await broker.hang_up()
    assert "this Pong comes before the Hello is answered" in raised[0]


async def test_a_reply_to_a_request_that_was_given_up_comes_once():
    async with fake_client({Ping: silent}) as (broker, client):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.ping)
                ping = await broker.has_received(Ping)
                scope.cancel()
        await broker.send(Pong(ping.id, 0))
        await client.publish("t", b"")
        await broker.send(Pong(ping.id, 0))
        with pytest.raises(zaichik.ConnectionLost, match="this Pong answers no request"):
            await client.ping()


async def test_what_was_given_up_is_not_remembered_over_another_socket():
    async with fake_client({Ping: silent}) as (broker, client):
        for _ in range(2):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.ping)
                    await broker.has_received(Ping)
                    scope.cancel()
            broker.received.clear()
            await broker.hang_up()
            await broker.has_received(Hello)
        await client.publish("t", b"")
        assert client._connection._abandoned == set()


# -- the short cut -------------------------------------------------------------------------------


@asynccontextmanager
async def in_memory():
    """A connection whose other end is a stream in memory, its tasks at work and idle."""
    stream = MemoryStream()
    connection = connection_module.BrokerConnection(Dialer(Endpoint("peer", 1)))
    with anyio.fail_after(GUARD):
        async with opening.run_connection(connection, stream):
            await anyio.wait_all_tasks_blocked()
            connection._transport.open()
            await anyio.wait_all_tasks_blocked()
            connection._pending.clear()  # of the Hello, which nobody answers
            stream.sent.clear()
            yield connection, stream


async def answered(connection, stream, *requests):
    """Ask all of these at the same time; what was sent, by pieces, once all are answered."""

    async def ask(request):
        assert await connection.request(request, Pong) == Pong(request.id, 0)

    stream.pieces.clear()
    async with anyio.create_task_group() as tasks:
        for request in requests:
            tasks.start_soon(ask, request)
        await anyio.wait_all_tasks_blocked()
        stream.room = 2**60
        stream.change()
        await anyio.wait_all_tasks_blocked()
        stream.incoming.append(b"".join(encode(Pong(request.id, 0)) for request in requests))
        stream.change()
    return stream.pieces


async def test_a_lone_request_is_sent_without_the_writer():
    async with in_memory() as (connection, stream):
        output = connection._transport._output
        assert await answered(connection, stream, Ping(1)) == [encode(Ping(1))]
        assert connection._transport._output is output
        assert not output.is_set()


async def test_requests_made_while_one_waits_are_sent_together():
    async with in_memory() as (connection, stream):
        requests = [Ping(number) for number in range(1, 9)]
        first, rest = await answered(connection, stream, *requests)
        assert sorted(
            [first, *(rest[at : at + len(first)] for at in range(0, len(rest), len(first)))]
        ) == sorted(map(encode, requests))


@pytest.mark.parametrize("room", range(21))
async def test_the_rest_of_a_partial_send_is_sent_before_later_frames(room):
    async with in_memory() as (connection, stream):
        stream.room = room
        connection.send_soon(Ping(7))  # waits for the writer, so nothing may overtake it
        connection.send_now(Ping(8))
        await anyio.wait_all_tasks_blocked()
        stream.room = 2**60  # there is room again, but the writer does not know yet
        connection.send_now(Ping(9))
        stream.change()
        await anyio.wait_all_tasks_blocked()
        assert stream.sent == b"".join(map(encode, (Ping(7), Ping(8), Ping(9))))
        stream.sent.clear()
        stream.room = room
        connection.send_now(Ping(1))
        connection.send_now(Ping(2))
        connection.send_soon(Ping(3))
        await anyio.wait_all_tasks_blocked()
        stream.room = 2**60
        stream.change()
        await anyio.wait_all_tasks_blocked()
        assert stream.sent == b"".join(map(encode, (Ping(1), Ping(2), Ping(3))))


# -- loss ----------------------------------------------------------------------------------------


async def waiting_tasks_are_woken(broker, client, expected, cause):
    """A request and two readers of a subscription wait; after `cause`, all raise `expected`."""
    errors = []

    async def told(function):
        with pytest.raises(expected) as caught:
            await function()
        errors.append(caught.value)

    async with client.subscribe("t") as subscription, anyio.create_task_group() as tasks:
        tasks.start_soon(told, client.ping)
        tasks.start_soon(told, client.ping)
        tasks.start_soon(told, subscription.__anext__)
        tasks.start_soon(told, subscription.__anext__)
        await broker.has_received(Ping, 2)
        await anyio.wait_all_tasks_blocked()
        await cause()
    assert len({id(error) for error in errors}) == 4, "everyone gets an exception of their own"
    with pytest.raises(expected):
        await client.ping()
    with pytest.raises(expected):
        async with client.subscribe("t"):
            pass
    return [str(error) for error in errors]


async def test_a_lost_connection_wakes_every_task_with_the_reason():
    async with fake_client({Ping: silent}, reconnect=0) as (broker, client):
        texts = await waiting_tasks_are_woken(
            broker, client, zaichik.ConnectionLost, broker.hang_up
        )
        lost = (
            f"the connection to 127.0.0.1:{broker.port} was lost: the broker closed it "
            "[CONNECTION_LOST]"
        )
        assert set(texts) == {lost}


async def test_malformed_bytes_end_the_connection():
    async with fake_client({Ping: silent}, reconnect=0) as (broker, client):
        texts = await waiting_tasks_are_woken(
            broker, client, zaichik.ConnectionLost, lambda: broker.send(b"\x00" * 12)
        )
        assert all("not zaichik's protocol" in text for text in texts)


async def test_a_frame_that_does_not_add_up_ends_the_connection():
    async with fake_client({Ping: silent}, reconnect=0) as (broker, client):
        pong_without_a_value = struct.pack("<IBBHI", 8, Pong.TYPE, 0, 0, 2)
        texts = await waiting_tasks_are_woken(
            broker, client, zaichik.ConnectionLost, lambda: broker.send(pong_without_a_value)
        )
        assert all("Pong" in text for text in texts)


async def test_a_goodbye_of_the_broker_is_the_reason():
    """CLO-2."""
    async with fake_client({Ping: silent}, reconnect=0) as (broker, client):

        async def go():
            await broker.send(GoAway(0, 1, "off to bed"))
            await broker.hang_up()

        texts = await waiting_tasks_are_woken(broker, client, zaichik.ConnectionLost, go)
        assert all(text.endswith("was lost: off to bed [STOPPING]") for text in texts)


async def test_requests_before_a_goodbye_are_still_answered():
    """CLO-2: a broker that stops sends GoAway, answers what it has received, and closes."""
    async with (
        fake_client({Publish: silent}, reconnect=0) as (broker, client),
        client.subscribe("t") as subscription,
        anyio.create_task_group() as tasks,
    ):

        async def publish():
            assert (await client.publish("t", b"a")).offset == 5

        tasks.start_soon(publish)
        request = await broker.has_received(Publish)
        await broker.send(GoAway(0, 1, "off to bed"))
        await broker.send(Published(request.id, 5, 1, 0, 0), messages(0, b"a"))
        await broker.hang_up()
        assert (await anext(subscription)).payload == b"a"
        with pytest.raises(zaichik.ConnectionLost, match="off to bed"):
            await anext(subscription)


async def test_a_real_broker_that_stops_is_reported_as_such():
    """CLO-2."""
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port, reconnect=0) as client,
        client.subscribe("t") as subscription,
    ):
        broker.stop()
        with pytest.raises(zaichik.ConnectionLost, match=r"the broker is stopping.* \[STOPPING\]$"):
            await anext(subscription)


async def test_a_goodbye_remains_the_reason_if_no_other_broker_comes():
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port, reconnect=0.05) as client,
        client.subscribe("t") as subscription,
    ):
        broker.stop()
        with pytest.raises(
            zaichik.ConnectionLost, match=r"stopping.* not replaced within 0\.05 s.* \[STOPPING\]$"
        ):
            await anext(subscription)


async def test_a_goodbye_is_no_reason_for_the_loss_of_the_next_socket():
    async with fake_client(
        {Ping: lambda _: [GoAway(0, 1, "off to bed"), HANG_UP]}, reconnect=0.05
    ) as (broker, client):
        broker.answers[Hello] = lambda _: HANG_UP
        with pytest.raises(
            zaichik.ConnectionLost, match=r"the broker closed it; .* \[CONNECTION_LOST\]$"
        ):
            await client.ping()


async def test_a_received_reply_counts_whatever_follows():
    async with (
        fake_client({Publish: silent}, reconnect=0) as (broker, client),
        anyio.create_task_group() as tasks,
    ):

        async def publish():
            assert (await client.publish("t", b"a")).offset == 5

        tasks.start_soon(publish)
        request = await broker.has_received(Publish)
        await broker.send(Published(request.id, 5, 1, 0, 0), fatal(0), GoAway(0, 1, "off to bed"))


async def test_a_fatal_error_without_a_request_fails_all_requests():
    async with fake_client({Ping: silent}, reconnect=0) as (broker, client):

        async def give_up():
            await broker.send(fatal(0, ErrorCode.SLOW_CONSUMER))
            await broker.hang_up()

        await waiting_tasks_are_woken(broker, client, zaichik.ConnectionLost, give_up)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(
            zaichik.ConnectionLost, match=r"did not read.* \[SLOW_CONSUMER\]$"
        ):  # the first reason is the one that counts
            await client.ping()


async def test_a_fatal_error_of_one_request_is_a_lost_connection_for_all_others():
    async with (
        fake_client({Ping: silent, Describe: silent}, reconnect=0) as (broker, client),
        anyio.create_task_group() as tasks,
    ):

        async def told(expected, function):
            with pytest.raises(expected):
                await function()

        tasks.start_soon(told, zaichik.Internal, client.ping)
        tasks.start_soon(told, zaichik.ConnectionLost, client.describe)
        request = await broker.has_received(Ping)
        await broker.has_received(Describe)
        await broker.send(fatal(request.id))


async def test_messages_received_before_the_loss_are_still_given_out():
    async with fake_client(reconnect=0) as (broker, client), client.subscribe("t") as subscription:
        await broker.messages(0, b"a", b"b")
        await broker.messages(2, b"c")
        await broker.hang_up()
        assert [(await anext(subscription)).payload for _ in range(3)] == [b"a", b"b", b"c"]
        with pytest.raises(zaichik.ConnectionLost):
            await anext(subscription)


def greet_and_reset(server: socket.socket) -> None:
    """A broker of blocking sockets that resets its client at the second request."""
    stream, _ = server.accept()
    hello = stream.recv(4096)
    request_id = hello[8:12]
    body = struct.pack("<HQQIIIII", 1, 0, 7, 2**21, 8192, 2**20, 10**6, 0) + b"\x04\x00fake"
    stream.sendall(struct.pack("<IBBH", 8 + len(body), 0x81, 0, 0) + request_id + body)
    stream.recv(4096)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


async def test_a_reset_wakes_every_waiting_task():
    with socket.create_server(("127.0.0.1", 0)) as server, anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, greet_and_reset, server)
            async with zaichik.connect(port=server.getsockname()[1], reconnect=0) as client:
                with pytest.raises(zaichik.ConnectionLost, match="it was reset"):
                    await client.ping()
                with pytest.raises(zaichik.ConnectionLost, match="it was reset"):
                    await client.publish("t", b"a")


class BrokenStream:
    """A stream that takes nothing, or the greeting only, and tells why only to who reads."""

    def __init__(self, *, greeting):
        self.takes_greeting = greeting
        self.broken = anyio.Event()

    def send_nowait(self, _data):
        if not self.takes_greeting:
            self.broken.set()
            raise anyio.BrokenResourceError
        self.takes_greeting = False

    def send_pieces_nowait(self, pieces):
        self.send_nowait(pieces)
        return []

    async def send_pieces(self, pieces):
        self.send_nowait(pieces)

    async def receive_each(self, _take):
        await self.broken.wait()
        raise anyio.EndOfStream

    async def aclose(self):
        await anyio.lowlevel.checkpoint()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()


@pytest.mark.parametrize("idle", [False, True])
async def test_a_failed_send_leaves_the_reason_to_the_reader(idle):
    """Whether the writer sends, or the request goes at once."""
    stream = BrokenStream(greeting=idle)
    connection = connection_module.BrokerConnection(Dialer(Endpoint("peer", 1)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection._transport.run, stream)
        if idle:
            await anyio.wait_all_tasks_blocked()
            connection._transport.is_open = True
        assert connection._transport._is_idle is idle
        with pytest.raises(zaichik.ConnectionLost, match="the broker closed it"):
            await connection.request(Ping(1), Pong)


# -- leaving -------------------------------------------------------------------------------------


async def test_leaving_sends_close_after_everything_else():
    """CLO-1."""
    async with fake_broker() as broker:
        async with zaichik.connect(port=broker.port) as client, client.subscribe("t"):
            pass
        assert [type(frame) for frame in broker.received] == [Hello, Subscribe, Unsubscribe, Close]


async def test_leaving_after_the_loss_does_not_wait():
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port, reconnect=0) as client,
            client.subscribe("t") as subscription,
        ):
            await broker.hang_up()
            with pytest.raises(zaichik.ConnectionLost):
                await anext(subscription)
        assert broker.of(Close) == []


async def test_leaving_is_possible_when_the_broker_hangs_up_on_close(caplog):
    caplog.set_level(logging.DEBUG)
    async with fake_broker({Close: lambda _: HANG_UP}) as broker, zaichik.connect(port=broker.port):
        pass
    assert "went away before saying goodbye" in caplog.text


@pytest.mark.parametrize("cancelled", [False, True])
async def test_leaving_a_broker_that_hangs_takes_close_seconds_at_most(monkeypatch, cancelled):
    monkeypatch.setattr(connection_module, "CLOSE_SECONDS", 0.01)
    async with fake_broker({Close: silent}) as broker:
        with anyio.fail_after(GUARD), anyio.CancelScope() as scope:
            async with zaichik.connect(port=broker.port):
                if cancelled:
                    scope.cancel()
        assert scope.cancelled_caught is cancelled


async def test_a_task_that_still_waits_when_the_block_ends_fails():
    errors = []
    async with anyio.create_task_group() as tasks, fake_broker({Publish: silent}) as broker:
        async with zaichik.connect(port=broker.port) as client:

            async def publish():
                with pytest.raises(zaichik.ConnectionLost) as caught:
                    await client.publish("t", b"")
                errors.append(caught.value)

            tasks.start_soon(publish)
            await broker.has_received(Publish)
        await anyio.wait_all_tasks_blocked()
        assert len(errors) == 1
        with pytest.raises(zaichik.ConnectionLost):
            await client.ping()


async def test_a_cancelled_block_still_lets_the_broker_finish(monkeypatch):
    """CLO-1: also what was only just sent is carried out."""
    monkeypatch.setattr(connection_module, "CLOSE_SECONDS", GUARD)
    async with real_broker() as broker:
        with anyio.CancelScope() as scope:
            async with (
                zaichik.connect(port=broker.port) as client,
                anyio.create_task_group() as tasks,
            ):
                for _ in range(30):
                    tasks.start_soon(client.publish_batch, "t", [(None, b"x" * 500_000)])
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        async with zaichik.connect(port=broker.port) as client:
            (topic,) = await client.topics()
    assert scope.cancelled_caught
    assert topic["stored"] == 30
