"""One send, one receive: a client that reads its own topic.

Run it after "Type: one send, one receive".
"""

import os

import anyio
from batches import encode_batch
from client import HELLO, Client


async def main() -> None:
    port = int(os.environ["PORT"])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        client = Client(stream)
        await client.ask("hello", **HELLO)
        wanted = {"name": b"", "start": 1, "value": 0, "epoch": 0}
        limits = {"until": 2**64 - 1, "credit": 9, "credit_bytes": 999}
        await client.ask("subscribe", topic=b"orders", **wanted, **limits)
        batch = encode_batch([(b"alice", b"two apples")])
        number = {"producer": 0, "sequence": 0}
        await client.ask("publish", topic=b"orders", batch=batch, **number)
        print("published, and answered")
        try:
            print("Pong:", (await client.ask("ping", value=7)).value)
        except Exception as error:
            print("where a Pong was due:", repr(error)[:60])


anyio.run(main)
