"""A ledger over kills: of the broker, of the gateway, and of clients, in random order.

Broker and gateway are programs that are killed with SIGKILL and started again. What a client was
told is stored must be there in the end, and must reach a session that was kept: QoS 1 at least
once, each will exactly once, and of retained messages the newest.
"""

import random
import signal
import subprocess
import sys
from collections import Counter

import anyio
import pytest
from mqtt_clients import V5, MqttClient

import zaichik
from zaichik.apps.mqtt.packets import (
    ConnAck,
    Connect,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    Will,
)
from zaichik.learn.server import free_port
from zaichik.net.socket_stream import SocketStream

pytestmark = [pytest.mark.anyio, pytest.mark.gateways, pytest.mark.unmeasured]

GUARD = 200
MESSAGES = 240
BETWEEN_KILLS = 30
GONE = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
KEPT = Properties(session_expiry_interval=3600)


class Programs:
    """A broker with a folder, and its gateway.

    Attributes:
        port: the gateway's.
    """

    def __init__(self, folder) -> None:
        self.port = free_port()
        self.broker_port = free_port()
        self._folder = folder
        self._running = {}

    def start(self, name: str) -> None:
        """Start one of the two, and wait until it is ready."""
        words = ["serve", "--port", str(self.broker_port), "--data", str(self._folder)]
        if name == "gateway":
            address = f"127.0.0.1:{self.broker_port}"
            words = ["mqtt", "--port", str(self.port), "--connect", address]
        words += ["--json"] if name == "gateway" else []
        process = subprocess.Popen(
            [sys.executable, "-m", "zaichik", *words, "--log-level", "error"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline()
        self._running[name] = process

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End one of the two."""
        process = self._running.pop(name, None)
        if process is not None:
            process.send_signal(number)
            process.wait()
            process.stdout.close()

    def kill_all(self) -> None:
        """End both."""
        for name in ("gateway", "broker"):
            self.kill(name)


class Lasting:
    """A client that comes back whenever its connection ends.

    Args:
        programs: has the gateway's port.
        name: its session's.
    """

    def __init__(self, programs, name, will=None) -> None:
        self._programs = programs
        self._name = name
        self._will = will
        self.client = None
        self._stream = None

    async def connect(self) -> None:
        """Returns when it is connected."""
        while True:
            await self.cut()
            try:
                self._stream = await SocketStream.connect("127.0.0.1", self._programs.port)
                self.client = MqttClient(self._stream, V5)
                await self.client.send(
                    Connect(V5, self._name, clean_start=False, will=self._will, properties=KEPT)
                )
                answer = await self.client.expect(ConnAck)
                if not answer.reason_code.is_failure:
                    return
            except GONE:
                # The gateway is being started again.
                await anyio.sleep(0.05)

    async def cut(self) -> None:
        """End its connection without a goodbye."""
        if self._stream is not None:
            await self._stream.aclose()


async def write(ledger, programs, writer) -> None:
    """Publish all messages, each again until it is acknowledged."""
    await writer.connect()
    for number in range(MESSAGES):
        message = Publish(f"log/{number}", b"%d" % number, qos=1, packet_id=number + 1)
        state = Publish("state", b"%d" % number, qos=1, retain=True, packet_id=number + 1)
        for one in (message, state):
            while True:
                try:
                    await writer.client.send(one)
                    assert await writer.client.expect(PubAck) == PubAck(number + 1)
                    break
                except (*GONE, AssertionError):
                    await writer.connect()
        if number % BETWEEN_KILLS == BETWEEN_KILLS - 1:
            await ledger.disturb(programs, writer)


async def read(ledger, reader) -> None:
    """Take what comes, until all of it has come."""
    await reader.connect()
    while len(ledger.seen) < MESSAGES:
        try:
            packet = await reader.client.read()
            if isinstance(packet, Publish):
                ledger.seen[int(packet.payload)] += 1
                if packet.qos == 2:
                    await reader.client.send(PubRec(packet.packet_id))
                else:
                    await reader.client.send(PubAck(packet.packet_id))
            elif isinstance(packet, PubRel):
                await reader.client.send(PubComp(packet.packet_id))
        except GONE:
            await reader.connect()


class Ledger:
    """What happened.

    Attributes:
        seen: how often each message came.
        wills: those whose clients were cut off.
    """

    def __init__(self, seed) -> None:
        self.seen = Counter()
        self.wills = []
        self._random = random.Random(seed)
        self._readers = []

    def disturbs(self, reader) -> None:
        """Have a client be cut off now and then."""
        self._readers.append(reader)

    async def disturb(self, programs, writer) -> None:
        """Kill something at random."""
        name = f"will/{len(self.wills)}"
        doomed = Lasting(programs, name, Will(name, name.encode(), qos=1))
        await doomed.connect()
        self.wills.append(name)
        match self._random.choice(["gateway", "both", "broker", "clients"]):
            case "gateway":
                programs.kill("gateway")
                programs.start("gateway")
            case "both":
                programs.kill_all()
                programs.start("broker")
                programs.start("gateway")
            case "broker":
                programs.kill("broker")
                programs.start("broker")
            case "clients":
                for client in (writer, *self._readers):
                    await client.cut()
        await doomed.cut()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_nothing_that_was_acknowledged_is_lost(seed, tmp_path):
    programs, ledger = Programs(tmp_path), Ledger(seed)
    try:
        programs.start("broker")
        programs.start("gateway")
        reader = Lasting(programs, "reader")
        await reader.connect()
        await reader.client.send(Subscribe(1, (Subscription("log/#", 2),)))
        await reader.client.expect(SubAck)
        ledger.disturbs(reader)
        with anyio.fail_after(GUARD):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, ledger, reader)
                writer = Lasting(programs, "writer")
                await write(ledger, programs, writer)
        for client in (reader, writer):
            await client.cut()
        assert sorted(ledger.seen) == list(range(MESSAGES))
        await check_topics(ledger, programs)
    finally:
        programs.kill_all()


async def check_topics(ledger, programs) -> None:
    """Each will is in the topic once, and the newest retained message in its table."""
    # What is to be published by then has been: one who is stopped in order publishes the rest.
    programs.kill("gateway", signal.SIGTERM)
    async with zaichik.connect(port=programs.broker_port) as client:
        end = (await client.topic("mqtt"))["next_offset"]
        async with client.subscribe("mqtt", until=end) as subscription:
            keys = Counter([message.key async for message in subscription])
        assert {name: keys[name.encode()] for name in ledger.wills} == dict.fromkeys(
            ledger.wills, 1
        )
        end = (await client.topic("mqtt/retained"))["next_offset"]
        async with client.subscribe("mqtt/retained", until=end) as subscription:
            rows = {message.key: message.payload async for message in subscription}
    assert rows[b"state"].endswith(b"%d" % (MESSAGES - 1))
