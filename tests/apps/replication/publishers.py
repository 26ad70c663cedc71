"""A program that publishes and lives through the loss of its broker: `publishers.py PORT COUNT`.

Each publisher publishes one message after another, acknowledged by Kafka, until standard input
ends. What each publish has come to is a line of JSON.
"""

import json
import sys

import anyio

import zaichik


async def publish(port, number, stopped):
    """Publish numbered messages."""
    count = 0
    async with zaichik.connect(port=port, reconnect=300) as client:
        while not stopped.is_set():
            told = {"payload": f"{number}:{count}"}
            count += 1
            try:
                result = await client.publish("orders", told["payload"].encode(), acked_by="kafka")
                told["offset"] = result.offset
            except zaichik.ZaichikError as error:
                told["error"] = type(error).__name__
            print(json.dumps(told), flush=True)


async def main(port, publishers):
    """Publish until standard input ends."""
    stopped = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for number in range(publishers):
            tasks.start_soon(publish, port, number, stopped)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        stopped.set()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), int(sys.argv[2]))
