"""A worker of a shared name at a broker that a test scripts."""

from contextlib import asynccontextmanager

from brokers import SHARED_GRANTED, fake_client

from zaichik_protocol import Settle, Settled

NAME = "thumbs"


@asynccontextmanager
async def fake_worker(answers=None, *, reconnect=0.0, **options):
    """A fake broker, and a worker that was made there. It may have ten messages at a time."""
    options = {"credit": 10, **options}
    connecting = fake_client({**SHARED_GRANTED, **(answers or {})}, reconnect=reconnect)
    async with (
        connecting as (broker, client),
        client.subscribe("images", name=NAME, shared=True, **options) as work,
    ):
        yield broker, client, work


async def take(work, count):
    """So many messages, opened."""
    return [await anext(work) for _ in range(count)]


async def answered(client):
    """Wait until what has gathered was sent, and answered."""
    # It is sent in a turn of the event loop of its own: the first ping may overtake it.
    await client.ping()
    await client.ping()


def settled(broker):
    """What was settled: the outcome and the tickets of each request."""
    return [(request.outcome, request.tickets) for request in broker.of(Settle)]


async def answer(broker):
    """Answer each Settle that a silent broker has received: leaving waits for that."""
    for request in broker.of(Settle):
        await broker.send(Settled(request.id))


class Clock:
    """The time of a worker, which moves when a test moves it."""

    def __init__(self, work):
        self.now = 0.0
        work._settling._clock = lambda: self.now
        work._settling._idle_until = work.timeout
