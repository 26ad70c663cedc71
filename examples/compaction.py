"""Compaction: a key's first message keeps its repeats out, for as long as the topic's window.

    python examples/compaction.py
    python examples/compaction.py --connect 127.0.0.1:8889

Somebody rings the front door a hundred times, and then the back door once. With a window of an hour the broker
stores one message for each door. It tells the publisher how many it has dropped, and a reader sees just two.
"""

from datetime import timedelta

import anyio
from at_broker import Address, arguments, at_broker, fresh


async def main(address: Address | None) -> None:
    """Ring a hundred times, be heard once."""
    async with at_broker(address) as client:
        topic = fresh("doorbell")
        await client.create_topic(topic, compaction_window=timedelta(hours=1))
        async with client.subscribe(topic, until=2) as subscription:
            async with client.producer(topic) as producer:
                for number in range(100):
                    await producer.send(b"ring %d" % number, key="front door")
                await producer.send(b"ring", key="back door")
            print(f"published 101 messages: {producer.stored} stored, {producer.compacted} compacted")
            arrived = [(message.key, message.payload) async for message in subscription]

    print(f"arrived: {arrived}")
    # Offsets are given to stored messages only. Two were stored, so nothing can follow these two.
    assert (producer.stored, producer.compacted) == (2, 99)
    assert arrived == [(b"front door", b"ring 0"), (b"back door", b"ring")]


if __name__ == "__main__":
    anyio.run(main, arguments(__doc__).parse_args().connect)
