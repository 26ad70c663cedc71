"""Logins: whose rights a call has, and what failing ones cost."""

import base64

import anyio
import grpc
import pytest
from callers import ANA, BEA, basic, bearer, gateway, refused

from zaichik import AuthFailed, Credentials
from zaichik.apps.grpc import broker_pb2 as pb
from zaichik.apps.grpc import gateway as gateway_module
from zaichik.apps.grpc.logins import address_of, credentials_of
from zaichik.apps.users.failures import OF_ONE
from zaichik.server.access.access_gate import in_memory

pytestmark = pytest.mark.anyio

RULES = """
user ana
allow all ana/*
allow describe $broker
allow delete $broker
user bea
allow all bea/*
allow describe ana/*
"""


def users_of(connections):
    """Whose connections the gateway has, besides its own."""
    return sorted(it["user"] for it in connections if it["client"] == "zaichik grpc")


async def failed(running):
    """How many logins have failed at the broker."""
    return (await running.client.describe())["access"].get("login_failed", 0)


async def describe(running, metadata=None, topic="ana/a"):
    return await running.stub.Describe(pb.DescribeRequest(topic=topic), metadata=metadata)


async def test_each_call_has_the_rights_of_its_user():
    async with gateway(RULES) as running:
        ana, bea = bearer(ANA), bearer(BEA)
        await running.publish("ana/a", b"x", metadata=ana)
        await running.publish("bea/b", b"x", metadata=bea)
        denied = grpc.StatusCode.PERMISSION_DENIED
        await refused(running.publish("ana/a", b"x", metadata=bea), denied, "FORBIDDEN")
        call = running.stub.Subscribe(
            iter([pb.SubscribeRequest(start=pb.Start(topic="ana/a"))]), metadata=bea
        )
        await refused(call.read(), denied, "FORBIDDEN")
        described = pb.DescribeRequest(topic="bea/b")
        await running.stub.Describe(described, metadata=bea)
        hidden = running.stub.Describe(described, metadata=ana)
        await refused(hidden, grpc.StatusCode.NOT_FOUND, "NO_SUCH_TOPIC")


