"""The server: who reaches it, what bounds its connections, health and reflection."""

import socket
from contextlib import suppress

import anyio
import anyio.lowlevel
import grpc
import pytest
import trustme
from brokers import GUARD, HANG_UP, fake_broker
from callers import ANA, BEA, BrokerStub, Reading, bearer, gateway, refused
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

import zaichik
from zaichik.apps.grpc import broker_pb2 as pb
from zaichik.apps.grpc import gateway as gateway_module
from zaichik.apps.grpc import service
from zaichik.apps.grpc import unasked as unasked_module
from zaichik.apps.grpc.gateway import NAME, CannotServe, Options, serving
from zaichik_protocol import Describe, Described, Ping

pytestmark = pytest.mark.anyio

SERVING = health_pb2.HealthCheckResponse.SERVING
EVERYWHERE = "0.0.0.0"  # noqa: S104
# What a client of HTTP/2 greets with: the preface, and a frame with no settings.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


# -- who reaches it --------------------------------------------------------------------------------


def test_on_trio_it_is_refused_in_a_sentence():
    async def run():
        async with zaichik.running_broker() as broker, zaichik.connect(port=broker.port) as client:
            endpoint = zaichik.Endpoint("127.0.0.1", broker.port)
            with pytest.raises(CannotServe, match="runs on asyncio only"):
                async with serving(client, Options(endpoint)):
                    pass

    anyio.run(run, backend="trio")


