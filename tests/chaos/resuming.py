"""Writers and a reader whose connections are cut again and again, and the ledger of what they know
in the end.

There are two kinds. *Lasting* clients are what `zaichik.connect` gives: the connection is made
again behind the scenes, and each publish is answered in the end. *Plain* ones (`reconnect=0`) are
told of each loss: their writers never send a number again, and their readers go on where they were.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import anyio
from cutting_proxy import cutting_proxy
from ledger import Ledger, numbered

import zaichik
from zaichik import Endpoint

HERE = partial(Endpoint, "127.0.0.1")  # where a port is
TOPIC, WRITERS = "cut", 3
_BATCH = 20
_LOST = (zaichik.ConnectFailed, zaichik.HandshakeTimeout, zaichik.ConnectionLost)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has come to.

    Attributes:
        ledger: of all writers and the reader.
        cuts: how many connections were cut.
        stored: messages the broker has stored.
    """

    ledger: Ledger
    cuts: int
    stored: int


async def run_through_cuts(
    port: int,
    messages: int,
    *,
    lasting: bool,
    seed: int,
    at_most: int,
    where: Callable[[int], Endpoint] = HERE,
) -> Outcome:
    """Have each of the writers publish so many messages through a proxy that cuts, and one reader
    read them all.

    Args:
        port: of a broker that has no topic yet.
        messages: of each writer.
        lasting: which kind the clients are.
        seed: of the proxy.
        at_most: bytes between two cuts of one direction.
        where: returns the address of the broker if it is behind this port, with a login if it asks
            for one.
    """
    ledger = Ledger()
    write, read = (_write_lasting, _read_lasting) if lasting else (_write_plain, _read_plain)
    async with (
        zaichik.connect(where(port)) as client,
        cutting_proxy(port, seed=seed, at_most=at_most) as proxy,
    ):
        topic = await client.create_topic(
            TOPIC, retention_ttl="forever", capacity=WRITERS * messages
        )
        async with anyio.create_task_group() as reading:
            reading.start_soon(read, where(proxy.port), ledger, topic.epoch)
            async with anyio.create_task_group() as writing:
                for number in range(WRITERS):
                    writing.start_soon(
                        write, where(proxy.port), ledger, f"writer-{number}", messages
                    )
            stored = -1
            while (
                ledger.came != stored
            ):  # what was sent last may be carried out after the writers have gone
                (state,) = await client.topics(TOPIC)
                stored = state["stored"]
            reading.cancel_scope.cancel()
    return Outcome(ledger, proxy.cuts, stored)


async def _write_lasting(at: Endpoint, ledger: Ledger, writer: str, messages: int) -> None:
    async with _lasting(at) as client, client.producer(TOPIC, max_batch=_BATCH) as producer:
        for number in range(messages):
            await producer.send(numbered(writer, number))
        await producer.flush()
    ledger.acknowledge(writer, range(messages))


async def _read_lasting(at: Endpoint, ledger: Ledger, epoch: int) -> None:
    async with (
        _lasting(at) as client,
        client.subscribe(TOPIC, epoch=epoch, events=True) as subscription,
    ):
        async for item in subscription:
            ledger.take(item)


@asynccontextmanager
async def _lasting(at: Endpoint) -> AsyncIterator[zaichik.Client]:
    """A client; the very first connection is tried once by the library, and here until it is not
    cut.
    """
    async with AsyncExitStack() as stack:
        while True:
            with suppress(zaichik.ConnectFailed):
                client = await stack.enter_async_context(zaichik.connect(at))
                break
        yield client


async def _write_plain(at: Endpoint, ledger: Ledger, writer: str, messages: int) -> None:
    batches = iter(range(first, first + _BATCH) for first in range(0, messages, _BATCH))
    numbers = next(batches, None)
    while numbers is not None:
        with suppress(*_LOST):
            async with zaichik.connect(at, reconnect=0) as client:
                while numbers is not None:
                    mine, numbers = numbers, next(batches, None)
                    await client.publish_batch(
                        TOPIC, [(None, numbered(writer, number)) for number in mine]
                    )
                    ledger.acknowledge(writer, mine)


async def _read_plain(at: Endpoint, ledger: Ledger, epoch: int) -> None:
    while True:
        with suppress(*_LOST):
            async with (
                zaichik.connect(at, reconnect=0) as client,
                client.subscribe(
                    TOPIC, start=ledger.next, epoch=epoch, events=True
                ) as subscription,
            ):
                async for item in subscription:
                    ledger.take(item)
