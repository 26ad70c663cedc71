"""S8: Unsubscribe.

Goal: Unsubscribe ends one subscription, and after its reply nothing more of that subscription
comes. When a connection ends, however it ends, so do its subscriptions.

Tested: Messages are published after Unsubscribed; another subscription of the same connection must
go on; a reader's connection breaks, and the reader must soon not be counted any more.

Real systems: MQTT lets messages in flight arrive after UNSUBACK; ours does not, so that a reader
knows when it has ended.
The first zaichik logged a failed write and kept treating the client as ready: its topic drained
into a dead socket.

How: Answering Unsubscribe and forgetting the subscription must be one step; code that writes
messages must look the subscription up again after each wait.

Where: tutorial/tiny_broker.py: `Connection.unsubscribe`, and `Topic.live_readers`, which skips
those whose connection is done.
"""

from typing import Any

import anyio

from zaichik.learn import docstrings
from zaichik.learn.failure import Failure
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=8, frames="Unsubscribe Unsubscribed")


@STAGE.check(
    "after Unsubscribed nothing more of that subscription comes",
    hint="Does a queue or a task still hold messages for it?",
    sentences="open.6 unsubscribe.1 publish.3",
)
async def nothing_after(trial: Trial) -> None:
    """Everything published before it has come; nothing published after it comes."""
    client = await trial.client()
    subscription = await client.subscribe(trial.topic())
    messages = [trial.message() for _ in range(3)]
    await client.publish(trial.topic(), *messages, subscribers=1)
    await client.expect_messages(subscription, 0, messages)
    await client.ok("Unsubscribe", subscription=subscription)
    await client.publish(trial.topic(), trial.message(), subscribers=0)
    await client.expect_no_event("the subscription had ended")


