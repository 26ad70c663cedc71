"""A stream: a topic's messages, as they come, for as long as the client reads them.

Nothing is kept for a client but what is on its way: at most `CREDIT` messages, and what the
connection has not taken yet. What it has not read stays in the topic (LAG-2). With a name, nothing
is settled until the client says so (see `settling`), so no more than `CREDIT` messages come before
that.

To write messages as JSON is most of the work here, and all streams and publishes share one thread.
Streams take turns at it, one part in each round of the event loop. Otherwise each round would write
a part for every stream that is behind, and a publish, which takes some rounds, would wait for all
of them each time.

What becomes of an error depends on the form (see `forms`) and on when it comes:

| | lines | events |
| --- | --- | --- |
| at first, one that may pass | its status | the stream begins, and goes on when it has passed |
| at first, another topic (TOP-5) | 410 | `epoch`, then the new topic from its first message |
| at first, any other | its status | its status |
| later | the last line | the same as at first; where there was a status: `failed`, then silence |

After `failed`, the stream stays open: a browser would connect again at once, and could take over
the name from the one that has just taken it.
"""

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import anyio
from starlette.types import Receive, Scope, Send

from zaichik import (
    Client,
    DeletionsMissed,
    Lagged,
    Message,
    ZaichikError,
)
from zaichik.apps.web.events import Mailbox
from zaichik.apps.web.topics.forms import Form
from zaichik.apps.web.topics.link import Link
from zaichik.apps.web.topics.positions import Position
from zaichik.apps.web.topics.settling import Named, Settling
from zaichik.apps.web.topics.statuses import RETRY_S, Refusal
from zaichik.base.escapes import harmless
from zaichik.client.backoff import backoff
from zaichik.client.messages import Missed, StartAt

