"""S14: A graceful close.

Goal: On Close, everything before it is carried out and answered, Closed is the last frame, and then
the broker ends its side. A client that just ends its stream gets the same without Closed. A server
that is told to stop stops.

Tested: Requests and Close in one write; frames after Close; the end of the stream without Close,
even in the middle of a frame; SIGTERM with clients connected.

Real systems: Closing a socket that has unread bytes sends a RST, which may destroy what the client
has yet to read. That is why HTTP servers linger (RFC 9112, 9.6). Kubernetes sends SIGTERM and, 30
seconds later by default, SIGKILL.

How: Three steps: write everything that waits, shut down your sending side (FIN), keep reading until
the client's FIN or for a second. Only then close.

Where: tutorial/tiny_broker.py: `Connection.close` sets `done`; `write` sends the rest, then
send_eof; `run` reads whatever still comes for a second.
"""

from zaichik.learn import docstrings, wire
from zaichik.learn.failure import Failure
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=13, frames="Close Closed")


@STAGE.check(
    "everything before Close is answered, then come Closed and the end of the stream",
    hint="Close is a request like any other, answered in order. Flush, then FIN.",
    sentences="id.2 close.1 close.3",
)
async def close(trial: Trial) -> None:
    """Everything at once."""
    client = await trial.client()
    requests = [await client.send("Ping", value=index) for index in range(5)]
    requests.append(await client.send("Publish", topic=trial.topic(), batch=[trial.message()]))
    last = await client.send("Close")
    for index, request in enumerate(requests[:-1]):
        client.must_be(await client.reply(request), "Pong", value=index)
    client.must_be(await client.reply(requests[-1]), "Published")
    client.must_be(await client.reply(last), "Closed")
    await client.expect_end()


@STAGE.check(
    "frames after Close are not carried out, and do not disturb it",
    hint="Stop at Close, but don't close the socket while it has unread bytes: that sends a RST.",
    sentences="close.4 close.7",
)
async def after_close(trial: Trial) -> None:
    """A publish after Close, in the same write, must not be delivered."""
    reader, client, subscription = await trial.make_reader()
    before, after = trial.message(), trial.message()
    frames = [
        wire.encode("Publish", frame_id=11, topic=trial.topic(), batch=[before]),
        wire.encode("Close", frame_id=12),
        wire.encode("Publish", frame_id=13, topic=trial.topic(), batch=[after]) * 3,
    ]
    await client.send_bytes(b"".join(frames), "Publish, Close, Publish")
    client.must_be(await client.reply(11), "Published")
    client.must_be(await client.reply(12), "Closed")
    await client.expect_end()
    await reader.expect_messages(subscription, 0, [before])
    await reader.expect_no_event("it was published after Close")


@STAGE.check(
    "the end of the stream is a Close without Closed, and half a frame is dropped",
    hint="At the end of the stream: answer complete requests, end your side, and drop the rest.",
    sentences="close.5 close.6",
)
async def eof(trial: Trial) -> None:
    """Two requests, most of a third, FIN."""
    reader, client, subscription = await trial.make_reader()
    message = trial.message()
    ping = wire.encode("Ping", frame_id=11, value=5)
    publish = wire.encode("Publish", frame_id=12, topic=trial.topic(), batch=[message])
    await client.send_bytes(
        ping + publish + publish[:-1], "Ping, Publish, and most of another Publish"
    )
    await client.end()
    client.must_be(await client.reply(11), "Pong", value=5)
    client.must_be(await client.reply(12), "Published")
    await client.expect_end()
    await reader.expect_messages(subscription, 0, [message])
    await reader.expect_no_event("the last Publish was one byte short")


@STAGE.check(
    "after Close, its subscriptions get nothing more, and are not counted",
    hint="Close ends all subscriptions of its connection before its reply is sent.",
    how="Carry out Close like any request: first remove this connection's subscriptions from their "
    "topics, then put Closed after the other replies.",
    where="tutorial/tiny_broker.py: `Connection.close` empties `subscriptions` and sets `done`, "
    "which `live_readers` checks.",
    sentences="close.2 publish.3",
)
async def subscriptions(trial: Trial) -> None:
    """A message published right after Closed has one reader less."""
    client, other, _ = await trial.make_reader(credit=1)
    batch = [trial.message() for _ in range(3)]
    await other.publish(trial.topic(), *batch, subscribers=1)
    request = await client.send("Close")
    while (frame := await client.read(awaited="Closed")).is_event:
        client.must_be(frame, "Messages")
    client.must_be(frame, "Closed", id=request)
    await other.publish(trial.topic(), trial.message(), subscribers=0)
    await client.expect_end()


@STAGE.check(
    "SIGTERM ends the server, even while clients are connected",
    hint="Does something catch the signal and wait for clients to leave? They may never leave.",
    how="By default SIGTERM ends a process at once, and that is enough here. A handler must end "
    "the accept loop and all connections, or exit after a moment. With `exec` in a shell command, "
    "the signal reaches your server.",
    where="tutorial/tiny_broker.py has no handler at all; zaichik/cli/commands/serve.py shuts down "
    "gracefully, within seconds.",
    sentences="stop.5",
)
async def sigterm(trial: Trial) -> None:
    """A separate server, with a silent client and one that reads."""
    async with trial.host.start_fresh() as server:
        await trial.dial(server.target)
        reader = await trial.dial(server.target)
        await reader.hello()
        await reader.subscribe(trial.topic())
        if complaint := await server.terminate():
            raise Failure(complaint, expected="the process ends", came="it does not")
