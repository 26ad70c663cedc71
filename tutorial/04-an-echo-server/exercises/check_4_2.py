"""Questions for exercise 4.2."""

from contextlib import suppress

import anyio
from anyio.abc import SocketAttribute

from zaichik.learn.exercise import Exercise, Wrong, must

PATIENCE_S = 3.0
EXERCISE = Exercise(
    "An echo, in three lines",
    hints=(
        "`async for data in client:` runs once for each read, and ends when the client has ended its side.",
        "async for data in client: await client.send(data). After the loop: await client.send_eof().",
    ),
)


def _talk(answer, *said):
    """What the echo answers to these sends, until it ends its side."""
    heard = []

    async def serve(stream):
        async with stream:
            await answer.echo(stream)
            async for _ in stream:  # what an echo that ended early has left unread
                pass
            await anyio.sleep_forever()  # to end this side is the answer's work, and closing would do it

    async def main():
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            with anyio.fail_after(PATIENCE_S):
                async with await anyio.connect_tcp("127.0.0.1", port) as client:
                    tasks.start_soon(_say, client, said)
                    heard.extend([data async for data in client])
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main)
    except* TimeoutError:
        came = b"".join(heard)
        raise Wrong(f"it did not end its side; until then came {len(came)} bytes, {came[:60]!r}") from None
    return b"".join(heard)


async def _say(client, said):
    """Beside the reading: two sides that both only send would wait for each other."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # an echo that ends early
        for data in said:
            await client.send(data)
        await client.send_eof()


@EXERCISE.asks(
    "a word comes back, and then the end",
    hint="Await everything that takes time: `client.send(data)` alone does nothing. And end your side after the loop.",
)
def a_word(answer):
    must(_talk(answer, b"hello"), b"hello", "a client that says hello, and ends its side")


@EXERCISE.asks("a long story comes back, whole", hint="It takes many reads: is there a loop?")
def a_story(answer):
    story = bytes(range(256)) * 2000
    heard = _talk(answer, story)
    if heard != story:
        raise Wrong(f"512,000 bytes were said, {len(heard):,} came back")


@EXERCISE.asks("a silent client hears nothing", hint="When nothing comes, the loop ends at once, and so do you.")
def nothing(answer):
    must(_talk(answer), b"", "a client that says nothing")
