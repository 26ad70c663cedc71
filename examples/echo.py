"""Echo: one connection publishes and subscribes, and every message comes back.

    python examples/echo.py
    python examples/echo.py --connect 127.0.0.1:8889

A broker does not care who published a message. A subscription gets every message of its topic, in the order in which
the broker stored them, and that includes what the same program has published.
"""

import anyio
from at_broker import Address, arguments, at_broker, fresh

WORDS = [b"one", b"two", b"three"]


async def main(address: Address | None) -> None:
    """Publish some words and hear them again."""
    async with at_broker(address) as client:
        topic = fresh("echo")
        heard = []
        # First subscribe, then publish: a topic keeps nothing for latecomers unless it is told to (see retention.py).
        async with client.subscribe(topic) as subscription:
            for word in WORDS:
                result = await client.publish(topic, word)
                message = await anext(subscription)
                heard.append(message.payload)
                print(f"published {word!r} to {topic}, got {message.payload!r} back, offset {message.offset}")
                assert message.offset == result.offset
        assert heard == WORDS


if __name__ == "__main__":
    anyio.run(main, arguments(__doc__).parse_args().connect)
