"""A slow reader: it holds nobody up, and is told exactly how much it has missed.

    python examples/slow_reader.py
    python examples/slow_reader.py --connect 127.0.0.1:8889

The topic keeps the last 100 messages. A reader subscribes with a credit of 10: it may be sent that many before
it has dealt with the first. Then 1000 messages are published while it sleeps. It was sent 10, the last 100 are
still there, and it learns that the 890 in between are gone. Received and lagged add up to 1000: nothing is lost in
silence.
"""

import anyio
from at_broker import Address, arguments, at_broker, fresh

import zaichik

CAPACITY, CREDIT, PUBLISHED = 100, 10, 1000


async def main(address: Address | None) -> None:
    """Sleep through 1000 messages, then read."""
    async with at_broker(address) as client:
        topic = fresh("ticker")
        await client.create_topic(topic, capacity=CAPACITY, retention_ttl="forever")
        async with client.subscribe(topic, credit=CREDIT, until=PUBLISHED, events=True) as subscription:
            for number in range(PUBLISHED):
                await client.publish(topic, b"price %d" % number)
            print(f"published {PUBLISHED} messages while the reader was asleep")

            received = lagged = 0
            async for event in subscription:
                match event:
                    case zaichik.Message():
                        received += 1
                    case zaichik.Lagged():
                        lagged += event.count
                        print(f"after {received} messages: offsets {event.start} to {event.end - 1} are gone")

    print(f"received {received} + lagged {lagged} = published {PUBLISHED}")
    assert received + lagged == PUBLISHED
    assert lagged == PUBLISHED - CREDIT - CAPACITY


if __name__ == "__main__":
    anyio.run(main, arguments(__doc__).parse_args().connect)
