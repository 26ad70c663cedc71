"""What a page is sent: server-sent events, the whole state first and then what has changed.

A change is a JSON merge patch (RFC 7396): members that are new or different, and null for those
that are gone. So that a patch can say everything, what is sent has no nulls of its own (`lean`),
and what changes a little is an object, never an array. Nothing queues for a page: its `Mailbox`
only knows that there is something newer, and a slow page gets the newest state when there is room
again.

| event | data |
| --- | --- |
| `hello` | who is logged in, and what they may do; first on every connection |
| `state` | all of it: first, and every few seconds, in case the page has lost count |
| `delta` | a merge patch to the state before |
| `rows` | a page of a table, always whole |
| `alive` | nothing: the server is there, and has nothing newer; every 5 seconds |
| `trouble` | a sentence: why there is nothing newer; the next event of another kind ends it |
| `bye` | a sentence: why the server ends the stream; with `login`, a new login is needed |
"""

import json
import math
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio

from zaichik_protocol import FOREVER

JSON = dict[str, Any]

SAFE_INTEGER = 2**53 - 1  # JavaScript's numbers are exact up to here
KEYFRAME_S = 5.0
# A proxy in between may close a stream that is silent for long, and a page that hears nothing for
# 15 seconds (`feed.js`) no longer says that it is live.
HEARTBEAT_S = 5.0


def lean(value: Any) -> Any:
    """Returns a value as JSON that a merge patch can express and JavaScript can read.

    Its objects have no nulls.

    A member that is null or no finite number is left out. An integer that JavaScript would round
    becomes text, and the one that stands for ever "forever".
    """
    match value:
        case dict():
            return {
                str(name): lean(member) for name, member in value.items() if not _is_nothing(member)
            }
        case list() | tuple():
            return [None if _is_nothing(item) else lean(item) for item in value]
        case int() if abs(value) > SAFE_INTEGER:
            return "forever" if value == FOREVER else str(value)
    return value


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def delta(before: JSON, after: JSON) -> JSON:
    """Returns the merge patch that makes `after` of `before`.

    Neither may have a null in an object; see `lean`.
    """
    patch: JSON = dict.fromkeys(before.keys() - after.keys())
    for name, member in after.items():
        old = before.get(name)
        if isinstance(member, dict) and isinstance(old, dict):
            if inner := delta(old, member):
                patch[name] = inner
        # To Python, 1 and true are equal.
        elif name not in before or old != member or type(old) is not type(member):
            patch[name] = member
    return patch


def encoded(kind: str, data: JSON, number: int) -> bytes:
    """Returns an event as it is sent.

    JSON has no line ends, so the data is one line, whatever a name contains.
    """
    return (
        f"id: {number}\nevent: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
    )


class Mailbox:
    """A page's pending news: that there is something newer, or that the stream is over.

    Attributes:
        bye: why the stream ends, as the event's data; empty: it goes on.
    """

    def __init__(self) -> None:
        self.bye: JSON = {}
        self._news = anyio.Event()
        self._end = anyio.Event()

    def put(self) -> None:
        """Note that there is something newer."""
        self._news.set()

    def end(self, text: str, *, login: bool = False) -> None:
        """End the stream; the first reason counts."""
        if not self.bye:
            self.bye = {"text": text, "login": login}
            self._news.set()
            self._end.set()

    async def wait(self, seconds: float) -> bool:
        """Returns whether there is news, after at most this long. Each is reported once."""
        with anyio.move_on_after(seconds):
            await self._news.wait()
        has_news = self._news.is_set()
        if has_news:
            self._news = anyio.Event()
        return has_news

    async def pause(self, seconds: float) -> None:
        """Returns after this long, or when the stream ends."""
        with anyio.move_on_after(seconds):
            await self._end.wait()


Frame = tuple[str, JSON]  # "state" or "rows", or "trouble", and the data


async def stream(
    mailbox: Mailbox, hello: JSON, frame: Callable[[], Frame | None], hz: float
) -> AsyncGenerator[bytes, None]:
    """Yields the events of one page until its mailbox is ended.

    Args:
        mailbox: tells when `frame` has something newer.
        hello: the first event's data.
        frame: returns the newest there is; None: nothing yet.
        hz: the most frames per second.
    """
    number, last, keyframe_at = 0, ("", JSON()), -math.inf
    yield encoded("hello", hello, number)
    sent_at = anyio.current_time()
    mailbox.put()  # what is there already
    while not mailbox.bye:
        has_news = await mailbox.wait(sent_at + HEARTBEAT_S - anyio.current_time())
        newest = frame()
        if has_news and newest is not None and newest != last:
            number += 1
            kind, data = newest
            if kind == last[0] == "state" and anyio.current_time() - keyframe_at < KEYFRAME_S:
                yield encoded("delta", delta(last[1], data), number)
            else:
                keyframe_at = anyio.current_time()
                yield encoded(kind, data, number)
            last = newest
            sent_at = anyio.current_time()
            await mailbox.pause(1 / hz)
        # What is newer may be the same, as it is as long as the broker does not answer.
        elif anyio.current_time() - sent_at >= HEARTBEAT_S:
            yield encoded("alive", {}, number)
            sent_at = anyio.current_time()
    yield encoded("bye", mailbox.bye, number + 1)
