"""A client of MQTT that sends packets and reads them; and a gateway, and a broker, to talk to.

Their clock stands still, and moves when a test says so.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from brokers import GUARD

import zaichik
from zaichik.apps.mqtt.gateway import Gateway, WebSockets
from zaichik.apps.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PacketDecoder,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
    Version,
    encode,
)
from zaichik.apps.mqtt.state import Options
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream

V4, V5 = Version.MQTT_3_1_1, Version.MQTT_5
START_US = 1_700_000_000_000_000
TOKEN = f"zk_{'a' * 43}"
# A session that is kept for an hour.
KEPT = {"properties": Properties(session_expiry_interval=3600)}


class MqttClient:
    """One connection."""

    def __init__(self, stream: SocketStream, version: Version) -> None:
        self.version = version
        self._stream = stream
        self._decoder = PacketDecoder(2**28, version)
        self._packets: list[Packet] = []
        self._packet_id = 0

    async def send(self, *items: Packet | bytes) -> None:
        """Send these, in one piece."""
        pieces = [item if isinstance(item, bytes) else encode(item, self.version) for item in items]
        await self._stream.send(b"".join(pieces))

    async def read(self) -> Packet:
        """The next packet."""
        while not self._packets:
            self._packets = self._decoder.feed(await self._stream.receive())
        return self._packets.pop(0)

    async def expect(self, kind: type[Packet]) -> Packet:
        """The next packet, which is of that type; what is to be forgotten before it is."""
        packet = await self.read()
        while isinstance(packet, PubRel) and kind is not PubRel:
            await self.send(PubComp(packet.packet_id))
            packet = await self.read()
        assert type(packet) is kind, packet
        return packet

    async def message(self) -> Publish:
        """The next packet is a message; it is acknowledged."""
        message = await self.expect(Publish)
        await self.acknowledge(message)
        return message

    async def acknowledge(self, message: Publish) -> None:
        """Do what its QoS asks for."""
        if message.qos == 1:
            await self.send(PubAck(message.packet_id))
        elif message.qos == 2:
            await self.send(PubRec(message.packet_id))
            while PubRel(message.packet_id) not in self._packets:
                self._packets += self._decoder.feed(await self._stream.receive())
            self._packets.remove(PubRel(message.packet_id))
            await self.send(PubComp(message.packet_id))

    async def payloads(self, count: int) -> list[bytes]:
        """Of so many messages, which come one after the other."""
        return [(await self.message()).payload for _ in range(count)]

    def next_id(self) -> int:
        """An identifier that is free."""
        self._packet_id += 1
        return self._packet_id

    async def subscribe(self, *filters: str, **options) -> SubAck:
        """Subscribe, with QoS 2 unless said otherwise; the answer."""
        properties = options.pop("properties", Properties())
        subscriptions = tuple(Subscription(one, **({"qos": 2} | options)) for one in filters)
        await self.send(Subscribe(self.next_id(), subscriptions, properties))
        return await self.expect(SubAck)

    async def unsubscribe(self, *filters: str) -> UnsubAck:
        """Unsubscribe; the answer."""
        await self.send(Unsubscribe(self.next_id(), filters))
        return await self.expect(UnsubAck)

    async def publish(self, topic: str, payload: bytes = b"", qos: int = 1, **options) -> Packet:
        """Publish a message, and wait until it is acknowledged; the first answer."""
        packet_id = 0
        if qos:
            packet_id = self.next_id()
        await self.send(Publish(topic, payload, qos=qos, packet_id=packet_id, **options))
        if qos == 1:
            return await self.expect(PubAck)
        if qos == 2:
            answer = await self.expect(PubRec)
            if not answer.reason_code.is_failure:
                await self.send(PubRel(packet_id))
                await self.expect(PubComp)
            return answer
        await self.ping()
        return None

    async def ping(self) -> None:
        """Returns when what was sent before is carried out."""
        await self.send(PingReq())
        await self.expect(PingResp)

    async def nothing(self) -> bool:
        """True if nothing has come that was not read."""
        await self.send(PingReq())
        return await self.read() == PingResp()

    async def disconnect(self, *arguments, **options) -> None:
        """Say goodbye, and wait for the end."""
        await self.send(Disconnect(*arguments, **options))
        assert await self.ended()

    async def break_off(self) -> None:
        """Leave without a goodbye; returns when the gateway has noticed."""
        await self._stream.send_eof()
        assert await self.ended()

    async def cut(self) -> None:
        """Leave without a goodbye, whatever was still to come."""
        await self._stream.send_eof()
        await self.ended()

    async def ended(self) -> bool:
        """True, when the gateway has closed the connection in an orderly way."""
        try:
            while True:
                self._packets += self._decoder.feed(await self._stream.receive())
        except anyio.EndOfStream:
            return not self._packets

    async def reason(self) -> int:
        """Of the DISCONNECT that is the last packet; the connection has ended then."""
        packet = await self.expect(Disconnect)
        await self._stream.send_eof()
        assert await self.ended()
        return packet.reason_code


class Running:
    """A gateway, its broker, and what is between them.

    Attributes:
        broker, client, gateway, clock: see above.
    """

    def __init__(self, broker, client, gateway, clock, endpoint) -> None:
        self.broker, self.client, self.gateway, self.clock = broker, client, gateway, clock
        self.endpoint = endpoint
        self.stop = lambda: None
        self.stopped = anyio.Event()
        self._settled = 0

    @property
    def state(self):
        """The gateway's."""
        return self.gateway.state

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[SocketStream]:
        """A connection on which nothing was sent."""
        async with await SocketStream.connect("127.0.0.1", self.gateway.port) as stream:
            yield stream

    @asynccontextmanager
    async def connecting(
        self, client_id: str = "", version: Version = V5, **options
    ) -> AsyncIterator[tuple[MqttClient, ConnAck]]:
        """A client, and the answer to its CONNECT."""
        async with self.stream() as stream:
            client = MqttClient(stream, version)
            await client.send(Connect(version, client_id, **options))
            yield client, await client.expect(ConnAck)

    @asynccontextmanager
    async def connected(
        self, client_id: str = "", version: Version = V5, **options
    ) -> AsyncIterator[MqttClient]:
        """A client whose CONNECT was answered well."""
        async with self.connecting(client_id, version, **options) as (client, answer):
            assert not answer.reason_code.is_failure
            yield client

    async def publish(self, topic: str, payload: bytes = b"", qos: int = 1, **options) -> None:
        """Publish a message as some other client."""
        async with self.connected() as client:
            await client.publish(topic, payload, qos, **options)
            await client.disconnect()

    async def settle(self) -> None:
        """Returns when what was published before has been handed out."""
        self._settled += 1
        topic = f"settle/{self._settled}"
        async with self.connected() as client:
            await client.subscribe(topic)
            await self.publish(topic)
            await client.message()
            await client.disconnect()

    async def pass_time(self, seconds: float) -> None:
        """Move the clock, and have what is due happen."""
        self.clock.advance(seconds)
        await self.gateway.sweep()

    async def stored(self, topic: str = "mqtt") -> list[zaichik.Message]:
        """What the broker has of a topic."""
        state = await self.client.topic(topic)
        if state is None or not state["next_offset"]:
            return []
        async with self.client.subscribe(topic, until=state["next_offset"]) as subscription:
            return [message async for message in subscription]

    @asynccontextmanager
    async def another(self, *, is_kill: bool = False) -> AsyncIterator["Running"]:
        """The gateway ends, and another one takes its place; if killed, it stores nothing."""
        if is_kill:
            self.state.is_over = True
        self.stop()
        await self.stopped.wait()
        async with _gateway(self.broker, self.client, self.clock, self.endpoint) as running:
            yield running