@pytest.fixture
def certificate(tmp_path):
    """Key and certificate of this machine, and a context for clients that trust it."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return issued.private_key_pem.bytes(), chain, authority.cert_pem.bytes()


async def test_other_machines_do_not_reach_it_without_tls():
    async with gateway("user *\nallow all *\n") as running:
        options = Options(zaichik.Endpoint("127.0.0.1", running.broker.port), host=EVERYWHERE)
        with pytest.raises(CannotServe, match="add --tls-cert and --tls-key"):
            async with serving(running.client, options):
                pass


async def test_other_machines_do_not_reach_it_if_the_broker_asks_nobody(certificate):
    async with gateway() as running:
        options = Options(
            zaichik.Endpoint("127.0.0.1", running.broker.port),
            host=EVERYWHERE,
            certificate=certificate[:2],
        )
        with pytest.raises(CannotServe, match="asks nobody to log in"):
            async with serving(running.client, options):
                pass


async def test_with_tls_and_logins_they_do(certificate):
    options = {"host": EVERYWHERE, "certificate": certificate[:2]}
    async with gateway("user *\nallow all *\n", options) as running:
        trusted = grpc.ssl_channel_credentials(certificate[2])
        async with aio.secure_channel(f"127.0.0.1:{running.port}", trusted) as channel:
            stub = BrokerStub(channel)
            request = pb.CreateTopicRequest(topic="a")
            assert (await stub.CreateTopic(request, metadata=bearer(ANA))).created
            nobody = stub.CreateTopic(request)
            await refused(nobody, grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED")


async def test_it_listens_on_the_address_that_a_name_stands_for():
    async with gateway() as running:
        options = Options(zaichik.Endpoint("127.0.0.1", running.broker.port), host="localhost")
        async with (
            serving(running.client, options) as (host, port),
            aio.insecure_channel(f"{host}:{port}") as channel,
        ):
            assert host == "127.0.0.1"
            created = BrokerStub(channel).CreateTopic(pb.CreateTopicRequest(topic="a"))
            assert (await created).created


async def test_over_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    async with (
        gateway(options={"host": "::1"}) as running,
        aio.insecure_channel(f"[::1]:{running.port}") as channel,
    ):
        created = BrokerStub(channel).CreateTopic(pb.CreateTopicRequest(topic="a"))
        assert (await created).created


async def test_a_port_that_is_taken_is_an_error_of_the_system():
    """And two gateways never share one."""
    async with gateway() as running:
        endpoint = zaichik.Endpoint("127.0.0.1", running.broker.port)
        with pytest.raises(OSError, match="Address already in use"):
            async with serving(running.client, Options(endpoint, port=running.port)):
                pass


# -- what bounds it --------------------------------------------------------------------------------


async def test_one_call_too_many_is_refused_and_others_go_on(monkeypatch):
    monkeypatch.setattr(gateway_module, "MOST_CALLS", 2)
    async with gateway() as running, running.reading("a") as first, running.reading("b"):
        call = running.stub.Describe(pb.DescribeRequest(topic="a"))
        with pytest.raises(aio.AioRpcError) as caught:
            await call
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await running.client.publish("a", b"x")
        assert await first.payloads(1) == [b"x"]


async def test_no_user_can_hold_all_calls(monkeypatch):
    monkeypatch.setattr(gateway_module, "MOST_CALLS", 4)
    async with (
        gateway("user *\nallow all *\n") as running,
        running.reading("a", metadata=bearer(ANA)),
        running.reading("a", metadata=bearer(ANA)),
    ):
        request = pb.DescribeRequest(topic="a")
        call = running.stub.Describe(request, metadata=bearer(ANA))
        error = await refused(call, StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CONNECTIONS")
        assert "you have 2 calls, and others may need the 2 that are left" in error.details()
        assert (await running.stub.Describe(request, metadata=bearer(BEA))).subscriptions == 2
        async with running.reading("a", metadata=bearer(BEA)):
            pass


@pytest.mark.parametrize("kind", ["health", "reflection"])
async def test_strangers_cannot_hold_all_calls(kind, monkeypatch):
    """Of one address; asking once for the health is answered all the same."""
    monkeypatch.setattr(unasked_module, "MOST_CALLS", 4)
    async with gateway() as running:
        health = health_pb2_grpc.HealthStub(running.channel)
        info = reflection_pb2_grpc.ServerReflectionStub(running.channel).ServerReflectionInfo

        async def begun():
            if kind == "health":
                call = health.Watch(health_pb2.HealthCheckRequest())
            else:
                call = info()
                await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            assert await call.read() is not aio.EOF
            return call

        calls = [await begun() for _ in range(2)]
        with pytest.raises(aio.AioRpcError) as caught:
            await begun()
        assert caught.value.code() == StatusCode.RESOURCE_EXHAUSTED
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == 1
        for call in calls:
            call.cancel()
        with anyio.fail_after(GUARD):
            while True:
                try:
                    (await begun()).cancel()
                    break
                except aio.AioRpcError:
                    await anyio.lowlevel.checkpoint()


async def test_a_client_that_answers_no_ping_is_cut_off(monkeypatch):
    """It greets, and then says nothing for ever."""
    monkeypatch.setattr(gateway_module, "PING_MS", 50)
    monkeypatch.setattr(gateway_module, "PING_TIMEOUT_MS", 50)
    async with gateway() as running, await anyio.connect_tcp("127.0.0.1", running.port) as stream:
        await stream.send(GREETING)
        assert b"ping_timeout" in await everything(stream)


@pytest.mark.parametrize("beginning", [b"", GREETING[:10], GREETING[:24]])
async def test_a_client_that_does_not_greet_is_cut_off(monkeypatch, beginning):
    """It would take the place of another connection."""
    monkeypatch.setattr(gateway_module, "GREETING_MS", 50)
    async with gateway() as running, await anyio.connect_tcp("127.0.0.1", running.port) as stream:
        if beginning:
            await stream.send(beginning)
        await everything(stream)


PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0])


async def test_a_client_that_pings_too_often_is_told_to_go_away():
    async with gateway() as running, await anyio.connect_tcp("127.0.0.1", running.port) as stream:
        await stream.send(GREETING + 5 * (PING + b"it is me"))
        assert b"too_many_pings" in await everything(stream)


async def test_a_client_that_pings_no_more_often_than_it_may_stays(monkeypatch):
    """Even without a call."""
    monkeypatch.setattr(gateway_module, "LEAST_PING_MS", 0)
    async with gateway() as running, await anyio.connect_tcp("127.0.0.1", running.port) as stream:
        await stream.send(GREETING)
        received = b""
        for number in range(8):
            named = b"numero %d" % number
            await stream.send(PING + named)
            while named not in received:
                received += await stream.receive()
            received = b""


async def test_one_connection_too_many_is_closed_and_others_stay(monkeypatch):
    monkeypatch.setattr(gateway_module, "MOST_CONNECTIONS", 2)
    async with (
        gateway() as running,
        running.reading("a") as reading,
        await anyio.connect_tcp("127.0.0.1", running.port) as second,
        await anyio.connect_tcp("127.0.0.1", running.port) as third,
    ):
        await second.send(GREETING)
        assert await second.receive()
        assert await everything(third) == b""
        await running.client.publish("a", b"x")
        assert await reading.payloads(1) == [b"x"]


async def everything(stream):
    """What is received until the connection is closed."""
    received = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            received += await stream.receive()
    return received


async def test_a_bug_ends_its_call_only_and_is_logged(monkeypatch, caplog):
    def buggy(_):
        raise LookupError("secret")

    monkeypatch.setattr(service, "_start_at", buggy)
    async with gateway() as running:
        start = [pb.SubscribeRequest(start=pb.Start(topic="a"))]
        call = running.stub.Subscribe(iter(start))
        error = await refused(call.read(), grpc.StatusCode.INTERNAL, "INTERNAL")
        assert "secret" not in error.details()
        await running.publish("a", b"x")
    assert "a bug ended a call" in caplog.text
    assert "LookupError: secret" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("method", ["Publish", "Subscribe"])
@pytest.mark.parametrize("damaged", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0a\x05abc"])
async def test_bytes_that_are_no_request_are_the_callers_fault(method, damaged):
    """And no bug of the gateway, whose log they would fill."""
    async with gateway() as running:
        call = running.channel.stream_stream(f"/{NAME}/{method}")(iter([damaged]))
        error = await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        assert "no request" in error.details()


async def test_a_later_request_that_is_none_ends_the_call():
    async with gateway() as running:
        start = pb.SubscribeRequest(start=pb.Start(topic="a")).SerializeToString()
        call = running.channel.stream_stream(f"/{NAME}/Subscribe")(iter([start, b"\xff"]))

        async def all_of():
            while await call.read() is not aio.EOF:
                pass

        await refused(all_of(), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


async def test_fields_of_a_later_version_are_passed_over():
    later = b"\xfa\x7f\x03new"
    async with gateway() as running:
        await running.stub.CreateTopic(pb.CreateTopicRequest(topic="a"))
        describe = running.channel.unary_unary(f"/{NAME}/Describe")
        request = pb.DescribeRequest(topic="a").SerializeToString() + later
        assert pb.DescribeResponse.FromString(await describe(request)).epoch


# -- health and reflection -------------------------------------------------------------------------


async def healths(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    return {
        name: (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status
        for name in ("", NAME)
    }


async def test_it_is_healthy_as_long_as_the_broker_answers(monkeypatch, caplog):
    monkeypatch.setattr(gateway_module, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(gateway_module, "SILENCE_SECONDS", 0.05)
    caplog.set_level("INFO", "zaichik.grpc")
    frozen = anyio.Event()
    async with gateway() as running:
        assert set((await healths(running.channel)).values()) == {SERVING}
        ping = running.client.ping

        async def silent():
            await frozen.wait()
            await ping()

        monkeypatch.setattr(running.client, "ping", silent)
        while set((await healths(running.channel)).values()) != {NOT_SERVING}:
            await anyio.lowlevel.checkpoint()
        frozen.set()
        while set((await healths(running.channel)).values()) != {SERVING}:
            await anyio.lowlevel.checkpoint()
    lines = [record.getMessage() for record in caplog.records if "grpc" in record.name]
    assert lines == ["the broker does not answer", "the broker answers again"]


async def test_those_who_watch_are_told_when_it_stops(monkeypatch):
    """And it does not wait for them any longer."""
    monkeypatch.setattr(gateway_module, "GRACE_SECONDS", GUARD)
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        running = await tasks.start(run_until, stop)
        async with running.connected() as (_, channel):
            request = health_pb2.HealthCheckRequest(service=NAME)
            call = health_pb2_grpc.HealthStub(channel).Watch(request)
            assert (await call.read()).status == SERVING
            stop.set()
            assert (await call.read()).status == NOT_SERVING
            call.cancel()


async def run_until(stop, *, task_status):
    """A gateway, in a task of its own."""
    async with gateway() as running:
        task_status.started(running)
        await stop.wait()


async def test_what_is_open_when_it_stops_ends_as_unavailable(monkeypatch):
    monkeypatch.setattr(gateway_module, "GRACE_SECONDS", 0.0)
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        running = await tasks.start(run_until, stop)
        async with running.connected() as (stub, _), Reading(stub, pb.Start(topic="a")) as reading:
            stop.set()
            with pytest.raises(aio.AioRpcError) as caught:
                await reading.read()
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_reflection_tells_the_whole_declaration():
    """To the client that the library has for it, which runs in a thread."""
    async with gateway() as running:

        def ask():
            with grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel:
                database = ProtoReflectionDescriptorDatabase(channel)
                found = database.FindFileContainingSymbol(NAME)
                return set(database.get_services()), found

        services, found = await anyio.to_thread.run_sync(ask)
    assert services == {
        NAME,
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert found.SerializeToString() == pb.DESCRIPTOR.serialized_pb


# -- how it ends -----------------------------------------------------------------------------------


async def test_a_broker_that_is_gone_for_good_ends_it():
    ends = {
        Describe: lambda frame: Described(frame.id, 0, b'{"user": ""}'),
        Ping: lambda _: HANG_UP,
    }
    async with (
        fake_broker(ends) as broker,
        zaichik.connect(port=broker.port, reconnect=0) as client,
    ):
        endpoint = zaichik.Endpoint("127.0.0.1", broker.port)
        with pytest.raises(ExceptionGroup) as caught:
            async with serving(client, Options(endpoint)):
                await anyio.sleep_forever()
    assert caught.group_contains(zaichik.ConnectionLost)
