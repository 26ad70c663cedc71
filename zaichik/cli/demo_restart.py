"""The step of `zaichik demo` that restarts a broker, and finds everything that it had acknowledged.

It has brokers of its own: a restart of the demo's broker would lose what the other steps have
published.
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from zaichik.client.client import connect
from zaichik.server.running import running_broker

if TYPE_CHECKING:
    from zaichik.cli.commands.demo import Show

Orders = dict[int | None, bytes]  # by their offsets; a message that was compacted would have none


async def show_restart(show: "Show") -> bool:
    """Show a broker that is stopped, and another one that goes on.

    Returns whether nothing was lost.
    """
    await show.step(
        "Restart",
        "So far everything was in memory. A [bold]durable[/] topic is on the disk: a publish is "
        "answered when its "
        "messages are synced, not before. Here is a second broker, which has a folder. It is "
        "stopped after half of "
        "the orders, and a third one starts with the same folder. `epoch` makes sure that the "
        "topic is the same.",
        restart,
    )
    with tempfile.TemporaryDirectory(prefix="zaichik-demo-") as folder:
        acknowledged, read = await restart(Path(folder))
    show.came(f"{len(acknowledged)} orders acknowledged, at offsets {_range(acknowledged)}")
    show.came(f"{len(read)} orders read afterwards, at offsets {_range(read)}")
    if lost := [offset for offset in acknowledged if acknowledged[offset] != read.get(offset)]:
        show.say(
            f"[bold red]The restart has lost {len(lost)} of them, which is a bug of the broker.[/]"
        )
        return False
    show.came(
        "each order at [bold]the same offset of the same topic[/]: nothing was lost with the broker"
    )
    return True


async def restart(folder: Path) -> tuple[Orders, Orders]:
    """Returns the orders that were acknowledged, and those that were read, by their offsets."""
    acknowledged: Orders = {}
    async with running_broker(data=folder) as broker, connect(port=broker.port) as client:
        topic = await client.create_topic("orders", durable=True)
        for order in [b"order %d" % number for number in range(50)]:
            acknowledged[(await client.publish("orders", order)).offset] = order
    async with running_broker(data=folder) as broker, connect(port=broker.port) as client:
        for order in [b"order %d" % number for number in range(50, 100)]:
            acknowledged[(await client.publish("orders", order)).offset] = order
        async with client.subscribe("orders", epoch=topic.epoch, until=100) as orders:
            return acknowledged, {message.offset: message.payload async for message in orders}


def _range(orders: Orders) -> str:
    offsets = [offset for offset in orders if offset is not None]
    return f"{min(offsets)} to {max(offsets)}" if offsets else "none"