@STAGE.check(
    "unsubscribing from a subscription that does not exist is NO_SUCH_SUBSCRIPTION",
    hint="Subscriptions belong to their connection: look the id up among this connection's own.",
    how="Keep a table from id to subscription in each connection, not one for the whole broker. "
    "Refuse an id that isn't in it, even if another connection has it.",
    where="tutorial/tiny_broker.py: `Connection.subscriptions`, and the `require` in "
    "`Connection.unsubscribe`.",
    sentences="unsubscribe.4",
)
async def unknown(trial: Trial) -> None:
    """One that never existed; one that has ended; another connection's."""
    client, other, subscription = await trial.make_reader(frame_id=700)
    await client.expect_error("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription + 1)
    await other.expect_error("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription)
    await client.ok("Unsubscribe", subscription=subscription)
    await client.expect_error("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription)


@STAGE.check(
    "two subscriptions of one connection to one topic are independent",
    hint="Keep subscriptions by their id, not by their topic.",
    how="A topic has a list of subscriptions, each with its own position. The same connection may "
    "be in it twice, under two ids.",
    where="tutorial/tiny_broker.py: `Topic.readers` is a list of subscriptions, not of "
    "connections.",
    sentences="unsubscribe.1 fair.1",
)
async def two(trial: Trial) -> None:
    """Both get everything; when one ends, the other goes on."""
    client = await trial.client()
    first, second = await client.subscribe(trial.topic()), await client.subscribe(trial.topic())
    messages = [trial.message() for _ in range(4)]
    await client.publish(trial.topic(), *messages[:2], subscribers=2)
    await client.expect_messages(first, 0, messages[:2])
    await client.expect_messages(second, 0, messages[:2])
    await client.ok("Unsubscribe", subscription=first)
    await client.publish(trial.topic(), *messages[2:], subscribers=1)
    await client.expect_messages(second, 2, messages[2:])
    await client.expect_no_event("the first subscription had ended")


@STAGE.check(
    "a Subscribe's id must be greater than 0 and than all before it",
    hint="Keep the greatest id of a Subscribe that succeeded. Events carry that id, so it must "
    "never mean two subscriptions.",
    how="Keep one number per connection, 0 at first. An id must be greater, and replaces the "
    "number once the Subscribe has succeeded. Unsubscribe doesn't change it.",
    where="tutorial/tiny_broker.py, `Connection.subscribe`: its first line, and "
    "`last_subscribe_id` near its end.",
    sentences="id.6",
)
async def ids(trial: Trial) -> None:
    """The same id, a smaller one, 0; a greater one after the first subscription has ended."""
    client = await trial.client()
    await client.subscribe(trial.topic(), frame_id=500)
    for frame_id in (500, 499, 0):
        await client.expect_error(
            "INVALID_FIELD", "Subscribe", topic=trial.topic(), frame_id=frame_id, at="id"
        )
    await client.ok("Unsubscribe", subscription=500)
    await client.expect_error(
        "INVALID_FIELD", "Subscribe", topic=trial.topic(), frame_id=500, at="id"
    )
    await client.subscribe(trial.topic(), frame_id=501)


@STAGE.check(
    "a reader whose connection broke is removed, and others go on",
    hint="However a connection ends (FIN, RST, a failed write), remove its subscriptions.",
    how="Clean up where every connection ends (finally, defer, Drop), not only where a client says "
    "goodbye. A failed write ends the connection, too.",
    where="tutorial/tiny_broker.py: `closing(self)` in `Connection.read` sets `done`, and "
    "`Topic.live_readers` skips those whose connection is done.",
    sentences="connect.2 close.2 close.5 publish.3",
)
async def broken(trial: Trial) -> None:
    """One reader's connection is reset, one ends its stream; the third reads on."""
    gone, ended, stays, writer = [await trial.client() for _ in range(4)]
    for client in (gone, ended):
        await client.subscribe(trial.topic())
    subscription = await stays.subscribe(trial.topic())
    await gone.reset()
    await ended.end()
    began, offset = trial.elapsed, 0
    while True:
        message = trial.message()
        frame = await writer.publish(trial.topic(), message)
        await stays.expect_messages(subscription, offset, [message])
        offset += 1
        if frame["subscribers"] == 1:
            return
        if trial.elapsed - began > trial.patience:
            problem = (
                f"{trial.patience:g} s after two of three readers had left, they are still counted"
            )
            raise Failure(problem, expected="Published subscribers=1", frame=frame)
        await anyio.sleep(0.02)


@STAGE.check(
    "the id of a failed Subscribe can be used again, and ids of other requests do not count",
    hint="Remember an id only once its Subscribe has succeeded. Ids of other requests and of other "
    "connections are independent.",
    sentences="id.6 id.7",
)
async def free_ids(trial: Trial) -> None:
    """Refused ids that then succeed; other requests with the same id; another connection."""
    client, other = await trial.client(), await trial.client()
    await other.subscribe(trial.topic("other"), frame_id=1000)
    bad: tuple[dict[str, Any], ...] = ({"topic": ""}, {"flags": 0x80}, {"topic": "$mine"})
    for frame_id, fields in enumerate(bad, 3):
        client.must_be(
            await client.ask("Subscribe", frame_id=frame_id, **{"topic": trial.topic()} | fields),
            "Error",
        )
        await client.subscribe(trial.topic(), frame_id=frame_id)
        await client.ok("Unsubscribe", frame_id=3, subscription=frame_id)
        await client.publish(trial.topic("other"), trial.message(), subscribers=1)


@STAGE.check(
    "the flag FORGET makes no difference to a subscription without a name",
    hint="FORGET (flag 1 of Unsubscribe) drops a name's position. Without a name there is none to "
    "drop, which is not an error.",
    sentences="unsubscribe.1 unsubscribe.3",
)
async def forget(trial: Trial) -> None:
    """It ends as without the flag, and others go on; with id 0, there is no reply."""
    client = await trial.client()
    first, second, third = [await client.subscribe(trial.topic()) for _ in range(3)]
    await client.ok("Unsubscribe", subscription=first, flags=1)
    await client.expect_error("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=first, flags=1)
    await client.send("Unsubscribe", frame_id=0, subscription=third)
    message = trial.message()
    await client.publish(trial.topic(), message, subscribers=1)
    await client.expect_messages(second, 0, [message])
    await client.expect_no_event("the other subscriptions had ended")
