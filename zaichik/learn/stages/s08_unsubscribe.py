"""S8: Unsubscribe.

Goal: Unsubscribe ends one subscription, and after its answer nothing of it comes any more. A connection that ends,
however it ends, takes its subscriptions with it.

Tested: Messages are published after Unsubscribed; another subscription of the same connection must go on; a reader's
connection is torn down, and must soon not be counted any more.

Real systems: MQTT lets messages in flight arrive after UNSUBACK; ours does not, so that a reader knows when it is over.
The first zaichik logged a failed write and kept the client as ready: its topic drained into a dead socket.

How: Answering Unsubscribe and forgetting the subscription must be one step; whoever writes messages must look the
subscription up again after each wait.

Where: tutorial/tiny_broker.py: `Connection.unsubscribe`, and `Topic.live_readers`, which leaves out those whose
connection is done.
"""

from typing import Any

import anyio

from zaichik.learn.failure import Failed
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.told(__doc__, chapter=8, frames="Unsubscribe Unsubscribed")


@STAGE.check(
    "after Unsubscribed nothing of that subscription comes",
    hint="Is there a queue or a task that still holds messages for it?",
    sentences="open.6 unsubscribe.1 publish.3",
)
async def nothing_after(trial: Trial) -> None:
    """All that was published before has come; nothing that is published after does."""
    client = await trial.client()
    subscription = await client.subscribe(trial.topic())
    messages = [trial.message() for _ in range(3)]
    await client.publish(trial.topic(), *messages, subscribers=1)
    await client.messages(subscription, 0, messages)
    await client.ok("Unsubscribe", subscription=subscription)
    await client.publish(trial.topic(), trial.message(), subscribers=0)
    await client.nothing("the subscription had ended")


@STAGE.check(
    "a subscription that is not there cannot be left: NO_SUCH_SUBSCRIPTION",
    hint="Subscriptions belong to their connection: look the id up among this connection's own.",
    how="A table from id to subscription in each connection, not one for the whole broker. An id that is not in it is "
    "refused, whoever else may have it.",
    where="tutorial/tiny_broker.py: `Connection.subscriptions`, and the `require` in `Connection.unsubscribe`.",
    sentences="unsubscribe.4",
)
async def unknown(trial: Trial) -> None:
    """Never there; ended; another connection's."""
    client, other, subscription = await trial.reading(frame_id=700)
    await client.refused("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription + 1)
    await other.refused("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription)
    await client.ok("Unsubscribe", subscription=subscription)
    await client.refused("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=subscription)


@STAGE.check(
    "two subscriptions of one connection to one topic are two",
    hint="Keep subscriptions by their id, not by their topic.",
    how="A topic has a list of subscriptions, and each of them its own place. The same connection may be in it twice, "
    "under two ids.",
    where="tutorial/tiny_broker.py: `Topic.readers` is a list of subscriptions, not of connections.",
    sentences="unsubscribe.1 fair.1",
)
async def two(trial: Trial) -> None:
    """Both get everything; when one ends, the other one goes on."""
    client = await trial.client()
    first, second = await client.subscribe(trial.topic()), await client.subscribe(trial.topic())
    messages = [trial.message() for _ in range(4)]
    await client.publish(trial.topic(), *messages[:2], subscribers=2)
    await client.messages(first, 0, messages[:2])
    await client.messages(second, 0, messages[:2])
    await client.ok("Unsubscribe", subscription=first)
    await client.publish(trial.topic(), *messages[2:], subscribers=1)
    await client.messages(second, 2, messages[2:])
    await client.nothing("the first subscription had ended")


@STAGE.check(
    "a Subscribe's id must be new, not 0, and greater than those before",
    hint="Keep the greatest id of a Subscribe that succeeded. Events carry it, so it must never mean two things.",
    how="One number for each connection, 0 at first: an id must be greater than it, and becomes it once the Subscribe "
    "has succeeded. Unsubscribe does not change it.",
    where="tutorial/tiny_broker.py, `Connection.subscribe`: its first line, and `last_subscribe_id` near its end.",
    sentences="id.6",
)
async def ids(trial: Trial) -> None:
    """The same id, a smaller one, 0; a greater one after the first was ended."""
    client = await trial.client()
    await client.subscribe(trial.topic(), frame_id=500)
    for frame_id in (500, 499, 0):
        await client.refused("INVALID_FIELD", "Subscribe", topic=trial.topic(), frame_id=frame_id, at="id")
    await client.ok("Unsubscribe", subscription=500)
    await client.refused("INVALID_FIELD", "Subscribe", topic=trial.topic(), frame_id=500, at="id")
    await client.subscribe(trial.topic(), frame_id=501)


@STAGE.check(
    "a reader whose connection broke is forgotten, and others go on",
    hint="Whatever ends a connection (FIN, RST, a failed write), its subscriptions must leave their topics.",
    how="Put the cleaning up where every end of a connection comes by (finally, defer, Drop), not where the client "
    "says goodbye. A failed write ends the connection, too.",
    where="tutorial/tiny_broker.py: `closing(self)` in `Connection.read` sets `done`, and `Topic.live_readers` leaves "
    "out those whose connection is done.",
    sentences="connect.2 close.2 close.5 publish.3",
)
async def broken(trial: Trial) -> None:
    """One torn down, one that ends its stream; the third one reads on."""
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
        await stays.messages(subscription, offset, [message])
        offset += 1
        if frame["subscribers"] == 1:
            return
        if trial.elapsed - began > trial.patience:
            problem = f"{trial.patience:g} s after two of three readers had left, they are still counted"
            raise Failed(problem, expected="Published subscribers=1", frame=frame)
        await anyio.sleep(0.02)


@STAGE.check(
    "the id of a Subscribe that failed is free, and ids of other requests do not matter",
    hint="Remember an id only when its Subscribe has succeeded. Other requests and connections have theirs.",
    sentences="id.6 id.7",
)
async def free_ids(trial: Trial) -> None:
    """Refused in several ways, each with an id that then succeeds; all requests with one id; another connection's."""
    client, other = await trial.client(), await trial.client()
    await other.subscribe(trial.topic("other"), frame_id=1000)
    bad: tuple[dict[str, Any], ...] = ({"topic": ""}, {"flags": 0x80}, {"topic": "$mine"})
    for frame_id, fields in enumerate(bad, 3):
        client.must_be(await client.ask("Subscribe", frame_id=frame_id, **{"topic": trial.topic()} | fields), "Error")
        await client.subscribe(trial.topic(), frame_id=frame_id)
        await client.ok("Unsubscribe", frame_id=3, subscription=frame_id)
        await client.publish(trial.topic("other"), trial.message(), subscribers=1)


@STAGE.check(
    "the flag FORGET changes nothing for a subscription without a name",
    hint="FORGET (flag 1 of Unsubscribe) drops a name's position; without a name there is none, and that is no error.",
    sentences="unsubscribe.1 unsubscribe.3",
)
async def forget(trial: Trial) -> None:
    """It ends as without the flag, and the other one goes on; with id 0 in silence."""
    client = await trial.client()
    first, second, third = [await client.subscribe(trial.topic()) for _ in range(3)]
    await client.ok("Unsubscribe", subscription=first, flags=1)
    await client.refused("NO_SUCH_SUBSCRIPTION", "Unsubscribe", subscription=first, flags=1)
    await client.send("Unsubscribe", frame_id=0, subscription=third)
    message = trial.message()
    await client.publish(trial.topic(), message, subscribers=1)
    await client.messages(second, 0, [message])
    await client.nothing("the other subscriptions had ended")