CREDIT = 100
CREDIT_BYTES = 1024 * 1024  # or the largest message
FIRST_S = 5.0  # in which a running broker has answered
# Of the messages in a part: this is written in about a millisecond, and held for a stuck client.
PART_BYTES = 64 * 1024
COMMENT_S = 15.0  # proxies close what is silent for a minute
RETRY_WAITS = (0.25, 4.0)
GOODBYE_S = 0.2  # for the last words of a stream that is to end
# The topic is not the one whose position is known.
ELSEWHERE = {"EPOCH_CHANGED", "OFFSET_AHEAD", "TOPIC_SHRUNK", "DELETED"}
LOGINS = {"AUTH_FAILED", "CREDENTIALS_ENDED"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client wants to read.

    Attributes:
        user: whose names count.
        topic: which topic.
        start: where to begin, unless it goes on somewhere.
        until: where to end, exclusive; None: never.
        name: of the position that the broker keeps; "": none.
        after: what the client has received before; None: nothing.
    """

    user: str
    topic: str
    start: StartAt = "latest"
    until: int | None = None
    name: str = ""
    after: Position | None = None

    @property
    def is_over(self) -> bool:
        """Whether the client has received all that it wants."""
        if self.until is None or self.after is None:
            return False
        return self.after.next >= self.until


class Output:
    """The answer, which begins when there is something to send.

    Args:
        send: sends the parts of an answer.
        form: how the stream is written.
    """

    def __init__(self, send: Send, form: Form) -> None:
        self._send = send
        self._form = form
        self.has_begun = False

    async def write(self, data: bytes) -> None:
        """Returns when the connection has taken the data, and most of what came before."""
        if not self.has_begun:
            self.has_begun = True
            headers = [
                (b"content-type", self._form.media_type.encode()),
                (b"x-accel-buffering", b"no"),
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        # The connection copies what it can't send at once, so it is given a little at a time.
        for start in range(0, len(data), PART_BYTES):
            body = data[start : start + PART_BYTES]
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        """End the answer."""
        await self._send({"type": "http.response.body", "body": b""})


class Reading:
    """One stream.

    Args:
        link: to the broker.
        settling: where a named stream can be settled.
        wanted: what is read.
        form: how it is written.
        mailbox: ends it.
        turn: held while messages are written as JSON; all streams share it.
    """

    def __init__(
        self,
        link: Link,
        settling: Settling,
        wanted: Wanted,
        form: Form,
        mailbox: Mailbox,
        turn: anyio.Lock,
    ) -> None:
        self._link = link
        self._settling = settling
        self._wanted = wanted
        self._form = form
        self._mailbox = mailbox
        self._turn = turn
        self._place = wanted.user, wanted.topic, wanted.name
        self._start: StartAt = wanted.start
        # What was sent, or received before.
        self._position = wanted.after
        # What the client has said that it has received, until that is settled.
        self._received = wanted.after
        # Between attempts, since the last one that has succeeded.
        self._waits = backoff(*RETRY_WAITS)
        # Why it is another topic than before, until that was said.
        self._changed = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request. It ends when the client has gone."""
        output = Output(send, self._form)
        refusal: Refusal | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
            with anyio.CancelScope() as reading:
                tasks.start_soon(_until_ended, self._mailbox, reading, tasks.cancel_scope)
                refusal = await self._read(output)
            if self._mailbox.bye:
                bye = Refusal("STOPPING", self._mailbox.bye["text"], RETRY_S)
                if output.has_begun or self._form.lasts:
                    await output.write(self._form.event("bye", bye.body))
                else:
                    refusal = bye
            if refusal is None:
                await output.end()
            tasks.cancel_scope.cancel()
        if refusal is not None:
            await refusal.response(scope, receive, send)

    async def _read(self, output: Output) -> Refusal | None:
        """Read until there is no more to read; returns what to answer instead of a stream."""
        while True:
            try:
                await self._read_on(output)
            except ZaichikError as error:
                refusal = Refusal.of(error)
            except Refusal as problem:
                refusal = problem
            else:
                return None
            if self._form.lasts and refusal.name in ELSEWHERE and self._position is not None:
                self._changed = refusal.text
                self._position = None
                self._received = None
                self._start = "earliest"
            elif self._form.lasts and refusal.is_temporary:
                await output.write(self._form.comment)
                await anyio.sleep(next(self._waits))
            elif not output.has_begun:
                return refusal
            else:
                await self._fail(output, refusal)
                return None

    async def _fail(self, output: Output, refusal: Refusal) -> None:
        """Say why nothing more will come."""
        if self._form.lasts and refusal.name in LOGINS:
            # It connects again, and learns then that it must log in.
            await output.write(self._form.event("bye", refusal.body))
            return
        await output.write(self._form.event("failed", refusal.body))
        while self._form.lasts:
            await anyio.sleep(COMMENT_S)
            await output.write(self._form.comment)

    async def _read_on(self, output: Output) -> None:
        """Read on where the last one has stopped, until `until`.

        Raises:
            Refusal, ZaichikError: why there is no more.
        """
        async with self._link.using() as line, self._subscribed(line.client) as subscription:
            await self._begin(output, subscription)
            with self._settling.opened(self._place, subscription):
                await self._send_all(output, subscription)
            if self._wanted.until is not None:
                end = Position(subscription.epoch, self._wanted.until)
                await output.write(self._form.end(end))

    @asynccontextmanager
    async def _subscribed(self, client: Client) -> AsyncIterator[Named]:
        """Returns a subscription, within the time of a first answer.

        Raises:
            Refusal, ZaichikError: there is none.
        """
        subscription: Named | None = None
        async with AsyncExitStack() as stack:
            with anyio.move_on_after(FIRST_S):
                if self._wanted.name and self._received is not None:
                    received = self._received
                    await self._settling.settle(client, self._place, received.next, received.epoch)
                    self._received = None
                subscription = await stack.enter_async_context(self._subscribe(client))
            if subscription is None:
                raise Refusal("NOT_ANSWERED", "the broker has not answered in time", RETRY_S)
            yield subscription

    def _subscribe(self, client: Client) -> AbstractAsyncContextManager[Named]:
        wanted = self._wanted
        commit: Literal["automatic", "explicit"] = "automatic"
        if wanted.name:
            commit = "explicit"
        start = self._start
        epoch: int | None = None
        if self._position is not None:
            start = self._position.next
            epoch = self._position.epoch
        return client.subscribe(
            wanted.topic,
            start=start,
            until=wanted.until,
            epoch=epoch,
            credit=CREDIT,
            credit_bytes=max(CREDIT_BYTES, client.welcome.max_message),
            name=wanted.name,
            events=True,
            commit=commit,
        )

    async def _begin(self, output: Output, subscription: Named) -> None:
        """Say where the stream begins, or goes on."""
        self._waits = backoff(*RETRY_WAITS)
        self._position = Position(subscription.epoch, subscription.start)
        await output.write(self._form.begin(self._position))
        if self._changed:
            said = {"epoch": subscription.epoch, "text": harmless(self._changed)}
            self._changed = ""
            await output.write(self._form.event("epoch", said))

    async def _send_all(self, output: Output, subscription: Named) -> None:
        """Send what comes, until `until`."""
        epoch = subscription.epoch
        pieces = subscription.pieces()
        while True:
            item: list[Message] | Missed | None = None
            with anyio.move_on_after(COMMENT_S):
                try:
                    item = await anext(pieces)
                except StopAsyncIteration:
                    return
            match item:
                case None:
                    await output.write(self._form.comment)
                case Lagged():
                    await output.write(self._form.lagged(epoch, item))
                    self._position = Position(epoch, item.end)
                case DeletionsMissed():
                    await output.write(self._form.deletions_missed(item))
                    await subscription.start_over()
                    self._position = Position(epoch, subscription.start)
                case messages:
                    for part in _in_parts(messages):
                        async with self._turn:
                            data = self._form.messages(epoch, part, in_table=subscription.table)
                        await output.write(data)
                        self._position = Position(epoch, part[-1].offset + 1)


def _in_parts(messages: list[Message]) -> Iterator[list[Message]]:
    """Returns messages in parts of `PART_BYTES`, or little more, or one larger message."""
    part = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.payload)
        if size >= PART_BYTES:
            yield part
            part = []
            size = 0
    if part:
        yield part


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _until_ended(
    mailbox: Mailbox, reading: anyio.CancelScope, answering: anyio.CancelScope
) -> None:
    """Give a stream that is to end a moment for its last words."""
    await mailbox.pause(math.inf)
    reading.cancel()
    await anyio.sleep(GOODBYE_S)
    answering.cancel()
