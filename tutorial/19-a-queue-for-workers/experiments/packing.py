"""A packer with the client that comes with zaichik."""

import os

import anyio

import zaichik

ORDERS = [b"two apples", b"a stone", b"three pears"]
PORT = int(os.environ["PORT"])
MAX_DELIVERIES = 2


async def pack(order: bytes) -> None:
    """Put it into a box, if it fits."""
    if order == b"a stone":
        raise ValueError("it doesn't fit into a box")
    print("packed", order.decode())


async def main() -> None:
    left = len(ORDERS)
    async with (
        zaichik.connect("127.0.0.1", PORT) as client,
        client.subscribe(
            "orders",
            name="packers",
            shared=True,
            max_deliveries=MAX_DELIVERIES,
        ) as work,
    ):
        await client.publish_batch("orders", [(None, o) for o in ORDERS])
        async for message in work:
            number = message.delivery
            try:
                async with message:
                    await pack(message.payload)
                left -= 1
            except ValueError as error:
                print(f"delivery {number} of order {message.offset}:", error)
                left -= number == MAX_DELIVERIES
            if not left:
                break


anyio.run(main)
