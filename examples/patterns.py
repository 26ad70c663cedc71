"""A pattern: one subscription to all topics of a kind, those that come later included.

    python examples/patterns.py
    python examples/patterns.py --connect 127.0.0.1:8889

Orders of each country are a topic. A reader of `orders.*` gets those of Germany, which were there before it, and
those of France from the first one, although the topic comes later. Nobody tells it of France but the broker. At
the end the topic of France is deleted, and the reader is told that, too.
"""

import anyio
from at_broker import Address, arguments, at_broker, fresh

import zaichik


async def main(address: Address | None) -> None:
    """Read the orders of all countries."""
    async with at_broker(address) as client:
        orders = fresh("orders")
        await client.create_topic(f"{orders}.de", retention_ttl="forever")
        await client.publish(f"{orders}.de", b"two apples")
        async with client.subscribe_pattern(f"{orders}.*", events=True) as messages:
            await client.publish(f"{orders}.fr", b"three pears")
            countries = await read(client, messages)
        await client.delete_topic(f"{orders}.de")

    print(f"countries: {sorted(countries)}")
    assert countries == {"de", "fr"}


async def read(
    client: zaichik.Client, messages: zaichik.PatternSubscription[zaichik.Message | zaichik.PatternEvent]
) -> set[str]:
    """Returns the countries that have orders. The topic of France is deleted once it was read."""
    countries: set[str] = set()
    async for item in messages:
        country = item.topic.rpartition(".")[2]
        match item:
            case zaichik.Message():
                print(f"{country}, offset {item.offset}: {item.payload!r}")
                countries.add(country)
                if country == "fr":
                    await client.delete_topic(item.topic)
            case zaichik.TopicGone():
                print(f"{country} is gone: the next message to be read was offset {item.next}")
                break
    return countries


if __name__ == "__main__":
    anyio.run(main, arguments(__doc__).parse_args().connect)
