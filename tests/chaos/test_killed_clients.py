"""kill -9 of clients in the middle of a frame, one after the other: nothing of them is left."""

import random
import signal
import subprocess
import sys

import anyio
import pytest
from ledger import Ledger, numbered
from pair import healthy_pair
from served import MIB, eventually

import zaichik
from zaichik_protocol import Batch, Hello, Ping, Publish, Subscribe, encode

pytestmark = pytest.mark.anyio

TOPIC, PONG = "victims", 0x87
# A client without any library, so that hundreds of them start in seconds. It sends what standard
# input begins with, reads until its Ping is answered; then it sends the rest, says so, and waits
# for its end.
CLIENT = """
import signal, socket, struct, sys
port, first = map(int, sys.argv[1:])
data = sys.stdin.buffer.read()
broker = socket.create_connection(("127.0.0.1", port))
broker.sendall(data[:first])
stream = broker.makefile("rb")
while True:
    (length,) = struct.unpack("<I", stream.read(4))
    if stream.read(length)[0] == 0x87:
        break
broker.sendall(data[first:])
print("half", flush=True)
signal.pause()
"""


def kill_one(port, writer, cut):
    """Start a client, and kill it when half of its last frame is sent; the numbers it was
    acknowledged.
    """
    numbers = range(9)
    whole = [
        encode(Hello(1, client=writer)),
        *(encode(Subscribe(2 + index, TOPIC)) for index in range(3)),
    ]
    for first in numbers[::3]:
        payloads = [numbered(writer, first + index) for index in range(3)]
        whole.append(encode(Publish(10 + first, TOPIC, Batch.of_columns([b""] * 3, payloads))))
    data = b"".join([*whole, encode(Ping(PONG, PONG))])
    half = encode(Publish(99, TOPIC, Batch.of_columns([b""], [numbered(writer, 99, size=1000)])))
    command = [sys.executable, "-I", "-S", "-c", CLIENT, str(port), str(len(data))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(data + half[: 1 + int(cut * (len(half) - 1))])
        process.stdin.close()
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    return numbers


@pytest.mark.parametrize("clients", [10, pytest.param(500, marks=pytest.mark.soak)])
async def test_nothing_is_left_of_clients_that_are_killed(broker, clients):
    """CLO-3, CLO-1: what was acknowledged stays, half a frame does not, and the counts return to
    where they were.
    """
    random_ = random.Random(clients)
    ledger = Ledger()
    async with zaichik.connect(port=broker.port) as client:
        await client.create_topic(TOPIC, retention_ttl="forever", capacity=clients * 10)
        async with healthy_pair(broker.port) as pair:
            before, descriptors = await client.describe(), broker.descriptors
            for index in range(clients):
                writer = f"victim-{index}"
                cut = random_.random()
                numbers = await anyio.to_thread.run_sync(kill_one, broker.port, writer, cut)
                ledger.acknowledge(writer, numbers)
                if index == 4:
                    resident = broker.resident  # what is there only once is there by now
            await pair.goes_on()
            await eventually(lambda: broker.descriptors == descriptors)
            after = await client.describe()
        assert (after["connections"], after["subscriptions"]) == (
            before["connections"],
            before["subscriptions"],
        )
        assert broker.resident - resident < 8 * MIB
        async with client.subscribe(TOPIC, until=clients * 9) as subscription:
            async for message in subscription:
                ledger.take(message)
        (state,) = await client.topics(TOPIC)
    ledger.check()
    assert ledger.came == ledger.acknowledged == state["stored"] == clients * 9
