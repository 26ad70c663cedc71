"""Retention: how long a topic keeps its messages for those who come late.

    python examples/retention.py
    python examples/retention.py --connect 127.0.0.1:8889

Two topics get the same news while nobody listens. One keeps messages for a minute, and a reader that subscribes
within that minute still gets them. The other has no retention: a reader that comes late has missed them.

The broker that the example starts goes by a clock that moves only when told to. So a minute passes at once.
"""

import anyio
from at_broker import Address, arguments, at_broker, fresh

import zaichik

NEWS = [b"it rains", b"it pours", b"it is dry again"]
MINUTE = 60.0  # seconds


async def main(address: Address | None) -> None:
    """Publish the news, and come late."""
    clock = zaichik.ManualClock()
    async with at_broker(address, clock) as client:
        kept, fleeting = fresh("kept"), fresh("fleeting")
        await client.create_topic(kept, retention_ttl=MINUTE)
        await client.create_topic(fleeting, retention_ttl=0)
        for line in NEWS:
            await client.publish(kept, line)
            await client.publish(fleeting, line)

        assert await come_late(client, kept) == NEWS
        assert await come_late(client, fleeting) == []

        if address is None:
            clock.advance(MINUTE)
            print("a minute passes")
            assert await come_late(client, kept) == []


async def come_late(client: zaichik.Client, topic: str) -> list[bytes]:
    """What a new subscription still gets. It ends by itself where the news ended, also if none is left."""
    async with client.subscribe(topic, until=len(NEWS)) as subscription:
        found = [message.payload async for message in subscription]
    print(f"{topic}: a latecomer gets {found}")
    return found


if __name__ == "__main__":
    anyio.run(main, arguments(__doc__).parse_args().connect)
