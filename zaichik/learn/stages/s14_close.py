"""S14: A graceful close.

Goal: Close: what came before is carried out and answered, Closed is the last frame, then the broker ends its side. A
client that just ends its stream gets the same without Closed. A server that is told to stop, stops.

Tested: Requests and Close in one piece; frames behind Close; a bare end of the stream, also in the middle of a frame;
SIGTERM with clients connected.

Real systems: Closing a socket with unread bytes in it sends a RST, which may destroy what the client has yet to read:
the reason why HTTP servers linger (RFC 9112, 9.6). Kubernetes sends SIGTERM and, 30 seconds later by default, SIGKILL.

How: Three steps: write what waits, shut down your sending side (FIN), read on until the client's FIN or for a second.
Only then close.

Where: tutorial/tiny_broker.py: `Connection.close` sets `done`; `write` sends the rest, then send_eof; `run` reads for a
second what still comes.
"""

from zaichik.learn import wire
from zaichik.learn.failure import Failed
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.told(__doc__, chapter=13, frames="Close Closed")


@STAGE.check(
    "everything before Close is answered, Closed comes last, and then the end",
    hint="Close is a request like others, in its turn. Flush, then FIN.",
    sentences="id.2 close.1 close.3",
)
async def close(trial: Trial) -> None:
    """All in one go."""
    client = await trial.client()
    requests = [await client.send("Ping", value=index) for index in range(5)]
    requests.append(await client.send("Publish", topic=trial.topic(), batch=[trial.message()]))
    last = await client.send("Close")
    for index, request in enumerate(requests[:-1]):
        client.must_be(await client.reply(request), "Pong", value=index)
    client.must_be(await client.reply(requests[-1]), "Published")
    client.must_be(await client.reply(last), "Closed")
    await client.ends()


@STAGE.check(
    "frames behind Close are not carried out, and do not disturb it",
    hint="Stop reading after Close, but do not close the socket with unread bytes in it: that is a RST.",
    sentences="close.4 close.7",
)
async def behind(trial: Trial) -> None:
    """A publish behind Close, in the same piece, must not be seen."""
    reader, client, subscription = await trial.reading()
    before, after = trial.message(), trial.message()
    frames = [
        wire.encode("Publish", frame_id=11, topic=trial.topic(), batch=[before]),
        wire.encode("Close", frame_id=12),
        wire.encode("Publish", frame_id=13, topic=trial.topic(), batch=[after]) * 3,
    ]
    await client.send_bytes(b"".join(frames), "Publish, Close, Publish")
    client.must_be(await client.reply(11), "Published")
    client.must_be(await client.reply(12), "Closed")
    await client.ends()
    await reader.messages(subscription, 0, [before])
    await reader.nothing("it was published behind Close")


@STAGE.check(
    "the end of the stream is a Close without Closed; half a frame is dropped",
    hint="EOF while reading: answer what is whole, end your side, forget the rest.",
    sentences="close.5 close.6",
)
async def eof(trial: Trial) -> None:
    """Two requests, half of a third one, FIN."""
    reader, client, subscription = await trial.reading()
    message = trial.message()
    ping = wire.encode("Ping", frame_id=11, value=5)
    publish = wire.encode("Publish", frame_id=12, topic=trial.topic(), batch=[message])
    await client.send_bytes(ping + publish + publish[:-1], "Ping, Publish, and most of another Publish")
    await client.end()
    client.must_be(await client.reply(11), "Pong", value=5)
    client.must_be(await client.reply(12), "Published")
    await client.ends()
    await reader.messages(subscription, 0, [message])
    await reader.nothing("of the last Publish, a byte was missing")


@STAGE.check(
    "after Close, nothing more of its subscriptions comes, and they are not counted",
    hint="Close ends all subscriptions of its connection, before its answer is sent.",
    how="Carry out Close like a request: first take this connection's subscriptions out of their topics, then put "
    "Closed behind the other replies.",
    where="tutorial/tiny_broker.py: `Connection.close` empties `subscriptions` and sets `done`; `live_readers` asks "
    "for `done`.",
    sentences="close.2 publish.3",
)
async def subscriptions(trial: Trial) -> None:
    """A message published right after Closed reaches one reader less."""
    client, other, _ = await trial.reading(credit=1)
    batch = [trial.message() for _ in range(3)]
    await other.publish(trial.topic(), *batch, subscribers=1)
    request = await client.send("Close")
    while (frame := await client.read(awaited="Closed")).is_event:
        client.must_be(frame, "Messages")
    client.must_be(frame, "Closed", id=request)
    await other.publish(trial.topic(), trial.message(), subscribers=0)
    await client.ends()


@STAGE.check(
    "SIGTERM ends the server, also while clients are connected",
    hint="Does something catch the signal and wait for clients to leave? They may never do so.",
    how="By default SIGTERM ends a process at once, and that is enough here. A handler must end the accept loop and "
    "all connections, or leave after a moment; `exec` in a shell's command lets the signal through.",
    where="tutorial/tiny_broker.py has no handler at all; zaichik/console/serve.py stops in order, and waits for at "
    "most some seconds.",
    sentences="stop.5",
)
async def sigterm(trial: Trial) -> None:
    """A server of its own, with a client that keeps silent and one that reads."""
    async with trial.host.fresh() as server:
        await trial.dial(server.target)
        reader = await trial.dial(server.target)
        await reader.hello()
        await reader.subscribe(trial.topic())
        if complaint := await server.terminate():
            raise Failed(complaint, expected="the process ends", came="it does not")
