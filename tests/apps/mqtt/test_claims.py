"""A gateway that another one has replaced."""

import anyio
import pytest
from brokers import GUARD
from mqtt_clients import V5, MqttClient

import zaichik
from zaichik.apps.gateways.claim import NAME, AlreadyServed
from zaichik.apps.mqtt.gateway import Gateway
from zaichik.apps.mqtt.packets import ConnAck, Connect, Will
from zaichik.apps.mqtt.spaces import CLAIM
from zaichik.net.socket_stream import SocketStream

pytestmark = pytest.mark.anyio


async def test_it_ends_and_stores_nothing_over_what_the_other_one_has_read():
    """The will is the other one's to publish: its client is going to connect there."""
    with anyio.fail_after(GUARD):
        async with (
            zaichik.running_broker() as broker,
            zaichik.connect(port=broker.port) as other,
            zaichik.connect(port=broker.port) as client,
        ):
            await client.create_topic("mqtt", retention_ttl="forever")
            endpoint = zaichik.endpoint(f"127.0.0.1:{broker.port}")
            gateway = await Gateway.listening(
                client, endpoint, "127.0.0.1", 0, zaichik.SystemClock()
            )
            with pytest.raises(ExceptionGroup) as ended:
                await replaced(gateway, other)
            assert ended.group_contains(AlreadyServed)
            assert (await other.topic("mqtt"))["next_offset"] == 0


async def replaced(gateway, other) -> None:
    """Run a gateway with a client that has a will, until another client takes its name."""
    ready = anyio.Event()
    async with gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, ready.set)
        await ready.wait()
        async with await SocketStream.connect("127.0.0.1", gateway.port) as stream:
            device = MqttClient(stream, V5)
            await device.send(Connect(V5, "device", will=Will("will", b"gone", qos=1)))
            await device.expect(ConnAck)
            async with other.subscribe(CLAIM, name=NAME):
                await anyio.sleep_forever()
