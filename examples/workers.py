"""Workers: they share the messages of a topic, and what fails is tried again, and listed at last.

    python examples/workers.py
    python examples/workers.py --connect 127.0.0.1:8889

Two workers of one name make five images smaller; each image goes to one of them. One is broken, so the block of its
message raises an exception: it comes again after a second. It may fail twice, then it is dead. The broker lists it,
with the reason, until somebody revives or forgets it.
"""

from contextlib import AbstractAsyncContextManager

import anyio
from at_broker import Address, arguments, at_broker, fresh

import zaichik

IMAGES = [b"cat", b"dog", b"", b"hare", b"fox"]
MAX_DELIVERIES = 2


async def main(address: Address | None) -> None:
    """Have two workers empty a queue, and look at what is dead."""
    left = set(range(len(IMAGES)))
    async with at_broker(address) as client:
        topic = fresh("images")
        await client.create_topic(topic, retention_ttl="forever", overflow="reject")
        await client.publish_batch(topic, [(None, image) for image in IMAGES])
        async with join(client, topic) as one, join(client, topic) as other, anyio.create_task_group() as tasks:
            for worker in (one, other):
                tasks.start_soon(work, worker, left, tasks.cancel_scope)
        (dead,) = await client.dead(topic, "thumbs")

    print(f"all but offset {dead.offset} are smaller now; it is dead: {dead.reason}")
    assert (dead.offset, dead.deliveries) == (2, MAX_DELIVERIES)


def join(client: zaichik.Client, topic: str) -> AbstractAsyncContextManager[zaichik.WorkSubscription]:
    """Returns one more worker. The name makes them share the work."""
    return client.subscribe(topic, name="thumbs", shared=True, max_deliveries=MAX_DELIVERIES)


async def work(images: zaichik.WorkSubscription, left: set[int], tasks: anyio.CancelScope) -> None:
    """Make one image after the other smaller. When none is left, all workers end."""
    async for message in images:
        try:
            async with message:
                smaller(message.payload)
            left.discard(message.offset)
        except ValueError as error:
            print(f"offset {message.offset}, delivery {message.delivery}: {error}")
            if message.delivery == MAX_DELIVERIES:
                left.discard(message.offset)
        if not left:
            tasks.cancel()


def smaller(image: bytes) -> bytes:
    """Returns a smaller image."""
    if not image:
        raise ValueError("there is no image in it")
    return image[:4]


if __name__ == "__main__":
    anyio.run(main, arguments(__doc__).parse_args().connect)
