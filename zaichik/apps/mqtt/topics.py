"""The broker's topics of a gateway: made if they are not there, and read when it starts."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from zaichik import Client, Forbidden, TopicExists, Unsupported
from zaichik.apps.mqtt.spaces import MAIN, RETAINED, SESSIONS, WILLS

MIB = 1024 * 1024
# Of `mqtt`, if the broker has a folder: on the disk.
LOG_BYTES = 1024 * MIB
# And if it has none: in memory, but no more than what sessions still need.
CAPACITY = 1_000_000
MAX_BYTES = 256 * MIB

MAX_RETAINED = 100_000
# Of topics whose messages are acknowledged after replication; in memory, it is reserved.
LOSSLESS: dict[str, Any] = {"overflow": "reject", "retention_ttl": "forever"}

RETAINED_BYTES = 64 * MIB
# A session is some hundred bytes.
STATE_BYTES = 16 * MIB


class NotATable(Exception):
    """A topic is there and is no table, so that the gateway cannot keep its state in it."""


async def prepare(
    client: Client,
    trees: Iterable[str] = (),
    max_retained: int = MAX_RETAINED,
    *,
    is_lossless: bool = False,
) -> None:
    """Make the topics that are not there; those that are keep their settings.

    Args:
        client: the gateway's own.
        trees: topics that are trees, made with the broker's defaults unless they are lossless.
        max_retained: the most retained messages.
        is_lossless: whether messages are to lose nothing before they are replicated (AK-1).

    Raises:
        NotATable: one is another kind of topic.
        ZaichikError: the broker has no room for one.
    """
    settings: dict[str, Any] = {"capacity": CAPACITY, "max_bytes": MAX_BYTES}
    if is_lossless:
        settings = LOSSLESS
    await _create(client, MAIN, {"log_bytes": LOG_BYTES}, **settings)
    await _create(client, RETAINED, {}, table=True, capacity=max_retained, max_bytes=RETAINED_BYTES)
    for name in (SESSIONS, WILLS):
        await _create(client, name, {}, table=True, max_bytes=STATE_BYTES)
    for name in trees:
        with suppress(TopicExists, Forbidden):
            if is_lossless:
                await _create(client, name, {}, **LOSSLESS)
            else:
                await client.create_topic(name)
    for name in (RETAINED, SESSIONS, WILLS):
        state = await client.topic(name)
        if state is not None and not state["settings"].get("table"):
            raise NotATable(
                f"{name} is a topic, and must be a table: delete it, and the gateway makes it anew"
            )


async def _create(client: Client, name: str, on_disk: dict[str, Any], **settings: Any) -> None:
    """Make a topic, durable if the broker can."""
    create = partial(client.create_topic, name, **settings)
    # It is there, or it was made for this user, who may not make topics.
    with suppress(TopicExists, Forbidden):
        try:
            await create(durable=True, **on_disk)
        # The broker has no folder for durable topics.
        except Unsupported:
            await create()


async def rows(client: Client, tables: Iterable[str]) -> dict[str, dict[str, bytes]]:
    """Returns the rows of tables, by their keys.

    Raises:
        ZaichikError: one cannot be read.
    """
    return {table: await _rows(client, table) for table in tables}


async def _rows(client: Client, table: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    state = await client.topic(table)
    if state is None or not state["next_offset"]:
        return found
    async with client.subscribe(table, until=state["next_offset"]) as subscription:
        async for message in subscription:
            key = (message.key or b"").decode("utf-8", "replace")
            if message.is_tombstone:
                found.pop(key, None)
            else:
                found[key] = message.payload
    return found
