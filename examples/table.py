"""A table: a topic that keeps the last message of each key, so that a latecomer gets what is true now.

    python examples/table.py
    python examples/table.py --connect 127.0.0.1:8889

Three prices are published; one of them changes, and one is deleted. A reader that comes late gets the newest
message of each key, and nothing of what was before: three messages instead of five. The deletion is a message,
too, a tombstone. The broker keeps it for a day. A reader that was away for longer is told that it has missed
deletions, and starts over.

With durable=True the table outlives the broker, if that was started with a folder (zaichik serve --data DIR).
"""

import anyio
from at_broker import Address, arguments, at_broker, fresh

import zaichik

# None deletes the key.
CHANGES = [("apple", b"30"), ("pear", b"45"), ("plum", b"20"), ("apple", b"35"), ("pear", None)]


async def main(address: Address | None) -> None:
    """Change prices, and come late."""
    async with at_broker(address) as client:
        topic = fresh("prices")
        await client.create_topic(topic, table=True)
        for fruit, price in CHANGES:
            await client.publish(topic, price, key=fruit)
        prices = await come_late(client, topic)

    print(f"prices now: {prices}")
    assert prices == {b"plum": b"20", b"apple": b"35"}


async def come_late(client: zaichik.Client, topic: str) -> dict[bytes | None, bytes]:
    """Read the table once. Without `until`, every change would follow."""
    prices: dict[bytes | None, bytes] = {}
    async with client.subscribe(topic, until=len(CHANGES), events=True) as subscription:
        async for event in subscription:
            match event:
                case zaichik.Message(is_tombstone=True):
                    print(f"offset {event.offset}: {event.key!r} was deleted")
                    prices.pop(event.key, None)
                case zaichik.Message():
                    print(f"offset {event.offset}: {event.key!r} costs {event.payload!r}")
                    prices[event.key] = event.payload
                case zaichik.DeletionsMissed():
                    prices.clear()
                    await subscription.start_over()
    return prices


if __name__ == "__main__":
    anyio.run(main, arguments(__doc__).parse_args().connect)
