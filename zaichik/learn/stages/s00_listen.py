"""S0: Somebody listens.

Goal: Listen at the port you are told, at 127.0.0.1, and go on listening when a client has left. In this protocol the
client speaks first: a server that has just been called says nothing.

Tested: Connections are opened and closed, one after the other. Nothing is sent, and nothing may come. To see whether
your server listens, learn knocks in the same way: it connects, and leaves without a byte.

Real systems: Kafka's clients speak first, as ours do; a NATS server greets everyone with a line INFO {...} at once.
Both are fine, but a client must know which of the two it has called.

How: A server is a loop around accept(): whatever happened to the last client, the next one is accepted.

Where: tutorial/tiny_broker.py, `main`: create_tcp_listener makes the socket, and listener.serve is the loop.
"""

from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

STAGE = Stage.told(__doc__, chapter=1)


@STAGE.check(
    "a client can connect",
    hint="Take the port from the environment variable that learn.toml names (or {port} in the command), and bind to "
    "127.0.0.1.",
    sentences="connect.1",
)
async def accepts(trial: Trial) -> None:
    """Connect, no more."""
    await trial.dial()


@STAGE.check(
    "the server waits for the client to speak first",
    hint="Send nothing before the client has sent something, and do not close either.",
    how="After accept(), the server's next step is to read. Nothing is written to a client of which nothing has come, "
    "no greeting and no prompt.",
    where="tutorial/tiny_broker.py, `Connection.write`: it sends what `answer` has put into `replies`, and before the "
    "first request there is nothing.",
    sentences="connect.3",
)
async def waits(trial: Trial) -> None:
    """Nothing comes in a quiet period."""
    await (await trial.dial()).silent("the server spoke before it was spoken to")


@STAGE.check(
    "when a client has left, the next one can come",
    hint="Is accept() in a loop? And does a client that closes at once, without a byte, end the loop with an "
    "exception?",
    sentences="connect.1 connect.2",
)
async def goes_on(trial: Trial) -> None:
    """Three clients, the second of which crashes."""
    await (await trial.dial()).aclose()
    await (await trial.dial()).reset()
    await (await trial.dial()).overhear(trial.quiet)  # a server that is falling over gets a moment to fall
