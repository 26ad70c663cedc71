"""A client's questions about the broker: its state, and why a message did not arrive."""

# Not compiled: mypyc has no asynchronous generators.

from base64 import b64decode
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from zaichik.base.clock import SECOND_US
from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import UnexpectedReply
from zaichik.client.messages import Key, key_bytes
from zaichik.client.reports import Report, explained_of, names_of, page_of
from zaichik_protocol import Describe, Described, Explain, Explained, Kind

DESCRIBE_PAGE = 500


class Questions:
    """The questions that a `Client` can ask. None changes anything.

    What the broker reports is checked (see `reports`): each method may raise `UnexpectedReply`.
    """

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    async def describe(self) -> dict[str, Any]:
        """Returns the broker's state and limits; see `docs/use/describe.md`."""
        (page,) = [page async for page in self._describe(Kind.BROKER, "")]
        return page

    async def topic(self, name: str) -> dict[str, Any] | None:
        """Returns the state of one topic, see `docs/use/describe.md`.

        None if there is no topic of that name.
        """
        # Those whose names begin with it come sorted: if the name itself is among them, it is the
        # first.
        page, _ = await self.describe_page(Kind.TOPICS, name, limit=1)
        for state in page["topics"]:
            if state["name"] == name:
                found: dict[str, Any] = state
                return found
        return None

    async def topics(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the state of every topic whose name begins with `prefix`, sorted by name.

        See `docs/use/describe.md`.
        """
        return [
            state async for page in self._describe(Kind.TOPICS, prefix) for state in page["topics"]
        ]

    async def subscriptions(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the state of the subscriptions to topics whose names begin with `prefix`.

        Those are the live ones and the named ones. See `docs/use/describe.md`.
        """
        return [
            state
            async for page in self._describe(Kind.SUBSCRIPTIONS, prefix)
            for state in page["subscriptions"]
        ]

    async def connections(self) -> list[dict[str, Any]]:
        """Returns the state of every connection of the broker, sorted by number.

        See `docs/use/describe.md`.

        Raises:
            InvalidField: the broker is too old to list its connections.
        """
        return [
            state
            async for page in self._describe(Kind.CONNECTIONS, "")
            for state in page["connections"]
        ]

    async def counters(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the counters of every topic whose name begins with `prefix`, sorted by name.

        They are numbers only. This takes far fewer pages than `topics`. See `docs/use/describe.md`.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        pages = [page async for page in self._describe(Kind.COUNTERS, prefix)]
        return [
            Report(zip(page["columns"], row, strict=True)) for page in pages for row in page["rows"]
        ]

    async def windows(self, topic: str, limit: int = DESCRIBE_PAGE) -> list[tuple[bytes, int]]:
        """Returns the keys of the topic whose windows opened last, and when; the newest first.

        Times are in µs since 1970.
        There are at most 256; none if the topic has no windows, or does not exist, or if this user
        may not see its messages.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        page, _ = await self.describe_page(Kind.WINDOWS, topic, limit=limit)
        return [(b64decode(key), opened_us) for key, opened_us in page["windows"]]

    async def marks(self, topic: str, limit: int = DESCRIBE_PAGE) -> list[tuple[int, int]]:
        """Returns when messages of the topic were accepted: offsets and times, in order.

        Times are in µs since 1970.
        There are at most 128, spread evenly over the batches held in memory; none if the topic is
        empty, or does not exist, or this user may not see it.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        page, _ = await self.describe_page(Kind.MARKS, topic, limit=limit)
        return [(offset, accepted_us) for offset, accepted_us in page["marks"]]

    async def furthest(self, topic: str, limit: int = DESCRIBE_PAGE) -> list[dict[str, Any]]:
        """Returns the state of the subscriptions to the topic that are furthest behind.

        The worst comes first; there are at most 16. See `docs/use/describe.md`.

        Raises:
            InvalidField: the broker is too old to tell.
        """
        page, _ = await self.describe_page(Kind.FURTHEST, topic, limit=limit)
        return list(page["subscriptions"])

    async def describe_page(
        self, kind: Kind, prefix: str = "", *, after: str = "", limit: int = DESCRIBE_PAGE
    ) -> tuple[dict[str, Any], bool]:
        """Returns one page of what the methods above return, and whether more follow.

        The page has the broker's time and boot as well.

        Args:
            kind: what it is about; see `docs/use/describe.md`.
            prefix: the beginning of a name; or the name of the topic, for the kinds about one.
            after: the last name on the page before; "" for the first page.
            limit: entries on a page, at least 1; the broker may put fewer on it.

        Raises:
            InvalidField: `limit` is 0, or the broker is too old to know that kind.
        """
        request = Describe(self._connection.next_id(), kind, prefix, after, limit)
        reply = await self._connection.request(request, Described)
        page = page_of(reply.json, kind)
        more = bool(reply.more)
        if more:
            _check_more(page, kind, after)
        return page, more

    async def _describe(self, kind: Kind, prefix: str) -> AsyncIterator[dict[str, Any]]:
        after, more = "", True
        asked: set[str] = set()
        while more:
            asked.add(after)
            page, more = await self.describe_page(kind, prefix, after=after)
            yield page
            if more:
                after = names_of(page, kind)[-1]
                if after in asked:
                    raise _leads_nowhere(after)

    async def explain(
        self,
        topic: str,
        *,
        offset: int | None = None,
        key: Key = None,
        at: datetime | None = None,
        subscription: str = "",
    ) -> dict[str, Any]:
        """Returns why a message did or did not arrive, as a list of verdicts.

        See `docs/use/explain.md`.

        Args:
            topic: its name.
            offset: the message with this offset; or else `key`.
            key: a message of this key, whether or not it was stored.
            at: with `key`: the message nearest to this time; None: the newest.
            subscription: only for this one, by its name or as CONNECTION.ID; "": for each.

        Raises:
            ValueError: neither `offset` nor `key` is given, or both are; or `at` is given without
                `key`.
            NoSuchTopic: there is no topic of that name, or this user may not ask about it.
            NoSuchSubscription: the topic has no such subscription.
            InvalidField: the key is too long, or the time is in the future.
            Unsupported: the broker does not know this request.
        """
        request = explain_request(self._connection.next_id(), topic, offset, key, at, subscription)
        reply = await self._connection.request(request, Explained)
        return explained_of(reply.json)


def _check_more(page: Report, kind: Kind, after: str) -> None:
    """Refuse a page that leads nowhere: asking for all of them would never end.

    In which order names are is the broker's business.

    Raises:
        UnexpectedReply: it has no names, or the last one is that of the page before.
    """
    names = names_of(page, kind)
    if not names or names[-1] == after:
        raise _leads_nowhere(after)


def _leads_nowhere(after: str) -> UnexpectedReply:
    problem = f"another page follows, and this one has no names after {after!r}"
    return UnexpectedReply(f"the broker reported that {problem}")


def explain_request(
    number: int, topic: str, offset: int | None, key: Key, at: datetime | None, subscription: str
) -> Explain:
    """Returns the request with that id for the arguments of `Questions.explain`.

    Raises:
        ValueError: see there.
    """
    name = b""
    if key is not None:
        name = key_bytes(key)
    if (offset is None) == (not name) or (at is not None and not name):
        raise ValueError("explain needs either an offset, or a key, which may come with a time")
    time_us = 0
    if at is not None:
        time_us = max(1, round(at.timestamp() * SECOND_US))
    return Explain(number, topic, subscription, offset or 0, time_us, name)