@asynccontextmanager
async def _gateway(
    broker, client, clock, endpoint, websockets=None, tls=None, **options
) -> AsyncIterator[Running]:
    gateway = await Gateway.listening(
        client,
        endpoint,
        "127.0.0.1",
        0,
        clock,
        options=Options(**options),
        tls=tls,
        websockets=websockets,
    )
    running = Running(broker, client, gateway, clock, endpoint)
    ready = anyio.Event()

    async def run() -> None:
        with anyio.CancelScope() as scope:
            running.stop = scope.cancel
            await gateway.run(ready.set)
        running.stopped.set()

    async with gateway, BackgroundTasks() as tasks:
        tasks.group.start_soon(run)
        await ready.wait()
        yield running


@asynccontextmanager
async def mqtt_gateway(
    rules: str = "",
    data: Path | None = None,
    users: dict | None = None,
    settings: dict | None = None,
    *,
    is_forgetful: bool = False,
    websockets: WebSockets | None = None,
    tls: ssl.SSLContext | None = None,
    **options,
) -> AsyncIterator[Running]:
    """One that runs. With rules, it logs in as `gateway`; the options are the gateway's.

    The topic of messages keeps all of them, unless it is to be as the gateway makes it.
    """
    clock = zaichik.ManualClock(START_US)
    broker_options = {"clock": clock, "settings": zaichik.BrokerSettings(**(settings or {}))}
    login = ""
    if data is not None:
        broker_options["data"] = data
    if rules:
        broker_options |= {"users": {"gateway": TOKEN} | (users or {}), "rules": rules}
        login = f"zaichik://{TOKEN}@"
    with anyio.fail_after(GUARD):
        async with zaichik.running_broker(**broker_options) as broker:
            endpoint = zaichik.endpoint(f"{login}127.0.0.1:{broker.port}")
            async with zaichik.connect(endpoint) as client:
                # So that a test can see what was stored, whoever has read it by then.
                if not is_forgetful:
                    await client.create_topic("mqtt", retention_ttl="forever")
                async with _gateway(
                    broker, client, clock, endpoint, websockets, tls, **options
                ) as running:
                    yield running


def without_id(message: Publish) -> Publish:
    """A message with packet identifier 0, for comparisons."""
    return replace(message, packet_id=0)
