"""S4: Two clients, one of them silent.

Goal: Serve many clients at once: a client that says nothing, or stops in the middle of a frame, or is thrown out, must
not be noticed by the others.

Tested: A client connects and keeps silent while another one is served; then in the middle of a frame; then many at
once.

Real systems: Redis and NATS's clients go one way (an event loop, few threads), Kafka another (acceptor, network
threads, a pool of handlers; num.network.threads is 3 by default). In all of them a client is a small state machine,
never a place where the program stands and waits.

How: A thread, a task or an event loop's handler for each connection; accepting goes on beside them.

Where: tutorial/tiny_broker.py: listener.serve starts a task for each client, in one task group; `Connection.run`
catches whatever its client did, so that the group never hears of it.
"""

from zaichik.learn import wire
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

CROWD = 20

STAGE = Stage.told(__doc__, chapter=5)


@STAGE.check(
    "a client that connected and says nothing does not keep others waiting",
    hint="Where does your program stand while it waits for this client's first byte? accept() must go on.",
    sentences="connect.2",
)
async def silent(trial: Trial) -> None:
    """One says nothing at all, one nothing after Hello."""
    await trial.dial()
    await trial.client()
    await (await trial.client()).ping()


@STAGE.check(
    "a client that stopped in the middle of a frame does not keep others waiting",
    hint="Each connection has a buffer of its own; a read that waits for the rest must not stop the others.",
    sentences="connect.2 frame.4",
)
async def unfinished(trial: Trial) -> None:
    """And its frame is answered when the rest comes."""
    slow, quick = await trial.client(), await trial.client()
    frame = wire.encode("Ping", frame_id=77, value=5)
    cut = trial.rng.randrange(1, len(frame))
    await slow.send_bytes(frame[:cut], "the beginning of a Ping")
    await quick.ping()
    await quick.ping()
    await slow.send_bytes(frame[cut:], "its rest")
    slow.must_be(await slow.reply(77), "Pong", value=5)


@STAGE.check(
    "a client that is thrown out takes nobody with it",
    hint="An exception in one client's task or thread must end there. Is there a task group it can reach?",
    sentences="connect.2",
)
async def thrown_out(trial: Trial) -> None:
    """A connection from before goes on."""
    good, bad = await trial.client(), await trial.client()
    await bad.send_bytes(bytes(4), "a length of 0")
    bad.must_be_error(await bad.read(), "MALFORMED")
    await good.ping()
    crashed = await trial.client()
    await crashed.reset()
    await good.ping()


@STAGE.check(
    "many clients at once each get their own answers",
    hint="Is there a buffer, an id, or a socket in a variable that all clients share?",
    how="All that belongs to one client (its buffer, its socket, whether it was welcomed) is in one object, made when "
    "it is accepted. Nothing of it is a global.",
    where="tutorial/tiny_broker.py: `Connection.__init__` lists it; `serve` makes one for each stream.",
    sentences="connect.2 id.1",
)
async def crowd(trial: Trial) -> None:
    """Twenty clients, ten round trips each, all at the same time."""

    async def talk() -> None:
        client = await trial.client()
        for _ in range(10):
            await client.ping()

    await trial.at_once(talk, [()] * CROWD)
