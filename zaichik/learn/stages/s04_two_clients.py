"""S4: Two clients, one of them silent.

Goal: Serve many clients at once: a client that says nothing, stops in the middle of a frame, or is
disconnected must not disturb the others.

Tested: A client connects and stays silent while another one is served; then one stops in the middle
of a frame; then many come at once.

Real systems: Redis and NATS's clients go one way (an event loop, few threads), Kafka another
(acceptor, network threads, a pool of handlers; num.network.threads is 3 by default). In all of them
a client is a small state machine, never a point where the whole program waits.

How: A thread, a task or an event handler per connection, while accept() goes on.

Where: tutorial/tiny_broker.py: listener.serve starts a task for each client, in one task group;
`Connection.run` catches whatever its client causes, so that it never reaches the group.
"""

from zaichik.learn import docstrings, wire
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial

CROWD = 20

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=5)


@STAGE.check(
    "a client that connects and says nothing does not keep others waiting",
    hint="Where does your program wait for this client? accept() must not have to wait there.",
    sentences="connect.2",
)
async def silent(trial: Trial) -> None:
    """One client says nothing at all, another nothing after its Hello."""
    await trial.dial()
    await trial.client()
    await (await trial.client()).ping()


@STAGE.check(
    "a client that stops in the middle of a frame does not keep others waiting",
    hint="Give each connection its own buffer. A read that waits must not block the others.",
    sentences="connect.2 frame.4",
)
async def unfinished(trial: Trial) -> None:
    """Others are served meanwhile, and the frame is answered once the rest comes."""
    slow, quick = await trial.client(), await trial.client()
    frame = wire.encode("Ping", frame_id=77, value=5)
    cut = trial.rng.randrange(1, len(frame))
    await slow.send_bytes(frame[:cut], "the beginning of a Ping")
    await quick.ping()
    await quick.ping()
    await slow.send_bytes(frame[cut:], "its rest")
    slow.must_be(await slow.reply(77), "Pong", value=5)


@STAGE.check(
    "a client that is disconnected for an error affects no other client",
    hint="An exception in one client's task or thread must end there. Can it reach a task group?",
    sentences="connect.2",
)
async def thrown_out(trial: Trial) -> None:
    """An older connection goes on."""
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
    how="Keep everything that belongs to one client (its buffer, its socket, whether it has said "
    "Hello) in one object, created when it is accepted. None of it is global.",
    where="tutorial/tiny_broker.py: `Connection.__init__`; `serve` creates one for each stream.",
    sentences="connect.2 id.1",
)
async def crowd(trial: Trial) -> None:
    """Twenty clients, ten round trips each, all at the same time."""

    async def talk() -> None:
        client = await trial.client()
        for _ in range(10):
            await client.ping()

    await trial.at_once(talk, [()] * CROWD)
