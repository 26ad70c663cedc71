"""A client's questions about the broker: its state, and why a message did not arrive."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from zaichik.client.connection import Connection
from zaichik.client.messages import Key, key_bytes
from zaichik_protocol import Describe, Described, Explain, Explained, Kind

DESCRIBE_PAGE = 500


class Questions:
    """The questions that a `Client` can ask. None changes anything."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def describe(self) -> dict[str, Any]:
        """Returns the broker's state and limits; see `docs/describe.md`."""
        (page,) = [page async for page in self._describe(Kind.BROKER, "")]
        return page

    async def topic(self, name: str) -> dict[str, Any] | None:
        """Returns the state of one topic, see `docs/describe.md`; None if there is no topic of that name."""
        # Those whose names begin with it come sorted: if the name itself is among them, it is the first.
        page, _ = await self.describe_page(Kind.TOPICS, name, limit=1)
        return next((state for state in page["topics"] if state["name"] == name), None)

    async def topics(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the state of every topic whose name begins with `prefix`, sorted by name; see `docs/describe.md`."""
        return [state async for page in self._describe(Kind.TOPICS, prefix) for state in page["topics"]]

    async def subscriptions(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the state of the subscriptions, live and named, to every topic whose name begins with `prefix`.

        See `docs/describe.md`.
        """
        return [state async for page in self._describe(Kind.SUBSCRIPTIONS, prefix) for state in page["subscriptions"]]

    async def connections(self) -> list[dict[str, Any]]:
        """Returns the state of every connection of the broker, sorted by number; see `docs/describe.md`.

        Raises:
            InvalidField: the broker is too old to list its connections.
        """
        return [state async for page in self._describe(Kind.CONNECTIONS, "") for state in page["connections"]]

    async def counters(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the counters of every topic whose name begins with `prefix`, sorted by name: numbers only.

        This takes far fewer pages than `topics`. See `docs/describe.md`.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        pages = [page async for page in self._describe(Kind.COUNTERS, prefix)]
        return [dict(zip(page["columns"], row, strict=True)) for page in pages for row in page["rows"]]

    async def windows(self, topic: str, limit: int = DESCRIBE_PAGE) -> list[tuple[bytes, int]]:
        """Returns the keys of the topic whose windows opened last, and when (µs since 1970); the newest first.

        There are at most 256; none if the topic has no windows, or does not exist, or if this user may not see its
        messages.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        page, _ = await self.describe_page(Kind.WINDOWS, topic, limit=limit)
        return [(b64decode(key), opened_us) for key, opened_us in page["windows"]]

    async def marks(self, topic: str, limit: int = DESCRIBE_PAGE) -> list[tuple[int, int]]:
        """Returns when messages of the topic were accepted: offsets and times (µs since 1970), in order.

        There are at most 128, spread evenly over the batches held in memory; none if the topic is empty, or does not
        exist, or this user may not see it.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        page, _ = await self.describe_page(Kind.MARKS, topic, limit=limit)
        return [(offset, accepted_us) for offset, accepted_us in page["marks"]]

    async def furthest(self, topic: str, limit: int = DESCRIBE_PAGE) -> list[dict[str, Any]]:
        """Returns the state of the subscriptions to the topic that are furthest behind, the worst first; at most 16.

        See `docs/describe.md`.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        page, _ = await self.describe_page(Kind.FURTHEST, topic, limit=limit)
        return list(page["subscriptions"])

    async def describe_page(
        self, kind: Kind, prefix: str = "", *, after: str = "", limit: int = DESCRIBE_PAGE
    ) -> tuple[dict[str, Any], bool]:
        """Returns one page of what the methods above return, with the broker's time and boot, and whether more follow.

        Args:
            kind: what it is about; see `docs/describe.md`.
            prefix: the beginning of a name; or the name of the topic, for the kinds about one.
            after: the last name on the page before; "" for the first page.
            limit: entries on a page, at least 1; the broker may put fewer on it.

        Raises:
            InvalidField: `limit` is 0, or the broker is too old to know that kind.
        """
        request = Describe(self._connection.next_id(), kind, prefix, after, limit)
        reply = await self._connection.request(request, Described)
        return json.loads(reply.json), bool(reply.more)

    async def _describe(self, kind: Kind, prefix: str) -> AsyncIterator[dict[str, Any]]:
        after, more = "", True
        while more:
            page, more = await self.describe_page(kind, prefix, after=after)
            yield page
            if more and kind == Kind.COUNTERS:
                after = page["rows"][-1][0]
            elif more:
                after = page[kind.name.lower()][-1]["name"]

    async def explain(
        self,
        topic: str,
        *,
        offset: int | None = None,
        key: Key = None,
        at: datetime | None = None,
        subscription: str = "",
    ) -> dict[str, Any]:
        """Returns why a message did or did not arrive, as a list of verdicts; see `docs/explain.md`.

        Args:
            topic: its name.
            offset: the message with this offset; or else `key`.
            key: a message of this key, whether or not it was stored.
            at: with `key`: the message nearest to this time; None: the newest.
            subscription: only for this one, by its name or as CONNECTION.ID; "": for each.

        Raises:
            ValueError: neither `offset` nor `key` is given, or both are; or `at` is given without `key`.
            NoSuchTopic: there is no topic of that name, or this user may not ask about it.
            NoSuchSubscription: the topic has no such subscription.
            InvalidField: the key is too long, or the time is in the future.
            Unsupported: the broker does not know this request.
        """
        request = explain_request(self._connection.next_id(), topic, offset, key, at, subscription)
        reply = await self._connection.request(request, Explained)
        explained: dict[str, Any] = json.loads(reply.json)
        return explained


def explain_request(
    number: int, topic: str, offset: int | None, key: Key, at: datetime | None, subscription: str
) -> Explain:
    """Returns the request with that id for the arguments of `Questions.explain`.

    Raises:
        ValueError: see there.
    """
    name = b"" if key is None else key_bytes(key)
    if (offset is None) == (not name) or (at is not None and not name):
        raise ValueError("explain needs either an offset, or a key, which may come with a time")
    time_us = 0 if at is None else max(1, round(at.timestamp() * 1_000_000))
    return Explain(number, topic, subscription, offset or 0, time_us, name)
