"""S0: The server listens.

Goal: Listen on 127.0.0.1, at the port you are given, and keep listening after a client has left. In
this protocol the client speaks first: a server that has just been connected to says nothing.

Tested: Connections are opened and closed, one after another. Nothing is sent, and nothing may come
back. To find out whether your server listens, learn does the same: it connects, and leaves without
sending a byte.

Real systems: Kafka's clients speak first, as ours do; a NATS server greets everyone with a line
INFO {...} at once. Both are fine, but a client must know which kind it has connected to.

How: A server is a loop around accept(): whatever happened to the last client, it accepts the next
one.

Where: tutorial/tiny_broker.py, `main`: create_tcp_listener makes the socket, and listener.serve is
the loop.
"""

from zaichik.learn import docstrings
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=1)


@STAGE.check(
    "a client can connect",
    hint="Take the port from the environment variable named in learn.toml (or from {port} in the "
    "command), and bind to 127.0.0.1.",
    sentences="connect.1",
)
async def accepts(trial: Trial) -> None:
    """Connects, and nothing else."""
    await trial.dial()


@STAGE.check(
    "the server waits for the client to speak first",
    hint="Send nothing before the client has sent something, and don't close the connection.",
    how="After accept(), the server's next step is to read. It writes nothing to a client that "
    "hasn't sent anything: no greeting, no prompt.",
    where="tutorial/tiny_broker.py, `Connection.write`: it sends what `answer` has put into "
    "`replies`, which is empty before the first request.",
    sentences="connect.3",
)
async def waits(trial: Trial) -> None:
    """Listens for a moment; nothing may come."""
    await (await trial.dial()).expect_silence("the server spoke before it was spoken to")


@STAGE.check(
    "after a client has left, the next one can connect",
    hint="Is accept() in a loop? Does a client that closes at once, without sending a byte, end "
    "that loop with an exception?",
    sentences="connect.1 connect.2",
)
async def goes_on(trial: Trial) -> None:
    """Three clients; the second one crashes."""
    await (await trial.dial()).aclose()
    await (await trial.dial()).reset()
    await (await trial.dial()).overhear(trial.quiet)  # a crashing server gets a moment to crash