async def test_a_name_belongs_to_its_user():
    """ACC-3: the same name of another user is another one."""
    rules = "user *\nallow all *\n"
    async with (
        gateway(rules) as running,
        running.reading("t", name="it", metadata=bearer(ANA)) as first,
        running.reading("t", name="it", metadata=bearer(BEA)) as second,
    ):
        await running.publish("t", b"x", metadata=bearer(ANA))
        assert await first.payloads(1) == await second.payloads(1) == [b"x"]


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", f"Bearer zk_{'c' * 43}", f"Token {ANA}", ANA]
)
async def test_whoever_is_not_known_is_unauthenticated(authorization):
    metadata = (("authorization", authorization),) if authorization else ()
    async with gateway(RULES) as running:
        call = running.stub.Describe(pb.DescribeRequest(topic="ana/a"), metadata=metadata)
        error = await refused(call, grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED")
        assert ANA not in error.details()
        # In a stream, too.
        await refused(
            running.stub.Publish(metadata=metadata).read(),
            grpc.StatusCode.UNAUTHENTICATED,
            "AUTH_FAILED",
        )


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("CreateTopic", pb.CreateTopicRequest(topic="ana/a")),
        ("DeleteTopic", pb.DeleteTopicRequest(topic="ana/a")),
        ("Describe", pb.DescribeRequest(topic="ana/a")),
        ("Publish", pb.PublishRequest(topic="ana/a", messages=[pb.NewMessage(payload=b"x")])),
        ("Subscribe", pb.SubscribeRequest(start=pb.Start(topic="ana/a"))),
    ],
)
async def test_all_five_calls_answer_alike(call, request_):
    async with gateway(RULES) as running:
        method = getattr(running.stub, call)
        is_stream = call in {"Publish", "Subscribe"}
        for metadata, status, code in (
            ((), grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED"),
            (bearer(BEA), grpc.StatusCode.PERMISSION_DENIED, "FORBIDDEN"),
        ):
            # What bea may only describe is not hidden.
            if call == "Describe" and metadata:
                status, code = grpc.StatusCode.NOT_FOUND, "NO_SUCH_TOPIC"
            # One that the gateway ends before it has written anything writes nothing: the
            # library's client would take that for a fault of its own now and then.
            if is_stream and not metadata:
                waiting = method().read()
            elif is_stream:
                waiting = method(iter([request_]), metadata=metadata).read()
            else:
                waiting = method(request_, metadata=metadata)
            await refused(waiting, status, code)


async def test_a_call_without_a_login_never_gets_the_rights_of_the_gateway():
    """Which is logged in as ana. And it does not count as a failure at the broker."""
    async with gateway(RULES) as running:
        call = running.stub.CreateTopic(pb.CreateTopicRequest(topic="ana/a"))
        await refused(call, grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED")
        assert await failed(running) == 0


async def test_calls_of_one_user_share_a_connection():
    """Also those that come at the same time, before there is one."""
    async with gateway(RULES) as running:
        async with anyio.create_task_group() as tasks:
            for metadata in [bearer(ANA), bearer(BEA)] * 5:
                tasks.start_soon(describe_in_vain, running, metadata)
        assert users_of(await running.client.connections()) == ["ana", "bea"]


async def describe_in_vain(running, metadata):
    await refused(describe(running, metadata), grpc.StatusCode.NOT_FOUND, "NO_SUCH_TOPIC")


async def test_without_access_control_all_calls_share_one():
    async with gateway() as running, running.reading("a"), running.reading("b"):
        assert users_of(await running.client.connections()) == [""]


async def test_failed_logins_are_limited_before_the_broker_limits_this_machine():
    """A login that works has still to wait then; one that is connected already has not."""
    guess = bearer(f"zk_{'c' * 43}")
    async with gateway(RULES) as running:
        await running.publish("ana/a", b"x", metadata=bearer(ANA))
        for _ in range(OF_ONE):
            await refused(describe(running, guess), grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED")
        exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
        await refused(describe(running, guess), exhausted, "TOO_MANY_CONNECTIONS")
        await refused(describe(running, bearer(BEA)), exhausted, "TOO_MANY_CONNECTIONS")
        await describe(running, bearer(ANA))
        assert await failed(running) == OF_ONE
        running.broker.clock.advance(1)
        await describe(running, bearer(BEA))


async def test_only_so_many_users_are_connected(monkeypatch):
    monkeypatch.setattr(gateway_module, "MOST_USERS", 1)
    async with gateway(RULES) as running, running.reading("ana/a", metadata=bearer(ANA)):
        call = describe(running, bearer(BEA))
        await refused(call, grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CONNECTIONS")


async def test_a_user_who_is_disconnected_for_good_can_log_in_again():
    """And nobody else notices."""
    async with (
        gateway(RULES, options={"reconnect": 0}) as running,
        running.reading("ana/a", metadata=bearer(ANA)) as ana,
        running.reading("bea/b", metadata=bearer(BEA)) as bea,
    ):
        for connection in await running.client.connections():
            if (connection["client"], connection["user"]) == ("zaichik grpc", "ana"):
                await running.client.disconnect(connection["connection"])
        await refused(ana.read(), grpc.StatusCode.UNAVAILABLE, "DISCONNECTED")
        await running.publish("ana/a", b"x", metadata=bearer(ANA))
        await running.publish("bea/b", b"x", metadata=bearer(BEA))
        assert await bea.payloads(1) == [b"x"]


# -- what is in the metadata -----------------------------------------------------------------------


def test_the_metadata_has_a_token_or_a_user_and_a_password():
    other = ("user-agent", "x")
    assert credentials_of([other]) is None
    assert credentials_of([other, *bearer(ANA)]) == Credentials(secret=ANA)
    assert credentials_of([("authorization", f"bearer  {ANA} ")]) == Credentials(secret=ANA)
    assert credentials_of(basic("ana", "a:b é")) == Credentials("ana", "a:b é")
    assert credentials_of(basic("ana", "")) == Credentials("ana", "")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Digest x",
        ANA,
        "Basic",
        "Basic !",
        "Basic YW5h",
        "Basic OnNlY3JldA==",
        f"Basic {base64.b64encode(bytes([255, 58, 65])).decode()}",
    ],
)
def test_anything_else_is_no_login(value):
    with pytest.raises(AuthFailed) as caught:
        credentials_of([("authorization", value)])
    assert not value or value.split()[-1] not in str(caught.value) or value == "Basic"


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:5000", "127.0.0.1:5000"),
        ("ipv6:%5B2001:db8::1%5D:5000", "2001:db8::1:5000"),
        ("ipv6:[::1]:5000", "::1:5000"),
        ("ipv6:%5B::ffff:192.0.2.1%5D:5000", "192.0.2.1:5000"),
        ("unix:/run/socket", ""),
        ("", ""),
    ],
)
def test_failures_are_counted_by_the_address_of_a_caller(peer, address):
    assert address_of(peer) == address


async def test_a_login_that_is_too_long_is_none():
    """And the broker is not asked."""
    async with gateway(RULES) as running:
        call = describe(running, bearer("x" * 2000))
        await refused(call, grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED")
        assert await failed(running) == 0


async def test_a_login_that_ends_ends_the_calls_that_it_has():
    """ACC-4. And no other ones."""
    async with (
        gateway(RULES) as running,
        running.reading("ana/a", metadata=bearer(ANA)) as ana,
        running.reading("bea/b", metadata=bearer(BEA)) as bea,
    ):
        without_bea = in_memory({"ana": ANA}, RULES, running.broker.clock)
        running.broker.gate.access = without_bea.access
        running.broker.sweep()
        await refused(bea.read(), grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED")
        await running.publish("ana/a", b"x", metadata=bearer(ANA))
        assert await ana.payloads(1) == [b"x"]
        call = describe(running, bearer(BEA))
        await refused(call, grpc.StatusCode.UNAUTHENTICATED, "AUTH_FAILED")
