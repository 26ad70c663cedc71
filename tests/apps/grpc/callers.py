"""A gateway with a broker behind it, and callers of it that speak gRPC."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import pytest
from brokers import GUARD, START_US
from grpc import aio

import zaichik
from zaichik.apps.grpc import broker_pb2 as pb
from zaichik.apps.grpc.broker_pb2_grpc import BrokerStub
from zaichik.apps.grpc.gateway import Options, serving
from zaichik.apps.grpc.service import CODE

ANA = f"zk_{'a' * 43}"
BEA = f"zk_{'b' * 43}"
USERS = {"ana": ANA, "bea": BEA}


@dataclass
class Running:
    """A gateway, its broker, whose clock stands still, and the gateway's own client.

    Attributes:
        broker, client, port: see above; the gateway's port.
        stub: calls it, without a login.
        channel: its connection.
    """

    broker: zaichik.Server
    client: zaichik.Client
    port: int
    stub: BrokerStub
    channel: aio.Channel

    async def publish(self, topic, *payloads, key=None, **metadata):
        """Publish these as one batch; returns the answer."""
        messages = [pb.NewMessage(key=key, payload=payload) for payload in payloads]
        request = pb.PublishRequest(topic=topic, messages=messages)
        (response,) = [
            response async for response in self.stub.Publish(iter([request]), **metadata)
        ]
        return response

    def reading(self, topic, *, metadata=None, **start):
        """A call of Subscribe that has sent its start."""
        return Reading(self.stub, pb.Start(topic=topic, **start), metadata=metadata)

    @asynccontextmanager
    async def connected(self):
        """Another connection to the gateway: a stub and its channel."""
        async with aio.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            yield BrokerStub(channel), channel


class Reading:
    """A call of Subscribe, whose requests are sent one by one."""

    def __init__(self, stub, start, **options):
        self.call = stub.Subscribe(**options)
        self._start = start

    async def __aenter__(self):
        await self.call.write(pb.SubscribeRequest(start=self._start))
        response = await self.call.read()
        if response is not aio.EOF:
            self.started = response.started
        return self

    async def __aexit__(self, *_):
        self.call.cancel()

    async def read(self):
        """The next response: messages, or what else there is; None at the end."""
        response = await self.call.read()
        if response is aio.EOF:
            return None
        return getattr(response, response.WhichOneof("response"))

    async def payloads(self, count):
        """Of so many messages."""
        payloads = []
        while len(payloads) < count:
            payloads += [message.payload for message in (await self.read()).messages]
        return payloads

    async def commit(self, offset):
        """Say that everything up to this offset is done."""
        await self.call.write(pb.SubscribeRequest(commit=pb.Commit(offset=offset)))


async def refused(waiting, status, code):
    """Have a call fail with this status, and with the broker's code beside it; the error."""
    with pytest.raises(aio.AioRpcError) as caught:
        await waiting
    error = caught.value
    assert (error.code(), dict(error.trailing_metadata()).get(CODE)) == (status, code), error
    assert error.details().endswith(f" [{code}]")
    return error


def bearer(token):
    """The metadata of a call with this token."""
    return (("authorization", f"Bearer {token}"),)


def basic(user, password):
    """The metadata of a call with this password."""
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return (("authorization", f"Basic {text}"),)


@asynccontextmanager
async def gateway(
    rules: str = "", options: dict | None = None, **settings
) -> AsyncIterator[Running]:
    """One that runs; the settings are the broker's. With rules, the broker has users.

    The gateway itself is logged in as ana.
    """
    of_broker = {
        "clock": zaichik.ManualClock(START_US),
        "settings": zaichik.BrokerSettings(**settings),
    }
    if rules:
        of_broker |= {"users": USERS, "rules": rules}
    with anyio.fail_after(GUARD):
        async with zaichik.running_broker(**of_broker) as broker:
            endpoint = zaichik.Endpoint("127.0.0.1", broker.port)
            own = endpoint
            if rules:
                own = replace(endpoint, credentials=zaichik.Credentials(secret=ANA))
            async with (
                zaichik.connect(own, name="own") as client,
                serving(client, Options(endpoint, **options or {}), broker.clock) as (_, port),
                aio.insecure_channel(f"127.0.0.1:{port}") as channel,
            ):
                yield Running(broker, client, port, BrokerStub(channel), channel)
