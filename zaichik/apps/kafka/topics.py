"""Topics that Kafka's clients make, by name or by writing to them.

They keep their messages, unlike those that our own clients make by first use: a consumer that
comes late expects everything, and skips what is gone by its own `auto.offset.reset`, in silence.
So they are durable if the broker has a folder for that, and otherwise hold up to a million
messages.
"""

import logging
from typing import Any

from zaichik import Client, TopicExists, Unsupported, ZaichikError
from zaichik.apps.kafka.codes import Code, code_of
from zaichik.apps.kafka.names import refusal
from zaichik.base.escapes import shown
from zaichik_protocol import Unencodable

logger = logging.getLogger("zaichik.kafka.topics")

DEFAULT_CAPACITY = 1_000_000


class Topics:
    """Finds topics, and makes them.

    Args:
        capacity: most messages in a topic of a broker without a folder.
        is_lossless: whether topics lose nothing before it is replicated (AK-1).
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY, *, is_lossless: bool = False) -> None:
        self._own: dict[str, Any] = {"retention_ttl": "forever"}
        self._in_memory: dict[str, Any] = {"capacity": capacity}
        if is_lossless:
            self._own["overflow"] = "reject"
            # The memory of each is reserved, and that of a million messages is much.
            self._in_memory = {}

    async def found(self, client: Client, name: str, *, create: bool) -> Code:
        """Returns NONE if there is a topic of that name, or why there is none."""
        code = refusal(name)
        if code is not Code.NONE:
            return code
        if await client.topic(name) is not None:
            return Code.NONE
        if not create:
            return Code.UNKNOWN_TOPIC_OR_PARTITION
        return await self.create(client, name, {})

    async def create(self, client: Client, name: str, settings: dict[str, Any]) -> Code:
        """Make a topic; returns NONE, or why the broker refused.

        Args:
            client: of the user who asks.
            name: the topic's name.
            settings: more of `Client.create_topic`, which go before the gateway's own.
        """
        wanted = self._own | settings
        try:
            await self._create(client, name, wanted)
        # Somebody else was quicker, and has other settings.
        except TopicExists:
            return Code.NONE
        except (ZaichikError, Unencodable) as error:
            logger.warning("topic %s cannot be made: %s", shown(name[:80]), error)
            return code_of(error)
        return Code.NONE

    async def _create(self, client: Client, name: str, wanted: dict[str, Any]) -> None:
        try:
            await client.create_topic(name, durable=True, **wanted)
        except Unsupported:  # the broker has no folder for durable topics
            await client.create_topic(name, **(self._in_memory | wanted))
